//! Which worktree a command is about.

use std::path::Path;

use lokt_core::hold::Identity;
use lokt_core::lease::config::Isolation;
use lokt_core::name::LockName;
use lokt_sys::files::exists;
use lokt_worktree::lease::Worktree;
use lokt_worktree::repo::Repository;

use super::super::deny::shell_word;
use crate::args::worktree_name;
use crate::context::{self, LeaseRun};
use crate::exit::Exit;
use crate::report::Failure;
use crate::show::{clean, quoted};

/// Which worktree.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The worktree; otherwise the one that this directory is in, and `main` at the top of the repository
    #[arg(long, value_name = "NAME")]
    worktree: Option<String>,
}

impl Place {
    /// Its name, if one was given and is one. Asked before the first file is touched.
    pub(crate) fn named(&self) -> Result<Option<LockName>, Failure> {
        self.worktree.as_deref().map(worktree_name).transpose()
    }

    /// The worktree, for `me`.
    pub(crate) fn open(&self, me: Identity) -> Result<Worktree, Failure> {
        let named = self.named()?;
        let dir = context::current_dir()?;
        let repo = repository_at(&dir, me)?;
        let name = match named {
            Some(name) => name,
            None => worktree_name(&repo.worktree_at(&dir).ok_or_else(|| nowhere(&dir))?)?,
        };
        existing(&repo, &name)
    }

    /// The worktree, for `me`, and the token of its lease if this runs under that: inside `lokt lease run` it is that one's worktree, unless
    /// another is named, or this directory is in another.
    pub(crate) fn open_leased(&self, me: Identity) -> Result<(Worktree, Option<u64>), Failure> {
        let named = self.named()?;
        let run = context::lease_run().filter(|run| run.is_meant(named.as_ref()));
        let Some(run) = run else { return Ok((self.open(me)?, None)) };
        let dir = context::current_dir()?;
        let Some(here) = Repository::find(&dir, me.clone())? else {
            return Ok((of_run(&run, me)?, Some(run.token)));
        };
        // At the top it is `main` only if nothing else is said.
        let is_inside = named.is_none() && dir != here.top();
        let other = || here.worktree_at(&dir).is_some_and(|name| name != run.worktree);
        if !is_of_run(&here, &run) || (is_inside && other()) {
            return Ok((self.open(me)?, None));
        }
        Ok((of_run(&run, me)?, Some(run.token)))
    }

    /// The same, if it has a lease.
    pub(crate) fn exclusive(&self, me: Identity) -> Result<Worktree, Failure> {
        let worktree = self.open(me)?;
        has_lease(&worktree).map(|()| worktree)
    }

    /// How this place is typed: ` --worktree NAME`, or nothing.
    pub(crate) fn words(&self) -> String {
        let name = self.worktree.as_deref().and_then(shell_word);
        name.map(|name| format!(" --worktree {name}")).unwrap_or_default()
    }
}

/// The worktree of the `lokt lease run` that this runs under. Wherever the command went meanwhile, the token is that repository's.
pub(crate) fn of_run(run: &LeaseRun, me: Identity) -> Result<Worktree, Failure> {
    let repo = Repository::open(&run.top, me)?.ok_or_else(|| {
        let message =
            format!("there is no lokt repository in {}, as LOKT_LEASE_REPO says", clean(&run.top.to_string_lossy()));
        Failure::new(Exit::Missing, "E_NOT_FOUND", message).hint("it was moved or removed while the command ran")
    })?;
    if !has_id_of_run(&repo, run) {
        let (token, top) = (run.token, clean(&run.top.to_string_lossy()));
        let message = format!("token {token} was issued by another repository than the one that is in {top} now");
        return Err(Failure::new(Exit::StaleToken, "E_FENCING_MISMATCH", message)
            .hint("the repository of this `lokt lease run` was replaced while the command ran"));
    }
    existing(&repo, &worktree_name(&run.worktree)?)
}

fn has_id_of_run(repo: &Repository, run: &LeaseRun) -> bool {
    run.repo_id.as_deref().is_some_and(|id| id == repo.id())
}

/// Is this the repository of the `lokt lease run` that this runs under, by whichever path?
fn is_of_run(repo: &Repository, run: &LeaseRun) -> bool {
    let by_path =
        || Repository::open(&run.top, repo.me().clone()).is_ok_and(|of| of.is_some_and(|of| of.is_same(repo)));
    has_id_of_run(repo, run) && (repo.top() == run.top || by_path())
}

/// Refuses to act under a lease of `worktree` in `dir` if that is in another repository. Nothing in a
/// directory outside of all repositories is protected by another lease.
pub(crate) fn is_not_elsewhere(dir: &Path, worktree: &Worktree, token: u64) -> Result<(), Failure> {
    let ours = worktree.repository();
    let Some(other) = Repository::find(dir, ours.me().clone())?.filter(|other| !ours.is_same(other)) else {
        return Ok(());
    };
    let shown = |repo: &Repository| clean(&repo.top().to_string_lossy());
    let (name, dir) = (quoted(worktree.name().as_str()), clean(&dir.to_string_lossy()));
    let message = format!(
        "token {token} is of worktree {name} in the repository {}, but {dir} is in the repository {}",
        shown(ours),
        shown(&other)
    );
    Err(Failure::new(Exit::StaleToken, "E_FENCING_MISMATCH", message)
        .hint("each repository has its own leases: acquire one there, or cd back to the repository of this lease"))
}

/// The repository that we are in.
pub(crate) fn repository(me: Identity) -> Result<Repository, Failure> {
    repository_at(&context::current_dir()?, me)
}

fn repository_at(dir: &Path, me: Identity) -> Result<Repository, Failure> {
    Repository::find(dir, me)?.ok_or_else(|| no_repository(dir))
}

/// Neither here nor above.
pub(crate) fn no_repository(dir: &Path) -> Failure {
    let shown = clean(&dir.to_string_lossy());
    let is_git = dir.ancestors().any(|dir| exists(&dir.join(".git")));
    let git = if is_git { "; this is a git repository, which leases and snapshots don't use" } else { "" };
    let message = format!("no lokt repository (.jvs) in {shown} or above{git}");
    Failure::new(Exit::Missing, "E_NOT_FOUND", message).hint(
        "`lokt worktree init --here` makes this directory a worktree, with its files; `lokt worktree init` makes an empty one, `main`, in it",
    )
}

/// In the repository, but in none of its worktrees.
fn nowhere(dir: &Path) -> Failure {
    Failure::usage(format!("{} is in no worktree of its lokt repository", clean(&dir.to_string_lossy())))
        .hint("`--worktree NAME` names one; `lokt worktree list` shows them")
}

/// The worktree of that name.
pub(crate) fn existing(repo: &Repository, name: &LockName) -> Result<Worktree, Failure> {
    repo.worktree(name)?.ok_or_else(|| missing(repo, name))
}

/// There is none of that name.
pub(crate) fn missing(repo: &Repository, name: &LockName) -> Failure {
    let top = clean(&repo.top().to_string_lossy());
    Failure::new(Exit::Missing, "E_NOT_FOUND", format!("there is no worktree {} in {top}", quoted(name.as_str())))
        .hint(format!("`lokt worktree list` shows them, `lokt worktree create {name}` makes it"))
}

/// Refuses what makes sense only with a single writer.
pub(crate) fn has_lease(worktree: &Worktree) -> Result<(), Failure> {
    match worktree.isolation() {
        Isolation::Exclusive => Ok(()),
        Isolation::Shared => {
            let name = quoted(worktree.name().as_str());
            let message = format!("worktree {name} is shared: everybody may write, nobody holds it");
            Err(Failure::new(Exit::Usage, "E_NOT_EXCLUSIVE", message).hint(
                "just write; for one writer at a time make a worktree with `lokt worktree create NAME --isolation exclusive`",
            ))
        }
    }
}
