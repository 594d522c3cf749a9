//! A ledger in memory, and every way to add events to it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lokt_core::hold::Identity;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;
use lokt_core::ledger::writer_lock::{LOCK, Note};
use lokt_core::time::Moment;
use lokt_ledger::{AppendTerms, Appending, ClaimTerms, Claiming, Ledger, LockPatience, Releasing};
use lokt_sys::disk::Disk;
use lokt_sys::error::Error;
use lokt_sys::machine::{Machine, ProcessStat};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::{MemDisk, PowerCut};

/// Number and text of events that were acknowledged.
pub(crate) type Acks = Vec<(u64, String)>;

/// So many events are there before a scene.
pub(crate) const BEFORE: u64 = 3;
pub(crate) const KEYED: &str = "append with a key";
const STATE: &str = ".lokt";
const NODE: &str = "n";

/// A way to add events, and the ledger it is done in.
pub(crate) struct Scene {
    pub(crate) title: &'static str,
    pub(crate) prepare: fn(&World),
    pub(crate) act: fn(&Ledger) -> Result<Acks, Error>,
    /// It finds a lock that somebody left behind.
    pub(crate) finds_lock: bool,
    /// That was another program, which may come back.
    pub(crate) takes_over: bool,
}

/// Time passes whenever somebody looks: nobody waits in vain.
struct Ticking(FakeMachine);

impl Machine for Ticking {
    fn now(&self) -> Moment {
        self.0.advance_secs(1);
        self.0.now()
    }

    fn random(&self) -> io::Result<u128> {
        self.0.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        self.0.process(pid)
    }
}

pub(crate) struct World {
    pub(crate) mem: MemDisk,
    machine: Arc<Ticking>,
    boot: u32,
    /// The events that were there before the scene.
    before: Mutex<Acks>,
    /// What another program does while a lock is being taken over.
    meanwhile: Mutex<Option<fn(&MemDisk)>>,
}

fn file(number: u64) -> String {
    Style::Documented.file_name(Seq::new(number).expect("the number of an event"))
}

impl World {
    pub(crate) fn new() -> Self {
        let machine = Arc::new(Ticking(FakeMachine::new()));
        Self { mem: MemDisk::new(), machine, boot: 1, before: Mutex::default(), meanwhile: Mutex::default() }
    }

    /// The disk on which the scene is played.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        let mem = self.mem.clone();
        let Some(meanwhile) = *self.meanwhile.lock().expect("no test panicked with it") else { return Arc::new(mem) };
        let is_done = AtomicBool::new(false);
        let hook = move |call: &str, _: &str| {
            if call == "exchange" && !is_done.swap(true, Ordering::SeqCst) {
                meanwhile(&mem);
            }
            Ok(())
        };
        Arc::new(HookDisk::new(Arc::new(self.mem.clone()), Arc::new(hook)))
    }

    pub(crate) fn ledger(&self, owner: &str) -> Ledger {
        self.ledger_on(owner, Arc::new(self.mem.clone())).expect("the healthy disk works")
    }

    pub(crate) fn ledger_on(&self, owner: &str, disk: Arc<dyn Disk>) -> Result<Ledger, Error> {
        let (above, me) = (Arc::new(MemDisk::new()), somebody(owner, self.boot));
        let ledger = Ledger::on("/dir-of-the-test".as_ref(), disk, above, self.machine.clone(), me)?;
        Ok(ledger.patient(LockPatience { timeout: Duration::from_secs(600), poll: Duration::from_millis(1) }))
    }

    /// What is there now was acknowledged.
    pub(crate) fn remember(&self) {
        let events = self.events("before the scene");
        *self.before.lock().expect("no test panicked with it") = (1..).zip(events).collect();
    }

    /// Every event's text. A gap or a torn event fails the test.
    pub(crate) fn events(&self, context: &str) -> Vec<String> {
        let mut names = self.mem.list("").expect("memory doesn't fail");
        names.retain(|name| name.starts_with("event-"));
        let expected: Vec<String> = (1..=names.len() as u64).map(file).collect();
        assert_eq!(names, expected, "{context}: no gap");
        let text = |name: &String| {
            let bytes = self.mem.peek(name).expect("it was listed");
            Stored::parse(&bytes).unwrap_or_else(|error| panic!("{context}: {name} is torn: {error:?}: {bytes:?}"));
            String::from_utf8(bytes).expect("events are text")
        };
        names.iter().map(text).collect()
    }

    /// What was acknowledged is there and unchanged, no number is missing, nothing is torn.
    pub(crate) fn keeps(&self, acks: &Acks, context: &str) {
        let events = self.events(context);
        let before = self.before.lock().expect("no test panicked with it");
        for (number, text) in before.iter() {
            let there = events.get(usize::try_from(number - 1).expect("small"));
            assert_eq!(there, Some(text), "no-overwrite: {context}: event {number} was there before");
        }
        for (number, text) in acks {
            let there = events.get(usize::try_from(number - 1).expect("small"));
            let there = there.unwrap_or_else(|| panic!("no-overwrite: {context}: acknowledged {number} is lost"));
            assert!(there.contains(text), "no-overwrite: {context}: event {number} should say {text}: {there}");
        }
    }

    /// Somebody appends on the healthy disk.
    pub(crate) fn next(&self, context: &str) -> Acks {
        append(&self.ledger("next"), "next").unwrap_or_else(|error| panic!("{context}: the next append: {error}"))
    }

    /// The same for somebody who doesn't wait for long.
    pub(crate) fn next_within(&self, timeout: Duration, context: &str) -> Acks {
        let patience = LockPatience { timeout, poll: Duration::from_millis(1) };
        let done = append(&self.ledger("next").patient(patience), "next");
        done.unwrap_or_else(|error| panic!("{context}: the next append: {error}"))
    }

    /// Somebody of this boot dies inside.
    pub(crate) fn leave_lock(&self) {
        let dead = Identity { fs: self.mem.mount().fs, ..somebody("dead", self.boot) };
        self.mem.plant(LOCK, &Note::of(&dead, self.machine.now().wall, 7).render());
    }

    pub(crate) fn lock_is_free(&self, context: &str) {
        let there = self.mem.stamp(LOCK).expect("memory doesn't fail");
        assert_eq!(there, None, "{context}: the lock is free");
    }

    /// A writer whose lock was taken over goes on where it was: `mv` to the number it had counted, and `rm` of the lock.
    pub(crate) fn comes_back(&self, target: u64) {
        self.mem.plant(&file(target), br#"{"type":"late","timestamp":"2026-01-01T00:00:00Z"}"#);
        let _ = self.mem.remove(LOCK);
    }

    pub(crate) fn is_sound(&self, context: &str) {
        let said = self.ledger("reader").verify(None, &mut |_, _| {});
        let said = said.unwrap_or_else(|error| panic!("{context}: it can be read: {error}"));
        assert_eq!(said.value.problems, [], "{context}: something is wrong");
    }

    /// What was left in lokt's own state goes when everything is listed.
    pub(crate) fn is_tidy(&self, context: &str) {
        self.mem.delete(".lokt/head");
        self.next(context);
        let names = self.mem.list(STATE).expect("memory doesn't fail");
        let left: Vec<_> = names.iter().filter(|name| name.contains('-')).collect();
        assert!(left.is_empty(), "{context}: {left:?} is left");
    }

    pub(crate) fn power_cut(&mut self, cut: PowerCut) {
        self.mem.power_cut(cut);
        self.machine.0.reboot();
        self.boot += 1;
    }
}

fn note(text: &str) -> Draft {
    Draft::parse(format!(r#"{{"type":"note","text":"{text}"}}"#).as_bytes()).expect("an event")
}

fn said(text: &str) -> String {
    format!(r#""text":"{text}""#)
}

fn append(ledger: &Ledger, text: &str) -> Result<Acks, Error> {
    append_on(ledger, text, &AppendTerms::default())
}

fn append_on(ledger: &Ledger, text: &str, terms: &AppendTerms<'_>) -> Result<Acks, Error> {
    match ledger.append(&note(text), terms)?.value {
        Appending::Appended(done) => Ok(vec![(done.last.get(), said(text))]),
        Appending::Denied(unmet) => panic!("{unmet:?}"),
    }
}

fn batch(ledger: &Ledger) -> Result<Acks, Error> {
    let events: Vec<Draft> = (0..20).map(|nth| note(&format!("b{nth}"))).collect();
    match ledger.append_batch(&events, &AppendTerms::default(), &mut |_, _| {})?.value {
        Appending::Appended(done) => {
            Ok((done.first.get()..).zip((0..20).map(|nth| said(&format!("b{nth}")))).collect())
        }
        Appending::Denied(unmet) => panic!("{unmet:?}"),
    }
}

/// A claim, if it was granted.
fn take(ledger: &Ledger, ttl_sec: u64) -> Result<Acks, Error> {
    let terms = ClaimTerms { ttl_sec: Some(ttl_sec), ..ClaimTerms::default() };
    Ok(match ledger.take(&[NODE.to_owned()], &terms, &mut WaitPolicy::none())?.value {
        Claiming::Claimed(claimed) => vec![(claimed.seq.get(), format!(r#""owner":"{}""#, claimed.owner))],
        _ => Vec::new(),
    })
}

fn used(world: &World) {
    for number in 1..=BEFORE {
        append(&world.ledger("before"), &format!("e{number}")).expect("the healthy disk works");
    }
}

/// One of the events is a claim.
fn claimed(world: &World, owner: &str, ttl_sec: u64) {
    for number in 1..BEFORE {
        append(&world.ledger("before"), &format!("e{number}")).expect("the healthy disk works");
    }
    assert_eq!(take(&world.ledger(owner), ttl_sec).expect("the healthy disk works").len(), 1);
}

/// Some minutes pass.
fn later(world: &World) {
    world.machine.0.advance_secs(600);
}

const STALE: &[u8] = br#"{"agent_id":"go","acquired_at":"2026-01-01T00:00:00Z"}"#;

const RIVAL: &[u8] = br#"{"type":"lock_acquired","timestamp":"2026-01-01T12:00:00Z","node_id":"n","owner":"rival","expires_at":"2027-01-01T00:00:00Z"}"#;

pub(crate) const SCENES: [Scene; 16] = [
    Scene {
        title: "append to a new ledger",
        prepare: |_| {},
        act: |ledger| append(ledger, "x"),
        finds_lock: false,
        takes_over: false,
    },
    Scene { title: "append", prepare: used, act: |ledger| append(ledger, "x"), finds_lock: false, takes_over: false },
    Scene {
        title: "append if the head is as expected",
        prepare: used,
        act: |ledger| append_on(ledger, "x", &AppendTerms { expect: Some(BEFORE), ..AppendTerms::default() }),
        finds_lock: false,
        takes_over: false,
    },
    Scene {
        title: KEYED,
        prepare: used,
        act: |ledger| append_on(ledger, "x", &AppendTerms { id: Some("key"), ..AppendTerms::default() }),
        finds_lock: false,
        takes_over: false,
    },
    Scene {
        title: "append with the chain",
        prepare: used,
        act: |ledger| append_on(ledger, "x", &AppendTerms { chain: true, ..AppendTerms::default() }),
        finds_lock: false,
        takes_over: false,
    },
    Scene { title: "append many", prepare: used, act: batch, finds_lock: false, takes_over: false },
    Scene { title: "claim", prepare: used, act: |ledger| take(ledger, 600), finds_lock: false, takes_over: false },
    Scene {
        title: "claim what has expired",
        prepare: |world| {
            claimed(world, "other", 10);
            later(world);
        },
        act: |ledger| take(ledger, 600),
        finds_lock: false,
        takes_over: false,
    },
    Scene {
        title: "release",
        prepare: |world| claimed(world, "actor", 3_000),
        act: |ledger| match ledger.release(NODE, None, &ClaimTerms::default())?.value {
            Releasing::Released { seq, .. } => Ok(vec![(seq.get(), r#""type":"lock_released""#.to_owned())]),
            Releasing::Denied(refused) => panic!("{refused:?}"),
        },
        finds_lock: false,
        takes_over: false,
    },
    Scene {
        title: "reap",
        prepare: |world| {
            claimed(world, "other", 10);
            later(world);
        },
        act: |ledger| {
            let reaped = ledger.reap(&ClaimTerms::default())?.value;
            Ok(reaped.seq.map(|seq| (seq.get(), r#""type":"lock_reaped""#.to_owned())).into_iter().collect())
        },
        finds_lock: false,
        takes_over: false,
    },
    Scene {
        title: "append after one of us died inside",
        prepare: |world| {
            used(world);
            let note = Note::of(&somebody("dead", 1), world.machine.now().wall, 7);
            world.mem.plant(LOCK, &note.render());
        },
        act: |ledger| append(ledger, "x"),
        finds_lock: true,
        takes_over: false,
    },
    Scene {
        title: "append over a lock file that was left behind",
        prepare: |world| {
            used(world);
            world.mem.plant(LOCK, STALE);
        },
        act: |ledger| append(ledger, "x"),
        finds_lock: true,
        takes_over: true,
    },
    Scene {
        title: "append over a lock directory that was left behind",
        prepare: |world| {
            used(world);
            world.mem.make_dir(LOCK).expect("memory doesn't fail");
        },
        act: |ledger| append(ledger, "x"),
        finds_lock: true,
        takes_over: true,
    },
    Scene {
        title: "append many over a lock that was left behind",
        prepare: |world| {
            used(world);
            world.mem.plant(LOCK, STALE);
        },
        act: batch,
        finds_lock: true,
        takes_over: true,
    },
    Scene {
        title: "append with the chain over a lock that was left behind",
        prepare: |world| {
            used(world);
            world.mem.plant(LOCK, STALE);
        },
        act: |ledger| append_on(ledger, "x", &AppendTerms { chain: true, ..AppendTerms::default() }),
        finds_lock: true,
        takes_over: true,
    },
    Scene {
        title: "claim what is claimed meanwhile, over a lock that was left behind",
        prepare: |world| {
            used(world);
            world.mem.plant(LOCK, STALE);
            let claims: fn(&MemDisk) = |mem| mem.plant(&file(BEFORE + 1), RIVAL);
            *world.meanwhile.lock().expect("no test panicked with it") = Some(claims);
        },
        act: |ledger| {
            let acks = take(ledger, 600)?;
            assert_eq!(acks, [], "somebody else has it");
            Ok(acks)
        },
        finds_lock: true,
        takes_over: true,
    },
];
