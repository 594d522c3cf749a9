//! The promises of the line with a fourth process, in every state. `cargo run -p lokt-model -- --large` goes further.

use lokt_model::line::{Bounds, Queue};

use crate::common::all_promises_hold;

#[test]
fn all_promises_hold_through_kills_stops_and_timeouts_with_a_fourth_process() {
    all_promises_hold(Queue::new(Bounds::LONG), 1_000_000);
}
