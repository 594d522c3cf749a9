//! The promises of append, in every state within the bounds; what breaks them; and what nobody can promise.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::ledger::{Appends, Bounds, Flaw, Limit, Survey, Trail, hunt, survey};
use lokt_testkit::tally::{self, Trial};

const THREADS: usize = 2;

/// Past the test's own capture: the number of states is what these tests are asked for.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

fn surveyed(model: Appends) -> Survey {
    let survey = survey(model, THREADS);
    tally::add(Trial::State, survey.states);
    say(&format!("{}: {survey}", model.bounds));
    assert!(survey.complete, "every state was looked at");
    survey
}

fn assert_all_promises_hold(bounds: Bounds) {
    let model = Appends::new(bounds);
    let survey = surveyed(model);
    for promise in &survey.broken {
        say(&format!("{promise}:\n{}", hunt(model, promise).expect("it is broken")));
    }
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; the way is above");
    assert!(survey.states > 10_000, "the model has become trivial: {survey}");
}

#[test]
fn all_promises_hold_beside_the_native_program() {
    assert_all_promises_hold(Bounds::NATIVE);
}

#[test]
fn all_promises_hold_beside_a_shell_script() {
    assert_all_promises_hold(Bounds::SHELL);
}

#[test]
fn all_promises_hold_beside_two_foreign_writers() {
    assert_all_promises_hold(Bounds::PAIR);
}

#[test]
fn all_promises_hold_when_the_ledger_gets_shorter() {
    assert_all_promises_hold(Bounds::SHORTENED);
}

#[test]
fn what_should_happen_does_happen_and_all_promises_hold_when_claims_are_refused() {
    let survey = surveyed(Appends::new(Bounds::REFUSED).with_witnesses());
    assert_eq!(survey.unreached, BTreeSet::new(), "the model no longer does this, so its promises say less");
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; `hunt` shows how");
}

/// The way to the promise that `flaw` breaks.
fn caught(flaw: Flaw) -> Trail {
    let (_, promise) = Flaw::ALL.into_iter().find(|(listed, _)| *listed == flaw).expect("every flaw is listed");
    let trail = hunt(Appends::new(flaw.bounds()).with_flaw(flaw), promise);
    let trail = trail.unwrap_or_else(|| panic!("{} goes unnoticed: {promise} still holds", flaw.as_str()));
    let (steps, states) = (trail.actions.len(), trail.states);
    say(&format!("{}: {promise} is broken in {steps} steps, found in {states} states", flaw.as_str()));
    trail
}

/// Beyond `limit` an event can be lost, but never unseen; and nothing else is broken than what the limit says.
fn shown(limit: Limit) {
    let (_, promises) = Limit::ALL.into_iter().find(|(listed, _)| *listed == limit).expect("every limit is listed");
    let survey = surveyed(Appends::new(limit.bounds()));
    assert_eq!(
        survey.broken,
        promises.iter().copied().collect(),
        "{} is another limit than the docs say",
        limit.as_str()
    );
}

#[test]
fn a_stale_lock_that_is_deleted_is_caught() {
    caught(Flaw::DeleteStale);
}

#[test]
fn a_take_over_without_a_filler_is_caught() {
    caught(Flaw::NoFiller);
}

#[test]
fn a_validation_outside_the_lock_is_caught() {
    caught(Flaw::ValidateOutside);
}

#[test]
fn a_cache_without_fillers_is_caught() {
    caught(Flaw::CacheWithoutFillers);
}

#[test]
fn a_filler_that_is_looked_up_after_the_fold_is_caught() {
    caught(Flaw::FillerLookedUpLate);
}

#[test]
fn a_file_at_the_take_over_is_caught() {
    caught(Flaw::FileAtTakeOver);
}

#[test]
fn a_lock_that_is_a_file_again_after_a_take_over_is_caught() {
    caught(Flaw::NeverWary);
}

#[test]
fn a_displaced_lock_that_is_not_inspected_is_caught() {
    caught(Flaw::NotInspected);
}

#[test]
fn temporary_files_deleted_before_the_inspection_are_caught() {
    caught(Flaw::CleanFirst);
}

#[test]
fn a_dead_take_over_that_is_not_inspected_is_caught() {
    caught(Flaw::ShelfForgotten);
}

#[test]
fn a_dead_take_over_without_a_filler_is_caught() {
    caught(Flaw::DebtForgotten);
}

#[test]
fn a_refusal_without_a_filler_is_caught() {
    caught(Flaw::FillerWithEvent);
}

#[test]
fn a_filler_that_is_used_twice_is_caught() {
    caught(Flaw::FillerReused);
}

#[test]
fn a_filler_that_does_not_name_the_one_before_is_caught() {
    caught(Flaw::FillerNamesNone);
}

#[test]
fn a_filler_that_nothing_names_is_caught() {
    caught(Flaw::FillerUnnamed);
}

#[test]
fn a_fold_outside_the_lock_that_is_not_checked_inside_is_caught() {
    caught(Flaw::FoldUnchecked);
}

#[test]
fn a_publication_that_replaces_is_caught() {
    caught(Flaw::PublishReplaces);
}

#[test]
fn a_next_number_without_a_look_is_caught() {
    caught(Flaw::NextNumberBlindly);
}

#[test]
fn a_hint_without_its_head_event_is_caught() {
    caught(Flaw::HintUnchecked);
}

#[test]
fn a_missing_mutex_is_caught() {
    caught(Flaw::NoMutex);
}

#[test]
fn a_hard_link_after_the_answer_is_caught() {
    caught(Flaw::KeptLast);
}

#[test]
fn a_writer_stopped_before_it_counts_is_beyond_the_promise_but_seen() {
    shown(Limit::StoppedBeforeCount);
}

#[test]
fn a_late_writer_that_frees_another_foreign_lock_is_beyond_the_promise_but_seen() {
    shown(Limit::FreesAnother);
}

#[test]
fn a_lock_that_somebody_deletes_is_beyond_the_promise_but_seen() {
    shown(Limit::Deleted);
}
