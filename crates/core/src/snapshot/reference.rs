//! Names that `jvs` gives to snapshots. They are read, and keep what they name; lokt writes none.

use alloc::string::String;
use jiff::Timestamp;

use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};

/// A name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// What it names. Nobody looks whether that is there.
    pub snapshot_id: SnapshotId,
    /// Since when.
    pub created_at: Option<Timestamp>,
    /// Who named it.
    pub created_by: Option<String>,
    /// Why.
    pub note: Option<String>,
}

impl Reference {
    /// From either schema of `jvs`; the text says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = Members::parse(bytes)?;
        Ok(Self {
            name: members.must_any(["ref_name", "name"], said)?,
            snapshot_id: members.must_any(["snapshot_id", "target_id"], id)?,
            created_at: members.may("created_at", time)?,
            created_by: members.may("created_by", owned)?,
            note: members.may_any(["note", "description"], owned)?,
        })
    }
}
