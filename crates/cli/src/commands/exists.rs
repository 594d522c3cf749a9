//! `lokt exists`: is it held? The exit code says it.

use serde::Serialize;

use crate::args::{RootArg, lock_name};
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Say by the exit code whether a lock is held: 0 if it is, 3 if not
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Exists<'a> {
    name: &'a str,
    exists: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let lokt = Context::read(&args.root)?.open()?;
    let exists = lokt.map_or(Ok(false), |lokt| lokt.inspect().exists(&name))?;
    let report = Report::new(if exists { Exit::Done } else { Exit::Missing });
    Ok(match format {
        Format::Json => report.json(&Exists { name: name.as_str(), exists }),
        Format::Text => report,
    })
}
