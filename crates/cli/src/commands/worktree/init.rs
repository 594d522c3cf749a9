//! `lokt worktree init`: make a repository, if there is none.

use std::ffi::OsStr;
use std::path::Path;

use lokt_named::Lokt;
use lokt_sys::files;
use lokt_worktree::repo::Repository;
use serde::Serialize;

use super::answer::Kind;
use crate::args::{RootArg, worktree_name};
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Make a lokt repository here, with the worktree `main`, if there is none
#[derive(clap::Parser)]
#[command(
    after_help = "Everything about the worktrees is in `.jvs`, which this makes. Their files are in `main` and in `worktrees/NAME`. What is \
    in this directory already stays as it is.\n\n\
    With --here the directory itself is the worktree `main`, with the files that it has: a project, also one in git. git doesn't see `.jvs`, and \
    snapshots leave `.jvs` and `.git` out. Further worktrees are in `.jvs/trees/NAME`."
)]
pub(crate) struct Args {
    /// Who may write to `main`
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    isolation: Kind,
    /// Make this directory the worktree `main`, with the files that are in it
    #[arg(long)]
    here: bool,
}

#[derive(Serialize)]
struct Made<'a> {
    status: &'static str,
    repository: &'a str,
    repo_id: &'a str,
    worktrees: Vec<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let me = context::caller(None)?;
    let dir = context::current_dir()?;
    if let Some(around) = Repository::find(&dir, me.clone())?.filter(|repo| repo.top() != dir) {
        let (here, top) = (clean(&dir.to_string_lossy()), clean(&around.top().to_string_lossy()));
        return Err(Failure::usage(format!("{here} is in a lokt repository already, {top}"))
            .hint("`lokt worktree create NAME` makes another worktree in it"));
    }
    let replaced = replaced_roots()?;
    let before = entries(&dir);
    let init = if args.here { Repository::init_here } else { Repository::init };
    let (repo, is_new) = init(&dir, args.isolation.into(), me)?;
    if !is_new && args.here && !repo.is_here() {
        let top = clean(&dir.to_string_lossy());
        return Err(Failure::usage(format!("{top} is a lokt repository already, with its worktree in main/"))
            .hint("move the files to main/; a lokt repository can't be changed into one with --here"));
    }
    let names: Vec<String> = repo.worktrees()?.iter().map(|entry| entry.name.to_string()).collect();
    let top = repo.top().to_string_lossy();
    let main = worktree_name("main")?;
    let report = Report::new(Exit::Done);
    let report = report.notes((is_new && !repo.is_here() && before > 0).then(|| {
        let (entries, are) = if before == 1 { ("entry", "is") } else { ("entries", "are") };
        format!("warning: the {before} {entries} here {are} not in main/; move what belongs to it there, or use `--here` in a directory without .jvs")
    }));
    Ok(match format {
        Format::Json => report.json(&Made {
            status: if is_new { "created" } else { "exists" },
            repository: &top,
            repo_id: repo.id(),
            worktrees: names,
        }),
        Format::Text => {
            let what = if is_new { "made" } else { "already there:" };
            let report = report.text(format!("{what} repository {}\n", clean(&top)));
            let path = clean(&repo.files_of(&main).to_string_lossy());
            let report = report.notes(replaced.filter(|_| is_new));
            report.notes(is_new.then(|| {
                format!("hint: its first worktree is {path}; `lokt worktree create NAME` makes another, `lokt lease acquire` makes you its writer")
            }))
        }
    })
}

/// What to say about lock roots that commands no longer find once this is a lokt repository. While a lock is held in one of them, its
/// holder and the next caller would not exclude each other: then nothing is made.
fn replaced_roots() -> Result<Option<String>, Failure> {
    let context = Context::read(&RootArg::default())?;
    let replaced = context.surroundings.replaced_by_repository()?;
    for path in &replaced {
        let lokt = Lokt::existing(path, context.me.clone())?;
        let held = lokt
            .map_or(Ok(Vec::new()), |lokt| lokt.inspect().map_entries(|entry| entry.is_live().then_some(entry.name)))?;
        if let Some(name) = held.into_iter().flatten().next() {
            let (name, path) = (quoted(name.as_str()), clean(&path.to_string_lossy()));
            let message =
                format!("lock {name} is held in {path}, and the locks of a lokt repository are in another place");
            return Err(Failure::new(Exit::Held, "E_LOCK_CONFLICT", message).hint(format!(
                "nothing was made; wait until `lokt status --root {path}` shows no lock, then try again"
            )));
        }
    }
    let paths: Vec<_> = replaced.iter().map(|path| clean(&path.to_string_lossy())).collect();
    let old = paths.join(", ");
    Ok((!paths.is_empty()).then(|| format!("note: locks are no longer in {old}; `lokt root` shows where they are now")))
}

/// How many entries of a directory are no part of a new repository.
fn entries(dir: &Path) -> usize {
    let is_ours = |name: &OsStr| [".jvs", "main", "worktrees"].iter().any(|ours| name == *ours);
    files::entries(dir).filter(|entry| !is_ours(&entry.name)).count()
}
