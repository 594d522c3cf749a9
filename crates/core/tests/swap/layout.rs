//! Four failures of an earlier layout, in which only a new token rewrote the version of a name.

use lokt_core::decide::Breaking;
use lokt_core::hold::{Fence, PartKind};
use lokt_core::liveness::Liveness;

use crate::world::{ALICE, ALICE_TOO, BOB, World, freeze, guard, lock, unlock};

#[test]
fn a_late_copy_of_a_lock_beside_ones_own_guard_is_refused_after_the_unlock() {
    let mut world = World::new();
    world.does(ALICE, &guard(), &["x"]);
    let late = world.does(ALICE_TOO, &lock(None), &["x"]);
    world.does(ALICE_TOO, &unlock(Breaking::No), &["x"]);
    assert!(world.is_refused(&late.change), "an owner part would be held for nobody");
}

#[test]
fn a_late_copy_of_a_freeze_is_refused_after_another_freeze_has_expired() {
    let mut world = World::new();
    let given_up = world.plan(ALICE, &freeze(None), &["x"]).expect("it is not frozen");
    world.does(BOB, &freeze(Some(60)), &["x"]);
    world.keys.end(BOB.lease());
    assert!(world.see("x").freeze.is_some(), "the record outlives its life key");
    assert!(world.is_refused(&given_up.change), "the name would be frozen for good");
}

#[test]
fn a_doubled_join_is_refused_after_the_release() {
    let mut world = World::new();
    world.does(ALICE, &lock(None), &["x"]);
    let join = world.does(ALICE, &guard(), &["x"]);
    world.does(ALICE, &world.grip("x"), &["x"]);
    assert!(world.is_refused(&join.change), "a process part would be held for nobody");
}

#[test]
fn a_guard_that_follows_an_expired_one_under_an_owner_part_gets_a_new_token() {
    let mut world = World::new();
    world.does(ALICE, &lock(None), &["x"]);
    world.does(ALICE, &guard(), &["x"]);
    let first = world.token("x");
    world.keys.end(ALICE.session());
    let member = world.see("x").members.remove(0);
    assert!(member.hold().is_some_and(|hold| hold.has(PartKind::Process)), "it is still named");
    assert!(!member.part_lives(PartKind::Process, Liveness::Unknown), "and over");
    world.does(ALICE_TOO, &guard(), &["x"]);
    assert!(world.token("x") > first, "a suspended guard still has {first:?}");
    assert!(world.token("x") < Some(Fence::LIMIT - 1));
}

#[test]
fn a_guard_that_follows_a_released_one_under_an_owner_part_keeps_the_token() {
    let mut world = World::new();
    world.does(ALICE, &lock(None), &["x"]);
    let first = world.token("x");
    world.does(ALICE, &guard(), &["x"]);
    world.does(ALICE, &world.grip("x"), &["x"]);
    world.does(ALICE_TOO, &guard(), &["x"]);
    assert_eq!(world.token("x"), first);
}
