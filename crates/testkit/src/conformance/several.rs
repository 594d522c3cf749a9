//! Several names together.

use lokt_core::denial::Denial;

use super::{World, callers};

/// Several free names are granted together.
pub fn several_names_are_granted_together(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards_all(&["x", "y", "z"]).expect("all are free");
    assert_eq!(held.len(), 3, "each has its hold");
    for text in ["x", "y", "z"] {
        assert!(matches!(bob.guards(text), Err(Denial::Held(_))), "{text} isn't held");
    }
}

/// If one of several names is held, none is granted.
pub fn one_name_that_is_held_refuses_all(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    alice.locks("y", 0).expect("y is free");
    let Err(denial) = bob.guards_all(&["x", "y", "z"]) else { panic!("y is alice's") };
    assert!(matches!(denial, Denial::Held(_)), "{denial:?}");
    carol.guards_all(&["x", "z"]).expect("nothing was granted to bob");
}

/// Names that were taken together are given back one by one.
pub fn names_taken_together_are_released_one_by_one(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards_all(&["x", "y"]).expect("all are free");
    alice.releases(&held[0]).expect("it is alice's");
    bob.guards(held[0].name.as_str()).expect("it was released");
    assert!(matches!(bob.guards(held[1].name.as_str()), Err(Denial::Held(_))), "the other one wasn't");
    alice.renews(&held[1]).expect("it is still alice's");
    alice.releases(&held[1]).expect("it is alice's");
}

/// Two callers that wait for the same two names in opposite order get them one after the other.
pub fn crosswise_waiters_do_not_block_each_other(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let (x, y) = (carol.guards("x").expect("x is free"), carol.guards("y").expect("y is free"));
    let mut first = alice.waits_for(&["x", "y"]);
    let mut second = bob.waits_for(&["y", "x"]);
    carol.releases(&x).expect("it is carol's");
    let (early, late) = (first.looks().is_some(), second.looks().is_some());
    assert!(!early && !late, "y is still carol's");
    carol.releases(&y).expect("it is carol's");
    let mut granted = Vec::new();
    for _ in 0..4 {
        if let Some(held) = first.looks() {
            granted.push("alice");
            for one in &held {
                alice.releases(one).expect("it is alice's");
            }
            break;
        }
    }
    for _ in 0..4 {
        if let Some(held) = second.looks() {
            assert_eq!(held.len(), 2, "both are bob's");
            granted.push("bob");
            break;
        }
    }
    assert_eq!(granted, ["alice", "bob"], "both were granted, first come first");
}
