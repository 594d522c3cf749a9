//! The repository's audit log: every link of every chain becomes a line, and each line proves the one before.
//!
//! What happened is in the link, which is synced; its line isn't. So a line that is missing is made anew from its link by whoever comes
//! next, and no link is pruned before its line is durable. Where the log ends is known from `audit.head`, and from the anchors that the
//! links carry: a tail that was cut off contradicts them. A power cut takes unsynced lines away too; then the boot is another one.
//!
//! Whoever appends holds the mutex of the log's directory. Nobody's lease waits for it: what can't be written now is written later.
//!
//! | file | one idea |
//! | --- | --- |
//! | `lines` | the log, read line by line |
//! | `log` | the log, open for appending |
//! | `chains` | the links that the log is about |
//! | `fill` | what is missing is appended |
//! | `find` | is an event in it? |
//! | `settle` | what a power cut took away |
//! | `note` | what happened without a link |
//! | `verify` | everything is read and compared |
//! | `renew` | a new log in the place of a broken one |

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

/// One event a line.
pub(super) const LOG: &str = "audit.jsonl";
/// How long the log is.
const HEAD: &str = "audit.head";
/// What it is called that lines are gone, and why: the anchors that it lists count no more.
const REPAIR: &str = "audit_repair";
