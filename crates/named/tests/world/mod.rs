//! A small world for the fault tests: one disk in memory, one fake machine, a few owners, and every change that a command can make.

use std::sync::Arc;

use lokt_core::decide::{Breaking, Terms};
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::record::{self, Parsed};
use lokt_named::{Condition, End, Grant, Lokt};
use lokt_sys::disk::Disk;
use lokt_sys::error::Error;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;

pub(crate) const RECORD: &str = "locks/x.json";

pub(crate) fn name() -> LockName {
    LockName::new("x").expect("a good name")
}

pub(crate) fn ttl(secs: u64) -> Terms {
    Terms { ttl_sec: Some(secs), reason: None }
}

/// One disk and one machine.
pub(crate) struct World {
    pub(crate) mem: MemDisk,
    pub(crate) machine: Arc<FakeMachine>,
    pub(crate) boot: u32,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { mem: MemDisk::new(), machine: Arc::new(FakeMachine::new()), boot: 1 }
    }

    /// `owner` at work on the healthy disk.
    pub(crate) fn lokt(&self, owner: &str) -> Lokt {
        self.lokt_on(owner, Arc::new(self.mem.clone()))
    }

    /// `owner` at work on a disk that wraps this world's.
    pub(crate) fn lokt_on(&self, owner: &str, disk: Arc<dyn Disk>) -> Lokt {
        Lokt::with("/root-of-the-test".as_ref(), disk, self.machine.clone(), somebody(owner, self.boot))
    }

    /// `owner` takes the lock; it must be granted. Gives the token.
    pub(crate) fn take(&self, owner: &str, terms: Terms) -> u64 {
        match self.lokt(owner).take(&name(), terms) {
            Ok(said) => match said.value {
                Grant::Granted(granted) => granted.hold.token.expect("every new hold has one").get(),
                other => panic!("{owner} was refused: {other:?}"),
            },
            Err(error) => panic!("{owner} could not lock: {error}"),
        }
    }

    /// The stored hold. Anything that is neither nothing nor a whole record breaks whole-records.
    pub(crate) fn stored(&self) -> Option<Hold> {
        self.mem.peek(RECORD).map(|bytes| match record::parse(&bytes) {
            Parsed::Hold(hold) => *hold,
            other => panic!("whole-records: the record is {other:?}, {} bytes", bytes.len()),
        })
    }

    /// Like [`Self::stored`], but what a power cut emptied is nothing.
    pub(crate) fn stored_after_power_cut(&self) -> Option<Hold> {
        match self.mem.peek(RECORD) {
            Some(bytes) if bytes.is_empty() => None,
            _ => self.stored(),
        }
    }
}

/// What a command said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Granted { lock_id: String, token: u64 },
    Ended,
    Refused,
    Failed,
}

/// A change that a command makes, and the world it is made in.
pub(crate) struct Scenario {
    pub(crate) title: &'static str,
    pub(crate) prepare: fn(&World),
    pub(crate) act: fn(&Lokt) -> Result<Said, Error>,
}

fn grant(said: lokt_sys::warnings::WithWarnings<Grant>) -> Said {
    match said.value {
        Grant::Granted(granted) => Said::Granted {
            lock_id: granted.hold.lock_id.to_string(),
            token: granted.hold.token.expect("every new hold has one").get(),
        },
        Grant::Denied(_) | Grant::Interrupted => Said::Refused,
    }
}

fn end(said: &lokt_sys::warnings::WithWarnings<End>) -> Said {
    match &said.value {
        End::Ended(_) => Said::Ended,
        End::Denied(_) => Said::Refused,
    }
}

fn unlock(lokt: &Lokt, breaking: Breaking) -> Result<Said, Error> {
    lokt.unlock(&name(), breaking, Condition::default()).map(|said| end(&said))
}

/// Every change, always made by the owner `actor`.
pub(crate) const SCENARIOS: [Scenario; 17] = [
    Scenario { title: "lock in a new root", prepare: |_| {}, act: |lokt| lokt.take(&name(), ttl(300)).map(grant) },
    Scenario {
        title: "lock a name that was used before",
        prepare: |world| {
            world.take("actor", ttl(300));
            unlock(&world.lokt("actor"), Breaking::No).expect("the healthy disk works");
        },
        act: |lokt| lokt.take(&name(), ttl(300)).map(grant),
    },
    Scenario {
        title: "lock over another owner's live hold",
        prepare: |world| {
            world.take("other", ttl(300));
        },
        act: |lokt| lokt.take(&name(), ttl(300)).map(grant),
    },
    Scenario {
        title: "lock over another owner's expired hold",
        prepare: |world| {
            world.take("other", ttl(10));
            world.machine.advance_secs(11);
        },
        act: |lokt| lokt.take(&name(), ttl(300)).map(grant),
    },
    Scenario {
        title: "lock over a corrupt record",
        prepare: |world| {
            world.take("other", ttl(10));
            world.mem.plant(RECORD, b"{not json");
        },
        act: |lokt| lokt.take(&name(), ttl(300)).map(grant),
    },
    Scenario {
        title: "refresh one's own live hold",
        prepare: |world| {
            world.take("actor", ttl(300));
            world.machine.advance_secs(5);
        },
        act: |lokt| lokt.take(&name(), ttl(600)).map(grant),
    },
    Scenario {
        title: "refresh one's own live record of an old program",
        prepare: |world| {
            world.machine.start_process(77, 1);
            let who =
                r#""version":1,"name":"x","lock_id":"0f","owner":"actor","host":"fake","pid":77,"pid_start_ns":1"#;
            world.mem.plant(RECORD, format!(r#"{{{who},"acquired_ts":"2026-01-01T11:59:00Z"}}"#).as_bytes());
        },
        act: |lokt| lokt.take(&name(), ttl(600)).map(grant),
    },
    Scenario {
        title: "refresh one's own expired hold",
        prepare: |world| {
            world.take("actor", ttl(10));
            world.machine.advance_secs(11);
        },
        act: |lokt| lokt.take(&name(), ttl(300)).map(grant),
    },
    Scenario {
        title: "unlock one's own hold",
        prepare: |world| {
            world.take("actor", ttl(300));
        },
        act: |lokt| unlock(lokt, Breaking::No),
    },
    Scenario {
        title: "unlock another owner's hold",
        prepare: |world| {
            world.take("other", ttl(300));
        },
        act: |lokt| unlock(lokt, Breaking::No),
    },
    Scenario {
        title: "force another owner's hold",
        prepare: |world| {
            world.take("other", ttl(300));
        },
        act: |lokt| unlock(lokt, Breaking::Force),
    },
    Scenario {
        title: "break another owner's stale hold",
        prepare: |world| {
            world.take("other", ttl(10));
            world.machine.advance_secs(11);
        },
        act: |lokt| unlock(lokt, Breaking::Stale),
    },
    Scenario {
        title: "unlock all of one's own",
        prepare: |world| {
            world.take("actor", ttl(300));
            for before_and_after in ["a", "z"] {
                let name = LockName::new(before_and_after).expect("a good name");
                world.lokt("actor").take(&name, ttl(300)).map(grant).expect("the healthy disk works");
            }
        },
        act: |lokt| {
            let ended = lokt.unlock_owner("actor")?.value.released.iter().any(|ended| ended == "x");
            Ok(if ended { Said::Ended } else { Said::Refused })
        },
    },
    Scenario {
        title: "bind to a process",
        prepare: |world| world.machine.start_process(77, 1),
        act: |lokt| lokt.bind(&name(), ttl(300), 77).map(grant),
    },
    Scenario {
        title: "refresh one's own live hold of the boot before",
        prepare: |world| {
            let disk = Arc::new(world.mem.clone());
            let before = Lokt::with("/root-of-the-test".as_ref(), disk, world.machine.clone(), somebody("actor", 0));
            before.take(&name(), ttl(300)).map(grant).expect("the healthy disk works");
            world.machine.reboot();
        },
        act: |lokt| lokt.take(&name(), ttl(600)).map(grant),
    },
    Scenario {
        title: "refresh one's own live hold by binding a process",
        prepare: |world| {
            world.take("actor", ttl(300));
            world.machine.start_process(77, 1);
        },
        act: |lokt| lokt.bind(&name(), ttl(300), 77).map(grant),
    },
    Scenario {
        title: "lock beside a process that is bound",
        prepare: |world| {
            world.machine.start_process(77, 1);
            world.lokt("actor").bind(&name(), ttl(300), 77).expect("the healthy disk works");
        },
        act: |lokt| lokt.take(&name(), ttl(300)).map(grant),
    },
];
