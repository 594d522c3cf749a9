//! `lokt ledger head`: the number of the last event.

use serde::Serialize;

use super::place::Place;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Print the number of the last event
#[derive(clap::Parser)]
#[command(after_help = "0 is an empty ledger's. The number is what `lokt ledger append --expect-seq` takes.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Answer<'a> {
    head: u64,
    style: &'static str,
    chain: bool,
    path: &'a str,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let said = ledger.head()?;
    let settings = ledger.settings();
    let report = Report::new(Exit::Done);
    let report = match format {
        Format::Json => report.json(&Answer {
            head: said.value,
            style: settings.style.as_str(),
            chain: settings.chain,
            path: &ledger.path().to_string_lossy(),
        }),
        Format::Text => report.text(format!("{}\n", said.value)),
    };
    Ok(report.warnings(said.warnings))
}
