//! A hold that is renewed while it is given back, dropped or taken away.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lokt::{Held, Lokt, NotReleased};
use shuttle::thread;

use crate::explore::explore;
use crate::world::{World, held};

/// So short that it is to be renewed whenever the renewer wakes up.
const LEASE: Option<Duration> = Some(Duration::from_secs(1));

/// So many sleeps of a renewer end by themselves: a renewal, a look, and what comes then.
const SLEEPS: u32 = 3;

#[test]
fn no_renewal_comes_after_a_release() {
    static RENEWED: AtomicUsize = AtomicUsize::new(0);
    explore("no renewal comes after a release", || {
        let world = World::new();
        release_amid_renewals(&world);
        world.was_released_once();
        RENEWED.fetch_add(world.count("renew").min(1), Ordering::Relaxed);
    });
    assert!(RENEWED.load(Ordering::Relaxed) > 0, "in some schedules there was a renewal before the release");
}

pub(crate) fn release_amid_renewals(world: &World) {
    let held = world.alices(LEASE);
    world.time.allow(SLEEPS);
    held.release().expect("nobody took it away");
    world.alices_has_ended();
}

#[test]
fn a_hold_that_is_dropped_amid_renewals_ends_once() {
    explore("a hold that is dropped amid renewals ends once", || {
        let world = World::new();
        let held = world.alices(LEASE);
        let elsewhere = thread::spawn(move || drop(held));
        world.time.allow(SLEEPS);
        elsewhere.join().expect("it doesn't panic");
        world.alices_has_ended();
        world.was_released_once();
    });
}

#[test]
fn a_panic_amid_renewals_ends_the_hold_once() {
    explore("a panic amid renewals ends the hold once", || {
        let world = World::new();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _held = world.alices(LEASE);
            world.time.allow(SLEEPS);
            resume_unwind(Box::new("a panic while it is held"));
        }));
        assert!(unwound.is_err(), "it panicked");
        world.alices_has_ended();
        world.was_released_once();
    });
}

#[test]
fn no_lost_thief_a_hold_that_was_lost_is_not_released_over_the_next() {
    explore("a hold that was lost is not released over the next", || {
        let world = Arc::new(World::new());
        let held = world.alices(LEASE);
        let carol = thread::spawn({
            let world = Arc::clone(&world);
            move || world.carol_takes_it()
        });
        world.time.allow(SLEEPS);
        let released = held.release();
        world.alices_has_ended();
        carol.join().expect("it doesn't panic");
        assert!(matches!(released, Ok(()) | Err(NotReleased::Lost(_))), "the disk works: {released:?}");
        assert_eq!(world.count("release"), usize::from(released.is_ok()), "what is said is what happened");
        world.is_carols();
    });
}

#[test]
fn checks_from_several_threads_agree_about_a_loss() {
    explore("checks from several threads agree about a loss", || {
        let world = Arc::new(World::new());
        let held = Arc::new(world.alices(LEASE));
        let carol = thread::spawn({
            let world = Arc::clone(&world);
            move || world.carol_takes_it()
        });
        let check = |held: &Arc<Held>| {
            let held = Arc::clone(held);
            thread::spawn(move || {
                let first = held.check();
                let second = held.check();
                assert!(first.is_ok() || second.is_err(), "a loss stays a loss");
            })
        };
        let checks = [check(&held), check(&held)];
        world.time.allow(SLEEPS);
        for thread in checks.into_iter().chain([carol]) {
            thread.join().expect("it doesn't panic");
        }
        assert!(held.check().is_err(), "it is carol's");
        let held = Arc::into_inner(held).expect("nobody else has it");
        assert!(matches!(held.release(), Err(NotReleased::Lost(_))), "it can't be given back");
        world.alices_has_ended();
        world.is_carols();
    });
}

#[test]
fn one_holder_whatever_the_order_of_threads() {
    explore("at most one thread is inside", || {
        let world = World::new();
        meet(&world, &world.lokt("alice"));
    });
}

/// Two threads want the same name, twice each; whoever gets it may be renewing it.
pub(crate) fn meet(world: &World, lokt: &Lokt) {
    let inside = Arc::new(AtomicUsize::new(0));
    world.time.allow(SLEEPS);
    let wants = || {
        let (lokt, inside) = (lokt.clone(), Arc::clone(&inside));
        thread::spawn(move || {
            for _ in 0..2 {
                match held(&lokt, LEASE) {
                    Ok(Some(held)) => {
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "one-holder: another one is inside");
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::Relaxed);
                        held.release().expect("one-holder: nobody takes it away");
                    }
                    Ok(None) => thread::yield_now(),
                    Err(other) => panic!("one-holder: nobody else is inside the mutex: {other}"),
                }
            }
        })
    };
    for thread in [wants(), wants()] {
        thread.join().expect("it doesn't panic");
    }
    assert_eq!(world.count("acquire"), world.count("release"), "every hold ended");
}
