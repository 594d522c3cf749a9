//! The promises of the line, in every state within the bounds; and what breaks them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::line::{Bounds, COMES_TO_REST, Flaw, Queue, Survey, Trail, hunt, survey};
use lokt_testkit::tally::{self, Trial};

const THREADS: usize = 2;

/// Past the test's own capture: the number of states is what these tests are asked for.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

fn surveyed(model: Queue) -> Survey {
    let survey = survey(model, THREADS);
    tally::add(Trial::State, survey.states);
    say(&format!("{}: {survey}", model.bounds));
    assert!(survey.complete, "every state was looked at");
    survey
}

fn assert_all_promises_hold(bounds: Bounds) {
    let model = Queue::new(bounds);
    let survey = surveyed(model);
    for promise in &survey.broken {
        say(&format!("{promise}:\n{}", hunt(model, promise).expect("it is broken")));
    }
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; the way is above");
    assert!(survey.states > 1_000, "the model has become trivial: {survey}");
}

#[test]
fn the_kernel_alone_wakes_whoever_must_be_woken() {
    assert_all_promises_hold(Bounds::KERNEL);
}

#[test]
fn all_promises_hold_through_kills_stops_timeouts_and_strays() {
    assert_all_promises_hold(Bounds::WORLD);
}

#[test]
fn all_promises_hold_where_stops_cannot_always_be_seen() {
    assert_all_promises_hold(Bounds::APART);
}

#[test]
fn all_promises_hold_where_stops_are_never_seen() {
    assert_all_promises_hold(Bounds::UNSEEN);
}

#[test]
fn what_should_happen_does_happen() {
    let survey = surveyed(Queue::new(Bounds::WORLD).with_witnesses());
    assert_eq!(survey.unreached, BTreeSet::new(), "the model no longer does this, so its promises say less");
    assert_eq!(survey.broken, BTreeSet::new());
}

#[test]
fn no_process_goes_round_in_circles() {
    let circle = hunt(Queue::new(Bounds::WORLD), COMES_TO_REST);
    assert!(circle.is_none(), "nobody ever sleeps:\n{}", circle.expect("it is some"));
}

/// The way to the promise that `flaw` breaks.
fn caught(flaw: Flaw) -> Trail {
    let (_, promise) = Flaw::ALL.into_iter().find(|(listed, _)| *listed == flaw).expect("every flaw is listed");
    let trail = hunt(Queue::new(flaw.bounds()).with_flaw(flaw), promise);
    let trail = trail.unwrap_or_else(|| panic!("{} goes unnoticed: {promise} still holds", flaw.as_str()));
    let (steps, states) = (trail.actions.len(), trail.states);
    say(&format!("{}: {promise} is broken in {steps} steps, found in {states} states", flaw.as_str()));
    trail
}

#[test]
fn a_wake_before_the_lock_is_dropped_is_caught() {
    caught(Flaw::WakeBeforeDrop);
}

#[test]
fn a_pulse_dropped_before_the_record_is_caught() {
    caught(Flaw::PulseBeforeRecord);
}

#[test]
fn a_stopped_head_that_nobody_passes_over_is_caught() {
    caught(Flaw::NoPassingOver);
}

#[test]
fn a_sleep_on_a_pulse_that_has_vanished_is_caught() {
    caught(Flaw::SleepWithoutLook);
}

#[test]
fn a_plain_attempt_that_overtakes_is_caught() {
    caught(Flaw::PlainOvertakes);
}

#[test]
fn an_offer_that_is_never_cleared_is_caught() {
    caught(Flaw::OfferNeverCleared);
}

#[test]
fn a_new_ticket_for_the_woken_is_caught() {
    caught(Flaw::NewTicketWhenWoken);
}

#[test]
fn a_free_lock_that_nobody_notes_is_caught() {
    caught(Flaw::NoOffer);
}

#[test]
fn a_waiter_that_never_looks_at_the_record_is_caught() {
    caught(Flaw::BlindSecond);
}

#[test]
fn a_frozen_predecessor_that_is_trusted_is_caught() {
    caught(Flaw::TrustsSight);
}

#[test]
fn an_offer_that_its_waiter_never_reads_is_caught() {
    caught(Flaw::OwnOfferUnread);
}

#[test]
fn a_free_pulse_that_is_chosen_is_caught() {
    caught(Flaw::FreePulseChosen);
}

#[test]
fn a_free_pulse_that_proves_death_is_caught() {
    caught(Flaw::PulseAloneProvesDeath);
}
