//! What somebody is about to do. It is written first and removed last, and its pulse is locked while the process lives: what has an intent
//! without a living process was left behind.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};
use crate::lease::json::Ordered;
use crate::time::show_wall;

/// The version of the format.
const VERSION: u64 = 1;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// To take a snapshot.
    Snapshot,
    /// To bring one back.
    Restore,
    /// What another program does.
    Other(String),
}

/// How far it is. Ours are there while it goes on, and then gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It goes on, or was left.
    Active,
    /// It is done.
    Completed,
    /// It was given up.
    Abandoned,
}

/// The file that is locked while the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// Its device.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
}

/// An intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Which one: its file is `<intent_id>.json`. The code of `jvs` has no other than the snapshot's.
    pub intent_id: String,
    /// What is to be done.
    pub operation: Operation,
    /// With which snapshot.
    pub snapshot_id: SnapshotId,
    /// In which worktree.
    pub worktree_id: String,
    /// Since when.
    pub created_at: Timestamp,
    /// How far it is.
    pub state: State,
    /// When it was over.
    pub completed_at: Option<Timestamp>,
    /// Under which lease.
    pub token: Option<u64>,
    /// During which boot.
    pub boot_id: Option<String>,
    /// The process.
    pub pid: Option<u64>,
    /// Its pulse; other programs have none.
    pub pulse: Option<Pulse>,
    /// The magic number of the file system, as the process saw it: a lock is seen by others only on some.
    pub fs: Option<u64>,
}

impl Operation {
    /// As in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Restore => "restore",
            Self::Other(other) => other,
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(match value.as_str()? {
            "snapshot" => Self::Snapshot,
            "restore" => Self::Restore,
            other => Self::Other(other.into()),
        })
    }
}

impl State {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Abandoned => "abandoned",
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        [Self::Active, Self::Completed, Self::Abandoned].into_iter().find(|state| value == state.as_str())
    }
}

impl Intent {
    /// As bytes: one line. What isn't known isn't written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut members = vec![
            ("version", VERSION.into()),
            ("intent_id", self.intent_id.as_str().into()),
            ("operation", self.operation.as_str().into()),
            ("snapshot_id", self.snapshot_id.as_str().into()),
            ("worktree_id", self.worktree_id.as_str().into()),
            ("created_at", show_wall(self.created_at).into()),
            ("state", self.state.as_str().into()),
        ];
        members.extend(self.completed_at.map(|at| ("completed_at", show_wall(at).into())));
        members.extend(self.token.map(|token| ("fencing_token", token.into())));
        members.extend(self.boot_id.as_deref().map(|boot_id| ("boot_id", boot_id.into())));
        members.extend(self.pid.map(|pid| ("pid", pid.into())));
        members.extend(self.pulse.map(|Pulse { dev, ino }| ("pulse", json!({"dev": dev, "ino": ino}))));
        members.extend(self.fs.map(|fs| ("fs", fs.into())));
        Ordered(members).to_bytes()
    }

    /// Back, also from what `jvs` wrote; the text says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = Members::parse(bytes)?;
        members.check_version(VERSION)?;
        let snapshot_id = members.must("snapshot_id", id)?;
        Ok(Self {
            intent_id: members.may("intent_id", said)?.unwrap_or_else(|| snapshot_id.as_str().into()),
            operation: members.may("operation", Operation::from_value)?.unwrap_or(Operation::Snapshot),
            worktree_id: members.must_any(["worktree_id", "worktree_name"], said)?,
            created_at: members.must_any(["created_at", "started_at"], time)?,
            state: members.may("state", State::from_value)?.unwrap_or(State::Active),
            completed_at: members.may("completed_at", time)?,
            token: members.may("fencing_token", Value::as_u64)?,
            boot_id: members.may("boot_id", owned)?,
            pid: members.may("pid", Value::as_u64)?,
            pulse: members.may("pulse", Pulse::from_value)?,
            fs: members.may("fs", Value::as_u64)?,
            snapshot_id,
        })
    }
}

impl Pulse {
    fn from_value(value: &Value) -> Option<Self> {
        let members = Members::of(value)?;
        let number = |name| members.must(name, Value::as_u64).ok();
        Some(Self { dev: number("dev")?, ino: number("ino")? })
    }
}
