//! `lokt worktree remove`: the end of a worktree and its files.

use super::super::lease::place::repository;
use super::answer::{self, EntryJson, not_main};
use crate::args::worktree_name;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// Remove a worktree, unless somebody holds its lease
#[derive(clap::Parser)]
#[command(
    after_help = "A worktree of the same name that is made later goes on with greater tokens: nothing old can publish in it."
)]
pub(crate) struct Args {
    /// The worktree
    #[arg(id = "old_worktree", value_name = "NAME")]
    name: String,
    /// Also if there are files in it, with all of them
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = worktree_name(&args.name)?;
    not_main(&name, "removed")?;
    let repo = repository(context::caller(None)?)?;
    let said = repo.remove(&name, args.force)?;
    let report = answer::report(&repo, &name, said.value, format, |entry| {
        let report = Report::new(Exit::Done);
        match format {
            Format::Json => report.json(&EntryJson { status: Some("removed"), ..EntryJson::of(entry) }),
            Format::Text => report.text(format!("removed worktree {}\n", quoted(name.as_str()))),
        }
    })?;
    Ok(report.warnings(said.warnings))
}
