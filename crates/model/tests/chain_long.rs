//! The promises of worktree leases with more clients and commands, in every state within bounds that take about a minute.

use std::collections::BTreeSet;
use std::io::{self, Write};

use lokt_model::chain::{Bounds, Leases, survey};
use lokt_testkit::tally::{self, Trial};

#[test]
fn all_promises_hold_with_more_clients_and_commands() {
    for bounds in Bounds::LONG {
        let survey = survey(Leases::new(bounds), 2);
        tally::add(Trial::State, survey.states);
        // Past the test's own capture: the number of states is what this test is asked for.
        writeln!(io::stdout(), "{bounds}: {survey}").expect("stdout is open");
        assert!(survey.complete, "every state was looked at");
        assert_eq!(survey.broken, BTreeSet::new(), "a promise is broken; `hunt` shows how");
        assert!(survey.states > 100_000, "the model has become trivial: {survey}");
    }
}
