//! Freezes.

use lokt_core::denial::Denial;

use super::{World, callers};

/// A frozen name is granted to nobody, not to the owner of the freeze either.
pub fn a_frozen_name_is_granted_to_nobody(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.freezes("x", 0).expect("nothing freezes it");
    for caller in [alice, bob] {
        assert!(matches!(caller.locks("x", 0), Err(Denial::Frozen(Some(_)))), "a lock was granted");
        assert!(matches!(caller.guards("x"), Err(Denial::Frozen(Some(_)))), "a guard was granted");
    }
    alice.unfreezes("x", false).expect("it is alice's");
    bob.guards("x").expect("nothing freezes it");
}

/// A freeze lets those who hold the name go on, and go.
pub fn a_freeze_lets_holders_release_and_refresh(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    bob.locks("y", 60).expect("y is free");
    carol.freezes("x", 0).expect("nothing freezes it");
    carol.freezes("y", 0).expect("nothing freezes it");
    bob.locks("y", 60).expect("a refresh starts nothing new");
    assert!(matches!(bob.guards("y"), Err(Denial::Frozen(_))), "a new command was started");
    alice.renews(&held).expect("it is alice's");
    alice.releases(&held).expect("it is alice's");
    bob.unlocks("y").expect("it is bob's");
}

/// A freeze with a TTL ends by itself.
pub fn a_freeze_ends_with_its_ttl(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.freezes("x", 10).expect("nothing freezes it");
    world.pass(8);
    assert!(matches!(bob.locks("x", 0), Err(Denial::Frozen(_))), "it has two seconds left");
    world.pass(4);
    bob.locks("x", 0).expect("the freeze is over");
}

/// A freeze is ended by its owner, or by force.
pub fn an_unfreeze_needs_the_owner_or_force(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    assert!(matches!(alice.unfreezes("x", false), Err(Denial::Missing)), "nothing freezes it");
    alice.freezes("x", 0).expect("nothing freezes it");
    assert!(matches!(bob.unfreezes("x", false), Err(Denial::NotYours(_))), "it is alice's");
    assert!(matches!(bob.locks("x", 0), Err(Denial::Frozen(_))), "the freeze is gone");
    bob.unfreezes("x", true).expect("by force");
    bob.locks("x", 0).expect("nothing freezes it");
}

/// A waiter is granted the name when the freeze ends, not before.
pub fn a_waiter_is_granted_when_the_freeze_ends(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut waiting = bob.waits_for(&["x"]);
    alice.freezes("x", 0).expect("nothing freezes it");
    alice.releases(&held).expect("it is alice's");
    assert!(waiting.looks().is_none(), "it is frozen");
    alice.unfreezes("x", false).expect("it is alice's");
    waiting.looks().expect("nothing freezes it");
}

/// A freeze is over one name only.
pub fn a_freeze_is_of_one_name(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.freezes("x", 0).expect("nothing freezes it");
    for text in ["x-1", "x.1", "y"] {
        bob.locks(text, 0).expect("only x is frozen");
    }
    assert!(bob.sees("x").frozen.is_some() && bob.sees("y").frozen.is_none(), "only x is frozen");
}

/// A freeze that its owner puts again ends when the second one says.
pub fn a_freeze_that_is_put_again_has_its_new_end(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.freezes("x", 5).expect("nothing freezes it");
    alice.freezes("x", 0).expect("it is alice's");
    world.pass(60);
    assert!(matches!(bob.locks("x", 0), Err(Denial::Frozen(_))), "it has no end");
    alice.freezes("x", 5).expect("it is alice's");
    world.pass(6);
    bob.locks("x", 0).expect("it has an end again");
}
