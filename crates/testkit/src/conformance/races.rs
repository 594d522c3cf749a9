//! Other callers that act between a look and what follows from it.
//!
//! Stores on files look inside their mutex, where no other caller gets in: they pass by doing nothing.

use lokt_core::decide::{Breaking, Cause, Condition, Intent};
use lokt_core::denial::Denial;
use lokt_named::store::{Expiry, Target};
use lokt_named::swap::{Fault, Of};

use super::caller::{terms, token};
use super::{Caller, World, callers};

/// The callers, if one can act while another is judged.
fn racers(world: &dyn World) -> Option<[Caller<'_>; 4]> {
    (world.store(0).contract().expiry == Expiry::Server).then(|| callers(world))
}

/// Of two callers that both see a free name, one is granted it.
pub fn of_two_callers_that_see_a_free_name_one_is_granted(world: &dyn World) {
    let Some([alice, bob, ..]) = racers(world) else { return };
    let lock = Intent::Lock(terms(0));
    let refused = alice.asks_while(Target::Lock, "x", lock, || drop(bob.locks("x", 0).expect("x is free")));
    assert!(matches!(refused, Err(Denial::Held(_))), "bob was faster: {refused:?}");
    let guarded = alice.guards_all_while(&["y"], || drop(bob.locks("y", 0).expect("y is free")));
    assert!(matches!(guarded.map(drop), Err(Denial::Held(_))), "bob was faster");
}

/// A ticket that is put after the look is before a caller that doesn't wait.
pub fn a_waiter_that_comes_meanwhile_is_first(world: &dyn World) {
    let Some([alice, bob, carol, _]) = racers(world) else { return };
    carol.locks("y", 0).expect("y is free");
    let mut waiting = None;
    let lock = Intent::Lock(terms(0));
    let refused = alice.asks_while(Target::Lock, "x", lock, || waiting = Some(bob.waits_for(&["x", "y"])));
    assert!(matches!(refused, Err(Denial::Queued { ahead: 1 })), "alice overtook bob: {refused:?}");
    carol.unlocks("y").expect("it is carol's");
    waiting.expect("bob waits").looks().expect("bob is first");
}

/// A late copy of a request that the queue refused isn't made when nobody waits any more.
pub fn a_refused_request_is_not_made_when_the_queue_is_gone(world: &dyn World) {
    let (Some([alice, bob, carol, _]), Some(network)) = (racers(world), world.network()) else { return };
    carol.locks("y", 0).expect("y is free");
    let mut waiting = None;
    let lock = Intent::Lock(terms(0));
    let refused = alice.asks_while(Target::Lock, "x", lock, || {
        waiting = Some(bob.waits_for(&["x", "y"]));
        network.fail(Of::Make, 0, Fault::Doubled);
    });
    assert!(matches!(refused, Err(Denial::Queued { .. })), "bob was faster: {refused:?}");
    waiting.expect("bob waits").leaves();
    network.deliver();
    assert_eq!(bob.sees_owner("x"), None, "a hold that nobody knows of");
}

/// A freeze that is put after the look counts.
pub fn a_name_that_is_frozen_meanwhile_is_not_granted(world: &dyn World) {
    let Some([alice, bob, carol, again]) = racers(world) else { return };
    let lock = Intent::Lock(terms(0));
    let refused = alice.asks_while(Target::Lock, "x", lock, || drop(bob.freezes("x", 0).expect("nothing freezes it")));
    assert!(matches!(refused, Err(Denial::Frozen(_))), "{refused:?}");
    alice.locks("y", 0).expect("y is free");
    let joined = again.guards_all_while(&["y"], || drop(carol.freezes("y", 0).expect("nothing freezes it")));
    assert!(matches!(joined.map(drop), Err(Denial::Frozen(_))), "a command was started under a freeze");
}

/// If one of several names is taken after the look, none is granted.
pub fn one_of_several_names_that_is_taken_meanwhile_refuses_all(world: &dyn World) {
    let Some([alice, bob, carol, _]) = racers(world) else { return };
    let refused = alice.guards_all_while(&["x", "y", "z"], || drop(bob.locks("y", 0).expect("y is free")));
    assert!(matches!(refused.map(drop), Err(Denial::Held(_))), "bob has y");
    carol.guards_all(&["x", "z"]).expect("nothing was granted to alice");
}

/// A lock that ended after the look isn't refreshed: another caller may have acted on its end.
pub fn a_refresh_of_a_lock_that_ends_meanwhile_gets_a_new_token(world: &dyn World) {
    let Some([alice, ..]) = racers(world) else { return };
    let first = alice.locks("x", 2).expect("x is free");
    let refreshed = alice.asks_while(Target::Lock, "x", Intent::Lock(terms(2)), || world.pass(3));
    let second = refreshed.expect("nobody has it").hold.expect("a lock stores a hold");
    assert!(token(&second) > token(&first), "{} is not above {}", token(&second), token(&first));
}

/// A stale lock that another caller broke after the look is granted anew.
pub fn a_stale_lock_that_is_broken_meanwhile_is_not_revived(world: &dyn World) {
    let Some([alice, bob, ..]) = racers(world) else { return };
    let first = alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let breaks = || drop(bob.unlocks_if("x", Breaking::Stale, Condition::default()).expect("it is over"));
    let granted = alice.asks_while(Target::Lock, "x", Intent::Lock(terms(5)), breaks).expect("x is free");
    assert_eq!(granted.cause, Cause::Acquire, "bob ended the first one");
    assert_ne!(granted.hold.map(|hold| hold.lock_id), Some(first.lock_id), "it is a new hold");
}

/// A lock that was unlocked after the look has no part to join.
pub fn a_guard_joins_no_lock_that_is_unlocked_meanwhile(world: &dyn World) {
    let Some([alice, _, _, again]) = racers(world) else { return };
    let first = alice.locks("x", 0).expect("x is free");
    let held = again.guards_all_while(&["x"], || drop(alice.unlocks("x").expect("it is alice's")));
    let held = held.expect("x is free").remove(0);
    assert_ne!(held.hold.lock_id, first.lock_id, "it is a new hold");
    assert!(held.token() > token(&first), "{} is not above {}", held.token(), token(&first));
}

/// An unlock of a hold that was broken after the look is told that nothing is held.
pub fn an_unlock_is_told_that_the_hold_was_broken_meanwhile(world: &dyn World) {
    let Some([alice, bob, carol, _]) = racers(world) else { return };
    alice.locks("x", 0).expect("x is free");
    let unlock = || Intent::Unlock(Breaking::No, Condition::default());
    let denied = alice.asks_while(Target::Lock, "x", unlock(), || drop(bob.forces("x").expect("it is held")));
    assert!(matches!(denied, Err(Denial::Missing)), "{denied:?}");
    alice.locks("x", 0).expect("x is free");
    let denied = alice.asks_while(Target::Lock, "x", unlock(), || {
        bob.forces("x").expect("it is held");
        carol.locks("x", 0).expect("x is free");
    });
    assert!(matches!(denied, Err(Denial::NotYours(_))), "{denied:?}");
    assert_eq!(alice.sees_owner("x").as_deref(), Some("carol"), "carol's hold went with alice's");
}

/// A release of a hold that was taken away after the look is told so.
pub fn a_release_is_told_that_the_hold_was_taken_meanwhile(world: &dyn World) {
    let Some([alice, bob, ..]) = racers(world) else { return };
    let held = alice.guards("x").expect("x is free");
    let lost = alice.releases_while(&held, || {
        bob.forces("x").expect("it is held");
        bob.locks("x", 0).expect("x is free");
    });
    assert!(matches!(lost, Err(Denial::Lost(Some(_)))), "{lost:?}");
    assert_eq!(alice.sees_owner("x").as_deref(), Some("bob"), "bob's hold went with alice's");
}

/// A stale lock that its owner revived after the look lives.
pub fn a_lock_that_is_revived_meanwhile_is_not_broken_as_stale(world: &dyn World) {
    let Some([alice, bob, ..]) = racers(world) else { return };
    for breaking in [Intent::Unlock(Breaking::Stale, Condition::default()), Intent::Prune] {
        alice.locks("x", 5).expect("nobody else has it");
        world.pass(6);
        let denied = bob.asks_while(Target::Lock, "x", breaking, || drop(alice.locks("x", 5).expect("it is hers")));
        assert!(matches!(denied, Err(Denial::NotStale(_) | Denial::Kept)), "{denied:?}");
        assert_eq!(bob.sees_owner("x").as_deref(), Some("alice"), "it lives");
    }
}

/// An unfreeze ends the freeze that it was meant for.
pub fn an_unfreeze_does_not_end_a_freeze_that_is_put_meanwhile(world: &dyn World) {
    let Some([alice, bob, carol, _]) = racers(world) else { return };
    alice.freezes("x", 0).expect("nothing freezes it");
    let denied = alice.asks_while(Target::Freeze, "x", Intent::Unfreeze { force: false }, || {
        bob.unfreezes("x", true).expect("by force");
        bob.freezes("x", 0).expect("nothing freezes it");
    });
    assert!(matches!(denied, Err(Denial::NotYours(_))), "{denied:?}");
    assert!(matches!(carol.locks("x", 0), Err(Denial::Frozen(_))), "bob's freeze went with alice's");
}

/// A stale hold that another caller removed after the look isn't removed again.
pub fn the_end_of_a_stale_hold_is_told_once(world: &dyn World) {
    let Some([alice, bob, carol, _]) = racers(world) else { return };
    alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let breaks = || drop(carol.unlocks_if("x", Breaking::Stale, Condition::default()).expect("it is over"));
    let granted = bob.asks_while(Target::Lock, "x", Intent::Lock(terms(0)), breaks).expect("x is free");
    assert_eq!(granted.broken, None, "carol broke it");
    let told: Vec<String> = bob.history().into_iter().map(|event| event.event).collect();
    assert_eq!(told, ["acquire", "stale-break", "acquire"], "every end is told once");
}

/// The audit log has the order of the changes, not that of the looks.
pub fn events_are_told_in_the_order_of_the_changes(world: &dyn World) {
    let Some([alice, bob, ..]) = racers(world) else { return };
    let lock = Intent::Lock(terms(0));
    let others = || {
        bob.locks("y", 0).expect("y is free");
        bob.unlocks("y").expect("it is bob's");
    };
    alice.asks_while(Target::Lock, "x", lock, others).expect("x is free");
    let told: Vec<String> = alice.history().into_iter().map(|event| event.name).collect();
    assert_eq!(told, ["y", "y", "x"], "x was granted last");
}
