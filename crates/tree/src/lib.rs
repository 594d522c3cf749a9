//! Trees of files: scanned, copied, compared, hashed and made durable. This crate knows
//! directories, but nothing of leases or repositories.
//!
//! A copy is faithful if nothing changed while it was made. To prove that: [`scan`],
//! [`Tree::flush`], [`copy`], [`scan`] again, and compare both scans with [`changes::between`].
//! Flushing write-protects pages that are mapped into memory, so a later write through a map
//! updates the file's ctime like any other write. If a file system doesn't keep that promise,
//! [`recheck_hashes`] reads everything once more. [`capture`] does all of it.

mod attributes;
mod beneath;
mod capture;
mod carry;
pub mod changes;
mod control;
mod copy;
mod data;
mod error;
mod hash;
mod one;
mod pool;
mod restore;
mod reuse;
mod room;
pub mod roots;
mod scan;
mod stat;
mod sync;
mod trust;
mod xattrs;

pub use lokt_core::snapshot::entry::{Entry, Kind, SourceStamp, Time};
pub use lokt_core::snapshot::ignore::Ignore;
pub use lokt_core::snapshot::manifest::{Header, Manifest};

pub use attributes::give_alike;
pub use beneath::{LeftOut, Tree};
pub use beneath::{READABLE, open_beneath, split};
pub use capture::{Captured, capture};
pub use carry::{carry_ignored, ignored_in};
pub use control::{Control, Phase, Progress, Silent};
pub use copy::{Copied, CopyOptions, Lost, OnChanged, copy};
pub use error::TreeError;
pub use hash::{HashOptions, Hashed, Known, Names, hash_tree, recheck_hashes};
pub use lokt_core::snapshot::descriptor::Consistency;
pub use one::HashFrom;
pub use restore::{Restored, restore};
pub use reuse::Reuse;
pub use scan::{Node, NodeKind, Scan, Skipped, TICK_NS, scan};
pub use stat::Stat;
pub use sync::{Shore, sync, sync_name};
