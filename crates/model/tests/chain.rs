//! The promises of worktree leases, in every state within the bounds; what breaks them; and what they don't depend on.

use lokt_model::Protocol as _;
use lokt_model::chain::{Bounds, Flaw, Leases};

use crate::common::{all_promises_hold, is_caught, say};

/// Fewer would be trivial.
const STATES: usize = 10_000;

#[test]
fn all_promises_hold_when_leases_are_taken_over() {
    all_promises_hold(Leases::new(Bounds::TAKE), STATES);
}

#[test]
fn all_promises_hold_when_somebody_makes_a_base_late() {
    all_promises_hold(Leases::new(Bounds::BIRTH), STATES);
}

#[test]
fn all_promises_hold_from_nothing_and_again_from_nothing() {
    all_promises_hold(Leases::new(Bounds::UNBORN), STATES);
}

#[test]
fn all_promises_hold_when_files_are_published_by_whatever_clocks() {
    all_promises_hold(Leases::new(Bounds::PUBLISH), STATES);
}

#[test]
fn all_promises_hold_when_slots_are_removed() {
    all_promises_hold(Leases::new(Bounds::PRUNE), STATES);
}

#[test]
fn all_promises_hold_when_two_come_late_where_slots_were_removed() {
    all_promises_hold(Leases::new(Bounds::LATE), STATES);
}

#[test]
fn all_promises_hold_while_the_chain_is_being_deleted() {
    all_promises_hold(Leases::new(Bounds::CUT), STATES);
}

#[test]
fn all_promises_hold_for_two_processes_of_one_session() {
    all_promises_hold(Leases::new(Bounds::SESSION), STATES);
}

#[test]
fn what_could_be_left_out_breaks_no_promise() {
    for flaw in Flaw::HARMLESS {
        say(flaw.as_str());
        all_promises_hold(Leases::with_flaw(flaw), 0);
    }
}

#[test]
fn a_grant_that_replaces_is_caught() {
    is_caught::<Leases>(Flaw::GrantReplaces);
}

#[test]
fn a_renewal_that_replaces_is_caught() {
    is_caught::<Leases>(Flaw::RenewReplaces);
}

#[test]
fn a_release_that_deletes_is_caught() {
    is_caught::<Leases>(Flaw::ReleaseDeletes);
}

#[test]
fn tokens_that_start_again_are_caught() {
    is_caught::<Leases>(Flaw::TokenRestarts);
}

#[test]
fn a_validation_before_the_publication_is_caught() {
    is_caught::<Leases>(Flaw::ValidateThenPublish);
}

#[test]
fn a_jump_without_a_slot_is_caught() {
    is_caught::<Leases>(Flaw::JumpWithoutSlot);
}

#[test]
fn a_block_for_two_chains_is_caught() {
    is_caught::<Leases>(Flaw::SharedBlock);
}

#[test]
fn a_ceiling_that_is_replaced_is_caught() {
    is_caught::<Leases>(Flaw::CeilingByRename);
}

#[test]
fn a_ceiling_that_is_raised_after_use_is_caught() {
    is_caught::<Leases>(Flaw::RaiseLate);
}

#[test]
fn a_chain_born_at_the_last_token_is_caught() {
    is_caught::<Leases>(Flaw::LastToken);
}

#[test]
fn a_stale_base_that_is_used_is_caught() {
    is_caught::<Leases>(Flaw::StaleBase);
}

#[test]
fn ceilings_that_are_listed_before_the_base_are_caught() {
    is_caught::<Leases>(Flaw::CeilingBeforeBase);
}

#[test]
fn a_missing_second_look_is_caught() {
    is_caught::<Leases>(Flaw::NoGhostCheck);
}

#[test]
fn a_missing_chain_id_is_caught() {
    is_caught::<Leases>(Flaw::NoChainId);
}

#[test]
fn a_slot_that_follows_any_file_is_caught() {
    is_caught::<Leases>(Flaw::FollowsAnyFile);
}

#[test]
fn pruning_without_a_note_is_caught() {
    is_caught::<Leases>(Flaw::PruneUnnoted);
}

#[test]
fn a_first_slot_that_is_kept_instead_of_a_note_is_caught() {
    is_caught::<Leases>(Flaw::FirstKept);
}

#[test]
fn a_late_slot_that_is_removed_is_caught() {
    is_caught::<Leases>(Flaw::GhostRemoved);
}

#[test]
fn a_lease_that_is_counted_from_the_answer_is_caught() {
    is_caught::<Leases>(Flaw::CountedFromAnswer);
}

#[test]
fn a_renewal_that_is_stamped_before_the_look_is_caught() {
    is_caught::<Leases>(Flaw::StampedBefore);
}

#[test]
fn a_late_renewal_that_ends_a_newer_one_is_caught() {
    is_caught::<Leases>(Flaw::GivesBackAny);
}

#[test]
fn a_staging_that_is_emptied_after_the_answer_is_caught() {
    is_caught::<Leases>(Flaw::EmptyAfterAnswer);
}

#[test]
fn a_staging_that_is_emptied_before_the_look_is_caught() {
    is_caught::<Leases>(Flaw::EmptyFirst);
}

#[test]
fn a_staging_that_is_emptied_of_everything_is_caught() {
    is_caught::<Leases>(Flaw::EmptyAll);
}

#[test]
fn renewals_beside_the_chain_are_caught() {
    is_caught::<Leases>(Flaw::RenewBeside);
}

#[test]
fn late_renewals_beside_the_chain_are_caught() {
    is_caught::<Leases>(Flaw::LateBeside);
}

#[test]
fn a_clock_that_is_read_last_with_renewals_beside_the_chain_is_caught() {
    is_caught::<Leases>(Flaw::ClockLastBeside);
}

#[test]
fn a_grant_that_is_not_noted_exclusively_is_caught() {
    is_caught::<Leases>(Flaw::NoteReplaced);
}

#[test]
fn a_grant_that_is_noted_after_the_last_look_is_caught() {
    is_caught::<Leases>(Flaw::NoteLast);
}
