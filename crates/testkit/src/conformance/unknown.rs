//! Requests without an answer, late and doubled ones. Stores that answer every request pass by doing
//! nothing.

use lokt_core::decide::Intent;
use lokt_core::denial::Denial;
use lokt_named::store::Target;
use lokt_named::swap::{Fault, Of};
use lokt_sys::error::ErrorKind;

use super::caller::terms;
use super::{World, callers};

/// A grant whose request or answer was lost is granted once.
pub fn a_grant_without_an_answer_is_found_or_made_again(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    for (number, fault) in [Fault::Lost, Fault::AnswerLost].into_iter().enumerate() {
        let text = format!("x{number}");
        network.fail(Of::Make, 0, fault);
        let held = alice.guards(&text).expect("it is free");
        let stored = bob.sees(&text);
        assert_eq!(stored.slot.hold().and_then(|hold| hold.token), held.hold.token, "{fault:?}: one hold");
        let told = bob.history().iter().filter(|event| event.name == text).count();
        assert_eq!(told, 1, "{fault:?}: it was told once");
        alice.releases(&held).expect("it is alice's");
        bob.guards(&text).expect("it is free");
    }
}

/// A late request isn't made after its caller has been told that it failed, or has tried again.
pub fn a_late_grant_is_never_made_after_it_was_given_up(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    network.fail(Of::Make, 0, Fault::Late);
    let held = alice.guards("x").expect("it is tried again");
    alice.releases(&held).expect("it is alice's");
    assert_eq!(network.deliver(), 0, "the late one was made");
    assert_eq!(bob.sees_owner("x"), None, "nobody holds it");
    bob.locks("x", 0).expect("x is free");
}

/// A late request isn't made after the name was held by another caller in between.
pub fn a_late_grant_is_not_made_after_the_name_was_held_by_another(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    network.fail(Of::Make, 0, Fault::Late);
    alice.locks("x", 0).expect("it is tried again");
    alice.unlocks("x").expect("it is alice's");
    bob.locks("x", 0).expect("x is free");
    bob.unlocks("x").expect("it is bob's");
    network.deliver();
    assert_eq!(bob.sees_owner("x"), None, "a hold that nobody knows of");
}

/// A copy of a grant isn't made after the hold has ended.
pub fn a_doubled_grant_is_not_made_again_after_its_end(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    network.fail(Of::Make, 0, Fault::Doubled);
    alice.locks("x", 0).expect("x is free");
    alice.unlocks("x").expect("it is alice's");
    network.deliver();
    assert_eq!(bob.sees_owner("x"), None, "a hold that nobody knows of");
}

/// A copy of a refresh isn't made after the unlock.
pub fn a_doubled_refresh_is_not_made_again_after_the_unlock(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, _, again] = callers(world);
    let held = alice.guards("x").expect("x is free");
    network.fail(Of::Make, 0, Fault::Doubled);
    again.locks("x", 0).expect("it is alice's guard");
    again.unlocks("x").expect("the owner part is alice's");
    network.deliver();
    alice.releases(&held).expect("it is alice's");
    assert_eq!(bob.sees_owner("x"), None, "an owner part that nobody knows of");
}

/// A copy of a freeze isn't made after its end.
pub fn a_doubled_freeze_is_not_made_again_after_its_end(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    network.fail(Of::Make, 0, Fault::Doubled);
    alice.freezes("x", 0).expect("nothing freezes it");
    alice.unfreezes("x", false).expect("it is alice's");
    network.deliver();
    bob.locks("x", 0).expect("nothing freezes it");
}

/// A release whose request or answer was lost is repeated until the hold is gone.
pub fn a_release_without_an_answer_is_repeated(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    for fault in [Fault::Lost, Fault::AnswerLost, Fault::Late] {
        let held = alice.guards("x").expect("x is free");
        network.fail(Of::Make, 0, fault);
        alice.releases(&held).expect("it is alice's");
        assert_eq!(bob.sees_owner("x"), None, "{fault:?}: it was released");
        network.deliver();
    }
}

/// A request that arrives twice, and whose second copy is answered, was made once.
pub fn an_answer_to_the_second_copy_of_a_request_is_that_of_the_first(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    let echo = || network.fail(Of::Make, 0, Fault::Echoed);
    echo();
    let held = alice.guards("x").expect("x is free");
    let stored = bob.sees("x");
    assert_eq!(stored.slot.hold().and_then(|hold| hold.token), held.hold.token, "one hold");
    echo();
    alice.releases(&held).expect("it is alice's");
    echo();
    alice.locks("x", 0).expect("x is free");
    echo();
    alice.unlocks("x").expect("it is alice's");
    echo();
    bob.freezes("x", 0).expect("nothing freezes it");
    echo();
    bob.unfreezes("x", false).expect("it is bob's");
    let told: Vec<String> = bob.history().into_iter().map(|event| event.event).collect();
    assert_eq!(told, ["acquire", "release", "acquire", "release", "freeze", "unfreeze"], "each was made once");
}

/// A late copy of a release doesn't end the hold that came next.
pub fn a_late_release_does_not_end_another_hold(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    network.fail(Of::Make, 0, Fault::Doubled);
    alice.releases(&held).expect("it is alice's");
    let _held = bob.guards("x").expect("x is free");
    network.deliver();
    assert_eq!(alice.sees_owner("x").as_deref(), Some("bob"), "bob's hold went with alice's");
}

/// A ticket whose answer was lost is put once.
pub fn a_ticket_without_an_answer_is_put_once(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, carol, _] = callers(world);
    let held = alice.guards("x").expect("x is free");
    network.fail(Of::Make, 0, Fault::AnswerLost);
    let mut waiting = bob.waits_for(&["x"]);
    assert_eq!(carol.sees("x").waiting, 1, "one ticket");
    alice.releases(&held).expect("it is alice's");
    waiting.looks().expect("bob is first");
    assert_eq!(carol.sees("x").waiting, 0, "the ticket went with the grant");
}

/// A store that can't be reached says so; nothing has changed.
pub fn a_store_that_is_away_is_told_and_changes_nothing(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    network.set_away(true);
    let tried = alice.tries(Target::Lock, "x", Intent::Lock(terms(0)));
    network.set_away(false);
    match tried {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        Ok(other) => panic!("it was answered: {other:?}"),
    }
    assert_eq!(bob.sees_owner("x"), None, "nothing has changed");
}

/// A hold is renewed under the server that has taken charge.
pub fn a_hold_is_renewed_after_another_server_took_charge(world: &dyn World) {
    let Some(network) = world.network() else { return };
    let [alice, bob, ..] = callers(world);
    let held = alice.guards_for("x", 10).expect("x is free");
    network.elect();
    alice.renews(&held).expect("both answers are of one server");
    assert!(matches!(bob.guards("x"), Err(Denial::Held(_))), "it was renewed");
}
