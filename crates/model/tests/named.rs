//! The promises of named locks, in every state within the bounds; and what breaks them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::named::{
    Bounds, Flaw, NO_LOST_THIEF, NO_RETURN, Named, ONE_HOLDER, OWN_TOKEN, RETURNED_TOKEN, SHARED_TOKEN, Survey, Trail,
    hunt, survey,
};

const THREADS: usize = 2;

/// Past the test's own capture: the number of states is what these tests are asked for.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

fn surveyed(model: Named) -> Survey {
    let survey = survey(model, THREADS);
    say(&format!("{}: {survey}", model.bounds));
    assert!(survey.complete, "every state was looked at");
    survey
}

fn assert_all_promises_hold(bounds: Bounds) {
    let survey = surveyed(Named::new(bounds));
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; `hunt` shows how");
    assert!(survey.states > 100_000, "the model has become trivial: {survey}");
}

#[test]
fn all_promises_hold_through_kills_deletes_leases_and_a_power_cut() {
    assert_all_promises_hold(Bounds::USUAL[0]);
}

#[test]
fn all_promises_hold_through_more_time() {
    assert_all_promises_hold(Bounds::USUAL[1]);
}

#[test]
fn all_promises_hold_through_more_power_cuts() {
    assert_all_promises_hold(Bounds::USUAL[2]);
}

#[test]
#[ignore = "takes minutes"]
fn all_promises_hold_within_large_bounds() {
    Bounds::LARGE.into_iter().for_each(assert_all_promises_hold);
}

#[test]
fn what_should_happen_does_happen() {
    let survey = surveyed(Named::new(Bounds::SMALL).with_witnesses());
    assert_eq!(survey.unreached, BTreeSet::new(), "the model no longer does this, so its promises say less");
    assert_eq!(survey.broken, BTreeSet::new());
}

/// The way to the promise that `flaw` breaks.
fn caught(flaw: Flaw) -> Trail {
    let (_, promise) = Flaw::ALL.into_iter().find(|(listed, _)| *listed == flaw).expect("every flaw is listed");
    let trail = hunt(Named::new(Bounds::SMALL).with_flaw(flaw), promise);
    let trail = trail.unwrap_or_else(|| panic!("{} goes unnoticed: {promise} still holds", flaw.as_str()));
    let (steps, states) = (trail.actions.len(), trail.states);
    say(&format!("{}: {promise} is broken in {steps} steps, found in {states} states", flaw.as_str()));
    trail
}

#[test]
fn break_by_unlink_is_caught() {
    caught(Flaw::BreakByUnlink);
}

#[test]
fn a_token_in_the_deleted_file_is_caught() {
    caught(Flaw::TokenInDeletedFile);
}

#[test]
fn a_command_whose_pid_proves_life_is_caught() {
    caught(Flaw::CommandPidProvesLife);
}

#[test]
fn a_ticket_that_is_the_token_is_caught() {
    caught(Flaw::TicketIsToken);
}

#[test]
fn a_record_before_the_counter_is_caught() {
    caught(Flaw::RecordBeforeCounter);
}

#[test]
fn the_same_token_on_an_expired_refresh_is_caught() {
    caught(Flaw::SameTokenOnExpiredRefresh);
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    caught(Flaw::AnswerBeforeSync);
}

#[test]
fn known_gap_a_guard_joins_a_hold_under_the_token_of_one_that_still_runs() {
    let survey = surveyed(Named::new(SHARED_TOKEN).with_gaps());
    assert_eq!(
        survey.broken,
        BTreeSet::from([ONE_HOLDER, NO_LOST_THIEF, OWN_TOKEN]),
        "if nothing is broken, the gap is closed: remove it from gap.rs"
    );
}

#[test]
fn known_gap_a_hold_returns_after_a_greater_token_was_given() {
    let survey = surveyed(Named::new(RETURNED_TOKEN).with_gaps());
    assert_eq!(
        survey.broken,
        BTreeSet::from([NO_RETURN]),
        "if nothing is broken, the gap is closed: remove it from gap.rs"
    );
}
