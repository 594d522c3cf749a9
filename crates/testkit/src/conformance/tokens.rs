//! The order of fencing tokens.

use super::caller::token;
use super::{World, callers};

/// Every hold has a greater token than the hold of that name before it.
pub fn every_hold_has_a_greater_token_than_the_one_before(world: &dyn World) {
    let [alice, bob, carol, again] = callers(world);
    let mut last = 0;
    for round in 0..3 {
        for caller in [alice, bob, carol, again] {
            let held = caller.guards("x").expect("x is free");
            assert!(held.token() > last, "round {round}: {} is not above {last}", held.token());
            last = held.token();
            caller.releases(&held).expect("it is its own");
            let hold = caller.locks("x", 0).expect("x is free");
            assert!(token(&hold) > last, "round {round}: {} is not above {last}", token(&hold));
            last = token(&hold);
            caller.unlocks("x").expect("it is its own");
        }
    }
}

/// A refresh keeps the token: the hold never ended.
pub fn a_refresh_keeps_the_token(world: &dyn World) {
    let [alice, ..] = callers(world);
    let first = alice.locks("x", 60).expect("x is free");
    world.pass(10);
    let second = alice.locks("x", 60).expect("it is alice's");
    assert_eq!((token(&first), &first.lock_id), (token(&second), &second.lock_id), "it is the same hold");
}

/// A hold that was over and is revived gets a new token: another caller may have acted on its end.
pub fn a_revived_hold_gets_a_new_token(world: &dyn World) {
    let [alice, ..] = callers(world);
    let first = alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let second = alice.locks("x", 5).expect("nobody has it");
    assert!(token(&second) > token(&first), "{} is not above {}", token(&second), token(&first));
}

/// A waiter's token is drawn at its grant: greater than that of every hold before it.
pub fn a_waiter_gets_a_token_when_it_is_granted_not_when_it_asks(world: &dyn World) {
    let [alice, bob, carol, _] = callers(world);
    let first = alice.guards("x").expect("x is free");
    let mut waiting = bob.waits_for(&["x"]);
    let between = carol.locks("y", 0).expect("y is free");
    alice.releases(&first).expect("it is alice's");
    let held = waiting.looks().expect("bob is first").remove(0);
    assert!(held.token() > first.token(), "{} is not above {}", held.token(), first.token());
    assert_ne!(held.token(), token(&between), "a token names one grant");
    bob.releases(&held).expect("it is bob's");
    let next = carol.guards("x").expect("x is free");
    assert!(next.token() > held.token(), "{} is not above {}", next.token(), held.token());
}

/// Tokens of one name never go back, whatever happens to other names in between.
pub fn tokens_grow_over_all_names_of_one_owner(world: &dyn World) {
    let [alice, ..] = callers(world);
    let mut last = [0, 0];
    for _ in 0..4 {
        for (number, text) in ["x", "y"].into_iter().enumerate() {
            let hold = alice.locks(text, 0).expect("it is free");
            assert!(token(&hold) > last[number], "{} is not above {}", token(&hold), last[number]);
            last[number] = token(&hold);
            alice.unlocks(text).expect("it is alice's");
        }
    }
}

/// The token that a caller was told is the one that others find.
pub fn the_stored_token_is_the_one_that_was_told(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let stored = |text| bob.sees(text).slot.hold().map(token);
    assert_eq!(stored("x"), Some(held.token()), "after a guard's grant");
    let joined = alice.locks("x", 60).expect("it is alice's guard");
    assert_eq!(stored("x"), Some(token(&joined)), "after its owner joined");
    alice.releases(&held).expect("it is alice's");
    assert_eq!(stored("x"), Some(held.token()), "after the guard left");
}
