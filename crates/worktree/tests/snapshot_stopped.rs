//! Somebody who takes or restores a snapshot is stopped before any of its calls to the disk: for good, or while others act. Whatever
//! happens, the worktree has one whole tree, is at the snapshot that this is, and nothing of the user's is lost.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

mod lease_world;

use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use lease_world::{World, take};
use lokt_core::lease::session::Session;
use lokt_core::snapshot::descriptor::Consistency;
use lokt_core::snapshot::gc::Retention;
use lokt_core::snapshot::id::SnapshotId;
use lokt_sys::error::Error;
use lokt_testkit::hook_disk::HookDisk;
use lokt_tree::{Control, Known, Silent};
use lokt_worktree::lease::doctor::examine_one;
use lokt_worktree::lease::{Keeping, Worktree};
use lokt_worktree::repo::Repository;
use lokt_worktree::snapshot::{Acting, GcWish, InPlace, Restoring, SnapshotWish, Snapshotting, Verification};

/// So many at once.
const AT_ONCE: usize = 16;
/// So many calls it takes to open the worktree, which isn't what is tried here.
const OPENING: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Take,
    Restore,
}

/// What happens when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    /// Its process ends.
    Killed,
    /// The lease is renewed, which finishes what was decided.
    Renewed,
    /// `doctor --strict --fix`
    Mended,
    /// `rm -rf .jvs/gc`, so that its mutex is another one; then `gc run --keep-last 0`.
    Collected,
    /// `rm -rf .jvs/locks`, and somebody else takes the lease.
    LocksDeleted,
}

struct Scene {
    world: World,
    session: Session,
    first: SnapshotId,
    second: SnapshotId,
    /// What the worktree had when somebody else got the lease.
    taken_over: Mutex<Option<String>>,
}

impl Scene {
    /// The worktree is at the second of two snapshots; one file is in none.
    fn new() -> Self {
        let world = World::new();
        let session = world.session();
        let main = world.worktree(world.disk(), "alice");
        take(&main, &session);
        let put = |name: &str, text: &str| fs::write(world.dir.path().join("main").join(name), text).expect("a file");
        put(".lokt-ignore", "*.env\n");
        put("secret.env", "nowhere else");
        let snapshot = |text: &str| {
            put("a", text);
            world.machine.advance_secs(1);
            match taken(&main, &session).expect("no accident") {
                Snapshotting::Taken(taken) => taken.descriptor.id,
                other => panic!("{other:?}"),
            }
        };
        let (first, second) = (snapshot("one"), snapshot("two"));
        world.machine.advance_secs(1);
        Self { world, session, first, second, taken_over: Mutex::default() }
    }

    fn repo(&self) -> Repository {
        self.world.repository(self.world.disk(), "alice")
    }

    fn main(&self) -> Worktree {
        self.world.worktree(self.world.disk(), "alice")
    }

    fn happens(&self, event: Event) {
        match event {
            Event::Killed => {}
            Event::Renewed => {
                let said = self.main().renew(&self.session).expect("no accident").value;
                assert!(matches!(said, Keeping::Renewed(_)), "{said:?}");
            }
            Event::Mended => drop(examine_one(&self.repo(), true)),
            Event::Collected => {
                let _ = fs::remove_dir_all(self.world.jvs().join("gc"));
                let retention = Retention { keep_last: Some(0), keep_within_ms: None };
                self.repo().gc().run(&GcWish { retention, at_once: false }).expect("no accident");
            }
            Event::LocksDeleted => {
                let _ = fs::remove_dir_all(self.world.jvs().join("locks"));
                take(&self.main(), &self.world.session());
                *self.taken_over.lock().expect("nobody panics") = Some(self.text());
            }
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.world.dir.path().join("main/a")).expect("there is always a tree")
    }

    /// Whoever got the lease has what was there then: nobody who was stopped swaps anything any more.
    fn is_as_taken_over(&self, context: &str) {
        let taken_over = self.taken_over.lock().expect("nobody panics").clone();
        assert_eq!(Some(self.text()), taken_over.or_else(|| Some(self.text())), "{context}");
        let secret = fs::read_to_string(self.world.dir.path().join("main/secret.env")).ok();
        assert_eq!(secret.as_deref(), Some("nowhere else"), "{context}");
    }

    /// What must be so, whatever happened. `acked`: the snapshot that somebody was told of.
    fn holds(&self, context: &str, acked: Option<&SnapshotId>) {
        let text = fs::read_to_string(self.world.dir.path().join("main/a")).ok();
        let catalog = self.repo().snapshots().catalog().expect("a catalog");
        assert!(catalog.spoiled.is_empty(), "{context}: {:?}", catalog.spoiled);
        let head = self.main().head().expect("a head").expect("it is at one");
        let expected = if head == self.first { "one" } else { "two" };
        assert_eq!(text.as_deref(), Some(expected), "{context}: the worktree is at {head}");
        let halt = AtomicBool::new(false);
        for id in acked.into_iter().chain([&head]) {
            let listed = catalog.get(id).unwrap_or_else(|| panic!("{context}: {id} isn't there"));
            let verified = self.repo().snapshots().verify(listed, &Known::default(), &Control::new(&Silent, &halt));
            let is_sound = verified.expect("an answer").as_ref().is_some_and(Verification::is_sound);
            assert!(is_sound, "{context}: {id} isn't whole");
        }
        let secret = fs::read_to_string(self.world.dir.path().join("main/secret.env")).ok();
        assert_eq!(secret.as_deref(), Some("nowhere else"), "{context}");
    }
}

fn taken(worktree: &Worktree, session: &Session) -> Result<Snapshotting, Error> {
    let halt = AtomicBool::new(false);
    let wish = SnapshotWish {
        consistency: Consistency::BestEffort,
        note: None,
        acting: Acting::Session(session),
        with_git: false,
    };
    worktree.snapshot(&wish, &Control::new(&Silent, &halt)).map(|said| said.value)
}

/// Runs `deed`, stopped before its `at`-th call to the disk. False: it made fewer calls.
fn stopped_at(at: usize, deed: Deed, event: Event) -> bool {
    let scene = Arc::new(Scene::new());
    let context = format!("{deed:?}, {event:?} before call {at}");
    let listed = scene.repo().snapshots().catalog().expect("a catalog").get(&scene.first).expect("it is there").clone();
    let (there, calls, last) = (scene.clone(), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (count, at_call) = (calls.clone(), last.clone());
    let hook = move |call: &str, path: &str| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        if number == at {
            *at_call.lock().expect("nobody panics") = format!("{call} {path}");
            there.happens(event);
        }
        if number >= at && event == Event::Killed { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    };
    let disk = Arc::new(HookDisk::new(scene.world.disk(), Arc::new(hook)));
    let worktree = scene.world.worktree(disk, "alice");
    let before = calls.load(Ordering::SeqCst);
    let halt = AtomicBool::new(false);
    let mut acked = None;
    let said = match deed {
        Deed::Take => taken(&worktree, &scene.session).map(|said| {
            if let Snapshotting::Taken(taken) = &said {
                acked = Some(taken.descriptor.id.clone());
            }
            format!("{said:?}")
        }),
        Deed::Restore => {
            let how = InPlace { force: false, dry_run: false, with_git: false };
            let acting = Acting::Session(&scene.session);
            let said = worktree.restore_in_place(&listed, acting, how, &Control::new(&Silent, &halt));
            said.map(|said| {
                if let Restoring::Restored(restored) = &said.value {
                    acked = Some(restored.id.clone());
                    if event != Event::LocksDeleted {
                        assert_eq!(
                            scene.main().head().expect("a head"),
                            Some(restored.id.clone()),
                            "{context} {}",
                            last.lock().expect("nobody panics")
                        );
                    }
                }
                format!("{:?}", said.value)
            })
        }
    };
    let context = format!("{context} ({}), {before} to open it: {said:.300?}", last.lock().expect("nobody panics"));
    drop(worktree);
    // What was decided and not done is gone with the locks, and where the worktree was then may be, too.
    if (deed, event) == (Deed::Restore, Event::LocksDeleted) {
        scene.is_as_taken_over(&context);
        examine_one(&scene.repo(), true);
        scene.is_as_taken_over(&format!("{context}, mended"));
        return calls.load(Ordering::SeqCst) > at;
    }
    // Whoever comes next finishes what was decided.
    if event == Event::LocksDeleted {
        scene.world.machine.advance_secs(lease_world::OVER_SECS);
        take(&scene.main(), &scene.world.session());
    } else {
        let said = scene.main().renew(&scene.session).map(|said| said.value);
        assert!(matches!(said, Ok(Keeping::Renewed(_))), "{context}: {said:?}");
    }
    scene.holds(&context, acked.as_ref());
    examine_one(&scene.repo(), true);
    scene.holds(&format!("{context}, mended"), acked.as_ref());
    assert_ne!(scene.first, scene.second);
    calls.load(Ordering::SeqCst) > at
}

fn stopped_everywhere(deed: Deed, event: Event) {
    // Mostly they wait for the clock of the file system.
    for first in (0..2000).step_by(AT_ONCE) {
        let each = |at| move || stopped_at(at, deed, event);
        let all_were_stopped = thread::scope(|scope| {
            let running: Vec<_> = (first..first + AT_ONCE).map(|at| scope.spawn(each(OPENING + at))).collect();
            // All of them end before anybody looks.
            let ended: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
            ended.into_iter().all(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
        });
        if !all_were_stopped {
            return;
        }
    }
    panic!("it goes on and on");
}

#[test]
fn taking_one_killed() {
    stopped_everywhere(Deed::Take, Event::Killed);
}

#[test]
fn taking_one_while_the_lease_is_renewed() {
    stopped_everywhere(Deed::Take, Event::Renewed);
}

#[test]
fn taking_one_while_doctor_mends() {
    stopped_everywhere(Deed::Take, Event::Mended);
}

#[test]
fn taking_one_while_gc_collects() {
    stopped_everywhere(Deed::Take, Event::Collected);
}

#[test]
fn taking_one_while_locks_are_deleted() {
    stopped_everywhere(Deed::Take, Event::LocksDeleted);
}

#[test]
fn restoring_killed() {
    stopped_everywhere(Deed::Restore, Event::Killed);
}

#[test]
fn restoring_while_the_lease_is_renewed() {
    stopped_everywhere(Deed::Restore, Event::Renewed);
}

#[test]
fn restoring_while_locks_are_deleted() {
    stopped_everywhere(Deed::Restore, Event::LocksDeleted);
}

#[test]
fn restoring_while_doctor_mends() {
    stopped_everywhere(Deed::Restore, Event::Mended);
}

#[test]
fn restoring_while_gc_collects() {
    stopped_everywhere(Deed::Restore, Event::Collected);
}
