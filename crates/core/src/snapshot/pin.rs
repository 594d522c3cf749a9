//! Snapshots that a user wants to keep, whatever else would allow their deletion.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;

use super::id::SnapshotId;
use super::members::{Members, id, owned, time};
use crate::lease::json::Ordered;
use crate::time::show_wall;

/// Version of the format.
const VERSION: u64 = 1;

/// A pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The pinned snapshot.
    pub snapshot_id: SnapshotId,
    /// Time of pinning.
    pub created_at: Option<Timestamp>,
    /// The user who pinned it.
    pub created_by: Option<String>,
    /// The reason.
    pub note: Option<String>,
}

impl Pin {
    /// Returns its bytes: one line. Unknown members aren't written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let id = self.snapshot_id.as_str();
        let mut members = vec![("version", VERSION.into()), ("pin_id", id.into()), ("snapshot_id", id.into())];
        members.extend(self.created_at.map(|at| ("created_at", show_wall(at).into())));
        members.extend(self.created_by.as_deref().map(|who| ("created_by", who.into())));
        members.extend(self.note.as_deref().map(|note| ("note", note.into())));
        Ordered(members).to_bytes()
    }

    /// Parses a pin of any program; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = Members::parse(bytes)?;
        members.check_version(VERSION)?;
        Ok(Self {
            snapshot_id: members.must("snapshot_id", id)?,
            created_at: members.may("created_at", time)?,
            created_by: members.may("created_by", owned)?,
            note: members.may_any(["note", "reason"], owned)?,
        })
    }
}
