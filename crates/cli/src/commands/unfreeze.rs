//! `lokt unfreeze`: locks can be had again.

use lokt_core::decide::Cause;
use lokt_named::End;
use serde::Serialize;

use super::deny;
use crate::args::{RootArg, lock_name};
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{Subject, moved_aside, owner_at, quoted};

/// End a freeze
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
    /// Whosever it is, and even if it can't be read
    #[arg(long)]
    force: bool,
    /// Say nothing but errors and warnings
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Unfrozen<'a> {
    status: &'static str,
    name: &'a str,
    event: &'static str,
    /// Whose it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aside: Option<&'a str>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(attempt(args, format)?.quiet(args.quiet, format))
}

fn attempt(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let context = Context::read(&args.root)?;
    let Some(lokt) = context.open()? else {
        let message = format!("freeze {} not found", quoted(name.as_str()));
        let failure = Failure::new(Exit::Missing, "E_NOT_FOUND", message);
        return Err(failure.hint("`lokt status` lists what is frozen"));
    };
    let said = lokt.freezes().unfreeze(&name, args.force)?;
    let ended = match said.value {
        End::Ended(ended) => ended,
        End::Denied(refused) => {
            let report = deny::report_about(Subject::Freeze, &lokt, name.as_str(), &refused, format);
            return Ok(report.warnings(said.warnings));
        }
    };
    let event = if ended.cause == Cause::ForceUnfreeze { "force-unfreeze" } else { "unfreeze" };
    let before = ended.before.as_ref();
    let report = Report::new(Exit::Done).warnings(said.warnings);
    Ok(match format {
        Format::Json => report.json(&Unfrozen {
            status: "unfrozen",
            name: name.as_str(),
            event,
            owner: before.map(|freeze| freeze.owner.as_str()),
            lock_id: before.map(|freeze| freeze.lock_id.as_str()).filter(|id| !id.is_empty()),
            aside: ended.aside.as_deref(),
        }),
        Format::Text => {
            let report = report.text(format!("unfrozen {}\n", quoted(name.as_str())));
            let whose = before.filter(|_| event == "force-unfreeze");
            report
                .notes(whose.map(|freeze| format!("note: it was frozen by {}", owner_at(freeze))))
                .notes(ended.aside.as_deref().map(|aside| moved_aside(&context.root.path, aside)))
        }
    })
}
