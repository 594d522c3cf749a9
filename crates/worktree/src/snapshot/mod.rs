//! Snapshots of worktrees: atomic and fenced.
//!
//! A tree is copied, proven to match the source, made durable, and described. Then a link of the
//! lease's chain makes it visible; it can be added only while the token is current. Other processes
//! learn of it from its receipt, which is written after that by the first process that can.
//!
//! | file | one idea |
//! | --- | --- |
//! | `answers` | requests and answers |
//! | `places` | directories and files |
//! | `intents` | announced work in progress |
//! | `keeper` | the authority for work |
//! | `capture` | a copy, and whether anything changed in the meantime |
//! | `create` | taking a snapshot |
//! | `catalog` | which snapshots exist |
//! | `naming` | names that users give them |
//! | `diff` | comparing two trees |
//! | `verify`, `old_payload` | whether a snapshot is unchanged |
//! | `restore` | restoring a snapshot |
//! | `swap` | replacing one tree by another |
//! | `parts` | the same entry by entry, around what must not move |
//! | `worked_in` | a worktree as snapshots see it |
//! | `pins` | snapshots that are kept |
//! | `gc` | snapshots that are removed |
//! | `gc_mutex` | no removal while a snapshot is used |
//! | `trouble` | errors about files |

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
