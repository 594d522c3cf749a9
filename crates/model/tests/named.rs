//! The promises of named locks, in every state within the bounds; and what breaks them.

use lokt_model::named::{Bounds, Flaw, Named};

use crate::common::{all_promises_hold, everything_happens, is_caught};

/// Fewer would be trivial.
const STATES: usize = 100_000;

#[test]
fn all_promises_hold_through_more_time() {
    all_promises_hold(Named::new(Bounds::USUAL[1]), STATES);
}

#[test]
fn all_promises_hold_through_more_power_cuts() {
    all_promises_hold(Named::new(Bounds::USUAL[2]), STATES);
}

#[test]
fn what_should_happen_does_happen() {
    everything_happens(Named::new(Bounds::SMALL).with_witnesses());
}

#[test]
fn break_by_unlink_is_caught() {
    is_caught::<Named>(Flaw::BreakByUnlink);
}

#[test]
fn a_token_in_the_deleted_file_is_caught() {
    is_caught::<Named>(Flaw::TokenInDeletedFile);
}

#[test]
fn a_command_whose_pid_proves_life_is_caught() {
    is_caught::<Named>(Flaw::CommandPidProvesLife);
}

#[test]
fn a_ticket_that_is_the_token_is_caught() {
    is_caught::<Named>(Flaw::TicketIsToken);
}

#[test]
fn a_record_before_the_counter_is_caught() {
    is_caught::<Named>(Flaw::RecordBeforeCounter);
}

#[test]
fn the_same_token_on_an_expired_refresh_is_caught() {
    is_caught::<Named>(Flaw::SameTokenOnExpiredRefresh);
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    is_caught::<Named>(Flaw::AnswerBeforeSync);
}

#[test]
fn a_token_shared_with_a_stopped_guard_is_caught() {
    is_caught::<Named>(Flaw::SharedToken);
}

#[test]
fn a_token_that_comes_back_after_a_power_cut_is_caught() {
    is_caught::<Named>(Flaw::ReturnedToken);
}
