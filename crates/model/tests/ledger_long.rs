//! The promises of append with more writers, in every state within bounds that take about a minute.

use lokt_model::ledger::{Appends, Bounds};

use crate::common::all_promises_hold;

#[test]
fn all_promises_hold_beside_more_writers() {
    for bounds in Bounds::LONG {
        all_promises_hold(Appends::new(bounds), 500_000);
    }
}
