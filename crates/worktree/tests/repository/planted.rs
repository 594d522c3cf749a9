//! What the fuzzer laid into a repository, each with the shortest way there. On disks in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_core::hold::{Fence, Identity};
use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::{Base, Slot};
use lokt_core::lease::state::Head;
use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;
use lokt_sys::machine::Machine as _;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;
use lokt_worktree::lease::doctor::examine_one;
use lokt_worktree::lease::{Keeping, LeaseTerms, Leasing, Releasing, Taking, Worktree};
use lokt_worktree::repo::Repository;

const BASE: &str = "locks/main.lock.d/base";
const FIRST: &str = "locks/main.lock.d/00000000000000000001";
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

    fn base(&self) -> Base {
        Base::parse(&self.disk.peek(BASE).expect("it was born")).expect("it is whole")
    }

    fn link(&self, path: &str) -> Slot {
        Slot::parse(&self.disk.peek(path).expect("it is there")).expect("it is whole")
    }
}

fn session(number: u128) -> Session {
    Session::new(number, [number, number])
}

fn attempt(worktree: &Worktree, session: &Session) -> Leasing {
    let terms = LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None };
    worktree.acquire(session, &terms, &mut WaitPolicy::none()).expect("no accident").value
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
fn a_link_of_another_chain_in_the_place_of_the_next_one_is_overtaken() {
    let scene = Scene::new();
    let main = scene.main(somebody("alice", 1));
    take(&main, &session(1));
    let stranger = Slot { chain: "0".repeat(32), ..scene.link(FIRST) };
    for in_its_place in [vec![1], vec![1, 2, 3]] {
        let scene = Scene::new();
        let main = scene.main(somebody("alice", 1));
        for number in &in_its_place {
            let path = format!("locks/main.lock.d/{number:020}");
            scene.disk.plant(&path, &stranger.to_bytes());
        }
        let answer = attempt(&main, &session(1));
        assert!(matches!(answer, Leasing::Denied(_)), "whose it is can't be told, for a while: {answer:?}");
        let broken = main.force_break("test").expect("no accident").value;
        assert!(matches!(broken, Releasing::Released(_)), "whoever must can go on: {broken:?}");
        let token = take(&main, &session(1));
        assert!(token > 3, "token-order: {token} is above every number that was there");
    }
}

#[test]
fn grants_that_were_counted_too_far_leave_links_that_can_be_read() {
    let scene = Scene::new();
    let far = Base { acquire_seq: Fence::LIMIT - 1, ..scene.base() };
    scene.disk.plant(BASE, &far.to_bytes());
    let main = scene.main(somebody("alice", 1));
    take(&main, &session(1));
    let kept = main.renew(&session(1)).expect("no accident").value;
    assert!(matches!(kept, Keeping::Renewed(_)), "its own holder can read it: {kept:?}");
}

#[test]
fn a_log_without_one_good_line_leaves_links_that_can_be_read() {
    for log in ["rubbish\n", "rubbish\nand more\n{}\n"] {
        let scene = Scene::new();
        scene.audit.plant("audit.jsonl", log.as_bytes());
        scene.audit.plant("audit.head", b"rubbish");
        let main = scene.main(somebody("alice", 1));
        take(&main, &session(1));
        let kept = main.renew(&session(1)).expect("no accident").value;
        assert!(matches!(kept, Keeping::Renewed(_)), "its own holder can read it: {kept:?}");
        let again = main.renew(&session(1)).expect("no accident").value;
        assert!(matches!(again, Keeping::Renewed(_)), "and once more: {again:?}");
    }
}

#[test]
fn a_receipt_that_cannot_be_written_is_not_said_to_be_mended() {
    let scene = Scene::new();
    let main = scene.main(somebody("alice", 1));
    take(&main, &session(1));
    let id = SnapshotId::new(1_767_268_800_000, 10);
    let mut link = scene.link(FIRST);
    (link.state.head, link.state.pending) = (Head::Snapshot(id.clone()), vec![id.clone()]);
    scene.disk.plant(FIRST, &link.to_bytes());
    scene.disk.plant("locks/main.lock", &link.to_bytes());
    scene.disk.plant(&format!("descriptors/{id}.json"), b"{}");
    let checkup = examine_one(main.repository(), true);
    let receipt = PathBuf::from(format!("snapshots/{id}.ready"));
    let mut findings = checkup.checkup.checks.iter().flat_map(|check| &check.findings);
    let found = findings
        .find(|finding| finding.path.as_ref().is_some_and(|path| Path::new(path).ends_with(&receipt)))
        .expect("it is told");
    assert_eq!((found.code, found.fixed()), ("missing_receipt", None), "{found:?}");
    assert!(found.message.contains("can't be read"), "and why: {found:?}");
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
