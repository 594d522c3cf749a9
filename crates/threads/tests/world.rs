//! A disk, a machine and a clock for one schedule, and who works there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lokt::{Condition, Grant, Held, Holding, Lokt};
use lokt_core::decide::{Breaking, Terms};
use lokt_core::name::LockName;
use lokt_sys::disk::Disk;
use lokt_sys::error::Error;
use lokt_sys::threads::{Time, let_joins_wait};
use lokt_sys::wait_policy::WaitPolicy;

use crate::testkit::hook_disk::HookDisk;
use crate::testkit::machine::{FakeMachine, somebody};
use crate::testkit::mem_disk::MemDisk;

pub(crate) struct World {
    pub(crate) disk: MemDisk,
    machine: Arc<FakeMachine>,
    pub(crate) time: Arc<Time>,
    /// Alice's hold has ended: nothing of hers may touch the disk any more.
    ended: Arc<AtomicBool>,
}

pub(crate) fn name() -> LockName {
    LockName::new("x").expect("a good name")
}

impl World {
    pub(crate) fn new() -> Self {
        let_joins_wait(true);
        let machine = Arc::new(FakeMachine::new());
        machine.start_process(4242, 7);
        let clock = Arc::clone(&machine);
        let passes = move |passed: Duration| clock.advance_ms(u64::try_from(passed.as_millis()).expect("a short test"));
        Self { disk: MemDisk::new(), machine, time: Time::begin(passes), ended: Arc::default() }
    }

    pub(crate) fn lokt(&self, owner: &str) -> Lokt {
        self.lokt_on(owner, Arc::new(self.disk.clone()))
    }

    pub(crate) fn lokt_on(&self, owner: &str, disk: Arc<dyn Disk>) -> Lokt {
        Lokt::with("/root-of-the-test".as_ref(), disk, self.machine.clone(), somebody(owner, 1))
    }

    /// Alice holds `x`, under a lease if she is to renew it.
    pub(crate) fn alices(&self, ttl: Option<Duration>) -> Held {
        let ended = Arc::clone(&self.ended);
        let hook = move |call: &str, path: &str| {
            assert!(!ended.load(Ordering::Relaxed), "no renewal comes after a release: {call} {path}");
            Ok(())
        };
        let alice = self.lokt_on("alice", Arc::new(HookDisk::watched(Arc::new(self.disk.clone()), Arc::new(hook))));
        held(&alice, ttl).expect("the disk works").expect("it is free")
    }

    /// From now on nothing of Alice's touches the disk.
    pub(crate) fn alices_has_ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Carol forces the lock away from whoever has it and takes it herself.
    pub(crate) fn carol_takes_it(&self) {
        let carol = self.lokt("carol");
        carol.unlock(&name(), Breaking::Force, Condition::default()).expect("the disk works");
        let said = carol.take(&name(), Terms::default()).expect("the disk works");
        assert!(matches!(said.value, Grant::Granted(_)), "nobody else wants it: {:?}", said.value);
    }

    /// What happened, in order.
    fn events(&self) -> Vec<String> {
        let log = String::from_utf8(self.disk.peek("audit.log").unwrap_or_default()).expect("a log is text");
        let event = |line: &str| line.split("\"event\":\"").nth(1)?.split('"').next().map(str::to_owned);
        log.lines().map(|line| event(line).expect("a line names its event")).collect()
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|other| *other == event).count()
    }

    /// The hold was given back once and for all.
    pub(crate) fn was_released_once(&self) {
        let events = self.events();
        assert_eq!(self.count("acquire"), 1, "it was acquired once: {events:?}");
        assert_eq!(self.count("release"), 1, "it was released once: {events:?}");
        assert_eq!(events.last().map(String::as_str), Some("release"), "nothing comes after the release");
        for dir in ["locks", "state/held", "state/line", "state/tmp"] {
            assert_eq!(self.disk.below(dir), [] as [String; 0], "nothing is left in {dir}");
        }
    }

    /// No-lost-thief: Carol has it, whatever Alice did.
    pub(crate) fn is_carols(&self) {
        let record = self.disk.peek("locks/x.json").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let record = record.expect("no-lost-thief: carol's hold is still there");
        assert!(record.contains("\"carol\""), "no-lost-thief: it is carol's: {record}");
    }
}

/// Holds `x`, under a lease if one is given. `None`: it was refused.
pub(crate) fn held(lokt: &Lokt, ttl: Option<Duration>) -> Result<Option<Held>, Error> {
    let terms = Terms { ttl_sec: ttl.map(|ttl| ttl.as_secs()), reason: None };
    match lokt.hold(&[LockName::new("x").expect("a good name")], &terms, &mut WaitPolicy::none())?.value {
        Holding::Held(mut held) => Ok(held.pop()),
        Holding::Denied { .. } => Ok(None),
        Holding::Interrupted => unreachable!("nothing interrupts it"),
    }
}
