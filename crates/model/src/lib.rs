//! Models of lokt's protocols, checked exhaustively within bounds.
//!
//! A model runs the product's own decisions in a small world of its own, where every order of events happens, and says which promises
//! hold in all of them. `cargo run -p lokt-model` prints how many states that were, and which mistakes would have been found.

pub mod chain;
pub mod ledger;
pub mod line;
pub mod named;
mod protocol;
mod run;
pub mod swap;

pub use protocol::Protocol;
pub use run::{Survey, Trail};
