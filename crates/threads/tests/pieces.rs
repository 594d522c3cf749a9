//! The pieces that the library's threads meet by, in every order that there is.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lokt_sys::one_shot::OneShot;
use lokt_sys::stopper::{Stopper, look_after};
use lokt_sys::threads::Time;
use lokt_sys::threads::mpsc::Receiver;
use shuttle::thread;

use crate::explore::{explore, explore_all};

/// What can be told and listened for.
pub(crate) trait Tells: Default + Send + Sync + 'static {
    fn tell(&self, what: u32);
    fn listen(&self) -> Receiver<u32>;
}

impl Tells for OneShot<u32> {
    fn tell(&self, what: u32) {
        self.tell(what);
    }

    fn listen(&self) -> Receiver<u32> {
        self.listen()
    }
}

#[test]
fn news_are_told_once_to_everyone_in_any_order() {
    explore_all("news are told once to everyone", tell_and_listen::<OneShot<u32>>);
}

/// Two find out about the same thing while somebody begins to listen.
pub(crate) fn tell_and_listen<T: Tells>() {
    let news = Arc::new(T::default());
    let early = news.listen();
    let tell = |what| {
        let news = Arc::clone(&news);
        thread::spawn(move || news.tell(what))
    };
    let tellers = [tell(1), tell(2)];
    let amid = news.listen();
    for teller in tellers {
        teller.join().expect("it doesn't panic");
    }
    let told: Vec<Vec<u32>> = [early, amid, news.listen()].iter().map(|each| each.try_iter().collect()).collect();
    assert!(told.iter().all(|each| each.len() == 1), "news are told once to everyone: {told:?}");
    assert!(told.iter().all(|each| each == &told[0]), "and the same to all: {told:?}");
}

/// What can be told to stop.
pub(crate) trait Stops: Default + Send + Sync + 'static {
    fn stop(&self);
    fn stops_within(&self, time: Duration) -> bool;
}

impl Stops for Stopper {
    fn stop(&self) {
        self.stop();
    }

    fn stops_within(&self, time: Duration) -> bool {
        self.stops_within(time)
    }
}

#[test]
fn whoever_is_told_to_stop_stops_in_any_order() {
    explore_all("whoever is told to stop stops", stop_a_sleeper::<Stopper>);
}

/// Only the stop can wake the sleeper.
pub(crate) fn stop_a_sleeper<S: Stops>() {
    Time::stands_still();
    let stopper = Arc::new(S::default());
    let sleeper = thread::spawn({
        let stopper = Arc::clone(&stopper);
        move || stopper.stops_within(Duration::from_secs(1))
    });
    stopper.stop();
    assert!(sleeper.join().expect("it doesn't panic"), "it is time to stop");
}

#[test]
fn whoever_sleeps_wakes_when_time_has_passed_or_it_is_told_to_stop() {
    explore("whoever sleeps wakes in time", || {
        let passed = Arc::new(AtomicUsize::new(0));
        let passes = Arc::clone(&passed);
        let time = Time::begin(move |_| {
            passes.fetch_add(1, Ordering::Relaxed);
        });
        let stopper = Arc::new(Stopper::default());
        let sleeper = thread::spawn({
            let stopper = Arc::clone(&stopper);
            move || {
                std::iter::repeat_with(|| stopper.stops_within(Duration::from_secs(1)))
                    .take_while(|stops| !stops)
                    .count()
            }
        });
        time.allow(2);
        stopper.stop();
        let woke_up = sleeper.join().expect("it doesn't panic");
        assert!(woke_up <= passed.load(Ordering::Relaxed), "it sleeps for as long as it was told to");
    });
}

#[test]
fn whoever_looks_after_something_ends_with_the_work_in_any_order() {
    explore_all("whoever looks after something ends with the work", || {
        Time::stands_still();
        look_after(|stopper| assert!(stopper.stops_within(Duration::from_secs(1)), "the work is done"), || ());
    });
}

#[test]
fn whoever_looks_after_something_ends_with_a_panic_of_the_work_in_any_order() {
    explore_all("whoever looks after something ends with a panic of the work", || {
        panic_beside(|beside, work| look_after(beside, work));
    });
}

type Beside<'a> = &'a mut (dyn FnMut(&Stopper) + Send);

pub(crate) fn panic_beside(look_after: fn(Beside<'_>, fn())) {
    Time::stands_still();
    let mut beside = |stopper: &Stopper| assert!(stopper.stops_within(Duration::from_secs(1)), "the work is over");
    let work = || resume_unwind(Box::new("the work panics"));
    let unwound = catch_unwind(AssertUnwindSafe(|| look_after(&mut beside, work)));
    assert!(unwound.is_err(), "the panic goes on");
}
