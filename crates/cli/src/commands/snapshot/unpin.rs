//! `lokt snapshot unpin`: a snapshot is no longer kept for its own sake.

use serde::Serialize;

use super::super::lease::place::Place;
use super::naming::{self, ID_HELP};
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Keep a snapshot no longer for its own sake
#[derive(clap::Parser)]
#[command(after_help = ID_HELP)]
pub(crate) struct Args {
    /// The snapshot
    #[arg(value_name = "ID")]
    snapshot_id: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) status: &'static str,
    pub(super) snapshot_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'a str>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let (worktree, _) = args.place.open_leased(context::caller(None)?)?;
    let repo = worktree.repository();
    let listed = naming::find(&repo.snapshots().catalog()?, &args.snapshot_id, Some(worktree.name()))?;
    let id = &listed.descriptor.id;
    let was = repo.snapshots().unpin(id)?;
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => {
            let status = if was { "unpinned" } else { "not_pinned" };
            report.json(&Answer { status, snapshot_id: id.as_str(), note: None })
        }
        Format::Text if was => report.text(format!("unpinned snapshot {id}\n")),
        Format::Text => report.text(format!("snapshot {id} was not pinned\n")),
    })
}
