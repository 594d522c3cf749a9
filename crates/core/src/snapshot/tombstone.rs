//! Remains of a collected snapshot: that it existed, and between which others, so that its
//! descendants still have a history.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::Value;

use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};
use crate::lease::json::Ordered;
use crate::time::show_wall;

/// Version of the format.
const VERSION: u64 = 1;

/// Progress of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcState {
    /// The snapshot is to be deleted; it may still exist.
    Marked,
    /// The snapshot is gone.
    Committed,
    /// The snapshot couldn't be deleted.
    Failed,
}

/// A tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// Its worktree.
    pub worktree_id: Option<String>,
    /// Its predecessor.
    pub parent: Option<SnapshotId>,
    /// Progress of its deletion.
    pub state: GcState,
    /// Time at which it was collected.
    pub deleted_at: Option<Timestamp>,
    /// Reason why it was deleted, or why it couldn't be.
    pub reason: Option<String>,
    /// Its size in bytes.
    pub bytes: Option<u64>,
}

impl GcState {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Marked => "marked",
            Self::Committed => "committed",
            Self::Failed => "failed",
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        [Self::Marked, Self::Committed, Self::Failed].into_iter().find(|state| value == state.as_str())
    }
}

impl Tombstone {
    /// Returns its bytes: one line. Unknown members aren't written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut members = vec![("version", VERSION.into()), ("snapshot_id", self.snapshot_id.as_str().into())];
        members.extend(self.worktree_id.as_deref().map(|worktree| ("worktree_id", worktree.into())));
        members.extend(self.parent.as_ref().map(|parent| ("parent_snapshot_id", parent.as_str().into())));
        members.push(("gc_state", self.state.as_str().into()));
        members.extend(self.deleted_at.map(|at| ("deleted_at", show_wall(at).into())));
        members.extend(self.reason.as_deref().map(|reason| ("reason", reason.into())));
        members.extend(self.bytes.map(|bytes| ("bytes", bytes.into())));
        Ordered(members).to_bytes()
    }

    /// Parses a tombstone, of ours or of `jvs`, which leaves one only when the snapshot is gone;
    /// the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = Members::parse(bytes)?;
        members.check_version(VERSION)?;
        Ok(Self {
            snapshot_id: members.must("snapshot_id", id)?,
            worktree_id: members.may("worktree_id", said)?,
            parent: members.may("parent_snapshot_id", id)?,
            state: members.may("gc_state", GcState::from_value)?.unwrap_or(GcState::Committed),
            deleted_at: members.may("deleted_at", time)?,
            reason: members.may("reason", owned)?,
            bytes: members.may("bytes", Value::as_u64)?,
        })
    }
}
