//! `lokt ledger checkpoint`: one line that stands for all events up to now.

use serde::Serialize;

use super::place::Place;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};

/// Print a digest of all events, to be kept elsewhere
#[derive(clap::Parser)]
#[command(
    after_help = "`lokt ledger verify --checkpoint N:HEX` says later whether those events are still there and unchanged."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Answer<'a> {
    checkpoint: &'a str,
    head: u64,
    chain: String,
    path: &'a str,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let mut progress = Progress::new("reading");
    let said = ledger.checkpoint(&mut |done, of| progress.step(done, of))?;
    drop(progress);
    let checkpoint = said.value.to_string();
    let report = Report::new(Exit::Done);
    let report = match format {
        Format::Json => report.json(&Answer {
            checkpoint: &checkpoint,
            head: said.value.head,
            chain: said.value.chain.to_string(),
            path: &ledger.path().to_string_lossy(),
        }),
        Format::Text => report.text(format!("{checkpoint}\n")),
    };
    Ok(report.warnings(said.warnings))
}
