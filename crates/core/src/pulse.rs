//! A pulse: the small file by which a process that waits or holds is known to others.
//!
//! Its *lock* says that somebody lives, its *content* says who, and its *place* says what for: in the directory of a line it is a ticket,
//! among the holders' it is named by the record of a hold. Being granted a lock is one rename from the first to the second.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A process by pid and start time, so that a reused pid isn't mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRef {
    /// The pid, in the pulse's pid namespace.
    pub pid: i64,
    /// Start time in clock ticks since boot.
    pub start: i64,
}

/// The content of a pulse file: one JSON object, padded with spaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    /// Format version, 1.
    pub version: u32,
    /// The name that is waited for or held.
    #[serde(default)]
    pub name: String,
    /// Who.
    pub owner: String,
    /// Which agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// The process that waits or guards.
    pub process: ProcessRef,
    /// The guarded command, once it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<ProcessRef>,
    /// The pid namespace of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it holds already: `name=lock_id,…`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holds: String,
    /// Monotonic clock when the lock was found free for it; see [`crate::line`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_ms: Option<u64>,
}

/// What comes and goes fits into so many bytes: `command` and `offered_ms` with the longest numbers there are.
const CHANGING_BYTES: usize = 160;

impl Pulse {
    /// Reads a pulse file's content.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|pulse: &Self| pulse.version == 1)
    }

    /// The content of a pulse file. It is rewritten in place, so whatever a pulse says about command and offer, it is as long as before.
    pub fn encode(&self) -> Vec<u8> {
        let json = |pulse: &Self| serde_json::to_vec(pulse).expect("a pulse has only strings and numbers");
        let mut bytes = json(self);
        let lasting = json(&Self { command: None, offered_ms: None, ..self.clone() });
        bytes.resize(lasting.len() + CHANGING_BYTES, b' ');
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_reads_back_with_padding() {
        let pulse = Pulse {
            version: 1,
            name: "build".into(),
            owner: "a".into(),
            agent_id: String::new(),
            process: ProcessRef { pid: 1, start: 2 },
            command: Some(ProcessRef { pid: 3, start: 4 }),
            pid_ns: Some(5),
            since: "2026-01-01T00:00:00Z".into(),
            reason: None,
            holds: String::new(),
            offered_ms: None,
        };
        let mut bytes = pulse.encode();
        bytes.extend(b"    \n");
        assert_eq!(Pulse::parse(&bytes), Some(pulse));
        assert_eq!(Pulse::parse(b""), None);
    }
}
