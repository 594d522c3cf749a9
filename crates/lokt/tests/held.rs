//! A lock in a program: threads exclude each other, leases are renewed, a loss is told, and whatever becomes of a [`Held`], nothing of it
//! is left behind.

mod root;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use lokt::{Held, LockError, LockStatus, ReleaseError};
use lokt_testkit::swarm::{now_ms, pause, wait_until};
use root::Root;

/// Nothing takes this long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a test of holds looks at.
impl Root {
    /// What happened, in order.
    fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("audit.log")).unwrap_or_default();
        let event = |line: &str| line.split("\"event\":\"").nth(1)?.split('"').next().map(str::to_owned);
        text.lines().map(|line| event(line).expect("a line names its event")).collect()
    }

    fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|other| *other == event).count()
    }

    /// Nothing is held, and nobody waits.
    #[track_caller]
    fn is_clean(&self) {
        for dir in ["locks", "state/held", "state/line", "state/tmp"] {
            assert_eq!(names_in(&self.path().join(dir)), [] as [String; 0], "nothing is left in {dir}");
        }
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_denied(acquired: &Result<Held, LockError>) -> bool {
    matches!(acquired, Err(LockError::Denied(_)))
}

#[test]
fn one_holder_threads_of_one_program_exclude_each_other() {
    let root = Root::new();
    let lokt = root.lokt("alice");
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut tokens: Vec<lokt::Token> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut tokens = Vec::new();
                    for _ in 0..20 {
                        let held = lokt.guard("x").acquire_timeout(PATIENCE).expect("everyone gets it in the end");
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        tokens.push(held.token());
                        held.release().expect("nobody takes it away");
                    }
                    tokens
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it doesn't panic")).collect()
    });
    assert_eq!(most.load(Ordering::SeqCst), 1, "at most one is inside");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 160, "everyone has a token of their own");
    assert_eq!((root.count("acquire"), root.count("release")), (160, 160), "the log accounts for every hold");
    root.is_clean();
}

#[test]
fn in_order_threads_are_served_as_they_came() {
    let root = Root::new();
    let lokt = root.lokt("alice");
    let first = lokt.guard("x").try_acquire().expect("it is free");
    let (send, served) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..10 {
            let (send, lokt) = (send.clone(), &lokt);
            scope.spawn(move || {
                let held = lokt.guard("x").acquire_timeout(PATIENCE).expect("everyone gets it in the end");
                send.send(number).expect("somebody listens");
                drop(held);
            });
            let waiters = |lock: &LockStatus| lock.waiters() == number + 1;
            let in_line = || lokt.status().is_ok_and(|locks| locks.iter().any(waiters));
            assert!(wait_until(PATIENCE, in_line), "the thread gets in line");
        }
        drop(first);
    });
    assert_eq!(served.try_iter().collect::<Vec<usize>>(), (0..10).collect::<Vec<usize>>(), "first come, first served");
    root.is_clean();
}

#[test]
fn a_lease_is_renewed_for_as_long_as_it_is_held() {
    let root = Root::new();
    let held = root.lokt("alice").guard("x").ttl(Duration::from_secs(6)).try_acquire().expect("it is free");
    let bob = root.lokt("bob");
    let renewed = || {
        assert!(is_denied(&bob.guard("x").try_acquire()), "the lease never ends while it is held");
        pause(Duration::from_millis(50));
        root.count("renew") >= 3
    };
    assert!(wait_until(PATIENCE, renewed), "a lease is renewed every half: {:?}", root.events());
    assert!(held.check().is_ok(), "it was never lost");
    held.release().expect("it is still held");
    let events = root.events();
    assert_eq!(events.last().map(String::as_str), Some("release"), "nothing comes after the release");
    pause(Duration::from_millis(3_500));
    assert_eq!(root.events().len(), events.len(), "not even later");
    root.is_clean();
}

#[test]
fn without_a_lease_nothing_is_renewed() {
    let root = Root::new();
    let mut held = root.lokt("alice").guard("x").try_acquire().expect("it is free");
    let losses = held.losses();
    pause(Duration::from_millis(1_300));
    assert!(matches!(losses.try_recv(), Err(TryRecvError::Empty)), "nothing was lost");
    drop(held);
    assert_eq!(root.events(), ["acquire", "release"]);
    assert!(
        matches!(losses.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected)),
        "and nothing can be any more"
    );
}

/// Carol forces the lock away from its holder and takes it herself.
fn carol_takes_it(root: &Root) {
    let carol = root.lokt("carol");
    carol.force_unlock("x").expect("it is held");
    carol.lock("x").try_acquire().expect("it is free");
}

fn owner_of(lost: &lokt::Lost) -> String {
    lost.holder().map(|holder| holder.owner().to_owned()).expect("somebody has it now")
}

#[test]
fn a_loss_is_a_value_that_names_the_new_holder() {
    for ttl in [None, Some(Duration::from_secs(60))] {
        let root = Root::new();
        let lokt = root.lokt("alice");
        let request = lokt.guard("x");
        let request = if let Some(ttl) = ttl { request.ttl(ttl) } else { request };
        let held = request.try_acquire().expect("it is free");
        assert!(held.check().is_ok(), "it is held");
        carol_takes_it(&root);
        assert_eq!(owner_of(&held.check().expect_err("it is carol's")), "carol");
        assert_eq!(owner_of(&held.check().expect_err("it still is")), "carol", "a loss stays a loss");
        let Err(ReleaseError::Lost(lost)) = held.release() else { panic!("it can't be given back any more") };
        assert_eq!(owner_of(&lost), "carol");
        assert!(root.path().join("locks/x.json").exists(), "no-lost-thief: carol keeps it");
        assert_eq!(names_in(&root.path().join("state/held")), [] as [String; 0], "no pulse is left behind");
    }
}

#[test]
fn a_record_that_was_deleted_is_lost_to_nobody() {
    let root = Root::new();
    let held = root.lokt("alice").guard("x").try_acquire().expect("it is free");
    let removed = Command::new("rm").arg(root.path().join("locks/x.json")).status().expect("rm runs");
    assert!(removed.success());
    assert!(held.check().expect_err("it is gone").holder().is_none(), "nobody has it");
    assert!(matches!(held.release(), Err(ReleaseError::Lost(_))), "and it can't be given back");
    root.is_clean();
}

#[test]
fn a_loss_is_told_to_everyone_who_listens() {
    for ttl in [None, Some(Duration::from_secs(60))] {
        let root = Root::new();
        let lokt = root.lokt("alice");
        let request = lokt.guard("x");
        let request = if let Some(ttl) = ttl { request.ttl(ttl) } else { request };
        let mut held = request.try_acquire().expect("it is free");
        let listeners = [held.losses(), held.losses()];
        assert!(listeners.iter().all(|losses| losses.try_recv().is_err()), "nothing is lost yet");
        carol_takes_it(&root);
        for losses in listeners {
            let lost = losses.recv_timeout(PATIENCE).expect("it is told within about a second");
            assert_eq!(owner_of(&lost), "carol");
        }
        let late = held.losses();
        let lost = late.recv_timeout(PATIENCE).expect("who asks after the loss is told at once");
        assert_eq!(owner_of(&lost), "carol");
    }
}

#[test]
fn a_loss_that_was_found_by_a_check_is_told_too() {
    let root = Root::new();
    let mut held = root.lokt("alice").guard("x").try_acquire().expect("it is free");
    carol_takes_it(&root);
    assert!(held.check().is_err(), "it is carol's");
    assert_eq!(owner_of(&held.losses().recv_timeout(PATIENCE).expect("it is told")), "carol");
}

#[test]
fn dropping_releases_and_leaves_nothing_behind() {
    let root = Root::new();
    let lokt = root.lokt("alice");
    drop(lokt.guard("x").try_acquire().expect("it is free"));
    drop(lokt.guard("x").ttl(Duration::from_secs(300)).try_acquire().expect("it was given back"));
    let unwound = thread::spawn({
        let lokt = lokt.clone();
        move || {
            let _held = lokt.guard("x").try_acquire().expect("it was given back");
            std::panic::resume_unwind(Box::new("a panic while it is held"));
        }
    });
    assert!(unwound.join().is_err(), "it panicked");
    assert_eq!((root.count("acquire"), root.count("release")), (3, 3), "each was released, whatever happened");
    root.is_clean();
}

#[test]
fn dropping_while_a_renewal_is_due_leaves_nothing_behind() {
    let root = Root::new();
    thread::scope(|scope| {
        for number in 0..60_u64 {
            let root = &root;
            scope.spawn(move || {
                let held = root.lokt("alice").guard(format!("x{number}")).ttl(Duration::from_secs(1)).try_acquire();
                let held = held.expect("it is free");
                // Renewals are due at 500 ms and at 1 s.
                pause(Duration::from_millis(470 + (number % 30) * 2 + (number / 30) * 500));
                drop(held);
            });
        }
    });
    assert_eq!((root.count("acquire"), root.count("release")), (60, 60), "each was released once");
    assert!(root.count("renew") > 0, "some were renewed");
    pause(Duration::from_millis(600));
    root.is_clean();
}

#[test]
fn a_wait_ends_with_its_timeout_and_says_who_has_it() {
    let root = Root::new();
    let held = root.lokt("alice").guard("x").try_acquire().expect("it is free");
    for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(300)] {
        let bob = root.lokt("bob");
        let began_ms = now_ms();
        let Err(LockError::Denied(denial)) = bob.guard("x").acquire_timeout(timeout) else { panic!("it is held") };
        let waited = Duration::from_millis(now_ms() - began_ms);
        assert!(waited >= timeout, "it waited as long as it was told to, not {waited:?}");
        assert!(waited < timeout + Duration::from_secs(10), "and not much longer: {waited:?}");
        assert_eq!(denial.holder().map(|holder| holder.owner().to_owned()).as_deref(), Some("alice"));
        assert_eq!(names_in(&root.path().join("state/line")), [] as [String; 0], "the line is left");
    }
    drop(held);
    root.is_clean();
}

#[test]
fn a_bad_name_is_refused_before_anything_is_touched() {
    let root = Root::new();
    let lokt = root.lokt("alice");
    let before = names_in(&root.path());
    for bad in ["", ".", "..", "a/b", "-x", "a..b", "nul\0", "\u{e9}", &"x".repeat(201)] {
        let refused = lokt.guard(bad).acquire_timeout(Duration::from_secs(600));
        assert!(matches!(&refused, Err(LockError::BadName { .. })), "{bad:?} is no name");
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.starts_with("invalid lock name"), "{text}");
    }
    assert_eq!(names_in(&root.path()), before, "nothing was made");
}

fn threads() -> usize {
    names_in(Path::new("/proc/self/task")).len()
}

#[test]
fn ten_thousand_waits_that_time_out_pile_up_no_threads_and_no_descriptors() {
    let root = Root::new();
    let held = root.lokt("alice").guard("x").try_acquire().expect("it is free");
    let bob = root.lokt("bob");
    let descriptors = || names_in(Path::new("/proc/self/fd")).len();
    let (threads_before, descriptors_before) = (threads(), descriptors());
    // They wait for alice and for each other.
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    assert!(is_denied(&bob.guard("x").acquire_timeout(Duration::from_millis(1))), "it is alice's");
                }
            });
        }
    });
    // Other tests run beside this one and have threads of their own.
    let few = || threads() < threads_before + 200;
    assert!(wait_until(PATIENCE, few), "threads: {threads_before} before, {} after", threads());
    assert!(descriptors() < descriptors_before + 500, "descriptors: {descriptors_before}, then {}", descriptors());
    drop(held);
    assert_eq!(names_in(&root.path().join("state/line")), [] as [String; 0], "the line is left");
}
