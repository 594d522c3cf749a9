//! Every state of every model within its bounds.

mod chain;
#[cfg(feature = "long")]
mod chain_long;
mod common;
mod ledger;
#[cfg(feature = "long")]
mod ledger_long;
mod line;
#[cfg(feature = "long")]
mod line_long;
mod named;
#[cfg(feature = "long")]
mod named_long;
