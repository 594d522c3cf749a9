//! Acting under a token.

use lokt_core::decide::Presented;
use lokt_core::denial::Denial;
use lokt_core::hold::LockId;
use lokt_named::store::Publish;

use super::{World, callers};

/// A token is the one to act under while its hold lives, and no longer.
pub fn a_token_is_current_while_its_hold_lives(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let presented = Presented { token: held.token(), lock_id: Some(held.hold.lock_id.clone()) };
    assert_eq!(bob.checks("x", presented.clone()), None, "anyone may ask");
    alice.releases(&held).expect("it is alice's");
    assert!(bob.checks("x", presented).is_some(), "the hold has ended");
}

/// A token is stale when another hold has begun.
pub fn a_stale_token_is_refused(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let old = alice.guards("x").expect("x is free");
    bob.forces("x").expect("force takes everything");
    let new = bob.guards("x").expect("x is free");
    match alice.checks("x", old.token().into()) {
        Some(Denial::StaleToken { named, current }) => {
            assert_eq!((named, current.map(lokt_core::hold::Fence::get)), (old.token(), Some(new.token())));
        }
        other => panic!("the old token is still good: {other:?}"),
    }
}

/// The number alone isn't enough if the lock id is another one.
pub fn a_token_of_another_lock_id_is_refused(world: &dyn World) {
    let [alice, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let presented = Presented { token: held.token(), lock_id: Some(LockId::from_bits(7)) };
    assert!(matches!(alice.checks("x", presented), Some(Denial::OtherIssuer { .. })), "it is of another hold");
}

/// Nothing is done under a stale token.
pub fn nothing_is_done_under_a_stale_token(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    bob.forces("x").expect("force takes everything");
    let mut count = 0;
    assert!(alice.acts_under("x", held.token().into(), &mut || count += 1).is_some(), "it is stale");
    assert_eq!(count, 0, "something was done");
}

/// What is to be done under a current token is done once.
pub fn something_is_done_under_a_current_token(world: &dyn World) {
    let [alice, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut count = 0;
    assert_eq!(alice.acts_under("x", held.token().into(), &mut || count += 1), None, "it is current");
    assert_eq!(count, 1, "it was done once");
}

/// A hold can't be taken away during the act, or its caller is told that it was.
pub fn a_loss_during_the_act_is_told_or_prevented(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    if alice.store().contract().publish == Publish::Atomic {
        // No other caller is let in before the act has ended.
        return;
    }
    let held = alice.guards("x").expect("x is free");
    let mut force = || drop(bob.forces("x").expect("force takes everything"));
    assert!(alice.acts_under("x", held.token().into(), &mut force).is_some(), "it was taken away meanwhile");
}
