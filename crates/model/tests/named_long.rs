//! The promises of named locks, in every state within bounds that take about a minute. `cargo run -p lokt-model -- --large` goes further.

use lokt_model::named::{Bounds, Named};

use crate::common::all_promises_hold;

#[test]
fn all_promises_hold_through_kills_deletes_leases_and_a_power_cut() {
    all_promises_hold(Named::new(Bounds::USUAL[0]), 1_000_000);
}
