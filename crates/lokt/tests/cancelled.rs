//! Waits and work that another thread ends.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lokt::ledger::{ClaimError, Claimed, Ledger};
use lokt::worktree::{LeaseError, Leased, Repository, RestoreError, Worktree};
use lokt::{Acquire, Cancel, Held, LockError, Lokt, Request};
use lokt_testkit::swarm::{put, wait_until};
use tempfile::TempDir;

/// Nothing takes this long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn temp() -> TempDir {
    tempfile::tempdir().expect("there is room for a temp directory")
}

fn ledger(dir: &TempDir) -> Ledger {
    Ledger::create(dir.path()).expect("a temp directory is writable").owner("alice")
}

fn worktree(dir: &TempDir) -> Worktree {
    let repository = Repository::create(dir.path()).expect("a temp directory is writable");
    repository.owner("alice").worktree("main").expect("each repository has one")
}

/// A wait, as it was told of: the name, the owner that holds it, and the place in the queue.
type Told = (String, Option<String>, Option<usize>);

/// Waits until another thread cancels. That thread does so when it was told of the wait.
fn cancel_while_it_waits<'a, T: Acquire>(request: Request<'a, T>, cancel: &'a Cancel) -> (Told, T::Error) {
    let (send, told) = mpsc::channel();
    let request = request.on_wait(move |waiting| {
        let owner = waiting.holder().map(|holder| holder.owner().to_owned());
        assert!(waiting.left().is_some_and(|left| left <= PATIENCE) && waiting.waited() < PATIENCE);
        let _ = send.send((waiting.name().to_owned(), owner, waiting.ahead()));
    });
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let told = told.recv_timeout(PATIENCE).expect("the wait is told of");
            cancel.cancel();
            told
        });
        let ended = request.cancel(cancel).acquire_timeout(PATIENCE).err().expect("it is held");
        (other.join().expect("it doesn't panic"), ended)
    })
}

fn told(name: &str, ahead: Option<usize>) -> Told {
    (name.to_owned(), Some("alice".to_owned()), ahead)
}

#[test]
fn a_wait_for_a_lock_says_its_place_in_the_queue_and_is_cancelled() {
    let (dir, cancel) = (temp(), Cancel::new());
    let lokt = Lokt::open(dir.path().join("locks")).expect("a temp directory is writable").owner("alice");
    let _held: Held = lokt.guard("x").try_acquire().expect("it is free");
    let (seen, ended) = cancel_while_it_waits(lokt.guard("x"), &cancel);
    assert_eq!(seen, told("x", Some(0)));
    assert!(matches!(ended, LockError::Cancelled), "{ended:?}");
}

#[test]
fn a_wait_for_a_claim_is_cancelled_and_claims_nothing() {
    let (dir, cancel) = (temp(), Cancel::new());
    let alice = ledger(&dir);
    let bob = alice.clone().owner("bob");
    let claimed: Claimed = alice.claim("1").try_acquire().expect("it is free");
    let (seen, ended) = cancel_while_it_waits(bob.claim("1"), &cancel);
    assert_eq!(seen, told("1", None), "claims have no queue");
    assert!(matches!(ended, ClaimError::Cancelled) && ended.holder().is_none(), "{ended:?}");
    assert_eq!(ended.to_string(), "the wait for the claim was cancelled");
    claimed.release().expect("it is held");
    assert!(bob.holder("1").expect("it can be read").is_none());
}

#[test]
fn a_wait_for_a_lease_is_cancelled_and_holds_nothing() {
    let (dir, cancel) = (temp(), Cancel::new());
    let main = worktree(&dir);
    let leased: Leased = main.lease().reason("a merge").try_acquire().expect("it is free");
    let (seen, ended) = cancel_while_it_waits(main.lease().reason("another"), &cancel);
    assert_eq!(seen, told("main", None), "leases have no queue");
    assert!(matches!(ended, LeaseError::Cancelled) && ended.holder().is_none(), "{ended:?}");
    leased.release().expect("it is held");
    assert!(main.holder().expect("it can be read").is_none());
}

#[test]
fn a_handle_that_was_cancelled_before_acquires_nothing_also_what_is_free() {
    let (dir, cancel) = (temp(), Cancel::new());
    let (ledger, main) = (ledger(&dir), worktree(&dir));
    cancel.cancel();
    assert!(matches!(ledger.claim("1").acquire_until(&cancel), Err(ClaimError::Cancelled)));
    assert!(matches!(ledger.claim("1").cancel(&cancel).try_acquire(), Err(ClaimError::Cancelled)));
    assert!(matches!(main.lease().acquire_until(&cancel), Err(LeaseError::Cancelled)));
    assert_eq!(ledger.head().expect("it can be read"), 0);
    assert!(main.holder().expect("it can be read").is_none());
}

/// Files that take longer to copy than another thread takes to notice that it began.
const FILES: usize = 500;
/// Maximum number of attempts: on a busy machine the work may end before it is cancelled.
const ATTEMPTS: usize = 20;

fn worktree_with_files(dir: &TempDir) -> Worktree {
    let main = worktree(dir);
    for nth in 0..FILES {
        put(&main.path().join(format!("{nth}.txt")), "some text");
    }
    main
}

/// The names in directories of the repository, which are there or not.
fn names(dir: &TempDir, places: &[&str]) -> BTreeSet<PathBuf> {
    let listed = places.iter().filter_map(|place| fs::read_dir(dir.path().join(".jvs").join(place)).ok());
    listed.flatten().map(|entry| entry.expect("it can be listed").path()).collect()
}

/// Does `work`, and cancels it from another thread when it has written to `place`. Returns how it
/// ended, and how many attempts came to their end before they were cancelled.
fn cancel_amid<T, E>(dir: &TempDir, place: &str, work: impl Fn(&Cancel) -> Result<T, E>) -> (E, usize) {
    for finished in 0..ATTEMPTS {
        let (cancel, before) = (Cancel::new(), names(dir, &[place, "intents"]));
        let (begun, is_over) = (names(dir, &[place]), AtomicBool::new(false));
        let ended = thread::scope(|scope| {
            scope.spawn(|| {
                let begins = || is_over.load(Ordering::SeqCst) || names(dir, &[place]) != begun;
                assert!(wait_until(PATIENCE, begins), "the work begins");
                cancel.cancel();
            });
            let ended = work(&cancel);
            is_over.store(true, Ordering::SeqCst);
            ended
        });
        if let Err(error) = ended {
            assert_eq!(names(dir, &[place, "intents"]), before, "nothing is left behind");
            return (error, finished);
        }
    }
    panic!("the work was faster {ATTEMPTS} times");
}

#[test]
fn a_snapshot_that_is_cancelled_amid_copying_leaves_none_behind() {
    let dir = temp();
    let main = worktree_with_files(&dir);
    let (ended, finished) = cancel_amid(&dir, "snapshots", |cancel| main.snapshot().cancel(cancel).create());
    assert!(matches!(ended, LeaseError::Cancelled), "{ended:?}");
    let repository = Repository::open(dir.path()).expect("it is there");
    let count = || repository.snapshots().expect("they can be read").len();
    assert_eq!(count(), finished);
    assert!(main.holder().expect("it can be read").is_none(), "its lease was released");

    let cancel = Cancel::new();
    let taken = main.snapshot().cancel(&cancel).create().expect("nothing cancels it");
    assert_eq!((taken.snapshot().files(), count()), (Some(FILES as u64), finished + 1));
    cancel.cancel();
    assert!(matches!(main.snapshot().cancel(&cancel).create(), Err(LeaseError::Cancelled)), "before it began");
    assert_eq!(count(), finished + 1);
}

#[test]
fn a_restore_that_is_cancelled_amid_copying_changes_nothing() {
    let dir = temp();
    let main = worktree_with_files(&dir);
    let saved = main.snapshot().create().expect("it is free").into_snapshot();
    let changed = main.path().join("0.txt");
    let leased = main.lease().try_acquire().expect("it is free");
    let restore = || leased.restore(&saved).force();
    let (ended, _) = cancel_amid(&dir, "restores", |cancel| {
        put(&changed, "another text");
        restore().cancel(cancel).in_place()
    });
    assert!(matches!(ended, RestoreError::Cancelled), "{ended:?}");
    assert_eq!(fs::read_to_string(&changed).expect("it is there"), "another text");

    let cancel = Cancel::new();
    restore().cancel(&cancel).in_place().expect("nothing cancels it");
    assert_eq!(fs::read_to_string(&changed).expect("it is there"), "some text");
    cancel.cancel();
    let before = restore().cancel(&cancel).in_place().expect_err("it was cancelled before");
    assert_eq!((before.to_string().as_str(), before.source().is_none()), ("the restore was cancelled", true));
}
