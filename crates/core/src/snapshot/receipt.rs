//! The receipt of a publish: it keeps a snapshot visible permanently, once its link is gone.

use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::Value;

use super::hash::Hash;
use super::id::SnapshotId;
use super::members::{Members, id, said, time};
use crate::lease::json::{Ordered, is_hex, link_number};
use crate::time::show_wall;

/// Version of the format.
const VERSION: u64 = 1;
/// Number of digits of a chain's id.
const CHAIN_DIGITS: usize = 32;

/// A receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// Its worktree.
    pub worktree_id: String,
    /// Time at which it was taken.
    pub created_at: Timestamp,
    /// Time at which it was published.
    pub completed_at: Timestamp,
    /// Method by which it was copied.
    pub engine: String,
    /// Seal of its descriptor.
    pub descriptor_checksum: Hash,
    /// Hash over its tree.
    pub payload_root_hash: Hash,
    /// The number of the link that published it.
    pub number: u64,
    /// Chain of that link.
    pub chain: String,
    /// Its predecessor.
    pub parent: Option<SnapshotId>,
}

impl Receipt {
    /// Returns its bytes: one line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let members = [
            ("version", VERSION.into()),
            ("snapshot_id", self.snapshot_id.as_str().into()),
            ("worktree_id", self.worktree_id.as_str().into()),
            ("parent_snapshot_id", self.parent.as_ref().map(SnapshotId::as_str).into()),
            ("created_at", show_wall(self.created_at).into()),
            ("completed_at", show_wall(self.completed_at).into()),
            ("engine", self.engine.as_str().into()),
            ("descriptor_checksum", self.descriptor_checksum.to_value()),
            ("payload_root_hash", self.payload_root_hash.to_value()),
            ("chain", self.chain.as_str().into()),
            ("number", self.number.into()),
        ];
        Ordered(members.into()).to_bytes()
    }

    /// Parses a receipt; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = Members::parse(bytes)?;
        members.must("version", Value::as_u64)?;
        members.check_version(VERSION)?;
        let chain = |value: &Value| said(value).filter(|chain| is_hex(chain, CHAIN_DIGITS));
        Ok(Self {
            snapshot_id: members.must("snapshot_id", id)?,
            worktree_id: members.must("worktree_id", said)?,
            created_at: members.must("created_at", time)?,
            completed_at: members.must("completed_at", time)?,
            engine: members.must("engine", said)?,
            descriptor_checksum: members.must("descriptor_checksum", Hash::from_value)?,
            payload_root_hash: members.must("payload_root_hash", Hash::from_value)?,
            number: members.must("number", |value| link_number(Some(value)))?,
            chain: members.must("chain", chain)?,
            parent: members.may("parent_snapshot_id", id)?,
        })
    }
}
