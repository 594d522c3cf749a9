//! The promises of the line with a fourth process, in every state. `cargo run -p lokt-model -- --large` goes further.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::line::{Bounds, Queue, survey};
use lokt_testkit::tally::{self, Trial};

#[test]
fn all_promises_hold_through_kills_stops_and_timeouts_with_a_fourth_process() {
    let bounds = Bounds::LONG;
    let survey = survey(Queue::new(bounds), 2);
    tally::add(Trial::State, survey.states);
    // Past the test's own capture: the number of states is what this test is asked for.
    writeln!(io::stdout(), "{bounds}: {survey}").expect("stdout is open");
    assert!(survey.complete, "every state was looked at");
    assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; `hunt` shows how");
    assert!(survey.states > 1_000_000, "the model has become trivial: {survey}");
}
