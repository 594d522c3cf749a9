//! What a store shows.

use std::sync::Mutex;

use lokt_core::checkup::{Check, Status};
use lokt_named::store::{Call, Depth, Scan, Target, View};

use super::caller::{answered, failed};
use super::{World, callers};

/// One look shows holder, freeze and queue.
pub fn a_look_shows_holder_freeze_and_queue(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let _waiting = bob.waits_for(&["x"]);
    carol.freezes("x", 0).expect("nothing freezes it");
    let view = carol.sees("x");
    assert_eq!(view.slot.hold().map(|hold| &hold.lock_id), Some(&held.hold.lock_id), "the holder");
    assert!(view.slot.holder().is_some_and(lokt_core::denial::Holder::lives), "it lives");
    assert!(view.frozen.is_some(), "the freeze");
    assert_eq!((view.waiting, view.queue.len()), (1, 1), "the queue");
}

/// A scan shows every name of its kind, in order, and no other.
pub fn a_scan_shows_every_name_of_its_kind(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    for text in ["b", "a", "a-b"] {
        alice.locks(text, 0).expect("it is free");
    }
    alice.freezes("f", 0).expect("nothing freezes it");
    let _waiting = bob.waits_for(&["b"]);
    let names = |of: Scan| -> Vec<String> {
        let names = answered(bob.store().names(of, &Call::UNLIMITED));
        names.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names(Scan::Held), ["a", "a-b", "b"], "what is held");
    assert_eq!(names(Scan::Frozen), ["f"], "what is frozen");
    assert_eq!(names(Scan::Awaited), ["b"], "what is awaited");
    let seen = Mutex::new(Vec::new());
    let see = |number: usize, name: &lokt_core::name::LockName, view: View| {
        let view = answered(view.readable(name, Target::Lock));
        let owner = view.slot.hold().map(|hold| hold.owner.clone());
        seen.lock().expect("no panic").push((number, name.to_string(), owner));
    };
    answered(bob.store().scan(Scan::Held, Depth::ENTRY, &Call::UNLIMITED, &see));
    let mut seen = seen.into_inner().expect("no panic");
    seen.sort_unstable();
    let alice = Some("alice".to_owned());
    let expected = [(0, "a".into(), alice.clone()), (1, "a-b".into(), alice.clone()), (2, "b".into(), alice)];
    assert_eq!(seen, expected, "each with its holder");
}

/// A look changes nothing, however often it is taken.
pub fn a_look_changes_nothing(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let told = bob.history().len();
    for _ in 0..3 {
        assert_eq!(bob.sees("x").slot.hold().and_then(|hold| hold.token), held.hold.token, "it is alice's");
        assert!(bob.sees("y").slot.hold().is_none(), "y is free");
    }
    assert_eq!(bob.history().len(), told, "nothing was told");
    alice.releases(&held).expect("it is alice's");
}

/// A checkup of a store that is used finds nothing wrong and changes nothing.
pub fn a_checkup_of_a_store_in_use_finds_nothing_wrong(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let _waiting = bob.waits_for(&["x"]);
    carol.freezes("y", 0).expect("nothing freezes it");
    let told = bob.history().len();
    let mut checks: Vec<Check> = Vec::new();
    answered(bob.store().checkup(false, &Call::UNLIMITED, &mut |check| checks.push(check)));
    assert!(!checks.is_empty(), "something is checked");
    if let Some(wrong) = checks.iter().find(|check| check.status() != Status::Ok) {
        // On a disk that fails, a check may say so.
        failed(&format!("nothing is wrong, but it found {wrong:?}"));
    }
    assert_eq!(bob.history().len(), told, "nothing was told");
    alice.releases(&held).expect("it is alice's");
}
