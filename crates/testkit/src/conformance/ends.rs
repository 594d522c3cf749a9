//! Release and unlock, and the hold that is meant.

use lokt_core::audit::Event;
use lokt_core::decide::{Breaking, Cause, Condition, Intent};
use lokt_core::denial::Denial;

use super::caller::token;
use super::{World, callers};

/// A release that comes after its hold was taken away doesn't end the hold that came next.
pub fn a_late_release_does_not_end_the_next_hold(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let old = alice.guards("x").expect("x is free");
    bob.forces("x").expect("force takes everything");
    let new = bob.guards("x").expect("x is free");
    match alice.releases(&old) {
        Err(Denial::Lost(Some(holder))) => assert_eq!(holder.hold.owner, "bob", "alice is told who has it"),
        other => panic!("alice's release ended bob's hold: {other:?}"),
    }
    assert_eq!(alice.sees("x").slot.hold().map(token), Some(new.token()), "bob still has it");
    bob.releases(&new).expect("it is bob's");
}

/// A second release is told that there is nothing to give back.
pub fn a_second_release_is_told_that_it_is_lost(world: &dyn World) {
    let [alice, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    alice.releases(&held).expect("it is alice's");
    assert!(matches!(alice.releases(&held), Err(Denial::Lost(None))), "it was released");
}

/// An unlock ends only what its owner holds.
pub fn an_unlock_needs_the_owner(world: &dyn World) {
    let [alice, bob, _, again] = callers(world);
    alice.locks("x", 0).expect("x is free");
    assert!(matches!(bob.unlocks("x"), Err(Denial::NotYours(_))), "it is alice's");
    let ended = again.unlocks("x").expect("it is alice's");
    assert_eq!(ended.cause, Cause::Release(lokt_core::hold::PartKind::Owner), "the owner part ended");
    assert!(ended.hold.is_none(), "nothing is left");
}

/// An unlock doesn't take a hold from under a running command of the same owner.
pub fn an_unlock_does_not_end_a_running_guard(world: &dyn World) {
    let [alice, _, _, again] = callers(world);
    let held = alice.guards("x").expect("x is free");
    assert!(matches!(again.unlocks("x"), Err(Denial::Guarded(_))), "a guard runs");
    alice.releases(&held).expect("it is alice's");
}

/// An unlock that names another lock id ends nothing.
pub fn an_unlock_with_another_lock_id_ends_nothing(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let old = alice.locks("x", 0).expect("x is free");
    alice.unlocks("x").expect("it is alice's");
    let new = alice.locks("x", 0).expect("x is free");
    let condition = Condition { lock_id: Some(old.lock_id), token: None };
    for breaking in [Breaking::No, Breaking::Force] {
        let denied = alice.unlocks_if("x", breaking, condition.clone());
        assert!(matches!(denied, Err(Denial::OtherHold(_))), "{breaking:?}: {denied:?}");
    }
    assert_eq!(bob.sees("x").slot.hold().map(token), Some(token(&new)), "it is as it was");
}

/// An unlock that names a stale token ends nothing.
pub fn an_unlock_with_a_stale_token_ends_nothing(world: &dyn World) {
    let [alice, ..] = callers(world);
    let old = alice.locks("x", 0).expect("x is free");
    alice.unlocks("x").expect("it is alice's");
    alice.locks("x", 0).expect("x is free");
    let condition = Condition { lock_id: None, token: Some(token(&old)) };
    let denied = alice.unlocks_if("x", Breaking::No, condition);
    assert!(matches!(denied, Err(Denial::StaleToken { .. })), "{denied:?}");
}

/// An unlock that names the hold ends it.
pub fn an_unlock_with_its_lock_id_and_token_ends_the_hold(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let hold = alice.locks("x", 0).expect("x is free");
    let condition = Condition { lock_id: Some(hold.lock_id.clone()), token: Some(token(&hold)) };
    alice.unlocks_if("x", Breaking::No, condition).expect("it is this one");
    bob.locks("x", 0).expect("x is free");
}

/// An unlock of a free name is told that nothing is held.
pub fn an_unlock_of_a_free_name_is_told_so(world: &dyn World) {
    let [alice, ..] = callers(world);
    for breaking in [Breaking::No, Breaking::Stale, Breaking::Force] {
        let denied = alice.unlocks_if("x", breaking, Condition::default());
        assert!(matches!(denied, Err(Denial::Missing)), "{breaking:?}: {denied:?}");
    }
}

/// `--break-stale` spares what lives.
pub fn break_stale_spares_the_living(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let _held = alice.guards("x").expect("x is free");
    let denied = bob.unlocks_if("x", Breaking::Stale, Condition::default());
    assert!(matches!(denied, Err(Denial::NotStale(_))), "{denied:?}");
    assert_eq!(bob.sees_owner("x").as_deref(), Some("alice"), "it is as it was");
}

/// `--break-stale` removes what is over.
pub fn break_stale_removes_what_is_over(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let ended = bob.unlocks_if("x", Breaking::Stale, Condition::default()).expect("it is over");
    assert_eq!(ended.cause, Cause::StaleBreak, "it was broken");
    assert!(matches!(bob.forces("x"), Err(Denial::Missing)), "nothing is left of it");
}

/// A prune removes what is over and nothing else.
pub fn prune_removes_what_is_over_and_nothing_else(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("short", 5).expect("it is free");
    alice.locks("long", 500).expect("it is free");
    alice.locks("endless", 0).expect("it is free");
    world.pass(6);
    let pruned = bob.asks_each(&["endless", "long", "short"], &Intent::Prune);
    assert_eq!(pruned, (1, 2), "one of three is over");
    assert!(matches!(bob.forces("short"), Err(Denial::Missing)), "it was removed");
    assert_eq!(bob.sees_owner("long").as_deref(), Some("alice"), "it lives");
}

/// Of many names that are asked about at once, each gets its answer.
pub fn every_name_of_a_batch_is_answered(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let texts: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for text in texts.iter().take(15) {
        alice.locks(text, 0).expect("it is free");
    }
    let ended = bob.asks_each(&texts, &Intent::Unlock(Breaking::Force, Condition::default()));
    assert_eq!(ended, (15, 5), "15 were held");
    // What can't be read is broken as such.
    let is_break = |event: &Event| matches!(event.event.as_str(), "force-break" | "corrupt-break");
    let told = bob.history().into_iter().filter(is_break).count();
    assert_eq!(told, 15, "each has its event");
}
