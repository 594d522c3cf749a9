//! The promises of named locks on an engine, in every state within the bounds; and what breaks them.

use std::collections::BTreeSet;

use lokt_model::swap::{Bounds, Flaw, Swap};

use crate::common::{all_promises_hold, is_caught};

/// Fewer would be trivial.
const STATES: usize = 1_000;

/// All promises hold in every state, and everything that the world is for happens in it.
fn holds_and_happens(bounds: Bounds) {
    let survey = all_promises_hold(Swap::new(bounds).with_witnesses(), STATES);
    assert_eq!(survey.unreached, BTreeSet::new(), "the model no longer does this");
}

#[test]
fn every_world_is_looked_at_here() {
    assert_eq!(Bounds::USUAL.len(), 13, "each has a test below");
}

#[test]
fn all_promises_hold_for_grants_over_ended_sessions() {
    holds_and_happens(Bounds::GRANTS);
}

#[test]
fn all_promises_hold_for_both_parts_of_one_hold() {
    holds_and_happens(Bounds::PARTS);
}

#[test]
fn all_promises_hold_for_a_guard_after_one_that_was_overtaken() {
    holds_and_happens(Bounds::OVERTAKEN);
}

#[test]
fn all_promises_hold_for_owner_parts_that_expire() {
    holds_and_happens(Bounds::LEASES);
}

#[test]
fn all_promises_hold_for_freezes_against_grants() {
    holds_and_happens(Bounds::FREEZES);
}

#[test]
fn all_promises_hold_for_the_end_of_a_freeze() {
    holds_and_happens(Bounds::THAWS);
}

#[test]
fn all_promises_hold_in_the_queue() {
    holds_and_happens(Bounds::QUEUE);
}

#[test]
fn all_promises_hold_when_a_waiter_is_passed_over() {
    holds_and_happens(Bounds::PASSED);
}

#[test]
fn all_promises_hold_for_a_refused_request_that_arrives_again() {
    holds_and_happens(Bounds::SECOND_THOUGHTS);
}

#[test]
fn all_promises_hold_for_two_names_at_once() {
    holds_and_happens(Bounds::BOTH);
}

#[test]
fn all_promises_hold_while_cells_are_swept() {
    holds_and_happens(Bounds::SWEEPS);
}

#[test]
fn all_promises_hold_over_time_and_elections() {
    holds_and_happens(Bounds::TIME);
}

#[test]
fn all_promises_hold_for_a_waiter_whose_session_ends_or_is_renewed() {
    holds_and_happens(Bounds::LONG_WAIT);
}

#[test]
fn a_waiters_renewal_by_a_former_server_is_caught() {
    is_caught::<Swap>(Flaw::WaiterWithoutTerm);
}

#[test]
fn a_cell_that_a_join_leaves_alone_is_caught() {
    is_caught::<Swap>(Flaw::JoinKeepsCell);
}

#[test]
fn a_cell_that_a_refresh_leaves_alone_is_caught() {
    is_caught::<Swap>(Flaw::RefreshKeepsCell);
}

#[test]
fn a_cell_that_a_freeze_leaves_alone_is_caught() {
    is_caught::<Swap>(Flaw::FreezeKeepsCell);
}

#[test]
fn a_sweep_without_meta_is_caught() {
    is_caught::<Swap>(Flaw::SweepWithoutMeta);
}

#[test]
fn a_change_that_is_settled_by_revoking_is_caught() {
    is_caught::<Swap>(Flaw::SettledByRevoking);
}

#[test]
fn a_change_that_is_settled_by_reading_is_caught() {
    is_caught::<Swap>(Flaw::SettledByReading);
}

#[test]
fn a_blind_retry_is_caught() {
    is_caught::<Swap>(Flaw::BlindRetry);
}

#[test]
fn a_gone_session_that_is_taken_for_an_answer_is_caught() {
    is_caught::<Swap>(Flaw::GoneSessionTrusted);
}

#[test]
fn a_refusal_that_is_taken_for_final_is_caught() {
    is_caught::<Swap>(Flaw::ElseTrusted);
}

#[test]
fn a_refusal_of_a_second_copy_that_is_trusted_is_caught() {
    is_caught::<Swap>(Flaw::EchoTrusted);
}

#[test]
fn a_deadline_from_the_answer_is_caught() {
    is_caught::<Swap>(Flaw::DeadlineFromAnswer);
}

#[test]
fn a_renewal_without_a_look_is_caught() {
    is_caught::<Swap>(Flaw::KeepWithoutRead);
}

#[test]
fn a_renewal_by_a_former_server_is_caught() {
    is_caught::<Swap>(Flaw::KeepWithoutTerm);
}

#[test]
fn another_place_per_name_is_caught() {
    is_caught::<Swap>(Flaw::PlacePerName);
}

#[test]
fn a_grant_without_a_range_compare_is_caught() {
    is_caught::<Swap>(Flaw::NoRangeCompare);
}

#[test]
fn a_token_from_the_cell_is_caught() {
    is_caught::<Swap>(Flaw::TokenFromCell);
}
