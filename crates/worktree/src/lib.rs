//! Worktrees: leases on them, and snapshots of them.
//!
//! The three modules know each other: a repository has worktrees, a lease decides who may change
//! one, and a snapshot is a link of the lease's chain.

pub mod lease;
pub mod repo;
pub mod snapshot;
