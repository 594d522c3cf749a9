//! What is left of a snapshot that was collected: that it was there, and between which others, so that its descendants still have a past.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::Value;

use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};
use crate::lease::json::Ordered;
use crate::time::show_wall;

/// The version of the format.
const VERSION: u64 = 1;

/// How far its end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcState {
    /// It is to go; it may still be there.
    Marked,
    /// It is gone.
    Committed,
    /// It couldn't be removed.
    Failed,
}

/// A tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// Of which snapshot.
    pub snapshot_id: SnapshotId,
    /// In which worktree it was.
    pub worktree_id: Option<String>,
    /// The one before it.
    pub parent: Option<SnapshotId>,
    /// How far its end is.
    pub state: GcState,
    /// When it was collected.
    pub deleted_at: Option<Timestamp>,
    /// Why it went, or why it couldn't.
    pub reason: Option<String>,
    /// So many bytes it had.
    pub bytes: Option<u64>,
}

impl GcState {
    /// As in JSON.
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
    /// As bytes: one line. What isn't known isn't written.
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

    /// Back, also from what `jvs` wrote, which leaves one only when the snapshot is gone; the text says what is wrong.
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
