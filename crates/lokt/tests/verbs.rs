//! The verbs of the library: what they grant, what they refuse, and what their errors tell.

mod root;

use std::error::Error as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use lokt::{Cancel, DenialReason, ErrorKind, LockError, LockState, Lokt, Token};
use lokt_testkit::swarm::{put, wait_until};
use root::Root;

const PATIENCE: Duration = Duration::from_secs(30);

#[track_caller]
fn reason<T: std::fmt::Debug>(answer: Result<T, LockError>) -> DenialReason {
    match answer {
        Err(LockError::Denied(denial)) => denial.reason(),
        other => panic!("it is refused, not {other:?}"),
    }
}

#[test]
fn a_lock_of_the_owner_is_shared_by_the_owner_and_refused_to_others() {
    let root = Root::new();
    let (alice, bob) = (root.lokt("alice"), root.lokt("bob"));
    let locked = alice.lock("x").ttl(Duration::from_millis(1_500)).reason("tests").try_acquire().expect("it is free");
    assert_eq!((locked.name(), locked.is_refreshed(), locked.ttl()), ("x", false, Some(Duration::from_secs(2))));
    let ends = locked.expires_at().expect("it has a lease");
    assert!(ends > SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000), "{ends:?}");
    let again = alice.lock("x").ttl(Duration::from_secs(60)).try_acquire().expect("it is hers");
    assert!(again.is_refreshed() && again.lock_id() == locked.lock_id());
    let refused = bob.lock("x").try_acquire().expect_err("it is alice's");
    let denial = refused.denial().expect("it is refused");
    let holder = denial.holder().expect("the record says who");
    assert_eq!((denial.name(), denial.reason(), denial.code()), ("x", DenialReason::Held, "E_LOCK_CONFLICT"));
    assert_eq!((holder.owner(), holder.ends_with_process(), holder.reason()), ("alice", false, Some("tests")));
    assert!(holder.is_live() && holder.expires_in().is_some_and(|left| left <= Duration::from_secs(60)));
    assert_eq!(refused.to_string(), format!("lock \"x\" is held by {holder}"));
    assert_eq!(reason(bob.unlock("x")), DenialReason::NotYours);
    assert_eq!(reason(bob.break_stale("x")), DenialReason::NotStale);
    let other = Token::new(again.token().get() + 1).expect("a number");
    assert_eq!(reason(alice.unlock_token("x", other)), DenialReason::StaleToken { current: Some(again.token()) });
    alice.unlock_token("x", again.token()).expect("it is that one");
    assert_eq!(reason(alice.unlock("x")), DenialReason::NotFound);
}

#[test]
fn several_locks_are_held_all_or_none() {
    let root = Root::new();
    let (alice, bob) = (root.lokt("alice"), root.lokt("bob"));
    let held = alice.guard_all(["b", "a", "b"]).ttl(Duration::from_secs(60)).try_acquire().expect("they are free");
    assert_eq!(held.iter().map(lokt::Held::name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(held[0].ttl(), Some(Duration::from_secs(60)));
    let refused = bob.guard_all(["c", "b"]).try_acquire().expect_err("b is alice's");
    assert_eq!(refused.denial().map(lokt::Denial::name), Some("b"));
    assert!(bob.holder("c").expect("it can be read").is_none(), "none means none");
    drop(held);
    assert_eq!(bob.acquire_all(["b", "c"]).expect("they are free").len(), 2);
    assert!(bob.acquire_all([] as [&str; 0]).expect("there is nothing to wait for").is_empty());
}

#[test]
fn a_wait_is_cancelled_from_another_thread_and_leaves_the_queue() {
    let root = Root::new();
    let (alice, bob) = (root.lokt("alice"), root.lokt("bob"));
    let _held = alice.guard("x").try_acquire().expect("it is free");
    let (cancel, told) = (Cancel::new(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let waits = [bob.guard("x"), bob.guard("x").ttl(Duration::from_secs(5))].map(|request| {
            let told = &told;
            scope.spawn({
                let cancel = &cancel;
                move || {
                    let tell = |waiting: &lokt::Waiting<'_>| {
                        assert_eq!((waiting.name(), waiting.left()), ("x", None));
                        assert_eq!(waiting.holder().map(|holder| holder.owner().to_owned()).as_deref(), Some("alice"));
                        told.fetch_add(1, Ordering::SeqCst);
                    };
                    request.on_wait(tell).acquire_until(cancel)
                }
            })
        });
        assert!(wait_until(PATIENCE, || told.load(Ordering::SeqCst) >= 2), "both wait");
        cancel.cancel();
        for wait in waits {
            assert!(matches!(wait.join().expect("it doesn't panic"), Err(LockError::Cancelled)));
        }
    });
    assert_eq!(bob.status().expect("it can be listed")[0].waiters(), 0, "the queue is left");
    assert!(cancel.is_cancelled());
    assert!(matches!(bob.guard("free").acquire_until(&cancel), Err(LockError::Cancelled)), "it stays cancelled");
    assert!(bob.holder("free").expect("it can be read").is_none());
}

#[test]
fn a_frozen_name_is_refused_until_it_is_unfrozen() {
    let root = Root::new();
    let (alice, bob) = (root.lokt("alice"), root.lokt("bob"));
    alice.freeze("x").apply().expect("nobody froze it");
    let frozen = bob.frozen("x").expect("it can be read").expect("it is frozen");
    assert_eq!((frozen.owner(), frozen.reason()), ("alice", None));
    assert_eq!(reason(bob.guard("x").try_acquire()), DenialReason::Frozen);
    assert_eq!(reason(bob.unfreeze("x")), DenialReason::NotYours);
    alice.unfreeze("x").expect("it is hers");
    assert_eq!(reason(alice.unfreeze("x")), DenialReason::NotFound);
    assert!(bob.frozen("x").expect("it can be read").is_none());
}

#[test]
fn a_freeze_has_the_time_and_the_reason_that_it_was_given() {
    let root = Root::new();
    let (alice, bob) = (root.lokt("alice"), root.lokt("bob"));
    let frozen = || bob.frozen("x").expect("it can be read").expect("it is frozen");
    alice.freeze("x").ttl(Duration::from_millis(59_001)).reason("incident").apply().expect("it is free");
    assert_eq!(frozen().reason(), Some("incident"));
    assert!(frozen().expires_in().is_some_and(|left| left > Duration::from_secs(59)), "rounded up");
    assert_eq!(reason(bob.freeze("x").apply()), DenialReason::Frozen);
    alice.freeze("x").ttl(Duration::ZERO).apply().expect("it is hers");
    assert_eq!((frozen().reason(), frozen().expires_at()), (Some("incident"), None), "it has no end any more");
    let bad = alice.freeze("a/b").apply().expect_err("it is no name");
    assert!(matches!(bad, LockError::BadName { .. }), "{bad:?}");
    let unapplied = alice.freeze("y").reason("only asked");
    assert!(format!("{unapplied:?}").contains("\"y\""), "{unapplied:?}");
    assert!(alice.frozen("y").expect("it can be read").is_none(), "nothing happens before `apply`");
}

#[test]
fn what_is_stored_is_listed_also_what_cannot_be_understood() {
    let root = Root::new();
    let alice = root.lokt("alice");
    let _held = alice.guard("a").try_acquire().expect("it is free");
    alice.freeze("f").ttl(Duration::from_secs(60)).apply().expect("nobody froze it");
    put(&root.path().join("locks/torn.json"), "{\"version\":");
    let _ = Command::new("touch").args(["-d", "1 hour ago"]).arg(root.path().join("locks/torn.json")).status();
    let locks = alice.status().expect("it can be listed");
    let of = |name: &str| locks.iter().find(|lock| lock.name() == name).expect("it is listed");
    assert_eq!(of("a").holder().and_then(lokt::Holder::pid), Some(std::process::id()));
    assert!(of("f").is_freeze() && !of("a").is_freeze());
    assert!(matches!(of("torn").state(), LockState::Corrupt(_)), "{:?}", of("torn"));
    assert_eq!(reason(alice.holder("torn")), DenialReason::Corrupt);
}

#[test]
fn errors_say_their_kind_their_code_and_their_cause() {
    let root = Root::new();
    put(&root.path(), "a file");
    let error = Lokt::open(root.path()).expect_err("it is no directory");
    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Unusable), "{error:?}");
    assert!(error.code().starts_with("E_") && error.to_string().contains("root"), "{error}");
    let missing = Lokt::discover(root.path().join("nowhere")).expect_err("there is no such directory");
    assert_eq!((missing.kind(), missing.source().is_some()), (ErrorKind::Io, true));
    let other = Root::new();
    let bad = other.lokt("alice").guard("a/b").acquire().expect_err("it is no name");
    assert!(bad.source().is_some_and(|why| why.downcast_ref::<lokt::BadName>().is_some()), "{bad:?}");
    assert!(bad.to_string().contains("\"a/b\""), "{bad}");
}

#[test]
fn every_type_says_something_of_itself() {
    let root = Root::new();
    let lokt = root.lokt("alice");
    let request = lokt.guard("x");
    assert!(format!("{lokt:?}").contains("alice") && format!("{request:?}").contains("\"x\""));
    let held = request.try_acquire().expect("it is free");
    assert!(format!("{held:?}").contains("alice"), "{held:?}");
    assert!(format!("{:?}", lokt.holder("x").expect("it can be read")).contains("alice"));
}

#[test]
fn a_program_and_the_command_find_the_same_locks() {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let git = Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status();
    assert!(git.is_ok_and(|status| status.success()), "git runs");
    let deep = dir.path().join("a/b");
    put(&deep.join("file"), "");
    let lokt = Lokt::discover(&deep).expect("it is a repository");
    assert!(lokt.root().ends_with(".git/lokt"), "{}", lokt.root().display());
}
