//! **one-holder** and **in-order** while the machine is busy and processes are killed and stopped, for a few seconds. `load.rs` does the
//! same for as long as it takes to believe it.

use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::storm::{Weather, new_seed, storm};

use crate::common::LOKT;

#[test]
fn thirty_two_workers_under_fire_never_overlap_and_lose_nothing() {
    let place = Place::new(LOKT);
    let lasts = Duration::from_secs(8);
    let weather = Weather { workers: 32, names: &["one", "two"], at_once: 1..=1, nemesis: true, lasts };
    let tally = storm(&place, &weather, new_seed()).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tally.sections > 20, "work was done: {tally:?}");
    assert!(tally.cut_short > 0 && tally.guards_killed > 0 && tally.stops > 0, "there was a nemesis: {tally:?}");
}

#[test]
fn twenty_guards_of_pairs_and_triples_in_any_order_never_deadlock() {
    let place = Place::new(LOKT);
    let lasts = Duration::from_secs(6);
    let names = &["a", "b", "c", "d", "e", "f"];
    let weather = Weather { workers: 20, names, at_once: 2..=3, nemesis: false, lasts };
    let tally = storm(&place, &weather, new_seed()).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tally.sections > 40, "work was done: {tally:?}");
    assert!(tally.gave_up > 0, "some gave up, and left nothing: {tally:?}");
}
