//! What the audit log says of a hold is what its record says.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lokt_core::decide::Terms;
use lokt_core::name::LockName;
use lokt_core::time::{Moment, plus_millis};
use lokt_named::{Grant, Lokt};
use lokt_sys::machine::{Linux, Machine, ProcessStat, identity};
use lokt_sys::os_disk::OsDisk;
use lokt_testkit::held::held;
use serde_json::Value;

/// The time that passes between two looks at a clock. A prepared record is looked at a second time.
const STEP_MS: u64 = 300;

/// A machine that is slow: whenever it is asked, time has passed.
#[derive(Default)]
struct Slow {
    late_ms: AtomicU64,
}

impl Slow {
    fn wait(&self, ms: u64) -> u64 {
        self.late_ms.fetch_add(ms, Ordering::SeqCst) + ms
    }
}

impl Machine for Slow {
    fn now(&self) -> Moment {
        let (now, late_ms) = (Linux.now(), self.wait(STEP_MS));
        Moment {
            wall: plus_millis(now.wall, late_ms),
            monotonic_ms: now.monotonic_ms + late_ms,
            boottime_ms: now.boottime_ms + late_ms,
        }
    }

    fn random(&self) -> io::Result<u128> {
        Linux.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        Linux.process(pid)
    }
}

/// The lease that the record of `name` has.
fn recorded(root: &Path, name: &LockName) -> Value {
    let bytes = std::fs::read(root.join(format!("locks/{name}.json"))).expect("it is held");
    let record: Value = serde_json::from_slice(&bytes).expect("a record is JSON");
    record["ttl_sec"].clone()
}

/// The last event that the log has, and its lease.
fn told(root: &Path) -> (String, Value) {
    let log = std::fs::read_to_string(root.join("audit.log")).expect("there is a log");
    let event: Value = serde_json::from_str(log.lines().last().expect("something happened")).expect("a line is JSON");
    (event["event"].as_str().unwrap_or_default().to_owned(), event["ttl_sec"].clone())
}

#[test]
fn a_lease_that_was_written_before_it_was_stored_is_told_as_it_is_stored() {
    let dir = tempfile::tempdir().expect("there is room");
    let root = dir.path().join("root");
    let (disk, _) = OsDisk::create(&root).expect("it can be made");
    let machine = Arc::new(Slow::default());
    let lokt = Lokt::with(&root, Arc::new(disk), machine.clone(), identity("alice".into(), None));
    for n in 0..10 {
        let name = LockName::new(&format!("n{n}")).expect("a name");
        let terms = Terms { ttl_sec: Some(60), reason: None };
        let taken = lokt.take(&name, terms).expect("the disk works").value;
        assert!(matches!(taken, Grant::Granted(_)), "nobody else wants it");
        machine.wait(n * 100);
        // Its lease is the rest of the owner's, in whole seconds.
        let joined = held(&lokt, name.as_str(), &Terms::default()).expect("the disk works");
        let held = joined.expect("an owner joins the own hold");
        assert_eq!(told(&root), ("renew".into(), recorded(&root, &name)), "{name} is joined");
        held.release().expect("it is held");
        assert_eq!(told(&root), ("release".into(), recorded(&root, &name)), "{name} goes on for its owner");
    }
}
