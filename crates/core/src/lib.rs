//! The pure part of lokt: what a hold is, how it is stored, and who gets it.
//!
//! Nothing here opens a file, reads a clock or inspects a process. What the caller has learnt comes
//! in as [`decide::Facts`], and the outcome goes out as a [`decide::Decision`]. The commands, the
//! property tests and the model checker run the same [`decide::decide`], so the code that was
//! checked is the code that runs.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`name`] | which strings may name a lock |
//! | [`hold`] | a hold and its two parts |
//! | [`record`] | a hold as bytes on disk, and back |
//! | [`time`] | moments, and how much of a lease is left |
//! | [`liveness`] | what the evidence says about a process |
//! | [`decide`] | the one decision |
//! | [`denial`] | why something was refused |
//! | [`audit`] | events, as lines of the log |
//! | [`checkup`] | findings of a doctor |
//! | [`counter`] | tokens that never repeat |
//! | [`proc`] | what Linux writes about processes, mounts and locks |
//! | [`git`] | what git writes about where a repository is |
//! | [`pulse`] | waiters and holders, as a file's content |
//! | [`engine`] | keys, revisions and sessions of a remote engine |
//! | [`swap`] | named locks as changes of such keys |
//! | [`mod@line`] | the queue: its order, and who waits for whom |
//! | [`inherited_holds`] | the holds of a process, for its children |
//! | [`guard`] | the state machine of a guard |
//! | [`ledger`] | events, claims and the chain over them |
//! | [`lease`] | worktree leases: their records, chain and time |
//! | [`snapshot`] | whole trees: their files, their lineage and which may be deleted |
//! | [`duration`] | durations as people type and read them |
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod audit;
pub mod checkup;
pub mod counter;
pub mod decide;
pub mod denial;
pub mod duration;
pub mod engine;
pub mod fnv;
pub mod git;
pub mod guard;
pub mod hold;
pub mod inherited_holds;
#[cfg(feature = "worktree")]
pub mod lease;
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod line;
pub mod liveness;
pub mod name;
pub mod proc;
pub mod pulse;
pub mod record;
#[cfg(feature = "worktree")]
pub mod snapshot;
#[cfg(feature = "worktree")]
pub mod snapshot_id;
pub mod swap;
pub mod time;
