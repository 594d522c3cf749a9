//! A ledger that other threads work with: its claims, and its events as they come.

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lokt::ledger::{Event, Ledger};
use lokt::{Cancel, Error, ErrorKind};
use lokt_testkit::swarm::put;
use tempfile::TempDir;

/// Nothing takes this long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn ledger() -> (TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let ledger = Ledger::create(dir.path()).expect("a temp directory is writable").owner("alice");
    (dir, ledger)
}

fn append(ledger: &Ledger, kind: &str) -> u64 {
    ledger.append(kind, "{}").expect("it is an event").seq()
}

#[expect(clippy::disallowed_methods, reason = "a hand that lokt doesn't guide")]
fn remove(ledger: &Ledger, seq: u64) {
    fs::remove_file(ledger.path().join(format!("event-{seq:06}.json"))).expect("it is there");
}

/// A thread that follows a ledger until it is cancelled.
struct Following {
    cancel: Cancel,
    told: mpsc::Receiver<Result<Event, Error>>,
    thread: thread::JoinHandle<()>,
}

impl Following {
    fn start(ledger: &Ledger, from: u64) -> Self {
        let (cancel, (send, told)) = (Cancel::new(), mpsc::channel());
        let events = ledger.follow(from).cancel(&cancel);
        assert!(format!("{events:?}").contains("Ledger"), "{events:?}");
        let thread = thread::spawn(move || events.for_each(|event| send.send(event).expect("the test listens")));
        Self { cancel, told, thread }
    }

    fn next(&self) -> Result<u64, ErrorKind> {
        let event = self.told.recv_timeout(PATIENCE).expect("something comes");
        event.map(|event| event.seq()).map_err(|error| error.kind())
    }

    /// Cancels, and fails if anything came that was not expected.
    fn end(self) {
        self.cancel.cancel();
        let unexpected = self.told.recv_timeout(PATIENCE);
        assert!(matches!(unexpected, Err(mpsc::RecvTimeoutError::Disconnected)), "{unexpected:?}");
        self.thread.join().expect("it doesn't panic");
    }
}

#[test]
fn a_follower_sees_the_events_of_another_thread_and_ends_when_it_is_cancelled() {
    let (_dir, ledger) = ledger();
    append(&ledger, "before");
    let following = Following::start(&ledger, 1);
    assert_eq!(following.next(), Ok(1));
    for _ in 0..3 {
        assert_eq!(Ok(append(&ledger, "after")), following.next());
    }
    following.end();
}

#[test]
fn a_follower_begins_with_the_number_that_it_is_given() {
    let (_dir, ledger) = ledger();
    append(&ledger, "before");
    let next = ledger.head().expect("it can be read") + 1;
    let following = Following::start(&ledger, next);
    assert_eq!((append(&ledger, "after"), following.next()), (2, Ok(2)));
    following.end();
    let all: Vec<u64> = ledger.follow(0).take(2).map(|event| event.expect("it can be read").seq()).collect();
    assert_eq!(all, [1, 2], "0 is the beginning, too");
}

#[test]
fn a_follower_continues_after_gaps_damage_and_a_restored_ledger() {
    let (_dir, ledger) = ledger();
    for _ in 0..4 {
        append(&ledger, "note");
    }
    remove(&ledger, 2);
    put(&ledger.path().join("event-000003.json"), "{");
    let following = Following::start(&ledger, 1);
    let told = [(); 4].map(|()| following.next());
    assert_eq!(told, [Ok(1), Err(ErrorKind::Damaged), Err(ErrorKind::Damaged), Ok(4)]);
    remove(&ledger, 4);
    assert_eq!(following.next(), Err(ErrorKind::Changed));
    let again = append(&ledger, "another");
    assert_eq!((again, following.next()), (4, Ok(4)));
    following.end();
}

#[test]
fn a_follower_that_was_cancelled_before_shows_nothing() {
    let (_dir, ledger) = ledger();
    append(&ledger, "note");
    let cancel = Cancel::new();
    let mut events = ledger.follow(1).cancel(&cancel);
    assert!(events.next().is_some_and(|event| event.is_ok()));
    append(&ledger, "note");
    cancel.cancel();
    assert!(events.next().is_none() && events.next().is_none(), "although there is another event");
}

#[test]
fn live_claims_are_listed_and_expired_ones_are_not() {
    let (_dir, ledger) = ledger();
    let old = r#"{"node_id":"0","owner":"carol","expires_at":"2020-01-01T00:00:00Z"}"#;
    ledger.append("lock_acquired", old).expect("it is an event");
    assert_eq!(ledger.claims().expect("they can be read"), []);
    let late = ledger.claim("1.10").ttl(Duration::from_secs(600)).try_acquire().expect("it is free");
    let bob = ledger.clone().owner("bob");
    let early = bob.claim("1.2").try_acquire().expect("it is free");
    let claims = ledger.claims().expect("they can be read");
    let shown: Vec<_> = claims.iter().map(|claim| (claim.task(), claim.holder().owner(), claim.token())).collect();
    assert_eq!(shown, [("1.2", "bob", Some(early.token())), ("1.10", "alice", Some(late.token()))]);
    let ends = claims[1].expires_at().expect("a claim ends");
    let file = fs::metadata(ledger.path().join("event-000002.json")).and_then(|meta| meta.modified());
    let lasts = ends.duration_since(file.expect("the claim is an event")).expect("it ends later");
    assert!(lasts > Duration::from_secs(598) && lasts < Duration::from_secs(602), "{lasts:?}");
    drop((late, early));
    assert_eq!(ledger.claims().expect("they can be read"), []);
}
