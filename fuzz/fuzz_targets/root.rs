//! Any bytes in any file of a root, and then every command on it: never a panic, nothing torn, one holder, tokens that grow.
//!
//! The input is a list of files, separated by NUL: the first byte says which file, the rest is what is in it.
#![cfg_attr(fuzzing, no_main)]

use std::ops::ControlFlow;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use lokt_core::decide::{Breaking, Terms};
use lokt_core::fnv::fnv1a_32;
use lokt_core::name::LockName;
use lokt_core::record::{self, Parsed};
use lokt_named::{Condition, Grant, Lokt};
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;

const RECORD: &str = "locks/x.json";
const FILES: [&str; 12] = [
    RECORD,
    "locks/freeze-x.json",
    "freezes/x.json",
    "freezes/y.json",
    "state/ceiling",
    "state/next",
    "state/line/x/3",
    "state/line/x/4",
    "state/held/3",
    "audit.log",
    "audit.log.1",
    "locks/y.json",
];
/// A root takes about a millisecond for each.
const FILES_MAX: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let mem = MemDisk::new();
    for file in bytes.split(|byte| *byte == 0).take(FILES_MAX) {
        let Some((which, content)) = file.split_first() else { continue };
        let path = FILES[usize::from(*which) % FILES.len()];
        // Nobody guesses a check sum; a counter that is well formed may still say anything.
        match path {
            "state/next" => mem.plant(path, &[content, format!(" {:08x}\n", fnv1a_32(content)).as_bytes()].concat()),
            _ => mem.plant(path, content),
        }
    }
    let machine = Arc::new(FakeMachine::new());
    machine.start_process(100, 1000);
    let lokt = |owner| Lokt::with("/root".as_ref(), Arc::new(mem.clone()), machine.clone(), somebody(owner, 1));
    let (alice, bob) = (lokt("alice"), lokt("bob"));
    let name = LockName::new("x").expect("a good name");
    looks(&alice, &name);
    let first = taken(&alice, &name);
    let second = taken(&bob, &name);
    if let Some(token) = first {
        assert_eq!(second, None, "one-holder: bob was let in beside alice");
        let Some(Parsed::Hold(hold)) = mem.peek(RECORD).map(|bytes| record::parse(&bytes)) else {
            panic!("whole-records: what alice took is no record")
        };
        assert_eq!(
            (hold.owner.as_str(), hold.token.map(lokt_core::hold::Fence::get)),
            ("alice", Some(token)),
            "it is hers"
        );
    }
    ends(&alice, &bob, &name);
    looks(&bob, &name);
    if let (Some(before), Some(after)) = (first.or(second), taken(&bob, &name)) {
        assert!(after > before, "token-order: {after} was given after {before}");
    }
});

/// Whatever only looks.
fn looks(lokt: &Lokt, name: &LockName) {
    let _ = (lokt.inspect().outlook(name), lokt.inspect().entry(name), lokt.inspect().queue(name), lokt.inspect().known_names(), lokt.inspect().exists(name));
    let _ = (lokt.freezes().frozen(name), lokt.freezes().still_held(name), lokt.check_token(name, 7_u64));
    let _ = lokt.inspect().history(&mut |_| ControlFlow::Continue(()));
}

/// Takes it, and gives the token of what is a new hold.
fn taken(lokt: &Lokt, name: &LockName) -> Option<u64> {
    match lokt.take(name, Terms { ttl_sec: Some(60), reason: None }).ok()?.value {
        Grant::Granted(granted) => granted.hold.token.map(lokt_core::hold::Fence::get),
        _ => None,
    }
}

fn ends(alice: &Lokt, bob: &Lokt, name: &LockName) {
    let _ = alice.freezes().freeze(name, Terms::default());
    let _ = (bob.prune_all(), bob.unlock(name, Breaking::Stale, Condition::default()), bob.unlock_owner("carol"));
    let _ = (alice.unlock(name, Breaking::No, Condition::default()), alice.freezes().unfreeze(name, true));
    let _ = bob.unlock(name, Breaking::Force, Condition::default());
}
