//! Joining, refreshing and reviving one's own hold.

use lokt_core::decide::{Cause, Intent};
use lokt_core::denial::Denial;
use lokt_core::hold::PartKind;
use lokt_named::store::Target;

use super::caller::token;
use super::{World, callers};

/// A lock of one's own gets a new end.
pub fn a_lock_is_refreshed_by_its_owner(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    alice.locks("x", 10).expect("x is free");
    world.pass(8);
    let refreshed = again.asks(Target::Lock, "x", Intent::Lock(super::caller::terms(10))).expect("it is alice's");
    assert_eq!(refreshed.cause, Cause::Renew, "it isn't a new hold");
    world.pass(8);
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "16 s after the first, 8 s after the second");
    world.pass(4);
    bob.locks("x", 0).expect("both leases are over");
}

/// A lock that is over lives again under its lock id, if its owner is the next to ask.
pub fn a_stale_lock_is_revived_under_its_lock_id(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let first = alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let second = alice.locks("x", 5).expect("nobody took it");
    assert_eq!(first.lock_id, second.lock_id, "it is revived");
    world.pass(6);
    let third = bob.locks("x", 5).expect("it is over");
    assert_ne!(third.lock_id, second.lock_id, "another owner's is a new hold");
}

/// A guard joins its owner's lock: one hold, one token, two parts.
pub fn a_guard_joins_its_owners_lock(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    let hold = alice.locks("x", 0).expect("x is free");
    let held = again.guards("x").expect("it is alice's lock");
    assert_eq!((held.token(), &held.hold.lock_id), (token(&hold), &hold.lock_id), "it is the same hold");
    assert!(held.hold.has(PartKind::Owner) && held.hold.has(PartKind::Process), "it has both parts");
    assert!(matches!(alice.guards("x"), Err(Denial::Held(_))), "a second guard joined");
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "another owner joined");
}

/// The owner part goes on after the guard that joined has ended.
pub fn the_owner_part_outlives_the_guard_that_joined(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    alice.locks("x", 0).expect("x is free");
    let held = again.guards("x").expect("it is alice's lock");
    let left = again.releases(&held).expect("it is alice's");
    assert!(left.hold.is_some_and(|hold| !hold.has(PartKind::Process)), "the owner part is left");
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "the owner part is gone");
    alice.unlocks("x").expect("it is alice's");
    bob.locks("x", 0).expect("both parts have ended");
}

/// The guard goes on after its owner's part was unlocked.
pub fn the_guard_outlives_the_owner_part(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    alice.locks("x", 0).expect("x is free");
    let held = again.guards("x").expect("it is alice's lock");
    alice.unlocks("x").expect("the owner part is alice's");
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "the guard is gone");
    again.releases(&held).expect("it is still the guard's");
    bob.locks("x", 0).expect("both parts have ended");
}

/// A lock beside a running guard of the same owner is a second part of its hold.
pub fn a_lock_beside_a_guard_of_its_owner_joins_it(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let hold = again.locks("x", 0).expect("it is alice's guard");
    assert_eq!((token(&hold), &hold.lock_id), (held.token(), &held.hold.lock_id), "it is the same hold");
    alice.releases(&held).expect("it is alice's");
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "the owner part is left");
}

/// A guarded command that guards the same name again is inside of it already.
pub fn a_command_inside_its_hold_changes_nothing(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let inside = again.guards_inside(&["x"], 0, Some(held.inherited())).expect("it runs under the hold");
    assert!(inside.is_empty(), "nothing new is held");
    assert_eq!(bob.sees("x").slot.hold().map(token), Some(held.token()), "the hold is as it was");
    alice.releases(&held).expect("it is alice's");
    let late = again.guards_inside(&["x"], 0, Some(held.inherited())).expect("x is free");
    assert_eq!(late.len(), 1, "after the end of the hold there is no inside");
}

/// A guard that joins after another one has expired gets a new token: that one may still run.
pub fn a_guard_that_joins_after_an_expired_one_gets_a_new_token(world: &dyn World) {
    let [alice, _, _, again] = callers(world);
    alice.locks("x", 0).expect("x is free");
    let first = again.guards_for("x", 5).expect("it is alice's lock");
    world.pass(6);
    let second = alice.guards_for("x", 5).expect("the first guard is over");
    assert!(second.token() > first.token(), "{} is not above {}", second.token(), first.token());
    assert!(again.releases(&first).is_err(), "the first guard has lost it");
}

/// Only a living hold of one's own gets a new end by `extend`.
pub fn extending_needs_a_living_hold_of_ones_own(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let extend = |ttl_sec| Intent::Extend { ttl_sec, token: None };
    assert!(matches!(alice.asks(Target::Lock, "x", extend(9)), Err(Denial::Missing)), "nothing is held");
    alice.locks("x", 5).expect("x is free");
    assert!(matches!(bob.asks(Target::Lock, "x", extend(9)), Err(Denial::NotYours(_))), "it is alice's");
    alice.asks(Target::Lock, "x", extend(9)).expect("it is alice's");
    world.pass(7);
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "it was extended to 9 s");
    world.pass(4);
    assert!(matches!(alice.asks(Target::Lock, "x", extend(9)), Err(Denial::Over(_))), "it is over");
}

/// A lock that is refreshed without a TTL lasts on.
pub fn a_refresh_without_a_ttl_has_no_end(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 5).expect("x is free");
    alice.locks("x", 0).expect("it is alice's");
    world.pass(60);
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "it has no end");
    alice.locks("x", 5).expect("it is alice's");
    world.pass(6);
    bob.locks("x", 0).expect("it has an end again");
}

/// A hold in place of a stale one is all that is there.
pub fn a_grant_leaves_nothing_of_a_stale_hold(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let held = bob.guards("x").expect("it is over");
    bob.releases(&held).expect("it is bob's");
    assert!(bob.sees("x").slot.holder().is_none(), "alice's hold is still there");
    assert!(matches!(bob.forces("x"), Err(Denial::Missing)), "nothing is left");
}
