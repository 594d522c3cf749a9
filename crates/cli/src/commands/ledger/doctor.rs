//! `lokt ledger doctor`: what is wrong around the events, and what to do about it.

use serde::Serialize;

use super::place::Place;
use super::problems::{ProblemJson, is_settled, paragraph};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Look for what is wrong with the ledger, and say what to do
#[derive(clap::Parser)]
#[command(after_help = "What --fix replaces is kept, byte for byte, in `ledger/.lokt/aside`.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Repair what can be repaired
    #[arg(long)]
    fix: bool,
    /// Say what --fix would do, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    path: &'a str,
    problems: Vec<ProblemJson<'a>>,
    fixed: usize,
    dry_run: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let mut progress = Progress::new("examining");
    let said = ledger.doctor(args.fix && !args.dry_run, &mut |done, of| progress.step(done, of))?;
    drop(progress);
    let problems = &said.value;
    let fixed = problems.iter().filter(|problem| is_settled(problem)).count();
    let (exit, status, result) = match (problems.len(), fixed) {
        (0, _) => (Exit::Done, "sound", "PASS"),
        (all, fixed) if all == fixed => (Exit::Done, "fixed", "PASS, all of it fixed"),
        _ => (Exit::Damaged, "damaged", "FAIL"),
    };
    let report = Report::new(exit);
    let report = if args.fix && !args.dry_run { report.changes() } else { report };
    let path = ledger.path().to_string_lossy();
    let report = match format {
        Format::Json => report.json(&Answer {
            status,
            path: &path,
            problems: problems.iter().map(ProblemJson::of).collect(),
            fixed,
            dry_run: args.dry_run,
        }),
        Format::Text => {
            let mut text = format!("lokt ledger doctor\n\nLedger: {}\n\n", clean(&path));
            for problem in problems {
                paragraph(&mut text, problem, args.dry_run);
            }
            let gap = if problems.is_empty() { "" } else { "\n" };
            report.text(format!("{text}{gap}Result: {result}\n"))
        }
    };
    Ok(report.warnings(said.warnings))
}
