//! Snapshots: whole trees, their file formats, and which of them are still needed.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`id`] | the id of a snapshot |
//! | [`entry`] | one entry of a tree, as a line |
//! | [`manifest`] | the content of a tree, and the hash over it |
//! | [`ignore`] | paths that are left out |
//! | [`hash`] | a hash with the name of its algorithm |
//! | [`descriptor`] | the descriptor of a snapshot, in any of three schemas |
//! | [`risk`] | entries that changed, and entries that couldn't be copied |
//! | [`payload`] | the hash of `jvs` over a tree |
//! | [`receipt`] | the receipt that keeps a snapshot visible permanently |
//! | [`intent`] | an operation that a process is about to do |
//! | [`tombstone`] | what is left of a collected snapshot |
//! | [`pin`] | snapshots that a user wants to keep |
//! | [`lineage`] | ancestry of snapshots |
//! | [`gc`] | snapshots that may be deleted |
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
