//! Any bytes where a record should be: read without a panic; what is a hold survives a rewrite, and every command can decide about it.
#![cfg_attr(fuzzing, no_main)]

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use lokt_core::decide::{Breaking, Condition, Facts, Freeze, Intent, Line, Policy, Slot, Terms, decide};
use lokt_core::denial::Holder;
use lokt_core::hold::{Hold, Identity, LockId};
use lokt_core::liveness::Liveness;
use lokt_core::record::{Parsed, encode, parse};
use lokt_core::time::{Elapsed, Moment};

fuzz_target!(|bytes: &[u8]| {
    let Parsed::Hold(hold) = parse(bytes) else { return };
    let written = encode(&hold);
    let Parsed::Hold(again) = parse(&written) else { panic!("what was written is no hold: {written:?}") };
    assert_eq!(encode(&again), written, "a rewrite changes nothing more");
    decides(&hold);
});

fn decides(hold: &Hold) {
    let now = Moment {
        wall: Timestamp::from_second(1_800_000_000).expect("a time"),
        monotonic_ms: 90_000,
        boottime_ms: 95_000,
    };
    let me = Identity {
        owner: "alice".into(),
        host: "vm".into(),
        boot_id: hold.boot_id.clone(),
        boot_clocks: true,
        ..Identity::default()
    };
    let elapsed = Elapsed::of(hold, &now, &me);
    let id = LockId::from_bits(7);
    let terms = Terms { ttl_sec: Some(60), reason: None };
    for liveness in [Liveness::Alive, Liveness::Gone, Liveness::Orphan, Liveness::Unknown] {
        let freeze = Holder { hold: hold.clone(), liveness, elapsed };
        for frozen in [None, Some(Freeze::Known(&freeze)), Some(Freeze::Unreadable)] {
            let facts = Facts {
                slot: Slot::Held(hold),
                liveness,
                elapsed,
                frozen,
                line: Line::default(),
                fresh_id: &id,
                now,
            };
            for intent in [
                Intent::Lock(terms.clone()),
                Intent::Unlock(Breaking::No, Condition::default()),
                Intent::Unlock(Breaking::Stale, Condition::default()),
                Intent::Unlock(Breaking::Force, Condition::default()),
                Intent::UnlockFor(hold.owner.clone()),
                Intent::Prune,
                Intent::Freeze(terms.clone()),
                Intent::Unfreeze { force: true },
                Intent::Check(9.into()),
            ] {
                let _ = decide(&intent, facts, &me, &Policy::NAMED);
            }
        }
    }
}
