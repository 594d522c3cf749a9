//! `lokt worktree create`: one more worktree.

use super::super::lease::place::repository;
use super::answer::{self, EntryJson, Kind};
use crate::args::worktree_name;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Make one more worktree
#[derive(clap::Parser)]
#[command(
    after_help = "Its directory is `worktrees/NAME` at the top of the lokt repository, or `.jvs/trees/NAME` in one that `init --here` made. It is empty."
)]
pub(crate) struct Args {
    /// Its name: letters, digits, dots, hyphens and underscores
    #[arg(id = "new_worktree", value_name = "NAME")]
    name: String,
    /// Who may write
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    isolation: Kind,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = worktree_name(&args.name)?;
    let repo = repository(context::caller(None)?)?;
    let said = repo.create(&name, args.isolation.into())?;
    let report = answer::report(&repo, &name, said.value, format, |entry| {
        let report = Report::new(Exit::Done);
        match format {
            Format::Json => report.json(&EntryJson { status: Some("created"), ..EntryJson::of(entry) }),
            Format::Text => {
                let path = clean(&entry.path.to_string_lossy());
                report.text(format!("made {} worktree {}: {path}\n", entry.isolation.as_str(), quoted(name.as_str())))
            }
        }
    })?;
    Ok(report.warnings(said.warnings))
}
