//! Holds that end by themselves, or are taken away.

use lokt_core::decide::Cause;
use lokt_core::denial::Denial;

use super::{World, callers};

/// Force takes a hold from its guard, which learns of it.
pub fn force_takes_a_hold_from_its_guard(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let ended = bob.forces("x").expect("force takes everything");
    assert_eq!(ended.cause, Cause::ForceBreak, "it was broken");
    assert!(alice.renews(&held).is_err(), "it was taken away");
    assert!(matches!(alice.releases(&held), Err(Denial::Lost(None))), "it was taken away");
    bob.guards("x").expect("x is free");
}

/// The death of a guard frees its name.
pub fn a_guard_whose_process_dies_frees_its_name(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    alice.dies([held]);
    let held = bob.guards("x").expect("alice is dead");
    assert_eq!(held.hold.owner, "bob", "it is bob's");
}

/// A lock ends with its TTL and not before.
pub fn a_lock_ends_with_its_ttl(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 10).expect("x is free");
    alice.locks("endless", 0).expect("it is free");
    world.pass(8);
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "it has two seconds left");
    world.pass(4);
    bob.locks("x", 0).expect("its lease is over");
    world.pass(100_000);
    assert!(matches!(bob.locks("endless", 0), Err(Denial::Held(_))), "it has no end");
}

/// A guard with a TTL that isn't renewed ends.
pub fn a_guard_that_is_not_renewed_ends(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards_for("x", 10).expect("x is free");
    world.pass(8);
    assert!(matches!(bob.guards("x"), Err(Denial::Held(_))), "it has two seconds left");
    world.pass(4);
    let _new = bob.guards("x").expect("its lease is over");
    assert!(alice.renews(&held).is_err(), "bob has it");
}

/// A guard that is renewed lasts.
pub fn a_guard_that_is_renewed_lasts(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards_for("x", 10).expect("x is free");
    for _ in 0..5 {
        world.pass(8);
        alice.renews(&held).expect("it is alice's");
    }
    assert!(matches!(bob.guards("x"), Err(Denial::Held(_))), "it was renewed");
    assert_eq!(bob.sees("x").slot.hold().and_then(|hold| hold.token), held.hold.token, "under its token");
    alice.releases(&held).expect("it is alice's");
}

/// A renewal that comes too late is told who has the name.
pub fn a_renewal_tells_who_has_the_name_now(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards_for("x", 10).expect("x is free");
    world.pass(12);
    let _new = bob.guards("x").expect("its lease is over");
    assert_eq!(alice.renews(&held), Err(Some("bob".into())), "bob has it");
}
