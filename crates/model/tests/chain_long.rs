//! The promises of worktree leases with more clients and commands, in every state within bounds that take about a minute.

use lokt_model::chain::{Bounds, Leases};

use crate::common::all_promises_hold;

#[test]
fn all_promises_hold_with_more_clients_and_commands() {
    for bounds in Bounds::LONG {
        all_promises_hold(Leases::new(bounds), 100_000);
    }
}
