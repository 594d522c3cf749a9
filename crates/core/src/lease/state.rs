//! What a chain knows of the snapshots of its worktree. Every link carries it on, so that nothing that was decided gets lost between
//! the link that decided it and the files that tell others.

use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value, json};

use super::json::text;
use crate::snapshot_id::SnapshotId;

/// No name in a directory is longer.
const FILE_NAME_BYTES_MAX: usize = 255;

/// What is known after a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The snapshot that the worktree goes on from.
    pub head: Head,
    /// Snapshots that are published, and whose receipts may not be durable yet. Whoever adds the next link sees to them first.
    pub pending: Vec<SnapshotId>,
    /// A restore that is decided, and may not have been swapped in yet. Whoever adds the next link finishes it first.
    pub restore: Option<Restore>,
}

/// The newest snapshot of a worktree, or the one that was restored since.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Head {
    /// The chain doesn't say: what the worktree's configuration says counts.
    #[default]
    Unknown,
    /// There is none.
    None,
    /// This one.
    Snapshot(SnapshotId),
}

/// A restore in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// What comes back.
    pub snapshot_id: SnapshotId,
    /// The name of the complete new tree, in `restores/`.
    pub tree: String,
    /// The device of its root, where that means something after a remount.
    pub dev: Option<u64>,
    /// The inode of its root: how it is known whether it has taken its place.
    pub ino: u64,
    /// The head before.
    pub was_head: Head,
    /// The worktree is exchanged entry by entry, as a plan beside the tree says: something in it must not move.
    pub in_parts: bool,
}

/// What a publish of a snapshot published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The snapshot.
    pub id: SnapshotId,
    /// The one before it in its worktree.
    pub parent: Option<SnapshotId>,
}

impl Head {
    /// The id, if there is one.
    pub fn id(&self) -> Option<&SnapshotId> {
        match self {
            Self::Snapshot(id) => Some(id),
            Self::Unknown | Self::None => None,
        }
    }

    /// Unknown is absent, none is null.
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
    /// Adds its members to those of a link. What says nothing isn't written, so a link without snapshots is what it was before there were any.
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
            // It is opened and renamed: it must be in the directory in which it is said to be.
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

/// A name as those of new trees are, and nothing that leads elsewhere.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, "" | "." | "..") && name.len() <= FILE_NAME_BYTES_MAX && name.bytes().all(is_plain)
}
