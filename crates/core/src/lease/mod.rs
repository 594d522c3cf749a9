//! Worktree leases: one writer per worktree, known by a number that never repeats.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`policy`] | how long a lease lasts, and how much doubt is allowed |
//! | [`record`] | a lease as bytes on disk, and back |
//! | [`slot`] | a link of the chain, which carries everything that is known after it |
//! | [`state`] | what links carry on about snapshots |
//! | [`names`] | what the files of a chain are called |
//! | [`session`] | the secret that makes a lease one's own |
//! | [`sighting`] | since when something has been as it is |
//! | [`evidence`] | how it is known that a lease is over |
//! | [`deciding`] | the one decision, asked about leases |
//! | [`jvs`] | the lock of `jvs`, read, judged and written |
//! | [`audit`] | what happened, as lines that prove each other |
//! | [`config`] | what a repository and a worktree say about themselves |

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
