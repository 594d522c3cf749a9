//! The repository's audit log: every link of every chain becomes a line, and each line proves the
//! one before.
//!
//! The event is in the link, which is synced; its line isn't. So the next process recreates a
//! missing line from its link, and no link is pruned before its line is durable. The end of the log
//! is known from `audit.head`, and from the anchors that the links carry: a truncated log
//! contradicts them. A power cut also loses unsynced lines; then the boot has changed.
//!
//! A process that appends holds the mutex of the log's directory. No lease waits for it: what can't
//! be written now is written later.
//!
//! | file | one idea |
//! | --- | --- |
//! | `lines` | the log, read line by line |
//! | `log` | the log, open for appending |
//! | `chains` | the links that the log is about |
//! | `fill` | appending missing events |
//! | `find` | searching for an event |
//! | `settle` | recovery after a power cut |
//! | `note` | events without a link |
//! | `verify` | checking the whole log |
//! | `renew` | a new log that replaces a broken one |

mod chains;
mod fill;
mod find;
mod lines;
mod log;
mod note;
mod renew;
mod settle;
mod verify;

pub use fill::{Filled, fill};
pub use find::has;
pub use log::sync;
pub use note::{event, note};
pub use renew::{Anew, begin_anew};
pub use verify::{AuditLog, AuditVerdict};

/// The log: one event per line.
pub(super) const LOG: &str = "audit.jsonl";
/// Records how long the log is.
const HEAD: &str = "audit.head";
/// Operation of an event that says that lines are lost, and why: the anchors that it lists no
/// longer count.
const REPAIR: &str = "audit_repair";
