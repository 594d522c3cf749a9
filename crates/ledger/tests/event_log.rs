//! The seam between deciding and storing, as a caller of `EventLog` sees it.

use std::fs;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::time::Duration;

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_ledger::log::{Compose, Composed, EventLog, LedgerView, Need, Op, Piece, view};
use lokt_ledger::{InitOptions, Ledger, Slot};
use lokt_sys::call::Call;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{Linux, Machine as _, identity};
use lokt_sys::nap::{Nap, WaitClock, Woken};
use lokt_sys::wakeup::Wakeup;
use lokt_testkit::swarm::put;
use tempfile::TempDir;

/// A lock of another program that has just been taken.
const FOREIGN_LOCK: &str = r#"{"agent_id":"other","acquired_at":"2999-01-01T00:00:00Z"}"#;

fn fresh() -> (TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let me = identity("tester".into(), None);
    let (ledger, _) = Ledger::init(dir.path(), InitOptions::default(), me).expect("it can be made");
    (dir, ledger)
}

fn seq(number: u64) -> Seq {
    Seq::new(number).expect("the number of an event")
}

/// Adds one event up to a limit; then it refuses.
struct UpTo {
    limit: u64,
    asked: usize,
}

impl Compose for UpTo {
    fn need(&self) -> Need {
        Need::Head
    }

    fn compose(&mut self, at: &mut LedgerView<'_>) -> Result<Composed, Error> {
        self.asked += 1;
        Ok(match at.head {
            head if head > self.limit => Composed::Refused,
            head if head == self.limit => Composed::Nothing,
            _ => Composed::Add(vec![Piece::from(Draft::new("counted", vec![("so_far", at.head.into())]))]),
        })
    }
}

fn add(log: &dyn EventLog, limit: u64) -> Option<u64> {
    let mut composer = UpTo { limit, asked: 0 };
    let said = log.commit(&Op::new(), &mut composer, &Call::UNLIMITED).expect("committed");
    assert!(composer.asked > 0, "the composer decides");
    said.value.map(|done| done.last.get())
}

fn numbers(log: &dyn EventLog, from: u64) -> Vec<(u64, bool)> {
    let mut seen = Vec::new();
    log.read(seq(from), &Call::UNLIMITED, &mut |seq, slot| {
        seen.push((seq.get(), matches!(slot, Slot::Event(_))));
        ControlFlow::Continue(())
    })
    .expect("read");
    seen
}

#[test]
fn a_composer_adds_until_it_says_nothing_or_no() {
    let (_dir, ledger) = fresh();
    let log = ledger.log();
    assert_eq!([add(log, 2), add(log, 2), add(log, 2), add(log, 1)], [Some(1), Some(2), None, None]);
    assert_eq!(log.head(&Call::UNLIMITED).expect("found").value, 2, "only what was composed is there");
}

#[test]
fn a_rehearsal_says_what_would_be_added_and_adds_nothing() {
    let (_dir, ledger) = fresh();
    let log = ledger.log();
    add(log, 9);
    let would = log.rehearse(&mut UpTo { limit: 9, asked: 0 }, &Call::UNLIMITED).expect("rehearsed").value;
    let would = would.expect("an event would be added");
    assert_eq!((would.head, would.count), (1, 1), "it would be the second event");
    assert_eq!(log.head(&Call::UNLIMITED).expect("found").value, 1, "nothing was added");
    let mut through = 0;
    view(log, &Call::UNLIMITED, &mut |at| through = at.fold().through).expect("shown");
    assert_eq!(through, 1, "a view shows all events");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test removes what another program would")]
fn a_gap_is_read_as_one_missing_number() {
    let (dir, ledger) = fresh();
    let log = ledger.log();
    while add(log, 5).is_some() {}
    for number in 2..=3 {
        let file = dir.path().join("ledger").join(ledger.settings().style.file_name(seq(number)));
        fs::remove_file(file).expect("an event is removed");
    }
    assert_eq!(numbers(log, 1), [(1, true), (2, false), (4, true), (5, true)], "the gap is shown once");
    assert_eq!(numbers(log, 6), [(6, false)], "what is asked for is shown even if it is missing");
}

#[test]
fn a_subscriber_is_woken_by_an_event() {
    let (_dir, ledger) = fresh();
    let log = ledger.log();
    let wakeup = Wakeup::new().expect("an eventfd");
    let changes = log.arm(None, &wakeup).expect("armed");
    add(log, 9);
    let clock = WaitClock::endless(&Linux);
    let woken = Nap::new(&clock).on(&wakeup).subscribed(&changes).sleep(None).expect("slept");
    assert_eq!(woken, Woken::Ready, "the ledger has changed");
}

#[test]
fn a_deadline_is_shorter_than_the_patience_with_a_foreign_lock() {
    let (dir, ledger) = fresh();
    put(&dir.path().join("ledger/ledger.lock"), FOREIGN_LOCK);
    let began = Linux.now();
    let call = Call::within(Duration::from_millis(50), &began);
    let error = ledger.log().commit(&Op::new(), &mut UpTo { limit: 9, asked: 0 }, &call).expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::Busy, "the lock is another program's: {error}");
    let took_ms = Linux.now().boottime_ms - began.boottime_ms;
    assert!(took_ms < 4_000, "the deadline ended the wait: {took_ms} ms");
}

#[test]
fn a_call_that_waits_for_a_foreign_lock_can_be_stopped() {
    let (dir, ledger) = fresh();
    put(&dir.path().join("ledger/ledger.lock"), FOREIGN_LOCK);
    let stop = Wakeup::new().expect("an eventfd");
    stop.rope().ring();
    let call = Call::UNLIMITED.stopped_by(Some(stop.as_fd()));
    let error = ledger.log().commit(&Op::new(), &mut UpTo { limit: 9, asked: 0 }, &call).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::Halted, "the caller stopped it: {error}");
    assert_eq!(ledger.head().expect("found").value, 0, "nothing was added");
}

#[test]
fn an_operation_keeps_its_id_over_all_tries() {
    let (one, other) = (Op::new(), Op::new());
    let id = one.id(&Linux).expect("random bits");
    assert_eq!(one.id(&Linux).expect("random bits"), id, "it is the same operation");
    assert_ne!(other.id(&Linux).expect("random bits"), id, "another operation has another id");
}
