//! An operation that a process is about to do. It is written first and removed last, and its pulse
//! is locked while the process lives. Work whose intent has no living process was left behind.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};
use crate::lease::json::Ordered;
use crate::time::show_wall;

/// Version of the format.
const VERSION: u64 = 1;

/// Kind of operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Taking a snapshot.
    Snapshot,
    /// Restoring a snapshot.
    Restore,
    /// An operation of another program.
    Other(String),
}

/// Progress of the operation. Our own intents exist while it runs, and are removed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is running, or was left behind.
    Active,
    /// It has finished.
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
    /// Id of the intent: its file is `<intent_id>.json`. The code of `jvs` has only the snapshot's
    /// id.
    pub intent_id: String,
    /// The operation.
    pub operation: Operation,
    /// Its snapshot.
    pub snapshot_id: SnapshotId,
    /// Its worktree.
    pub worktree_id: String,
    /// Start time.
    pub created_at: Timestamp,
    /// Its progress.
    pub state: State,
    /// End time.
    pub completed_at: Option<Timestamp>,
    /// Token of its lease.
    pub token: Option<u64>,
    /// Boot of its process.
    pub boot_id: Option<String>,
    /// Its process.
    pub pid: Option<u64>,
    /// Its pulse; other programs have none.
    pub pulse: Option<Pulse>,
    /// Magic number of the file system, as the process saw it: only on some file systems a lock is
    /// visible to others.
    pub fs: Option<u64>,
}

impl Operation {
    /// Returns its name in JSON.
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
    /// Returns its name in JSON.
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
    /// Returns its bytes: one line. Unknown members aren't written.
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

    /// Parses an intent, of ours or of `jvs`; the error says what is wrong.
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
