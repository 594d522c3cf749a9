//! `lokt snapshot pin`: a snapshot is kept, whatever `gc` is told.

use super::super::lease::place::Place;
use super::naming::{self, ID_HELP};
use super::unpin::Answer;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Keep a snapshot, whatever `lokt snapshot gc` is told
#[derive(clap::Parser)]
#[command(after_help = ID_HELP)]
pub(crate) struct Args {
    /// The snapshot
    #[arg(value_name = "ID")]
    snapshot_id: String,
    /// Say why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let (worktree, _) = args.place.open_leased(context::caller(None)?)?;
    let repo = worktree.repository();
    let listed = naming::find(&repo.snapshots().catalog()?, &args.snapshot_id, Some(worktree.name()))?;
    let id = &listed.descriptor.id;
    let is_new = repo.snapshots().pin(id, args.note.as_deref())?;
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Answer {
            status: if is_new { "pinned" } else { "already_pinned" },
            snapshot_id: id.as_str(),
            note: args.note.as_deref().filter(|_| is_new),
        }),
        Format::Text if is_new => report.text(format!("pinned snapshot {id}\n")),
        Format::Text => report.text(format!("snapshot {id} is pinned already\n")).notes(
            args.note.as_ref().map(|_| "note: what was said then stays; unpin it first for another note".to_owned()),
        ),
    })
}
