//! Whoever mends a ledger is killed, fails or loses power at each of its disk calls: nothing is lost, and the next one finishes the work.

use std::sync::{Arc, LazyLock};

use lokt_core::ledger::seq::Style;
use lokt_ledger::{Finding, Fix, Ledger};
use lokt_sys::disk::Disk;
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::{MemDisk, PowerCut};

const EIO: i32 = 5;
const DAMAGED: &[u8] = b"{\"type\":";
const FOREIGN: &[u8] = br#"{"type":"custom_event"}"#;
const OURS: &[u8] = br#"{"type":"note","n":3}"#;

fn event(number: u64) -> String {
    Style::Documented.file_name(lokt_core::ledger::seq::Seq::new(number).expect("the number of an event"))
}

/// A ledger with a damaged event (2), one that was replaced (3), and a gap (5).
fn patient() -> MemDisk {
    let mem = MemDisk::new();
    for number in [1, 4, 6] {
        let bytes = format!(r#"{{"type":"note","n":{number}}}"#);
        mem.plant(&event(number), bytes.as_bytes());
        mem.plant(&format!(".lokt/kept/{number:06}"), bytes.as_bytes());
    }
    mem.plant(&event(2), DAMAGED);
    mem.plant(&event(3), FOREIGN);
    mem.plant(".lokt/kept/000003", OURS);
    mem.plant(".event-17.tmp", b"left behind");
    mem
}

fn ledger(disk: Arc<dyn Disk>) -> Result<Ledger, lokt_sys::error::Error> {
    // One for all: its random bits never come again.
    static MACHINE: LazyLock<Arc<FakeMachine>> = LazyLock::new(Arc::default);
    let machine = MACHINE.clone();
    Ledger::on("/dir-of-the-test".as_ref(), disk, Arc::new(MemDisk::new()), machine, somebody("mender", 1))
}

fn mend(disk: Arc<dyn Disk>) -> Result<Vec<Finding>, lokt_sys::error::Error> {
    Ok(ledger(disk)?.doctor(true, &mut |_, _| {})?.value)
}

/// Does some file that people would look at have these bytes?
fn is_kept(mem: &MemDisk, place: &str, bytes: &[u8]) -> bool {
    let aside = mem.below(".lokt/aside");
    aside.iter().map(String::as_str).chain([place]).any(|path| mem.peek(path).as_deref() == Some(bytes))
}

fn nothing_is_lost(mem: &MemDisk, when: &str) {
    assert!(is_kept(mem, &event(2), DAMAGED), "{when}: the damaged original is lost");
    assert!(is_kept(mem, &event(3), FOREIGN), "{when}: what replaced event 3 is lost");
    assert!(is_kept(mem, ".lokt/kept/000003", OURS), "{when}: what lokt wrote is lost");
    for number in [1, 4, 6] {
        let expected = format!(r#"{{"type":"note","n":{number}}}"#);
        assert_eq!(mem.peek(&event(number)).as_deref(), Some(expected.as_bytes()), "{when}: event {number}");
    }
    for number in [2, 3] {
        assert!(mem.peek(&event(number)).is_some(), "{when}: event {number} has nothing in its place");
    }
}

fn the_next_one_finishes(mem: &MemDisk, when: &str) {
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let problems = mend(disk.clone()).unwrap_or_else(|error| panic!("{when}: {error}"));
    assert!(problems.iter().all(|problem| matches!(problem.fix, Fix::Done(_))), "{when}: {problems:?}");
    nothing_is_lost(mem, when);
    assert_eq!(mem.peek(&event(3)).as_deref(), Some(OURS), "{when}: event 3 is brought back");
    let left = ledger(disk).and_then(|ledger| ledger.doctor(false, &mut |_, _| {})).expect("looked at").value;
    assert_eq!(left, [], "{when}: something is left to do");
    assert_eq!(mem.peek("ledger.lock"), None, "{when}: the lock is free");
}

fn calls() -> usize {
    let disk = Arc::new(FaultDisk::counting(Arc::new(patient())));
    let problems = mend(disk.clone()).expect("nothing goes wrong");
    assert_eq!(problems.len(), 4, "{problems:?}");
    disk.calls()
}

#[test]
fn whatever_fails_nothing_is_lost() {
    for at in 0..calls() {
        for fault in [Fault::Errno(EIO), Fault::Torn(EIO)] {
            let mem = patient();
            let _ = mend(Arc::new(FaultDisk::new(Arc::new(mem.clone()), at, fault)));
            let when = format!("call {at}, {fault:?}");
            nothing_is_lost(&mem, &when);
            the_next_one_finishes(&mem, &when);
        }
    }
}

#[test]
fn whoever_is_killed_loses_nothing() {
    for at in 0..calls() {
        for fault in [Fault::DieBefore, Fault::DieAfter] {
            let mem = patient();
            let _ = mend(Arc::new(FaultDisk::new(Arc::new(mem.clone()), at, fault)));
            mem.drop_locks();
            let when = format!("call {at}, {fault:?}");
            nothing_is_lost(&mem, &when);
            the_next_one_finishes(&mem, &when);
        }
    }
}

#[test]
fn a_power_cut_loses_nothing() {
    for at in 0..calls() {
        for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
            let mem = patient();
            let _ = mend(Arc::new(FaultDisk::new(Arc::new(mem.clone()), at, Fault::DieAfter)));
            mem.power_cut(cut);
            let when = format!("call {at}, {cut:?}");
            nothing_is_lost(&mem, &when);
        }
    }
}
