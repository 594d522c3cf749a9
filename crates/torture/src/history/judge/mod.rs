//! Which promises were broken. Each judge takes a whole history, in any order, and gives what it found, one sentence each.
//!
//! | judge | promise |
//! | --- | --- |
//! | [`overlaps`] | one-holder |
//! | [`tokens`] | token-order |
//! | [`line`](line()) | in-order |
//! | [`late_writes`] | token-order: whoever comes too late is refused |
//! | [`lost_updates`] | what a lock is for, whatever the clocks say |
//! | [`ledger`](ledger()) | no-overwrite: numbers are given once, in the order of the appends |

mod late;
mod ledger;
mod line;
mod numbers;
mod overlaps;
mod tokens;
mod updates;

pub use late::{LateWrite, late_writes};
pub use ledger::{Append, LedgerFault, ledger};
pub use line::{OutOfTurn, Passed, line};
pub use overlaps::{Overlap, overlaps};
pub use tokens::{TokenFault, tokens};
pub use updates::{LostUpdate, Register, Write, lost_updates, registers, registers_after};
