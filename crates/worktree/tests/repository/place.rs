//! A repository in a directory of its own.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_sys::disk::Disk;
use lokt_sys::machine::Linux;
use lokt_sys::machine::identity;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_worktree::lease::{LeaseTerms, Leasing, Releasing, Taking, Worktree};
use lokt_worktree::repo::{Changing, Repository};
use tempfile::TempDir;

pub(crate) struct Place {
    dir: TempDir,
}

pub(crate) fn me() -> Identity {
    identity("alice".into(), None)
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a good name")
}

pub(crate) fn session(number: u128) -> Session {
    Session::new(number, [number, 1])
}

pub(crate) fn terms() -> LeaseTerms {
    LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None }
}

/// Takes the lease of a worktree: its token.
pub(crate) fn take(worktree: &Worktree, number: u128) -> u64 {
    let said = worktree.acquire(&session(number), &terms(), &mut WaitPolicy::none()).expect("it can be asked");
    match said.value {
        Leasing::Granted(lease) => lease.token.get(),
        other => panic!("the lease was free: {other:?}"),
    }
}

/// Gives it back.
pub(crate) fn release(worktree: &Worktree, number: u128) {
    let released = worktree.release(&session(number)).expect("it can be asked").value;
    assert!(matches!(released, Releasing::Released(_)));
}

pub(crate) fn worktree(repo: &Repository, text: &str) -> Worktree {
    repo.worktree(&name(text)).expect("it can be read").expect("it is there")
}

impl Place {
    /// An empty directory.
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    /// A new repository.
    pub(crate) fn new() -> (Self, Repository) {
        Self::empty().founded()
    }

    /// A new repository where syncing takes no time: for those who are killed a hundred times.
    pub(crate) fn in_memory() -> (Self, Repository) {
        Self::bare().founded()
    }

    /// An empty directory there.
    pub(crate) fn bare() -> Self {
        Self { dir: tempfile::tempdir_in("/dev/shm").expect("there is a file system in memory") }
    }

    fn founded(self) -> (Self, Repository) {
        let place = self;
        let (repo, is_new) = Repository::init(&place.top(), Isolation::Exclusive, me()).expect("it can be made");
        assert!(is_new, "there was none");
        (place, repo)
    }

    /// Without links in it.
    pub(crate) fn top(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("it is there")
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.top().join(path)
    }

    /// The same repository, with another disk in its place.
    pub(crate) fn on(&self, wrap: impl Fn(Arc<dyn Disk>) -> Arc<dyn Disk>) -> Repository {
        self.try_on(wrap).expect("it opens")
    }

    pub(crate) fn try_on(
        &self,
        wrap: impl Fn(Arc<dyn Disk>) -> Arc<dyn Disk>,
    ) -> Result<Repository, lokt_sys::error::Error> {
        let disk = Arc::new(OsDisk::open_as(&self.at(".jvs"), 0o755).expect("it opens"));
        let audit = Arc::new(OsDisk::open_as(&self.at(".jvs/audit"), 0o755).expect("it opens"));
        Repository::on(&self.top(), wrap(disk), audit, Arc::new(Linux), me())
    }

    pub(crate) fn operations(repo: &Repository) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let read = repo.audit_log().lines(&mut |_, line| {
            let line: serde_json::Value = serde_json::from_slice(line).expect("each line is JSON");
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            found.push((text("operation"), text("target")));
            std::ops::ControlFlow::Continue(())
        });
        read.expect("it can be read");
        found
    }
}

pub(crate) fn done(changing: Changing) -> lokt_worktree::repo::WorktreeEntry {
    match changing {
        Changing::Done(entry) => entry,
        other => panic!("it can be done: {other:?}"),
    }
}
