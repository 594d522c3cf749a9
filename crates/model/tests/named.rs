//! The promises of named locks, in every state within the bounds; and what breaks them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::named::{Bounds, Flaw, Named, Survey, Trail, hunt, survey};
use lokt_testkit::tally::{self, Trial};

const THREADS: usize = 2;

/// Past the test's own capture: the number of states is what these tests are asked for.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

fn surveyed(model: Named) -> Survey {
    let survey = survey(model, THREADS);
    tally::add(Trial::State, survey.states);
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
fn all_promises_hold_through_more_time() {
    assert_all_promises_hold(Bounds::USUAL[1]);
}

#[test]
fn all_promises_hold_through_more_power_cuts() {
    assert_all_promises_hold(Bounds::USUAL[2]);
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
    let trail = hunt(Named::new(flaw.bounds()).with_flaw(flaw), promise);
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
fn a_token_shared_with_a_stopped_guard_is_caught() {
    caught(Flaw::SharedToken);
}

#[test]
fn a_token_that_comes_back_after_a_power_cut_is_caught() {
    caught(Flaw::ReturnedToken);
}
