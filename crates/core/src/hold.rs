//! A hold: who holds a name, through which of two parts, since when and until when.
//!
//! **A hold has two parts and lives while either lives.** The *process part* (acquired by `guard`
//! or `lock --bind`) ends when its process and command are gone or its lease expires. The *owner
//! part* (acquired by `lock`) ends by `unlock` or when its lease expires. The pid recorded with it
//! belongs to a command that has long exited, and proves nothing.

use alloc::string::{String, ToString};
use core::fmt;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::fnv::fnv1a_32;

/// The version of the record format that this program writes. It must not touch records with a
/// higher one.
pub const RECORD_VERSION: i64 = 1;

/// A fencing token: the number of a hold. Every new hold gets a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Tokens stay below 2^53, so that every JSON reader keeps them exact.
    pub const LIMIT: u64 = 1 << 53;

    /// A token, if `number` can be one.
    pub const fn new(number: u64) -> Option<Self> {
        if 1 <= number && number < Self::LIMIT { Some(Self(number)) } else { None }
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a hold: 32 hex digits. Two holds never share one, however often a name changes
/// hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LockId(String);

impl LockId {
    /// Creates an id from 128 random bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(alloc::format!("{bits:032x}"))
    }

    /// An id that was read from a record or typed by a user; old records may have none (the empty
    /// string).
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether there is no id: records of old programs have none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One of the two ways to hold a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// Bound to a process.
    Process,
    /// Bound to an owner, who is not a process.
    Owner,
}

impl PartKind {
    /// The value in JSON and in `extra.part` of the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Owner => "owner",
        }
    }
}

/// Normalizes a lease: zero seconds mean no lease, as on the top level of every record ever
/// written.
pub(crate) fn lease_of(ttl_sec: Option<u64>) -> Option<u64> {
    ttl_sec.filter(|ttl_sec| *ttl_sec > 0)
}

/// One part of a hold: its start, its lease, and the boot clock's reading when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Wall clock at the last write of this part.
    pub since: Timestamp,
    /// Its lease in seconds, at least one; `None`: it never expires.
    pub ttl_sec: Option<u64>,
    /// `CLOCK_MONOTONIC` (process part) or `CLOCK_BOOTTIME` (owner part) at that write; `None` if
    /// it can't be compared.
    pub clock_ms: Option<u64>,
}

/// Both parts, at least one of them present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parts {
    /// Acquired by `guard` or `lock --bind`.
    pub process: Option<Part>,
    /// Acquired by `lock`.
    pub owner: Option<Part>,
    /// True if a program that doesn't know parts has changed the record's top level: then only its
    /// times count, by the wall clock.
    pub edited: bool,
}

/// The pulse file that a process part names, and how to recognize it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulseRef {
    /// The file's number in the queue of its name.
    pub number: u64,
    /// Device of the file.
    pub dev: u64,
    /// Inode of the file.
    pub ino: u64,
}

/// A stored hold: field by field the record of `docs/protocol.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Record version: 0 (absent) or 1.
    pub version: i64,
    /// The lock's name according to the record.
    pub name: String,
    /// The identity of the hold.
    pub lock_id: LockId,
    /// The owner that holds it.
    pub owner: String,
    /// The host on which it was acquired.
    pub host: String,
    /// The guard's pid, or that of the `lock` command.
    pub pid: i64,
    /// Start time of that pid in clock ticks since boot; 0 is unknown.
    pub pid_start: i64,
    /// The agent of the owner.
    pub agent_id: String,
    /// Wall clock at the last write.
    pub acquired: Option<Timestamp>,
    /// Lease in whole seconds; 0 is none.
    pub ttl_sec: i64,
    /// Wall-clock time at which the whole hold ends.
    pub expires_at: Option<Timestamp>,
    /// The fencing token; records of old programs have none.
    pub token: Option<Fence>,
    /// `None`: written by a program that doesn't know parts; such a record is a process part.
    pub parts: Option<Parts>,
    /// The pulse of a guard.
    pub pulse: Option<PulseRef>,
    /// The boot during which it was written.
    pub boot_id: Option<String>,
    /// The pid namespace of `pid`.
    pub pid_ns: Option<u64>,
    /// The file system's magic number as the holder saw it.
    pub fs: Option<u64>,
    /// When the hold began; unlike `acquired` it doesn't move with renewals.
    pub held_since: Option<Timestamp>,
    /// The reason for the hold, in the holder's words.
    pub reason: Option<String>,
    /// Members that this program doesn't know; they survive a rewrite.
    pub extra: Map<String, Value>,
}

impl Hold {
    /// A hold without any content.
    pub(crate) fn blank() -> Self {
        Self {
            version: 0,
            name: String::new(),
            lock_id: LockId::default(),
            owner: String::new(),
            host: String::new(),
            pid: 0,
            pid_start: 0,
            agent_id: String::new(),
            acquired: None,
            ttl_sec: 0,
            expires_at: None,
            token: None,
            parts: None,
            pulse: None,
            boot_id: None,
            pid_ns: None,
            fs: None,
            held_since: None,
            reason: None,
            extra: Map::new(),
        }
    }

    /// Reports whether the record was written by a program that doesn't know parts.
    pub fn is_foreign(&self) -> bool {
        self.parts.is_none()
    }

    /// Reports whether the process behind it belongs to another program. Such a process names no
    /// boot, even after the same owner's `lock` has joined its record.
    pub fn has_foreign_process(&self) -> bool {
        self.has(PartKind::Process) && self.pulse.is_none() && self.boot_id.is_none()
    }

    /// Reports whether there is a part of this kind, live or not.
    pub fn has(&self, kind: PartKind) -> bool {
        match &self.parts {
            None => kind == PartKind::Process,
            Some(parts) => match kind {
                PartKind::Process => parts.process.is_some(),
                PartKind::Owner => parts.owner.is_some(),
            },
        }
    }

    /// Returns when the hold began, as far as the record says.
    pub fn began(&self) -> Option<Timestamp> {
        self.held_since.or(self.acquired)
    }
}

/// The caller and its machine: everything about the caller that a decision or a record needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The owner string; equal strings are the same owner.
    pub owner: String,
    /// This machine's host name.
    pub host: String,
    /// The pid of this process.
    pub pid: i64,
    /// Its start time in clock ticks since boot; 0 is unknown.
    pub pid_start: i64,
    /// The agent of the owner.
    pub agent_id: String,
    /// The id of this boot.
    pub boot_id: Option<String>,
    /// This pid namespace.
    pub pid_ns: Option<u64>,
    /// True if boot clocks can be compared with those of other processes: only in the initial time
    /// namespace.
    pub boot_clocks: bool,
    /// The magic number of the file system under the root.
    pub fs: Option<u64>,
}

/// The default agent id of a process: `agent-` and four hex digits.
pub fn default_agent_id(pid: i64, pid_start: i64) -> String {
    let seed = if pid_start > 0 { alloc::format!("{pid}-{pid_start}") } else { pid.to_string() };
    alloc::format!("agent-{:04x}", fnv1a_32(seed.as_bytes()) & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_agent_id_is_the_one_lokt_has_always_made() {
        assert_eq!(default_agent_id(19459, 44505), "agent-82aa");
    }

    #[test]
    fn tokens_start_at_one_and_stay_exact_in_json() {
        assert_eq!(Fence::new(0), None);
        assert_eq!(Fence::new(1).map(Fence::get), Some(1));
        assert_eq!(Fence::new(Fence::LIMIT), None);
    }
}
