//! `lokt snapshot diff`: what it takes from one snapshot to another, or to the files of a worktree.

use serde::Serialize;

use super::super::lease::place::Place;
use super::difference::{DifferenceJson, lines, summary};
use super::naming::{self, ID_HELP};
use super::work::watched;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Show what differs between two snapshots, or between one and the files of the worktree
#[derive(clap::Parser)]
#[command(after_help = about_lines())]
pub(crate) struct Args {
    /// From this snapshot
    #[arg(value_name = "A")]
    snapshot_id: String,
    /// To this one; without it, to the files as they are now
    #[arg(value_name = "B")]
    other_snapshot_id: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Exit with 1 if anything differs
    #[arg(long)]
    exit_code: bool,
}

/// How lines are read, and snapshots named.
fn about_lines() -> String {
    format!(
        "A line is `A path` (added), `D path` (removed), `M path` (other content, or something else) or `T path` (only another mode, time \
         or attribute).\n\n{ID_HELP}"
    )
}

#[derive(Serialize)]
struct Answer<'a> {
    from: &'a str,
    to: Option<&'a str>,
    worktree: &'a str,
    differs: bool,
    #[serde(flatten)]
    difference: DifferenceJson<'a>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let (worktree, _) = args.place.open_leased(context::caller(None)?)?;
    let repo = worktree.repository();
    let catalog = repo.snapshots().catalog()?;
    let find = |word: &str| naming::find(&catalog, word, Some(worktree.name()));
    let from = find(&args.snapshot_id)?;
    let to = args.other_snapshot_id.as_deref().map(find).transpose()?;
    let (compared, ended) = watched(|control| match &to {
        Some(to) => repo.snapshots().compare(&from, to, control),
        None => repo.snapshots().compare_with(&from, &worktree, control),
    })?;
    let Some(difference) = compared? else { return Ok(ended.report("not everything was compared", format)) };
    let differs = !difference.is_empty();
    let report = Report::new(if differs && args.exit_code { Exit::Failed } else { Exit::Done });
    Ok(match format {
        Format::Json => report.json(&Answer {
            from: from.descriptor.id.as_str(),
            to: to.as_ref().map(|to| to.descriptor.id.as_str()),
            worktree: worktree.name().as_str(),
            differs,
            difference: DifferenceJson::of(&difference),
        }),
        Format::Text => {
            let text = lines(&difference).into_iter().fold(String::new(), |text, line| text + &line + "\n");
            report.text(text).note(summary(&difference))
        }
    })
}
