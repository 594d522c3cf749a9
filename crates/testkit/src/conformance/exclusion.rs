//! Who may hold a name.

use lokt_core::denial::Denial;

use super::caller::token;
use super::{World, callers};

/// A free name is granted, to a lock and to a guard.
pub fn a_free_name_is_granted(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let hold = alice.locks("x", 0).expect("x is free");
    assert_eq!((hold.owner.as_str(), hold.name.as_str()), ("alice", "x"), "the hold says who has what");
    let held = bob.guards("y").expect("y is free");
    assert_eq!((held.hold.owner.as_str(), held.hold.name.as_str()), ("bob", "y"), "the hold says who has what");
    assert_eq!(alice.sees_owner("y").as_deref(), Some("bob"), "others see it");
}

/// A second owner is refused and told who holds the name.
pub fn a_second_owner_is_refused_and_told_who_holds(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let hold = alice.locks("x", 0).expect("x is free");
    match bob.locks("x", 0) {
        Err(Denial::Held(holder)) => {
            assert_eq!((&holder.hold.owner, &holder.hold.lock_id), (&hold.owner, &hold.lock_id), "it is alice's");
        }
        other => panic!("bob's lock is to be refused: {other:?}"),
    }
    let Err(denial) = bob.guards("x") else { panic!("a guard was granted what is held") };
    assert!(matches!(denial, Denial::Held(_)), "{denial:?}");
}

/// Guards of one owner exclude each other.
pub fn a_guard_excludes_a_guard_of_the_same_owner(world: &dyn World) {
    let [alice, _, _, again] = callers(world);
    let held = alice.guards("x").expect("x is free");
    assert!(matches!(again.guards("x"), Err(Denial::Held(_))), "two guards of one owner are inside");
    alice.releases(&held).expect("it is alice's");
    again.guards("x").expect("x is free again");
}

/// A guard excludes a lock of another owner, and the other way round.
pub fn a_guard_excludes_a_lock_of_another_owner(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let _held = alice.guards("x").expect("x is free");
    assert!(matches!(bob.locks("x", 0), Err(Denial::Held(_))), "a lock beside another's guard");
    bob.locks("y", 0).expect("y is free");
    assert!(matches!(alice.guards("y"), Err(Denial::Held(_))), "a guard beside another's lock");
}

/// Holds of different names have nothing to do with each other.
pub fn names_are_independent(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    for text in ["a", "a-b", "a.b", "ab"] {
        alice.locks(text, 0).expect("it is free");
    }
    bob.locks("b", 0).expect("b is free");
    alice.unlocks("a").expect("it is alice's");
    for text in ["a-b", "a.b", "ab"] {
        assert_eq!(bob.sees_owner(text).as_deref(), Some("alice"), "{text} went with a");
    }
    assert_eq!(bob.sees_owner("b").as_deref(), Some("bob"), "b went with a");
}

/// A name is free after its release, for everyone.
pub fn a_name_is_free_after_its_release(world: &dyn World) {
    let [alice, bob, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    alice.releases(&held).expect("it is alice's");
    assert_eq!(bob.sees_owner("x"), None, "it was released");
    bob.guards("x").expect("x is free");
}

/// Of many callers that ask one after the other, the first is granted.
pub fn of_many_callers_one_is_granted(world: &dyn World) {
    let callers = callers(world);
    let granted: Vec<_> = callers.iter().filter_map(|caller| caller.guards("x").ok()).collect();
    assert_eq!(granted.len(), 1, "one guard at a time");
    let stored = callers[1].sees("x");
    assert_eq!(stored.slot.hold().map(token), Some(granted[0].token()), "the store has the one that was granted");
}
