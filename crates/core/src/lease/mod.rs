//! Worktree leases: one writer per worktree, identified by a number that never repeats.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`policy`] | duration of a lease, and the allowance for doubt |
//! | [`record`] | a lease as bytes on disk, and back |
//! | [`slot`] | a link of the chain, which carries the whole state after it |
//! | [`state`] | the state of snapshots that links carry on |
//! | [`names`] | names of the files of a chain |
//! | [`session`] | the secret that proves ownership of a lease |
//! | [`sighting`] | time since which an object has been unchanged |
//! | [`evidence`] | proof that a lease has expired |
//! | [`deciding`] | decisions about leases |
//! | [`jvs`] | the lock of `jvs`: reading, judging and writing it |
//! | [`audit`] | the audit log, whose lines verify each other |
//! | [`config`] | configuration of a repository and of a worktree |

pub mod audit;
pub(crate) mod canonical;
pub mod config;
pub mod deciding;
pub mod evidence;
mod holder_id;
pub(crate) mod json;
pub mod jvs;
pub mod names;
pub mod policy;
pub mod record;
pub mod session;
pub mod sighting;
pub mod slot;
pub mod state;
