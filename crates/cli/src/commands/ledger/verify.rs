//! `lokt ledger verify`: read everything, and say what is wrong.

use std::fmt::Write as _;

use lokt_ledger::{Checkpoint, Verification};
use lokt_sys::warnings::Warning;
use serde::Serialize;

use super::place::Place;
use super::problems::{ProblemJson, paragraph};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Read every event, and say what is wrong
#[derive(clap::Parser)]
#[command(
    after_help = "Finds events that are missing, damaged, replaced, or not those that the chain says. That the last events were cut off \
    only shows with the checkpoint of a time when they were there."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Compare with what `lokt ledger checkpoint` printed
    #[arg(long, value_name = "N:HEX")]
    checkpoint: Option<Checkpoint>,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    path: &'a str,
    events: u64,
    chained: u64,
    head: u64,
    checkpoint: String,
    problems: Vec<ProblemJson<'a>>,
    warnings: Vec<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let mut progress = Progress::new("verifying");
    let said = ledger.verify(args.checkpoint, &mut |done, of| progress.step(done, of))?;
    drop(progress);
    let found = &said.value;
    let path = ledger.path().to_string_lossy();
    let sound = found.problems.is_empty();
    let report = Report::new(if sound { Exit::Done } else { Exit::Damaged });
    let report = match format {
        Format::Json => report.json(&Answer {
            status: if sound { "sound" } else { "damaged" },
            path: &path,
            events: found.events,
            chained: found.chained,
            head: found.checkpoint.head,
            checkpoint: found.checkpoint.to_string(),
            problems: found.problems.iter().map(ProblemJson::of).collect(),
            warnings: said.warnings.iter().map(Warning::to_string).collect(),
        }),
        Format::Text => report.text(text(&clean(&path), found)),
    };
    Ok(report.warnings(said.warnings))
}

fn text(path: &str, found: &Verification) -> String {
    let mut text = format!("{path}: {} events, {} of them chained\n", found.events, found.chained);
    for problem in &found.problems {
        paragraph(&mut text, problem, false);
    }
    let _ = match found.problems.len() {
        0 => writeln!(text, "nothing is wrong; checkpoint {}", found.checkpoint),
        1 => writeln!(text, "1 problem"),
        count => writeln!(text, "{count} problems"),
    };
    text
}
