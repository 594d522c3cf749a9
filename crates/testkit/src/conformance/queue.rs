//! Waiting, first come first.

use lokt_core::denial::Denial;

use super::{Waiting, World, callers};

/// Waiters are granted the name in the order of their arrival, in whatever order they look.
pub fn waiters_are_granted_in_the_order_in_which_they_came(world: &dyn World) {
    let [alice, bob, carol, again] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut second = bob.waits_for(&["x"]);
    let mut third = carol.waits_for(&["x"]);
    let mut fourth = again.waits_for(&["x"]);
    alice.releases(&held).expect("it is alice's");
    assert!(fourth.looks().is_none() && third.looks().is_none(), "bob came first");
    let held = second.looks().expect("bob is first").remove(0);
    assert!(third.looks().is_none(), "bob has it");
    bob.releases(&held).expect("it is bob's");
    assert!(fourth.looks().is_none(), "carol came first");
    let held = third.looks().expect("carol is first").remove(0);
    carol.releases(&held).expect("it is carol's");
    fourth.looks().expect("the last one");
}

/// A caller that doesn't wait isn't granted a name before those who do.
pub fn a_caller_that_does_not_wait_is_refused_while_others_wait(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut waiting = bob.waits_for(&["x"]);
    alice.releases(&held).expect("it is alice's");
    let Err(denial) = carol.guards("x") else { panic!("carol's guard overtook bob") };
    assert!(matches!(denial, Denial::Queued { ahead: 1 }), "{denial:?}");
    let Err(denial) = carol.locks("x", 0) else { panic!("carol's lock overtook bob") };
    assert!(matches!(denial, Denial::Queued { ahead: 1 }), "{denial:?}");
    waiting.looks().expect("bob is first");
}

/// A waiter that leaves is no longer in the way.
pub fn a_waiter_that_leaves_lets_the_next_one_through(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let second = bob.waits_for(&["x"]);
    let mut third = carol.waits_for(&["x"]);
    second.leaves();
    alice.releases(&held).expect("it is alice's");
    third.looks().expect("bob has left");
}

/// A waiter whose process has died is no longer in the way.
pub fn a_dead_waiter_is_passed(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let second = bob.waits_for(&["x"]);
    let mut third = carol.waits_for(&["x"]);
    drop(second);
    bob.dies([]);
    alice.releases(&held).expect("it is alice's");
    third.looks().expect("bob is dead");
}

/// A waiter keeps its place however often it looks.
pub fn a_waiter_keeps_its_place_over_many_looks(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut second = bob.waits_for(&["x"]);
    let mut third = carol.waits_for(&["x"]);
    for _ in 0..5 {
        assert!(second.looks().is_none() && third.looks().is_none(), "alice has it");
        alice.renews(&held).expect("it is alice's");
        world.pass(3);
    }
    alice.releases(&held).expect("it is alice's");
    assert!(third.looks().is_none(), "bob came first");
    second.looks().expect("bob is first");
}

/// A waiter learns how many are ahead of it.
pub fn a_waiter_sees_how_many_are_ahead(world: &dyn World) {
    let [alice, bob, carol, again] = callers(world);
    let _held = alice.guards("x").expect("x is free");
    let mut second = bob.waits_for(&["x"]);
    let mut third = carol.waits_for(&["x"]);
    let mut fourth = again.waits_for(&["x"]);
    assert_eq!((second.ahead(), third.ahead(), fourth.ahead()), (0, 1, 2), "in their order");
    third.leaves();
    assert_eq!((second.ahead(), fourth.ahead()), (0, 1), "carol has left");
}

/// A lock waits in the same queue as guards.
pub fn a_lock_waits_like_a_guard(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut second = Waiting::for_lock(bob, "x");
    assert!(second.looks().is_none(), "alice has it");
    let mut third = carol.waits_for(&["x"]);
    alice.releases(&held).expect("it is alice's");
    assert!(third.looks().is_none(), "bob came first");
    second.looks().expect("bob is first");
    assert_eq!(carol.sees_owner("x").as_deref(), Some("bob"), "bob's lock is there");
    bob.unlocks("x").expect("it is bob's");
    third.looks().expect("carol is next");
}

/// A waiter is granted the name when its holder dies.
pub fn a_waiter_is_granted_when_the_holder_dies(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut waiting = bob.waits_for(&["x"]);
    alice.dies([held]);
    waiting.looks().expect("alice is dead");
}

/// Others see who waits.
pub fn the_queue_is_shown_to_others(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let _held = alice.guards("x").expect("x is free");
    let _second = bob.waits_for(&["x"]);
    let _third = carol.waits_for(&["x"]);
    let view = alice.sees("x");
    let owners: Vec<&str> = view.queue.iter().map(|waiter| waiter.pulse.owner.as_str()).collect();
    assert_eq!((owners, view.waiting), (vec!["bob", "carol"], 2), "in their order");
}
