//! Every state of the models within bounds that take about a minute each.

mod chain_long;
#[expect(dead_code, reason = "what is asked of every model is more than what is asked of the large ones")]
mod common;
mod ledger_long;
mod line_long;
mod named_long;
mod swap_long;
