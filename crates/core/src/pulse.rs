//! A pulse: the small file by which other processes recognize a waiter or a holder.
//!
//! Its *lock* says that a process lives, its *content* says which one, and its *place* says what
//! for. In the directory of a queue it is a ticket; in that of the holders, the record of a hold
//! names it. A grant is one rename from the first to the second.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::hold::Identity;
use crate::name::LockName;
use crate::time::{Moment, show_wall};

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
    /// The owner.
    pub owner: String,
    /// The agent of the owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// The process that waits or guards.
    pub process: ProcessRef,
    /// The guarded command, once it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<ProcessRef>,
    /// The pid namespace of both processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<u64>,
    /// Start time, RFC 3339.
    pub since: String,
    /// The reason, in the words of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The holds that it already has: `name=lock_id,…`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holds: String,
    /// Monotonic clock when the lock was found free for it; see [`crate::line`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_ms: Option<u64>,
}

/// Space in bytes for the members that change: `command` and `offered_ms` with the longest possible
/// numbers.
const CHANGING_BYTES: usize = 160;

impl Pulse {
    /// Reads a pulse file's content.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|pulse: &Self| pulse.version == 1)
    }

    /// Returns the content of a pulse file. The file is rewritten in place, so its length doesn't
    /// depend on command and offer.
    pub fn encode(&self) -> Vec<u8> {
        let json = |pulse: &Self| serde_json::to_vec(pulse).expect("a pulse has only strings and numbers");
        let mut bytes = json(self);
        let lasting = json(&Self { command: None, offered_ms: None, ..self.clone() });
        bytes.resize(lasting.len() + CHANGING_BYTES, b' ');
        bytes.push(b'\n');
        bytes
    }
}

/// The text of a pulse before its command's pid.
const COMMAND_BEGINS: &[u8] = b"\"command\":{\"pid\":";
/// The text between the command's pid and its start time.
const COMMAND_GOES_ON: &[u8] = b",\"start\":";
/// Number of digits of the greatest number.
const DIGITS_MAX: usize = 20;

/// The content of a pulse file with a gap for the command. Filling the gap neither allocates nor
/// panics, so it can be done between `fork` and `exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stencil {
    /// The content, as long as the file. The bytes before the gap stay.
    bytes: Vec<u8>,
    /// Offset of the command's pid.
    gap: usize,
    /// The text after the command's start time.
    rest: Vec<u8>,
}

impl Pulse {
    /// The content of this pulse file for a command that hasn't been started yet.
    pub fn stencil(&self) -> Stencil {
        let (pid, start) = (0, 0);
        let mut bytes = Self { command: Some(ProcessRef { pid, start }), ..self.clone() }.encode();
        // Quotes inside a string are escaped, so only the member itself looks like this.
        let begins = bytes.windows(COMMAND_BEGINS.len()).position(|window| window == COMMAND_BEGINS);
        let gap = begins.expect("a command was put in") + COMMAND_BEGINS.len();
        let rest = bytes[gap + 1 + COMMAND_GOES_ON.len() + 1..].trim_ascii_end().to_vec();
        let end = bytes.len() - 1;
        bytes[gap..end].fill(b' ');
        Stencil { bytes, gap, rest }
    }
}

impl Stencil {
    /// Returns the same as [`Pulse::encode`] for a pulse with this command. Negative numbers, which
    /// the kernel doesn't use, become 0.
    pub fn fill(&mut self, command: ProcessRef) -> &[u8] {
        let (pid, start) = (Decimal::new(command.pid), Decimal::new(command.start));
        let text = pid.digits().chain(COMMAND_GOES_ON.iter().copied());
        let text = text.chain(start.digits()).chain(self.rest.iter().copied());
        let until_newline = self.bytes.len().saturating_sub(self.gap + 1);
        let gap = self.bytes.iter_mut().skip(self.gap).take(until_newline);
        for (to, byte) in gap.zip(text.chain(core::iter::repeat(b' '))) {
            *to = byte;
        }
        &self.bytes
    }
}

/// A number in decimal, on the stack.
struct Decimal {
    /// The last digit first.
    reversed: [u8; DIGITS_MAX],
    len: usize,
}

impl Decimal {
    fn new(number: i64) -> Self {
        let mut rest = u64::try_from(number).unwrap_or(0);
        let (mut reversed, mut len) = ([b'0'; DIGITS_MAX], 0);
        for digit in &mut reversed {
            *digit = b"0123456789".get(usize::try_from(rest % 10).unwrap_or(0)).copied().unwrap_or(b'0');
            len += 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Self { reversed, len }
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.reversed.iter().take(self.len).rev().copied()
    }
}

/// Facts that a process states in its pulse, beside its identity.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// The reason why it waits or holds.
    pub reason: Option<String>,
    /// The holds that it already has: `name=lock_id:token:pulse,…`.
    pub holds: String,
}

impl Profile {
    /// Returns the content of a new pulse for `name`.
    pub fn pulse(&self, name: &LockName, me: &Identity, now: &Moment) -> Pulse {
        Pulse {
            version: 1,
            name: name.to_string(),
            owner: me.owner.clone(),
            agent_id: me.agent_id.clone(),
            process: ProcessRef { pid: me.pid, start: me.pid_start },
            command: None,
            pid_ns: me.pid_ns,
            since: show_wall(now.wall),
            reason: self.reason.clone(),
            holds: self.holds.clone(),
            offered_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse() -> Pulse {
        Pulse {
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
        }
    }

    #[test]
    fn a_filled_stencil_is_the_encoded_pulse() {
        let odd = "\"command\":{\"pid\":0,\"start\":0} \\\" é \n";
        let plain = Pulse { command: None, ..pulse() };
        let last = Pulse { pid_ns: None, since: odd.into(), ..plain.clone() };
        let full = Pulse { owner: odd.into(), reason: Some(odd.into()), holds: "a=1:2:3".into(), ..plain.clone() };
        for pulse in [plain, last, full, pulse()] {
            let mut stencil = pulse.stencil();
            // From the longest to the shortest: the previous text must not show.
            for (pid, start) in [(i64::MAX, i64::MAX), (4_194_304, 123_456_789), (10, 0), (1, 9)] {
                let command = ProcessRef { pid, start };
                let filled = stencil.fill(command).to_vec();
                let encoded = Pulse { command: Some(command), ..pulse.clone() }.encode();
                assert_eq!(String::from_utf8(filled), String::from_utf8(encoded));
            }
        }
    }

    #[test]
    fn a_pulse_reads_back_with_padding() {
        let pulse = pulse();
        let mut bytes = pulse.encode();
        bytes.extend(b"    \n");
        assert_eq!(Pulse::parse(&bytes), Some(pulse));
        assert_eq!(Pulse::parse(b""), None);
    }
}
