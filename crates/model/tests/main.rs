//! Every state of every model within its bounds.

mod chain;
mod common;
mod ledger;
mod line;
mod named;
mod swap;
