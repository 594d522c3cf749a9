//! What somebody wants to keep, whatever else says that it may go.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;

use super::id::SnapshotId;
use super::members::{Members, id, owned, time};
use crate::lease::json::Ordered;
use crate::time::show_wall;

/// The version of the format.
const VERSION: u64 = 1;

/// A pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// What is kept.
    pub snapshot_id: SnapshotId,
    /// Since when.
    pub created_at: Option<Timestamp>,
    /// Who wants that.
    pub created_by: Option<String>,
    /// Why.
    pub note: Option<String>,
}

impl Pin {
    /// As bytes: one line. What isn't known isn't written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let id = self.snapshot_id.as_str();
        let mut members = vec![("version", VERSION.into()), ("pin_id", id.into()), ("snapshot_id", id.into())];
        members.extend(self.created_at.map(|at| ("created_at", show_wall(at).into())));
        members.extend(self.created_by.as_deref().map(|who| ("created_by", who.into())));
        members.extend(self.note.as_deref().map(|note| ("note", note.into())));
        Ordered(members).to_bytes()
    }

    /// Back, from anybody's; the text says what is wrong.
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
