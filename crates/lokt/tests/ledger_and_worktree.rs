//! The modules `ledger` and `worktree` of the facade: the main paths, and each refusal.

use std::error::Error as _;
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use lokt::ledger::{AppendError, ClaimError, Ledger, NewEvent};
use lokt::worktree::{LeaseError, Repository, RestoreError, Snapshot, Worktree};
use lokt::{Error, ErrorKind};
use lokt_testkit::swarm::{pause, put, wait_until};
use tempfile::TempDir;

/// Nothing takes this long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn ledger() -> (TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let ledger = Ledger::create(dir.path()).expect("a temp directory is writable").owner("alice");
    (dir, ledger)
}

fn repository() -> (TempDir, Repository, Worktree) {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let repository = Repository::create(dir.path()).expect("a temp directory is writable").owner("alice");
    let main = repository.worktree("main").expect("each repository has one");
    (dir, repository, main)
}

/// The same worktree for another owner.
fn as_bob(repository: &Repository) -> Worktree {
    repository.clone().owner("bob").worktree("main").expect("each repository has one")
}

#[expect(clippy::disallowed_methods, reason = "a hand that lokt doesn't guide")]
fn remove_event_2(ledger: &Ledger) {
    fs::remove_file(ledger.path().join("event-000002.json")).expect("it is there");
}

#[test]
fn an_event_comes_back_as_it_was_appended() {
    let (_dir, ledger) = ledger();
    let appended = ledger.append("paid", r#" { "amount" : 1.50, "to" : {"a": [ ]} } "#).expect("it is an event");
    assert_eq!((appended.seq(), appended.last_seq(), appended.count()), (1, 1, 1));
    assert!(!appended.is_duplicate() && appended.warnings().is_empty());
    let event = ledger.read(0).next().expect("there is one").expect("it can be read");
    assert_eq!((event.seq(), event.kind(), event.body()), (1, "paid", r#"{"amount":1.50,"to":{"a":[]}}"#));
    let age = fs::metadata(ledger.path().join("event-000001.json")).expect("it has a file").modified();
    let (written, said) = (age.expect("files have times"), event.time().expect("lokt writes the time"));
    let apart = written.duration_since(said).or_else(|_| said.duration_since(written));
    assert!(apart.is_ok_and(|apart| apart < PATIENCE), "{said:?} isn't about {written:?}");
    assert!(ledger.read(2).next().is_none());
}

#[test]
fn what_is_no_event_is_refused_before_anything_is_written() {
    let (_dir, ledger) = ledger();
    for (kind, body) in [("", "{}"), ("paid", "[]"), ("paid", "{"), ("paid", r#"{"type":"other"}"#)] {
        let Err(AppendError::Failed(error)) = ledger.append(kind, body) else { panic!("{kind:?} {body} is no event") };
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    }
    let empty = ledger.batch().append().expect_err("there is no event in it");
    assert!(empty.source().and_then(|source| source.downcast_ref::<Error>()).is_some(), "{empty:?}");
    assert_eq!(ledger.head().expect("it can be read"), 0);
}

#[test]
fn a_gap_and_a_damaged_event_are_errors_and_reading_continues() {
    let (_dir, ledger) = ledger();
    for _ in 0..5 {
        ledger.append("note", "{}").expect("it is an event");
    }
    remove_event_2(&ledger);
    put(&ledger.path().join("event-000004.json"), "{");
    let read: Vec<Result<u64, String>> = ledger
        .read(1)
        .map(|event| event.map(|event| event.seq()).map_err(|error| format!("{:?} {error}", error.kind())))
        .collect();
    assert_eq!(read.len(), 5, "{read:?}");
    assert_eq!((&read[0], &read[2], &read[4]), (&Ok(1), &Ok(3), &Ok(5)), "{read:?}");
    assert!(read[1].as_ref().is_err_and(|why| why.starts_with("Damaged event 2 is missing")), "{read:?}");
    assert!(read[3].as_ref().is_err_and(|why| why.starts_with("Damaged event 4 is damaged")), "{read:?}");
}

#[test]
fn a_batch_is_appended_only_if_its_conditions_hold() {
    let (_dir, ledger) = ledger();
    let note = || ledger.batch().event("note", "{}").expect("it is an event");
    note().push(NewEvent::new("other", "{}").expect("it is an event")).expect_head(0).append().expect("it is empty");
    match note().expect_head(1).append() {
        Err(AppendError::HeadMoved { expected: 1, head: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    let two = note().event("note", "{}").expect("it is an event").idempotency_key("k").append();
    assert!(matches!(two, Err(AppendError::Failed(error)) if error.kind() == ErrorKind::BadInput));

    let claimed = ledger.claim("1").try_acquire().expect("it is free");
    let token = claimed.token();
    note().under(&claimed).append().expect("it is held");
    claimed.release().expect("it is held");
    match note().token(token).append() {
        Err(AppendError::StaleToken { token: stale, .. }) => assert_eq!(stale, token),
        other => panic!("{other:?}"),
    }
}

#[test]
fn transactions_of_many_threads_lose_no_update() {
    const THREADS: u64 = 4;
    const EACH: u64 = 10;
    let (_dir, ledger) = ledger();
    let count = || -> Result<(), Error> {
        let appended = ledger.transact(|view| {
            let counted = view.events().filter(|event| event.as_ref().is_ok_and(|event| event.kind() == "counted"));
            let counted = counted.count() as u64;
            assert_eq!(counted, view.head(), "the view ends at its head");
            Ok::<_, Error>(vec![NewEvent::new("counted", &format!(r#"{{"n":{}}}"#, counted + 1))?])
        })?;
        assert_eq!(appended.expect("there is an event").count(), 1);
        Ok(())
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EACH).try_for_each(|_| count()).expect("it works"));
        }
    });
    let events: Vec<_> = ledger.read(1).map(|event| event.expect("it can be read")).collect();
    assert_eq!(events.len() as u64, THREADS * EACH);
    for event in events {
        assert_eq!(event.body(), format!(r#"{{"n":{}}}"#, event.seq()), "two saw the same ledger");
    }
}

#[test]
fn a_transaction_that_says_no_or_nothing_appends_nothing() {
    #[derive(Debug)]
    enum Refusal {
        Claimed(String),
        Failed,
    }
    impl From<Error> for Refusal {
        fn from(_: Error) -> Self {
            Self::Failed
        }
    }
    let (_dir, ledger) = ledger();
    let _claimed = ledger.claim("1").try_acquire().expect("it is free");
    let refused = ledger.transact(|view| match view.holder("1") {
        Some(holder) => Err(Refusal::Claimed(holder.owner().to_owned())),
        None => Ok(vec![NewEvent::new("note", "{}")?]),
    });
    assert!(matches!(refused, Err(Refusal::Claimed(owner)) if owner == "alice"));
    let nothing = ledger.transact(|view| {
        assert!(view.holder("2").is_none() && view.damage().is_none());
        Ok::<_, Error>(Vec::new())
    });
    assert!(nothing.expect("it works").is_none());
    assert_eq!(ledger.head().expect("it can be read"), 1, "only the claim is there");
}

#[test]
fn a_task_has_one_holder_also_among_threads_of_one_owner() {
    let (_dir, ledger) = ledger();
    let claimed = ledger.claim("1").try_acquire().expect("it is free");
    match ledger.claim("1").try_acquire() {
        Err(ClaimError::Held { task, holder, .. }) => {
            assert_eq!((task.as_str(), holder.owner()), ("1", "alice"));
            assert_eq!((holder.pid(), holder.token()), (Some(std::process::id()), Some(claimed.token())));
            assert!(holder.expires_at().is_some_and(|at| at > SystemTime::UNIX_EPOCH));
        }
        other => panic!("{other:?}"),
    }
    let short = ledger.claim("1").acquire_timeout(Duration::from_millis(20)).expect_err("it is held");
    assert_eq!(short.to_string(), format!("task \"1\" is claimed by {}", short.holder().expect("it is held")));
    let waiter = thread::spawn({
        let ledger = ledger.clone().owner("bob");
        move || ledger.claim("1").acquire_timeout(PATIENCE).map(|claimed| claimed.token())
    });
    let token = claimed.token();
    drop(claimed);
    assert!(waiter.join().expect("it doesn't panic").expect("it is free") > token);
    assert!(ledger.holder("1").expect("it can be read").is_none(), "both have released it");
}

#[test]
fn a_claim_is_renewed_beside_the_work_and_an_expired_one_is_taken_over() {
    let (_dir, ledger) = ledger();
    let old = r#"{"node_id":"1","owner":"bob","expires_at":"2020-01-01T00:00:00Z"}"#;
    ledger.append("lock_acquired", old).expect("it is an event");
    let claimed = ledger.claim("1").ttl(Duration::from_millis(5_500)).try_acquire().expect("it has expired");
    assert_eq!((claimed.taken_over_from(), claimed.ttl()), (Some("bob"), Duration::from_secs(6)));
    let head = ledger.head().expect("it can be read");
    assert!(wait_until(PATIENCE, || ledger.head().is_ok_and(|now| now >= head + 3)), "it is renewed three times");
    claimed.check().expect("it was renewed");
    claimed.renew().expect("it is held");
    claimed.release().expect("it is held");
    let too_short = ledger.claim("1").ttl(Duration::ZERO).try_acquire();
    assert!(matches!(too_short, Err(ClaimError::Failed(error)) if error.kind() == ErrorKind::BadInput));
}

#[test]
fn a_claim_that_was_taken_away_is_lost() {
    let (_dir, ledger) = ledger();
    let claimed = ledger.claim("1").try_acquire().expect("it is free");
    ledger.append("lock_released", r#"{"node_id":"1"}"#).expect("it is an event");
    let _bobs = ledger.clone().owner("bob").claim("1").try_acquire().expect("it was released");
    for lost in [claimed.check(), claimed.renew()] {
        match lost {
            Err(ClaimError::Lost { holder: Some(holder), .. }) => assert_eq!(holder.owner(), "bob"),
            other => panic!("{other:?}"),
        }
    }
    let late = ledger.batch().event("done", "{}").expect("it is an event").under(&claimed).append();
    assert!(matches!(late, Err(AppendError::StaleToken { .. })), "{late:?}");
    assert!(matches!(claimed.release(), Err(ClaimError::Lost { .. })));
    assert_eq!(
        ledger.holder("1").expect("it can be read").map(|holder| holder.owner().to_owned()).as_deref(),
        Some("bob")
    );
}

#[test]
fn a_checkpoint_shows_that_the_last_event_is_gone() {
    let (_dir, ledger) = ledger();
    ledger.append("note", "{}").expect("it is an event");
    ledger.append("note", "{}").expect("it is an event");
    let verified = ledger.verify().expect("it can be read");
    assert!(verified.is_sound(), "{:?}", verified.problems());
    assert_eq!(verified.events(), 2);
    remove_event_2(&ledger);
    let against = ledger.verify_against(&verified.checkpoint()).expect("it can be read");
    assert!(!against.problems().is_empty() && against.problems().iter().all(|problem| !problem.code().is_empty()));
    assert_eq!(ledger.verify_against("7").expect_err("it is none").kind(), ErrorKind::BadInput);
}

#[test]
fn a_worktree_has_one_writer_also_among_threads_of_one_owner() {
    let (_dir, repository, main) = repository();
    let leased = main.lease().reason("a merge").ttl(Duration::from_secs(60)).try_acquire().expect("it is free");
    assert_eq!(leased.ttl(), Duration::from_secs(60));
    match main.lease().try_acquire() {
        Err(LeaseError::Held { holder: Some(holder), retry_after, .. }) => {
            assert_eq!((holder.owner(), holder.reason()), ("alice", Some("a merge")));
            assert_eq!((holder.pid(), holder.token()), (Some(std::process::id()), Some(leased.token())));
            assert!(retry_after.is_some_and(|time| time <= Duration::from_secs(63)), "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
    let bob = as_bob(&repository);
    let denied = bob.snapshot().create().expect_err("alice holds it");
    assert!(matches!(denied, LeaseError::Held { .. }), "{denied:?}");
    let waiter = thread::spawn(move || bob.lease().acquire_timeout(PATIENCE).map(|leased| leased.token()));
    let token = leased.token();
    leased.release().expect("it is held");
    assert!(waiter.join().expect("it doesn't panic").expect("it is free") > token);
    assert!(main.holder().expect("it can be read").is_none(), "both have released it");
    let too_short = main.lease().ttl(Duration::from_millis(1)).try_acquire();
    assert!(matches!(too_short, Err(LeaseError::Failed(error)) if error.kind() == ErrorKind::Unusable));
}

#[test]
fn a_lease_is_renewed_beside_the_work() {
    let (_dir, _repository, main) = repository();
    let leased = main.lease().ttl(Duration::from_secs(6)).try_acquire().expect("it is free");
    pause(Duration::from_millis(6_500));
    leased.check().expect("it was renewed");
    leased.renew().expect("it is held");
    leased.release().expect("it is held");
}

#[test]
fn a_lease_that_was_broken_is_lost_and_publishes_nothing() {
    let (_dir, repository, main) = repository();
    let leased = main.lease().try_acquire().expect("it is free");
    let saved = leased.snapshot().create().expect("it is held").into_snapshot();
    break_lease(&repository);
    let _bobs = as_bob(&repository).lease().try_acquire().expect("it was broken");
    for lost in [leased.check(), leased.renew()] {
        match lost {
            Err(LeaseError::Lost { holder: Some(holder), .. }) => assert_eq!(holder.owner(), "bob"),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(leased.snapshot().create(), Err(LeaseError::Lost { .. })));
    let restored = leased.restore(&saved).force().in_place();
    assert!(matches!(restored, Err(RestoreError::Refused(LeaseError::Lost { .. }))), "{restored:?}");
    assert!(matches!(leased.release(), Err(LeaseError::Lost { .. })));
    assert_eq!(repository.snapshots().expect("they can be read").len(), 1);
}

/// Ends the lease of any holder, as an operator does.
fn break_lease(repository: &Repository) {
    let me = lokt_sys::machine::identity("operator".into(), None);
    let found = lokt_worktree::repo::Repository::open(repository.top(), me).expect("it can be opened");
    let main = lokt_core::name::LockName::new("main").expect("it is a name");
    let worktree = found.expect("it is there").worktree(&main).expect("it can be read").expect("it is there");
    worktree.force_break("a test").expect("it can be broken");
}

#[test]
fn snapshots_are_listed_newest_first_and_found_by_their_ids() {
    let (_dir, repository, main) = repository();
    put(&main.path().join("a.txt"), "a");
    let first = main.snapshot().note("first").create().expect("it is free");
    put(&main.path().join("b.txt"), "bb");
    let second = main.snapshot().create().expect("it is free");
    assert_eq!((second.copied_files(), second.reused_files()), (1, 1));
    let (first, second) = (first.into_snapshot(), second.into_snapshot());
    let listed = repository.snapshots().expect("they can be read");
    let ids: Vec<&str> = listed.iter().map(Snapshot::id).collect();
    assert_eq!(ids, [second.id(), first.id()]);
    let newest = &listed[0];
    assert_eq!((newest.worktree(), newest.parent(), newest.note()), ("main", Some(first.id()), None));
    assert_eq!((newest.files(), newest.bytes()), (Some(2), Some(3)));
    assert!(newest.is_consistent() && !newest.is_pinned() && newest.created_at() >= first.created_at());
    assert_eq!(fs::read_to_string(newest.path().join("b.txt")).expect("it is there"), "bb");

    assert_eq!(repository.snapshot(first.id()).expect("it is there").note(), Some("first"));
    assert_eq!(main.latest_snapshot().expect("it can be read").expect("it is there").id(), second.id());
    for word in ["1", "0000", ""] {
        assert_eq!(repository.snapshot(word).expect_err("it is no one's").kind(), ErrorKind::NotFound, "{word:?}");
    }
}

#[test]
fn a_restore_names_the_files_that_it_would_lose() {
    let (_dir, repository, main) = repository();
    put(&main.path().join("a.txt"), "a");
    let leased = main.lease().try_acquire().expect("it is free");
    let saved = leased.snapshot().create().expect("it is held").into_snapshot();
    put(&main.path().join("new.txt"), "new");
    match leased.restore(&saved).in_place() {
        Err(RestoreError::Unsaved { paths, .. }) => assert_eq!(paths, [std::path::Path::new("new.txt")]),
        other => panic!("{other:?}"),
    }
    let restored = leased.restore(&saved).force().in_place().expect("it is held");
    assert_eq!((restored.worktree(), restored.files(), restored.bytes()), ("main", 1, 1));
    assert!(!main.path().join("new.txt").exists());
    assert!(restored.old_files().is_some_and(|old| old.join("new.txt").exists()));

    let made = repository.restore_into(&saved, "review").expect("there is none yet");
    assert_eq!(fs::read_to_string(made.path().join("a.txt")).expect("it is there"), "a");
    match repository.restore_into(&saved, "Review") {
        Err(RestoreError::Exists { worktree, .. }) => assert_eq!(worktree, "review"),
        other => panic!("{other:?}"),
    }
    let bad = repository.restore_into(&saved, "../x").expect_err("it is no name");
    assert!(matches!(bad, RestoreError::Failed(error) if error.kind() == ErrorKind::BadInput));
    assert_eq!(repository.worktrees().expect("they can be read"), ["main", "review"]);
}

#[test]
fn a_repository_is_not_made_inside_of_another_or_as_another_kind() {
    let (dir, _repository, main) = repository();
    for made in [Repository::create(main.path()), Repository::create_here(dir.path())] {
        assert_eq!(made.expect_err("there is another").kind(), ErrorKind::Unusable);
    }
    assert_eq!(Repository::find(main.path()).expect("it is above").worktrees().expect("it can be read"), ["main"]);
}

#[test]
fn guards_move_to_other_threads_and_show_themselves() {
    let (_dir, ledger) = ledger();
    let (_other, _repository, main) = repository();
    let claimed = ledger.claim("1").try_acquire().expect("it is free");
    let leased = main.lease().try_acquire().expect("it is free");
    assert!(format!("{claimed:?} {leased:?}").starts_with("Claimed { task: \"1\", token: Token(1)"));
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send((claimed.release().is_ok(), leased.release().is_ok())));
    assert_eq!(receive.recv_timeout(PATIENCE), Ok((true, true)));
}
