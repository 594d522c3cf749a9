//! What becomes of changes whose answers are lost.

use lokt_core::decide::Breaking;
use lokt_core::engine::{Made, Rev};
use lokt_core::swap::settle::{Settled, refused};
use lokt_core::swap::{Settling, sweep};

use crate::world::{ALICE, BOB, World, freeze, guard, lock, name, unlock};

fn settle(world: &mut World, settling: &Settling) -> Settled {
    let made = world.apply(settling.change()).expect("settling needs no session");
    settling.answered(made)
}

#[test]
fn an_addition_that_was_not_made_is_voided_for_ever() {
    for intent in [guard(), lock(None), freeze(None)] {
        let mut world = World::new();
        let plan = world.plan(ALICE, &intent, &["x", "y"]).expect("it is free");
        let settling = Settling::new(&plan).expect("an addition");
        assert_eq!(settle(&mut world, &settling), Settled::Void(None));
        assert!(world.is_refused(&plan.change), "a late copy");
        assert!(matches!(settle(&mut world, &settling), Settled::Void(Some(_))), "asked again");
    }
}

#[test]
fn an_addition_that_was_made_is_found_although_it_is_over() {
    let mut world = World::new();
    let plan = world.does(ALICE, &guard(), &["x"]);
    let settling = Settling::new(&plan).expect("an addition");
    assert_eq!(settle(&mut world, &settling), Settled::Made(Rev(2)));
    world.does(BOB, &unlock(Breaking::Force), &["x"]);
    world.does(BOB, &guard(), &["x"]);
    assert_eq!(settle(&mut world, &settling), Settled::Made(Rev(2)));
}

#[test]
fn what_was_voided_stays_void_when_its_cell_is_swept() {
    let mut world = World::new();
    let plan = world.plan(ALICE, &guard(), &["x"]).expect("it is free");
    let settling = Settling::new(&plan).expect("an addition");
    assert_eq!(settle(&mut world, &settling), Settled::Void(None));
    let change = sweep::sweep(&world.space, &world.look(&[name("x")])).expect("it is free");
    assert!(matches!(world.apply(&change), Ok(Made::Done { .. })));
    assert!(world.is_refused(&plan.change), "a late copy of the addition");
    assert!(world.is_refused(settling.change()), "a late copy of what voided it");
}

#[test]
fn a_removal_is_repeated_until_what_it_names_is_gone() {
    let mut world = World::new();
    world.does(ALICE, &lock(None), &["x"]);
    let plan = world.plan(ALICE, &unlock(Breaking::No), &["x"]).expect("its own");
    let settling = Settling::new(&plan).expect("a removal");
    assert_eq!(settle(&mut world, &settling), Settled::Made(Rev(3)));
    assert_eq!(settle(&mut world, &settling), Settled::Made(Rev(3)), "it is gone, by this one");
}

#[test]
fn a_removal_of_what_was_rewritten_is_void() {
    let mut world = World::new();
    world.does(ALICE, &lock(None), &["x"]);
    let plan = world.plan(ALICE, &unlock(Breaking::No), &["x"]).expect("its own");
    world.does(ALICE, &lock(None), &["x"]);
    let settling = Settling::new(&plan).expect("a removal");
    assert!(matches!(settle(&mut world, &settling), Settled::Void(Some(_))), "it was refreshed");
}

#[test]
fn tickets_need_no_settling() {
    let world = World::new();
    assert_eq!(Settling::new(&world.queue(BOB, Rev(1), &["x"])), None);
}

#[test]
fn a_refusal_by_the_queue_is_not_final_until_the_addition_is_settled() {
    let mut world = World::new();
    let plan = world.plan(ALICE, &lock(None), &["x"]).expect("it is free");
    let queued = world.queue(BOB, Rev(1), &["x"]);
    world.makes(&queued);
    let Ok(Made::Else(sight)) = world.apply(&plan.change) else { panic!("a waiter is there") };
    assert_eq!(refused(&plan, sight), None, "the waiter may leave, and a copy may follow");
    let settling = Settling::new(&plan).expect("an addition");
    assert_eq!(settle(&mut world, &settling), Settled::Void(None));
    world.keys.end(BOB.session());
    assert!(world.is_refused(&plan.change), "it would be held for nobody");
}

#[test]
fn a_refusal_by_another_grant_is_final() {
    let mut world = World::new();
    let plan = world.plan(ALICE, &lock(None), &["x"]).expect("it is free");
    world.does(BOB, &lock(None), &["x"]);
    let Ok(Made::Else(sight)) = world.apply(&plan.change) else { panic!("it is held") };
    assert_eq!(refused(&plan, sight.clone()), Some(Settled::Void(Some(sight))), "it is never made");
}

#[test]
fn a_refusal_of_the_second_copy_shows_that_the_first_was_made() {
    let mut world = World::new();
    for intent in [lock(None), unlock(Breaking::No)] {
        let plan = world.plan(ALICE, &intent, &["x"]).expect("it can be done");
        let Ok(Made::Done { at, .. }) = world.apply(&plan.change) else { panic!("nothing is in the way") };
        let Ok(Made::Else(sight)) = world.apply(&plan.change) else { panic!("it is made twice") };
        assert_eq!(refused(&plan, sight), Some(Settled::Made(at)), "{intent:?}");
    }
}
