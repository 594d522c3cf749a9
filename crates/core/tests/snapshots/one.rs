//! What most tests need one of.

use jiff::Timestamp;
use lokt_core::snapshot::id::SnapshotId;

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("tests write times that are some")
}

/// The id of one of the snapshots of a test; greater is younger.
pub(crate) fn id(number: u64) -> SnapshotId {
    SnapshotId::new(1_708_300_800_000 + number, 7)
}
