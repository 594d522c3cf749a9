//! The promises of named locks on an engine with more faults, in every state.

use lokt_model::swap::{Bounds, Swap};

use crate::common::all_promises_hold;

#[test]
fn all_promises_hold_with_two_late_doubled_or_lost_requests() {
    for bounds in Bounds::LONG {
        all_promises_hold(Swap::new(bounds), 10_000);
    }
}
