//! What can be laid into a repository, each with the shortest way there. On disks in memory.

use std::sync::Arc;

use lokt::lease::{LeaseTerms, Leasing, Taking, Worktree};
use lokt::repo::Repository;
use lokt::sys::machine::Machine as _;
use lokt::{Identity, Isolation, LeasePolicy, LockName, Patience, Session};
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;

const WATCH: &str = "locks/main.lock.d/watch.boot-1";

struct Scene {
    disk: MemDisk,
    audit: MemDisk,
    machine: Arc<FakeMachine>,
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp");
        let scene = Self { disk: MemDisk::new(), audit: MemDisk::new(), machine: Arc::new(FakeMachine::new()), dir };
        scene.repo(somebody("alice", 1)).found(Isolation::Exclusive).expect("it is founded");
        scene
    }

    fn repo(&self, me: Identity) -> Repository {
        let (disk, audit) = (Arc::new(self.disk.clone()), Arc::new(self.audit.clone()));
        Repository::on(self.dir.path(), disk, audit, self.machine.clone(), me).expect("it opens")
    }

    fn main(&self, me: Identity) -> Worktree {
        let main = LockName::new("main").expect("a good name");
        self.repo(me).worktree(&main).expect("it can be read").expect("it is there")
    }
}

fn session(number: u128) -> Session {
    Session::new(number, [number, number])
}

fn attempt(worktree: &Worktree, session: &Session) -> Leasing {
    let terms = LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None };
    worktree.acquire(session, &terms, &mut Patience::none()).expect("no accident").value
}

fn take(worktree: &Worktree, session: &Session) -> u64 {
    match attempt(worktree, session) {
        Leasing::Granted(lease) => lease.token.get(),
        other => panic!("it could be had: {other:?}"),
    }
}

/// Somebody on another machine.
fn elsewhere() -> Identity {
    Identity { host: "far".into(), ..somebody("carol", 9) }
}

#[test]
fn a_sighting_whose_time_was_changed_does_not_end_a_lease() {
    let scene = Scene::new();
    take(&scene.main(elsewhere()), &session(1));
    let main = scene.main(somebody("alice", 1));
    assert!(matches!(attempt(&main, &session(2)), Leasing::Denied(_)), "it was granted a moment ago");
    let seen = String::from_utf8(scene.disk.peek(WATCH).expect("it was seen")).expect("it is text");
    let now = scene.machine.now().boottime_ms.to_string();
    assert!(seen.contains(&now), "{seen}");
    scene.disk.plant(WATCH, seen.replace(&now, "1").as_bytes());
    let answer = attempt(&main, &session(2));
    assert!(matches!(answer, Leasing::Denied(_)), "one-holder: it has been seen for no time: {answer:?}");
    scene.machine.advance_secs(3600);
    take(&main, &session(2));
}
