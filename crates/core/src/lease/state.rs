//! State of a worktree's snapshots in its chain. Every link carries it on, so that no decision gets
//! lost between the link that made it and the files that make it known to others.

use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value, json};

use super::json::text;
use crate::snapshot_id::SnapshotId;

/// Maximum length of a file name in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// State after a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The snapshot that the worktree continues from.
    pub head: Head,
    /// Published snapshots whose receipts may not be durable yet. The process that adds the next
    /// link completes these first.
    pub pending: Vec<SnapshotId>,
    /// A restore that is decided, and may not have been swapped in yet. The process that adds the
    /// next link finishes it first.
    pub restore: Option<Restore>,
}

/// Newest snapshot of a worktree, or the one that was restored since.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Head {
    /// The chain doesn't record it: the worktree's configuration counts.
    #[default]
    Unknown,
    /// No snapshot.
    None,
    /// This snapshot.
    Snapshot(SnapshotId),
}

/// A restore in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The snapshot to be restored.
    pub snapshot_id: SnapshotId,
    /// Name of the complete new tree, in `restores/`.
    pub tree: String,
    /// Device of its root, if that is meaningful after a remount.
    pub dev: Option<u64>,
    /// Inode of its root, which tells whether it has been swapped in.
    pub ino: u64,
    /// The head before the restore.
    pub was_head: Head,
    /// True if the worktree is exchanged entry by entry, by a plan beside the tree, because
    /// something in it must not move.
    pub in_parts: bool,
}

/// A published snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The snapshot.
    pub id: SnapshotId,
    /// Its predecessor in the worktree.
    pub parent: Option<SnapshotId>,
}

impl Head {
    /// Returns the id, if there is one.
    pub fn id(&self) -> Option<&SnapshotId> {
        match self {
            Self::Snapshot(id) => Some(id),
            Self::Unknown | Self::None => None,
        }
    }

    /// Writes the head: an unknown one is absent, none is null.
    fn write(&self, members: &mut Map<String, Value>, name: &str) {
        let value = match self {
            Self::Unknown => return,
            Self::None => Value::Null,
            Self::Snapshot(id) => id.as_str().into(),
        };
        members.insert(name.into(), value);
    }

    fn read(members: &Map<String, Value>, name: &str) -> Option<Self> {
        match members.get(name) {
            None => Some(Self::Unknown),
            Some(Value::Null) => Some(Self::None),
            Some(value) => snapshot_id(value).map(Self::Snapshot),
        }
    }
}

impl State {
    /// Adds its members to those of a link. Empty ones aren't written, so a link without snapshots
    /// looks as it did before there were snapshots.
    pub(super) fn write(&self, members: &mut Map<String, Value>) {
        self.head.write(members, "head");
        if !self.pending.is_empty() {
            let ids: Vec<&str> = self.pending.iter().map(SnapshotId::as_str).collect();
            members.insert("pending".into(), ids.into());
        }
        if let Some(restore) = &self.restore {
            members.insert("restore".into(), restore.to_value());
        }
    }

    pub(super) fn read(members: &Map<String, Value>) -> Result<Self, String> {
        let pending = match members.get("pending") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(ids)) => ids.iter().map(snapshot_id).collect(),
            Some(_) => None,
        };
        let restore = match members.get("restore") {
            None | Some(Value::Null) => Some(None),
            Some(restore) => Restore::from_value(restore).map(Some),
        };
        Ok(Self {
            head: Head::read(members, "head").ok_or("its head is no snapshot")?,
            pending: pending.ok_or("its pending snapshots can't be read")?,
            restore: restore.ok_or("its restore can't be read")?,
        })
    }
}

impl Restore {
    fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("snapshot_id".into(), self.snapshot_id.as_str().into());
        members.insert("tree".into(), self.tree.as_str().into());
        if let Some(dev) = self.dev {
            members.insert("dev".into(), dev.into());
        }
        members.insert("ino".into(), self.ino.into());
        self.was_head.write(&mut members, "was_head");
        if self.in_parts {
            members.insert("in_parts".into(), true.into());
        }
        members.into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let dev = match members.get("dev") {
            None | Some(Value::Null) => None,
            dev => Some(dev?.as_u64()?),
        };
        Some(Self {
            snapshot_id: members.get("snapshot_id").and_then(snapshot_id)?,
            // It is opened and renamed by this name, which must not lead out of its directory.
            tree: text(members, "tree").filter(|name| is_file_name(name))?,
            dev,
            ino: members.get("ino")?.as_u64()?,
            was_head: Head::read(members, "was_head")?,
            in_parts: match members.get("in_parts") {
                None => false,
                in_parts => in_parts?.as_bool()?,
            },
        })
    }
}

impl Published {
    pub(super) fn to_value(&self) -> Value {
        json!({"id": self.id.as_str(), "parent": self.parent.as_ref().map(SnapshotId::as_str)})
    }

    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let parent = match members.get("parent") {
            None | Some(Value::Null) => None,
            parent => Some(snapshot_id(parent?)?),
        };
        Some(Self { id: members.get("id").and_then(snapshot_id)?, parent })
    }
}

fn snapshot_id(value: &Value) -> Option<SnapshotId> {
    SnapshotId::parse(value.as_str()?)
}

/// Reports whether a new tree can have this name, which leads nowhere else.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, "" | "." | "..") && name.len() <= FILE_NAME_BYTES_MAX && name.bytes().all(is_plain)
}
