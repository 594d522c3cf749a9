//! Snapshots of worktrees: whole or not there, and fenced.
//!
//! A tree is copied, proven to be what was there, made durable, and described; then a link of the lease's chain makes it visible, which can
//! be added only while the token is still the one. What tells others is its receipt, written after that by whoever comes first.
//!
//! | file | one idea |
//! | --- | --- |
//! | `answers` | what is asked, and what is answered |
//! | `places` | where things are |
//! | `intents` | what somebody is at |
//! | `keeper` | under what work is done |
//! | `capture` | a copy, and whether anything moved meanwhile |
//! | `create` | a snapshot is taken |
//! | `catalog` | which ones there are |
//! | `naming` | what users call them |
//! | `diff` | two trees, compared |
//! | `verify`, `old_payload` | is one what it was? |
//! | `restore` | one comes back |
//! | `swap` | a tree takes the place of another |
//! | `parts` | the same entry by entry, around what must not move |
//! | `worked_in` | a worktree as snapshots see it |
//! | `carry` | what is ignored stays |
//! | `pins` | what is kept |
//! | `gc` | what goes |
//! | `gc_mutex` | not while it is used |
//! | `trouble` | what went wrong with files |

mod answers;
mod capture;
pub(crate) mod catalog;
pub(crate) mod create;
mod diff;
pub(crate) mod gc;
mod gc_mutex;
pub(crate) mod intents;
mod keeper;
mod naming;
mod old_payload;
mod parts;
mod pins;
pub(crate) mod places;
pub(crate) mod restore;
pub(crate) mod swap;
mod trouble;
mod verify;
pub(crate) mod worked_in;

pub use answers::{
    Acting, Collected, Difference, InPlace, Listed, Named, Restored, Restoring, SnapshotWish, Snapshotting, Spoiled,
    Taken, Unfinished, Unfolding, Verification,
};
pub use catalog::{Catalog, Snapshots};
pub use gc::{Gc, GcDone, GcWish};
pub use lokt_core::snapshot::descriptor::{Consistency, Descriptor};
pub use lokt_core::snapshot::gc::{Kept, Plan, Retention, Why};
pub use lokt_core::snapshot::id::SnapshotId;
pub use lokt_core::snapshot::lineage::Node;
pub use naming::LATEST;
pub use restore::restored_name;
