//! **one-holder** for a minute: 32 workers, random SIGKILL and SIGSTOP of guards and commands, and an unprotected read-modify-write as what
//! the lock protects. And half a minute of guards that want several names at once, in any order.

use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::storm::{Tally, Weather, new_seed, storm};

fn rage(weather: &Weather) -> Tally {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    storm(&place, weather, new_seed()).unwrap_or_else(|broken| panic!("{broken}"))
}

#[test]
fn thirty_two_workers_under_fire_for_a_minute_never_overlap_and_lose_nothing() {
    let lasts = Duration::from_secs(60);
    let tally = rage(&Weather { workers: 32, names: &["one", "two"], at_once: 1..=1, nemesis: true, lasts });
    assert!(tally.sections > 200, "work was done: {tally:?}");
    assert!(tally.cut_short > 10 && tally.guards_killed > 10 && tally.stops > 10, "there was a nemesis: {tally:?}");
}

#[test]
fn twenty_guards_of_pairs_and_triples_for_half_a_minute_never_deadlock() {
    let (names, lasts) = (&["a", "b", "c", "d", "e", "f"], Duration::from_secs(30));
    let tally = rage(&Weather { workers: 20, names, at_once: 2..=3, nemesis: false, lasts });
    assert!(tally.sections > 200, "work was done: {tally:?}");
    assert!(tally.gave_up > 10, "some gave up, and left nothing: {tally:?}");
}

#[test]
fn pairs_and_triples_under_fire_never_overlap_and_lose_nothing() {
    let (names, lasts) = (&["a", "b", "c", "d", "e", "f"], Duration::from_secs(30));
    let tally = rage(&Weather { workers: 20, names, at_once: 2..=3, nemesis: true, lasts });
    assert!(tally.sections > 200, "work was done: {tally:?}");
}
