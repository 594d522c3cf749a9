//! A repository on a real disk, and a machine whose time stands still until a test moves it.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::PathBuf;
use std::sync::Arc;

use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_sys::disk::Disk;
use lokt_sys::machine::Machine as _;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_worktree::lease::{LeaseTerms, Leasing, Releasing, Taking, Worktree};
use lokt_worktree::repo::Repository;

/// Longer than a lease, and all the doubt there is.
pub(crate) const OVER_SECS: u64 = 40;

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) machine: Arc<FakeMachine>,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { dir: tempdir(), machine: Arc::new(FakeMachine::new()) };
        let repo = world.repository(world.disk(), "founder");
        repo.found(Isolation::Exclusive).expect("it is founded");
        world
    }

    pub(crate) fn jvs(&self) -> PathBuf {
        self.dir.path().join(".jvs")
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(OsDisk::create_as(&self.jvs(), 0o755).expect("temp").0)
    }

    pub(crate) fn repository(&self, disk: Arc<dyn Disk>, owner: &str) -> Repository {
        let audit = Arc::new(OsDisk::create_as(&self.jvs().join("audit"), 0o755).expect("temp").0);
        let me = somebody(owner, 1);
        Repository::on(self.dir.path(), disk, audit, self.machine.clone(), me).expect("it is one")
    }

    /// The worktree as `owner` sees it, with `hook` before each call to the disk.
    pub(crate) fn worktree(&self, disk: Arc<dyn Disk>, owner: &str) -> Worktree {
        let main = LockName::new("main").expect("a good name");
        self.repository(disk, owner).worktree(&main).expect("it can be read").expect("it is there")
    }

    pub(crate) fn session(&self) -> Session {
        let random = || self.machine.random().expect("it always works");
        Session::new(random(), [random(), random()])
    }

    /// What is to be seen in the view.
    pub(crate) fn view(&self) -> serde_json::Value {
        let bytes = std::fs::read(self.jvs().join("locks/main.lock")).expect("somebody holds it");
        serde_json::from_slice(&bytes).expect("it is whole")
    }
}

pub(crate) fn terms() -> LeaseTerms {
    LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None }
}

pub(crate) fn take(worktree: &Worktree, session: &Session) -> u64 {
    match worktree.acquire(session, &terms(), &mut WaitPolicy::none()).expect("no accident").value {
        Leasing::Granted(lease) => lease.token.get(),
        other => panic!("it could be had: {other:?}; {:?}", worktree.status(None)),
    }
}

/// Asks for the lease, without waiting.
pub(crate) fn attempt(worktree: &Worktree, session: &Session) -> Leasing {
    worktree.acquire(session, &terms(), &mut WaitPolicy::none()).expect("no accident").value
}

pub(crate) fn give_back(worktree: &Worktree, session: &Session) {
    let released = worktree.release(session).expect("no accident").value;
    assert!(matches!(released, Releasing::Released(_)), "{released:?}");
}

/// In memory, where there is such a place: many thousand links are synced here.
fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temp")
}
