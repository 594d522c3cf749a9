//! The promises of the line, in every state within the bounds; and what breaks them.

use lokt_model::Protocol as _;
use lokt_model::line::{Bounds, COMES_TO_REST, Flaw, Queue};

use crate::common::{all_promises_hold, everything_happens, is_caught};

/// Fewer would be trivial.
const STATES: usize = 1_000;

#[test]
fn the_kernel_alone_wakes_whoever_must_be_woken() {
    all_promises_hold(Queue::new(Bounds::KERNEL), STATES);
}

#[test]
fn all_promises_hold_through_kills_stops_timeouts_and_strays() {
    all_promises_hold(Queue::new(Bounds::WORLD), STATES);
}

#[test]
fn all_promises_hold_where_stops_cannot_always_be_seen() {
    all_promises_hold(Queue::new(Bounds::APART), STATES);
}

#[test]
fn all_promises_hold_where_stops_are_never_seen() {
    all_promises_hold(Queue::new(Bounds::UNSEEN), STATES);
}

#[test]
fn what_should_happen_does_happen() {
    everything_happens(Queue::new(Bounds::WORLD).with_witnesses());
}

#[test]
fn no_process_goes_round_in_circles() {
    let circle = Queue::new(Bounds::WORLD).hunt(COMES_TO_REST);
    assert!(circle.is_none(), "nobody ever sleeps:\n{}", circle.expect("it is some"));
}

#[test]
fn a_wake_before_the_lock_is_dropped_is_caught() {
    is_caught::<Queue>(Flaw::WakeBeforeDrop);
}

#[test]
fn a_pulse_dropped_before_the_record_is_caught() {
    is_caught::<Queue>(Flaw::PulseBeforeRecord);
}

#[test]
fn a_stopped_head_that_nobody_passes_over_is_caught() {
    is_caught::<Queue>(Flaw::NoPassingOver);
}

#[test]
fn a_sleep_on_a_pulse_that_has_vanished_is_caught() {
    is_caught::<Queue>(Flaw::SleepWithoutLook);
}

#[test]
fn a_plain_attempt_that_overtakes_is_caught() {
    is_caught::<Queue>(Flaw::PlainOvertakes);
}

#[test]
fn an_offer_that_is_never_cleared_is_caught() {
    is_caught::<Queue>(Flaw::OfferNeverCleared);
}

#[test]
fn a_new_ticket_for_the_woken_is_caught() {
    is_caught::<Queue>(Flaw::NewTicketWhenWoken);
}

#[test]
fn a_free_lock_that_nobody_notes_is_caught() {
    is_caught::<Queue>(Flaw::NoOffer);
}

#[test]
fn a_waiter_that_never_looks_at_the_record_is_caught() {
    is_caught::<Queue>(Flaw::BlindSecond);
}

#[test]
fn a_frozen_predecessor_that_is_trusted_is_caught() {
    is_caught::<Queue>(Flaw::TrustsSight);
}

#[test]
fn an_offer_that_its_waiter_never_reads_is_caught() {
    is_caught::<Queue>(Flaw::OwnOfferUnread);
}

#[test]
fn a_free_pulse_that_is_chosen_is_caught() {
    is_caught::<Queue>(Flaw::FreePulseChosen);
}

#[test]
fn a_free_pulse_that_proves_death_is_caught() {
    is_caught::<Queue>(Flaw::PulseAloneProvesDeath);
}
