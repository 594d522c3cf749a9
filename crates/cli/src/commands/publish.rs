//! `lokt publish`: a file is put in its place only if the token is still good.

use std::path::PathBuf;

use lokt_named::Publishing;
use serde::Serialize;

use super::deny;
use crate::args::{RootArg, parse_token};
use crate::context::{Claimed, Context};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Put a copy of a file in its place, if a fencing token is still good
#[derive(clap::Parser)]
#[command(
    after_help = "The copy is complete and synced before it replaces the target in one step, and the token is checked in that same \
    step: a caller that has lost the lock changes nothing. Inside `lokt guard` the token needn't be given; \
    the one that the guard hands down counts only for the lock of that guard, not in another root (6)."
)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
    /// The file to publish
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Where to: a regular file, or nothing yet
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The token; without it, the one that the guard got
    #[arg(long, value_name = "TOKEN", value_parser = parse_token)]
    token: Option<u64>,
    /// With --token: the lock id of the hold for which it was issued
    #[arg(long, value_name = "ID", requires = "token")]
    lock_id: Option<String>,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Published<'a> {
    status: &'static str,
    name: &'a str,
    fencing_token: u64,
    source: String,
    target: String,
    bytes: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let context = Context::read(&args.root)?;
    let lokt = context.open()?;
    let given = super::fence::given(args.token, args.lock_id.as_deref());
    let claimed = context.claimed(Some(&args.name), given, lokt.as_ref())?;
    let [Claimed { name, presented }] = claimed.as_slice() else { unreachable!("one name, one token") };
    let token = presented.token;
    let Some(lokt) = lokt else { return Err(super::fence::nobody(name.as_str(), token)) };
    let said = lokt.publish(name, presented.clone(), &args.source, &args.target)?;
    let report = match said.value {
        Publishing::Denied(refused) => {
            let report = deny::report(&lokt, name.as_str(), &refused, format);
            if format == Format::Json { report } else { report.note("note: nothing was published") }
        }
        Publishing::Published { bytes, .. } => {
            let report = Report::new(Exit::Done);
            let target = args.target.to_string_lossy();
            match format {
                Format::Json => report.json(&Published {
                    status: "published",
                    name: name.as_str(),
                    fencing_token: token,
                    source: args.source.to_string_lossy().into_owned(),
                    target: target.into_owned(),
                    bytes,
                }),
                Format::Text => report.text(format!(
                    "published {} under token {token} of lock {}\n",
                    clean(&target),
                    quoted(name.as_str())
                )),
            }
        }
    };
    Ok(report.warnings(said.warnings))
}
