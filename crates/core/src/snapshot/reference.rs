//! Names that `jvs` gives to snapshots. lokt reads them and keeps the snapshots that they name, but
//! writes none.

use alloc::string::String;
use jiff::Timestamp;

use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};

/// A name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: String,
    /// The named snapshot. Nothing checks whether it exists.
    pub snapshot_id: SnapshotId,
    /// Creation time.
    pub created_at: Option<Timestamp>,
    /// The user who named it.
    pub created_by: Option<String>,
    /// The reason.
    pub note: Option<String>,
}

impl Reference {
    /// Parses a name in either schema of `jvs`; the error says what is wrong.
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
