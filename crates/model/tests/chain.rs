//! The promises of worktree leases, in every state within the bounds; what breaks them; and what they don't depend on.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::chain::{Bounds, Flaw, Leases, Survey, hunt, survey};
use lokt_testkit::tally::{self, Trial};

const THREADS: usize = 2;

/// Past the test's own capture: the number of states is what these tests are asked for.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

fn surveyed(model: Leases) -> Survey {
    let survey = survey(model, THREADS);
    tally::add(Trial::State, survey.states);
    say(&format!("{}: {survey}", model.bounds));
    assert!(survey.complete, "every state was looked at");
    for promise in &survey.broken {
        say(&format!("{promise}:\n{}", hunt(model, promise).expect("it is broken")));
    }
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; the way is above");
    survey
}

fn assert_all_promises_hold(bounds: Bounds) {
    let survey = surveyed(Leases::new(bounds));
    assert!(survey.states > 10_000, "the model has become trivial: {survey}");
}

#[test]
fn all_promises_hold_when_leases_are_taken_over() {
    assert_all_promises_hold(Bounds::TAKE);
}

#[test]
fn all_promises_hold_when_somebody_makes_a_base_late() {
    assert_all_promises_hold(Bounds::BIRTH);
}

#[test]
fn all_promises_hold_from_nothing_and_again_from_nothing() {
    assert_all_promises_hold(Bounds::UNBORN);
}

#[test]
fn all_promises_hold_when_files_are_published_by_whatever_clocks() {
    assert_all_promises_hold(Bounds::PUBLISH);
}

#[test]
fn all_promises_hold_when_slots_are_removed() {
    assert_all_promises_hold(Bounds::PRUNE);
}

#[test]
fn all_promises_hold_when_two_come_late_where_slots_were_removed() {
    assert_all_promises_hold(Bounds::LATE);
}

#[test]
fn all_promises_hold_while_the_chain_is_being_deleted() {
    assert_all_promises_hold(Bounds::CUT);
}

#[test]
fn all_promises_hold_for_two_processes_of_one_session() {
    assert_all_promises_hold(Bounds::SESSION);
}

#[test]
fn what_could_be_left_out_breaks_no_promise() {
    for flaw in Flaw::HARMLESS {
        say(flaw.as_str());
        surveyed(Leases::new(flaw.bounds()).with_flaw(flaw));
    }
}

/// The promise that `flaw` breaks is found broken.
fn caught(flaw: Flaw) {
    let (_, promise) = Flaw::ALL.into_iter().find(|(listed, _)| *listed == flaw).expect("every flaw is listed");
    let trail = hunt(Leases::new(flaw.bounds()).with_flaw(flaw), promise);
    let trail = trail.unwrap_or_else(|| panic!("{} goes unnoticed: {promise} still holds", flaw.as_str()));
    let (steps, states) = (trail.actions.len(), trail.states);
    say(&format!("{}: {promise} is broken in {steps} steps, found in {states} states", flaw.as_str()));
}

#[test]
fn a_grant_that_replaces_is_caught() {
    caught(Flaw::GrantReplaces);
}

#[test]
fn a_renewal_that_replaces_is_caught() {
    caught(Flaw::RenewReplaces);
}

#[test]
fn a_release_that_deletes_is_caught() {
    caught(Flaw::ReleaseDeletes);
}

#[test]
fn tokens_that_start_again_are_caught() {
    caught(Flaw::TokenRestarts);
}

#[test]
fn a_validation_before_the_publication_is_caught() {
    caught(Flaw::ValidateThenPublish);
}

#[test]
fn a_jump_without_a_slot_is_caught() {
    caught(Flaw::JumpWithoutSlot);
}

#[test]
fn a_block_for_two_chains_is_caught() {
    caught(Flaw::SharedBlock);
}

#[test]
fn a_ceiling_that_is_replaced_is_caught() {
    caught(Flaw::CeilingByRename);
}

#[test]
fn a_ceiling_that_is_raised_after_use_is_caught() {
    caught(Flaw::RaiseLate);
}

#[test]
fn a_chain_born_at_the_last_token_is_caught() {
    caught(Flaw::LastToken);
}

#[test]
fn a_stale_base_that_is_used_is_caught() {
    caught(Flaw::StaleBase);
}

#[test]
fn ceilings_that_are_listed_before_the_base_are_caught() {
    caught(Flaw::CeilingBeforeBase);
}

#[test]
fn a_missing_second_look_is_caught() {
    caught(Flaw::NoGhostCheck);
}

#[test]
fn a_missing_chain_id_is_caught() {
    caught(Flaw::NoChainId);
}

#[test]
fn a_slot_that_follows_any_file_is_caught() {
    caught(Flaw::FollowsAnyFile);
}

#[test]
fn pruning_without_a_note_is_caught() {
    caught(Flaw::PruneUnnoted);
}

#[test]
fn a_first_slot_that_is_kept_instead_of_a_note_is_caught() {
    caught(Flaw::FirstKept);
}

#[test]
fn a_late_slot_that_is_removed_is_caught() {
    caught(Flaw::GhostRemoved);
}

#[test]
fn a_lease_that_is_counted_from_the_answer_is_caught() {
    caught(Flaw::CountedFromAnswer);
}

#[test]
fn a_renewal_that_is_stamped_before_the_look_is_caught() {
    caught(Flaw::StampedBefore);
}

#[test]
fn a_late_renewal_that_ends_a_newer_one_is_caught() {
    caught(Flaw::GivesBackAny);
}

#[test]
fn a_staging_that_is_emptied_after_the_answer_is_caught() {
    caught(Flaw::EmptyAfterAnswer);
}

#[test]
fn a_staging_that_is_emptied_before_the_look_is_caught() {
    caught(Flaw::EmptyFirst);
}

#[test]
fn a_staging_that_is_emptied_of_everything_is_caught() {
    caught(Flaw::EmptyAll);
}

#[test]
fn renewals_beside_the_chain_are_caught() {
    caught(Flaw::RenewBeside);
}

#[test]
fn late_renewals_beside_the_chain_are_caught() {
    caught(Flaw::LateBeside);
}

#[test]
fn a_clock_that_is_read_last_with_renewals_beside_the_chain_is_caught() {
    caught(Flaw::ClockLastBeside);
}

#[test]
fn a_grant_that_is_not_noted_exclusively_is_caught() {
    caught(Flaw::NoteReplaced);
}

#[test]
fn a_grant_that_is_noted_after_the_last_look_is_caught() {
    caught(Flaw::NoteLast);
}
