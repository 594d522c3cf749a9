//! The audit log.

use std::ops::ControlFlow;

use lokt_core::audit::Event;
use lokt_core::hold::Hold;
use lokt_named::store::{Call, Found};

use super::caller::{answered, failed, name};
use super::{World, callers};

fn number(event: &Event) -> Option<u64> {
    event.extra.get("fencing_token").and_then(serde_json::Value::as_u64)
}

fn token(hold: &Hold) -> Option<u64> {
    hold.token.map(lokt_core::hold::Fence::get)
}

/// Every change is told, in the order in which the changes were made.
pub fn every_change_is_told_in_its_order(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 60).expect("x is free");
    alice.locks("x", 60).expect("it is alice's");
    bob.freezes("y", 0).expect("nothing freezes it");
    alice.unlocks("x").expect("it is alice's");
    bob.unfreezes("y", false).expect("it is bob's");
    let held = bob.guards("x").expect("x is free");
    bob.releases(&held).expect("it is bob's");
    let told: Vec<(String, String)> = alice.history().into_iter().map(|event| (event.event, event.name)).collect();
    let expected = [
        ("acquire", "x"),
        ("renew", "x"),
        ("freeze", "y"),
        ("release", "x"),
        ("unfreeze", "y"),
        ("acquire", "x"),
        ("release", "x"),
    ];
    let expected: Vec<_> = expected.iter().map(|(event, name)| ((*event).into(), (*name).into())).collect();
    assert_eq!(told, expected, "each change has its event");
}

/// An event names the hold, its owner and its token.
pub fn an_event_names_hold_owner_and_token(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let events = bob.history();
    let event = events.last().expect("it was told");
    assert_eq!((event.event.as_str(), event.owner.as_str()), ("acquire", "alice"), "{event:?}");
    assert_eq!(event.lock_id, held.hold.lock_id.as_str(), "{event:?}");
    assert_eq!(number(event), token(&held.hold), "{event:?}");
}

/// A break names its victim.
pub fn a_break_names_its_victim(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let hold = alice.locks("x", 5).expect("x is free");
    bob.forces("x").expect("force takes everything");
    let events = bob.history();
    let event = events.last().expect("it was told");
    assert_eq!((event.event.as_str(), event.owner.as_str()), ("force-break", "bob"), "{event:?}");
    assert_eq!(event.extra.get("pruned_owner").and_then(|owner| owner.as_str()), Some("alice"), "{event:?}");
    assert_eq!(number(event), token(&hold), "{event:?}");
    alice.locks("x", 5).expect("x is free");
    world.pass(6);
    bob.locks("x", 0).expect("it is over");
    let events = bob.history();
    let last: Vec<&str> = events.iter().rev().take(2).map(|event| event.event.as_str()).collect();
    assert_eq!(last, ["acquire", "auto-prune"], "what was in the way is told first");
}

/// The last events of a name come newest first.
pub fn the_last_events_come_newest_first(world: &dyn World) {
    let [alice, ..] = callers(world);
    for text in ["x", "y", "x"] {
        alice.locks(text, 0).expect("it is free");
        alice.unlocks(text).expect("it is alice's");
    }
    let log = alice.store().audit();
    let last = log.last(Some(&name("x")), 3, &Call::UNLIMITED);
    let one = log.last(None, 1, &Call::UNLIMITED);
    if last.is_empty() || one.is_empty() {
        failed("the log can't be read");
    }
    let last: Vec<(&str, &str)> = last.iter().map(|event| (event.event.as_str(), event.name.as_str())).collect();
    assert_eq!(last, [("release", "x"), ("acquire", "x"), ("release", "x")], "of x alone");
    assert_eq!(one.len(), 1, "no more than were asked for");
}

/// A follower sees what is added after its first look, in order and once.
pub fn a_follower_sees_what_is_added_and_nothing_before(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 0).expect("x is free");
    let mut follow = bob.store().audit().follow();
    let mut seen = Vec::new();
    let mut look = |seen: &mut Vec<String>| {
        let looked = follow.look(Some(bob.store()), &mut |found| {
            if let Found::Event(line) = found {
                seen.push(line.event().to_owned());
            }
            ControlFlow::Continue(())
        });
        answered(looked).is_break()
    };
    look(&mut seen);
    assert!(seen.is_empty(), "what was there is old: {seen:?}");
    alice.unlocks("x").expect("it is alice's");
    alice.freezes("x", 0).expect("nothing freezes it");
    look(&mut seen);
    look(&mut seen);
    assert_eq!(seen, ["release", "freeze"], "in order and once");
}
