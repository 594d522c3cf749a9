//! `lokt worktree rename`: another name for a worktree.

use super::super::lease::place::repository;
use super::answer::{self, EntryJson, not_main};
use crate::args::worktree_name;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Give a worktree another name, unless somebody holds its lease
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The worktree
    #[arg(id = "old_worktree", value_name = "OLD")]
    old: String,
    /// Its new name
    #[arg(id = "new_worktree", value_name = "NEW")]
    new: String,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let (old, new) = (worktree_name(&args.old)?, worktree_name(&args.new)?);
    not_main(&old, "renamed")?;
    not_main(&new, "made of another one")?;
    let repo = repository(context::caller(None)?)?;
    let said = repo.rename(&old, &new)?;
    let report = answer::report(&repo, &old, said.value, format, |entry| {
        let report = Report::new(Exit::Done);
        match format {
            Format::Json => {
                let old_name = Some(old.as_str());
                report.json(&EntryJson { status: Some("renamed"), old_name, ..EntryJson::of(entry) })
            }
            Format::Text => {
                let path = clean(&entry.path.to_string_lossy());
                report
                    .text(format!("renamed worktree {} to {}: {path}\n", quoted(old.as_str()), quoted(new.as_str())))
                    .note("note: shells inside it must cd again")
            }
        }
    })?;
    Ok(report.warnings(said.warnings))
}
