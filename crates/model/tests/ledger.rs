//! The promises of append, in every state within the bounds; what breaks them; and what nobody can promise.

use lokt_model::ledger::{Appends, Bounds, Flaw, Limit};

use crate::common::{all_promises_hold, everything_happens, is_caught, surveyed};

/// Fewer would be trivial.
const STATES: usize = 10_000;

#[test]
fn all_promises_hold_beside_the_native_program() {
    all_promises_hold(Appends::new(Bounds::NATIVE), STATES);
}

#[test]
fn all_promises_hold_beside_a_shell_script() {
    all_promises_hold(Appends::new(Bounds::SHELL), STATES);
}

#[test]
fn all_promises_hold_beside_two_foreign_writers() {
    all_promises_hold(Appends::new(Bounds::PAIR), STATES);
}

#[test]
fn all_promises_hold_when_the_ledger_gets_shorter() {
    all_promises_hold(Appends::new(Bounds::SHORTENED), STATES);
}

#[test]
fn what_should_happen_does_happen_and_all_promises_hold_when_claims_are_refused() {
    everything_happens(Appends::new(Bounds::REFUSED).with_witnesses());
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
    is_caught::<Appends>(Flaw::DeleteStale);
}

#[test]
fn a_take_over_without_a_filler_is_caught() {
    is_caught::<Appends>(Flaw::NoFiller);
}

#[test]
fn a_validation_outside_the_lock_is_caught() {
    is_caught::<Appends>(Flaw::ValidateOutside);
}

#[test]
fn a_cache_without_fillers_is_caught() {
    is_caught::<Appends>(Flaw::CacheWithoutFillers);
}

#[test]
fn a_filler_that_is_looked_up_after_the_fold_is_caught() {
    is_caught::<Appends>(Flaw::FillerLookedUpLate);
}

#[test]
fn a_file_at_the_take_over_is_caught() {
    is_caught::<Appends>(Flaw::FileAtTakeOver);
}

#[test]
fn a_lock_that_is_a_file_again_after_a_take_over_is_caught() {
    is_caught::<Appends>(Flaw::NeverWary);
}

#[test]
fn a_displaced_lock_that_is_not_inspected_is_caught() {
    is_caught::<Appends>(Flaw::NotInspected);
}

#[test]
fn temporary_files_deleted_before_the_inspection_are_caught() {
    is_caught::<Appends>(Flaw::CleanFirst);
}

#[test]
fn a_dead_take_over_that_is_not_inspected_is_caught() {
    is_caught::<Appends>(Flaw::ShelfForgotten);
}

#[test]
fn a_dead_take_over_without_a_filler_is_caught() {
    is_caught::<Appends>(Flaw::DebtForgotten);
}

#[test]
fn a_refusal_without_a_filler_is_caught() {
    is_caught::<Appends>(Flaw::FillerWithEvent);
}

#[test]
fn a_filler_that_is_used_twice_is_caught() {
    is_caught::<Appends>(Flaw::FillerReused);
}

#[test]
fn a_filler_that_does_not_name_the_one_before_is_caught() {
    is_caught::<Appends>(Flaw::FillerNamesNone);
}

#[test]
fn a_filler_that_nothing_names_is_caught() {
    is_caught::<Appends>(Flaw::FillerUnnamed);
}

#[test]
fn a_fold_outside_the_lock_that_is_not_checked_inside_is_caught() {
    is_caught::<Appends>(Flaw::FoldUnchecked);
}

#[test]
fn a_publication_that_replaces_is_caught() {
    is_caught::<Appends>(Flaw::PublishReplaces);
}

#[test]
fn a_next_number_without_a_look_is_caught() {
    is_caught::<Appends>(Flaw::NextNumberBlindly);
}

#[test]
fn a_hint_without_its_head_event_is_caught() {
    is_caught::<Appends>(Flaw::HintUnchecked);
}

#[test]
fn a_missing_mutex_is_caught() {
    is_caught::<Appends>(Flaw::NoMutex);
}

#[test]
fn a_hard_link_after_the_answer_is_caught() {
    is_caught::<Appends>(Flaw::KeptLast);
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
