//! Snapshots: whole trees, how they are written down, and which of them are still needed.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`id`] | what a snapshot is called |
//! | [`entry`] | one thing in a tree, as a line |
//! | [`manifest`] | what is in a tree, and the hash over it |
//! | [`ignore`] | what is left out |
//! | [`hash`] | a hash that says how it was made |
//! | [`descriptor`] | what a snapshot is, in any of three schemas |
//! | [`risk`] | what moved, and what couldn't be taken |
//! | [`payload`] | how `jvs` hashes a tree |
//! | [`receipt`] | what makes a snapshot visible for good |
//! | [`intent`] | what somebody is about to do |
//! | [`tombstone`] | what is left of one that was collected |
//! | [`pin`] | what somebody wants to keep |
//! | [`lineage`] | which came after which |
//! | [`gc`] | which may go |
//! | [`reference`](mod@reference) | names that `jvs` gives to snapshots |

mod bytes;
pub mod descriptor;
pub mod entry;
pub mod exchange;
pub mod gc;
pub mod hash;
pub use crate::snapshot_id as id;
pub mod ignore;
pub mod intent;
pub mod lineage;
pub mod manifest;
mod members;
pub mod payload;
pub mod pin;
pub mod receipt;
pub mod reference;
pub mod risk;
pub mod tombstone;
