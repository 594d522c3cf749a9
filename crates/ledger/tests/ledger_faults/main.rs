//! Each disk call of each way to add events fails, tears, dies or loses power once. What was acknowledged is there, whole, and the next
//! append works.

mod scenes;

use std::sync::Arc;
use std::time::Duration;

use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::mem_disk::PowerCut;
use scenes::{Acks, SCENES, Scene, World};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// How many disk calls the scene makes when nothing goes wrong.
fn calls_of(scene: &Scene) -> usize {
    let world = World::new();
    (scene.prepare)(&world);
    let disk = Arc::new(FaultDisk::counting(world.disk()));
    let done = world.ledger_on("actor", disk.clone()).and_then(|ledger| (scene.act)(&ledger));
    let done = done.unwrap_or_else(|error| panic!("{}: nothing goes wrong: {error}", scene.title));
    world.keeps(&done, scene.title);
    world.lock_is_free(scene.title);
    disk.calls()
}

/// Plays the scene with a fault; gives what was acknowledged, or nothing where it failed.
fn play(world: &World, scene: &Scene, at: usize, fault: Fault) -> Option<Acks> {
    (scene.prepare)(world);
    world.remember();
    let disk = Arc::new(FaultDisk::new(world.disk(), at, fault));
    world.ledger_on("actor", disk).and_then(|ledger| (scene.act)(&ledger)).ok()
}

/// Whatever was left: nothing is lost, nothing is torn, and whoever comes next gets in at once and leaves all in order.
fn goes_on(world: &World, scene: &Scene, acks: &Acks, context: &str) {
    world.keeps(acks, context);
    let acks = [acks.clone(), world.next(context)].concat();
    world.keeps(&acks, context);
    world.lock_is_free(context);
    if scene.takes_over {
        // Whoever was stopped comes back: it puts its event where it was about to, and takes away what has the lock's name.
        let target = scenes::BEFORE + 1;
        world.comes_back(target);
        world.keeps(&acks, &format!("{context}, and the late writer came back"));
    }
    world.is_sound(context);
    world.is_tidy(context);
}

#[test]
fn every_call_may_fail_once() {
    for scene in &SCENES {
        for at in 0..calls_of(scene) {
            for fault in [Fault::Errno(EIO), Fault::Errno(ENOSPC), Fault::Torn(ENOSPC)] {
                let context = format!("{}, call {at}, {fault:?}", scene.title);
                let world = World::new();
                let acks = play(&world, scene, at, fault);
                // A lock that was there before may still be, or what took its place: the work isn't done.
                if acks.is_none() && !scene.finds_lock {
                    world.lock_is_free(&context);
                }
                goes_on(&world, scene, &acks.unwrap_or_default(), &context);
            }
        }
    }
}

#[test]
fn whoever_is_killed_at_any_call_leaves_nothing_that_the_next_append_cannot_deal_with() {
    for scene in &SCENES {
        for at in 0..=calls_of(scene) {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                let context = format!("{}, killed at call {at}, {fault:?}", scene.title);
                let world = World::new();
                let acks = play(&world, scene, at, fault).unwrap_or_default();
                world.mem.drop_locks();
                goes_on(&world, scene, &acks, &context);
            }
        }
    }
}

#[test]
fn power_may_go_at_any_call() {
    for scene in &SCENES {
        for at in 0..=calls_of(scene) {
            for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
                let context = format!("{}, power gone at call {at}, {cut:?}", scene.title);
                let mut world = World::new();
                let acks = play(&world, scene, at, Fault::DieBefore).unwrap_or_default();
                world.power_cut(cut);
                world.keeps(&acks, &context);
                let acks = [acks, world.next(&context)].concat();
                world.keeps(&acks, &context);
                world.lock_is_free(&context);
                world.is_sound(&context);
            }
        }
    }
}

/// The same key again, after any failure, gives one event.
#[test]
fn an_append_with_a_key_may_be_repeated_after_any_failure() {
    let scene = SCENES.iter().find(|scene| scene.title == scenes::KEYED).expect("there is one");
    for at in 0..=calls_of(scene) {
        for fault in [Fault::Errno(EIO), Fault::DieBefore, Fault::DieAfter] {
            let context = format!("{}, call {at}, {fault:?}", scene.title);
            let world = World::new();
            let first = play(&world, scene, at, fault).unwrap_or_default();
            world.mem.drop_locks();
            let again = (scene.act)(&world.ledger("actor")).unwrap_or_else(|error| panic!("{context}: {error}"));
            world.keeps(&again, &context);
            assert!(first.is_empty() || first == again, "{context}: {first:?}, then {again:?}");
            let (_, text) = &again[0];
            let count = world.events(&context).iter().filter(|event| event.contains(text.as_str())).count();
            assert_eq!(count, 1, "{context}: one key, one event");
        }
    }
}

/// A power cut comes while somebody is inside. The lock may have become durable with somebody else's event.
#[test]
fn the_lock_of_a_boot_that_is_over_is_dead_at_once() {
    let (mut world, title) = (World::new(), "the first append after a reboot");
    world.next(title);
    world.leave_lock();
    world.power_cut(PowerCut::Everything);
    let acks = world.next_within(Duration::from_secs(1), title);
    world.keeps(&acks, title);
    world.lock_is_free(title);
    assert_eq!(world.events(title).len(), 2, "{title}: the dead don't come back, so nothing is filled");
}
