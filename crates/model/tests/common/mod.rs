//! What is asked of every model.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::{Protocol, Survey};
use lokt_testkit::tally::{self, Trial};

/// One per core of the smallest machine that runs this.
const THREADS: usize = 2;

/// Past the test's own capture: the number of states is what these tests are asked for.
pub(crate) fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

/// Goes through every state.
pub(crate) fn surveyed(model: impl Protocol) -> Survey {
    let survey = model.survey(THREADS);
    tally::add(Trial::State, survey.states);
    say(&format!("{}: {survey}", model.bounds()));
    assert!(survey.complete, "every state was looked at");
    survey
}

/// Every promise holds in every state, and those are more than `states`: a model that has become trivial promises anything.
pub(crate) fn all_promises_hold(model: impl Protocol, states: usize) -> Survey {
    let survey = surveyed(model);
    for promise in &survey.broken {
        say(&format!("{promise}:\n{}", model.hunt(promise).expect("it is broken")));
    }
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; the way is above");
    assert!(survey.states > states, "the model has become trivial: {survey}");
    survey
}

/// Whatever should happen does, and breaks no promise: a model that no longer does it says less.
pub(crate) fn everything_happens(model: impl Protocol) {
    let survey = all_promises_hold(model, 0);
    assert_eq!(survey.unreached, BTreeSet::new(), "the model no longer does this, so its promises say less");
}

/// The promise that `flaw` breaks is found broken.
pub(crate) fn is_caught<P: Protocol>(flaw: P::Flaw) {
    let (_, promise) = P::FLAWS.iter().find(|(listed, _)| *listed == flaw).expect("every flaw is listed");
    let called = P::called(flaw);
    let trail = P::with_flaw(flaw).hunt(promise);
    let trail = trail.unwrap_or_else(|| panic!("{called} goes unnoticed: {promise} still holds"));
    let (steps, states) = (trail.actions.len(), trail.states);
    say(&format!("{called}: {promise} is broken in {steps} steps, found in {states} states"));
}
