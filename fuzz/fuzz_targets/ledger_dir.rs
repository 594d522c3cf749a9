//! Any bytes in any file of a ledger's directory, and then every command on it: never a panic, no event is lost or changed, and what was
//! acknowledged is there.
//!
//! The input is a list of files, separated by NUL: the first byte says which file, the rest is what is in it.
#![cfg_attr(fuzzing, no_main)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use lokt_core::fnv::{fnv1a_32, fnv1a_64};
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;
use lokt_ledger::{AppendTerms, Appending, ClaimTerms, Claiming, Ledger, LockPatience, Slot};
use lokt_sys::machine::{Machine, ProcessStat};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;

const FILES: [&str; 18] = [
    "event-000001.json",
    "event-000002.json",
    "event-000003.json",
    "event-000005.json",
    "000001.json",
    "000002.json",
    "ledger.lock",
    ".lokt/settings.json",
    ".lokt/head",
    ".lokt/fold.json",
    ".lokt/ids",
    ".lokt/wary",
    ".lokt/sighting",
    ".lokt/kept/1",
    ".lokt/aside/kept-1",
    ".event-1.tmp",
    "/meta.json",
    "/locks/1.lock",
];
const FILES_MAX: usize = 16;

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

fuzz_target!(|bytes: &[u8]| {
    let (mem, above) = (MemDisk::new(), MemDisk::new());
    for file in bytes.split(|byte| *byte == 0).take(FILES_MAX) {
        let Some((which, content)) = file.split_first() else { continue };
        let path = FILES[usize::from(*which) % FILES.len()];
        match path {
            // Nobody guesses a check sum; what has the right one may still say anything.
            ".lokt/head" => mem.plant(path, &[format!("{:08x} ", fnv1a_32(content)).as_bytes(), content].concat()),
            ".lokt/fold.json" => {
                let head = format!("lokt-fold {:016x}\n", fnv1a_64(content));
                mem.plant(path, &[head.as_bytes(), content].concat());
            }
            _ => match path.strip_prefix('/') {
                Some(path) => above.plant(path, content),
                None => mem.plant(path, content),
            },
        }
    }
    let machine = Arc::new(Ticking(FakeMachine::new()));
    let (disk, me) = (Arc::new(mem.clone()), somebody("alice", 1));
    let Ok(ledger) = Ledger::on("/dir".as_ref(), disk, Arc::new(above), machine, me) else { return };
    // Whoever waits for a foreign lock waits for real; who has no patience goes by what was seen before.
    let ledger = ledger.patient(LockPatience { timeout: Duration::ZERO, poll: Duration::ZERO });
    let before: Vec<_> = FILES[..6].iter().map(|path| (*path, mem.peek(path))).collect();
    looks(&ledger);
    appends(&ledger);
    claims(&ledger);
    looks(&ledger);
    // The doctor watches a foreign lock for a second of real time.
    let is_locked = mem.peek("ledger.lock").is_some();
    let doctor = |fix| (!is_locked).then(|| ledger.doctor(fix, &mut |_, _| ()));
    let _ = doctor(false);
    for (path, content) in before.into_iter().filter(|(_, content)| content.is_some()) {
        assert_eq!(mem.peek(path), content, "no-overwrite: {path}");
    }
    let _ = doctor(true);
    looks(&ledger);
});

/// Whatever only looks.
fn looks(ledger: &Ledger) {
    let _ = (ledger.head(), ledger.census(), ledger.gaps(), ledger.fold(), ledger.claims(), ledger.read(Seq::FIRST));
    let _ = ledger.verify(None, &mut |_, _| ());
}

fn appends(ledger: &Ledger) {
    let draft = Draft::parse(br#"{"type":"node_created","node":{"id":"1"},"k":7}"#).expect("an event");
    for id in [None, Some("key"), Some("key")] {
        let terms = AppendTerms { id, chain: true, ..AppendTerms::default() };
        let Ok(said) = ledger.append(&draft, &terms) else { return };
        let Appending::Appended(appended) = said.value else { continue };
        // A key that others used may name anything.
        if !appended.duplicate {
            let there = ledger.read(appended.last).expect("memory doesn't fail");
            assert!(matches!(&there, Slot::Event(_)), "an acknowledged event is not there: {appended:?}: {there:?}");
        }
    }
}

fn claims(ledger: &Ledger) {
    let terms = ClaimTerms { ttl_sec: Some(600), force: true, ..ClaimTerms::default() };
    let nodes = ["1".to_owned()];
    let Ok(said) = ledger.take(&nodes, &terms, &mut WaitPolicy::none()) else { return };
    if let Claiming::Claimed(claimed) = said.value {
        let _ = ledger.extend(&claimed.node, None, &terms);
        let _ = ledger.release(&claimed.node, None, &terms);
    }
    let _ = ledger.reap(&terms);
}
