//! The lock that all programs share, `ledger.lock`, and what an old one proves.
//!
//! Anything with that name is a lock: a file with JSON in it, an empty one, a directory. Ours names
//! our process, so that the next lokt process can tell at once whether we are gone. Of any other
//! lock only the age is known.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::hold::Identity;
use crate::liveness::{Process, is_local};
use crate::time::{millis_between, parse_wall, show_wall};

/// The lock's name in the ledger.
pub const LOCK: &str = "ledger.lock";
/// Name of the file in a lock directory of ours, with the same note as in our lock files.
pub const NOTE: &str = "holder.json";
/// Age in milliseconds from which a lock of another program counts as left behind.
pub const STALE_MS: u64 = 30_000;
/// Milliseconds for which it must also have been seen unchanged.
pub const SECOND_LOOK_MS: u64 = 1_000;
/// Maximum size of a note in bytes.
pub const NOTE_BYTES_MAX: usize = 4096;

/// The lokt process that wrote a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Its pid.
    pub pid: i64,
    /// Its start time; 0 if unknown.
    pub pid_start: i64,
    /// Its boot.
    pub boot_id: String,
    /// Its pid namespace.
    pub pid_ns: Option<u64>,
    /// Magic number of the file system, as it saw it.
    pub fs: Option<u64>,
    /// Distinguishes one lock of a process from the next.
    pub nonce: String,
}

/// Content of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Note {
    /// The holder, in the words of its program.
    pub agent_id: String,
    /// Time of acquisition.
    pub acquired_at: Option<Timestamp>,
    /// The holder's machine, if recorded.
    pub host: String,
    /// Members that only lokt writes.
    pub writer: Option<Writer>,
    /// Identity of the lock that this one took over. A process that finds this lock left behind has
    /// to continue that take-over.
    pub took_over: Option<String>,
}

impl Note {
    /// Creates our note.
    pub fn of(me: &Identity, now: Timestamp, nonce: u128) -> Self {
        let nonce = alloc::format!("{nonce:032x}");
        let writer = me.boot_id.clone().map(|boot_id| Writer {
            pid: me.pid,
            pid_start: me.pid_start,
            boot_id,
            pid_ns: me.pid_ns,
            fs: me.fs,
            nonce: nonce.clone(),
        });
        // Unlike that of any other program or process: a program that compares before it releases
        // leaves our lock alone.
        let agent_id = alloc::format!("lokt-{}-{}-{nonce}", me.host, me.pid);
        Self { agent_id, acquired_at: Some(now), host: me.host.clone(), writer, took_over: None }
    }

    /// Returns its bytes: the documented members first.
    pub fn render(&self) -> Vec<u8> {
        let mut text = alloc::format!("{{\"agent_id\":{}", Value::from(self.agent_id.as_str()));
        let mut add = |name: &str, value: Value| {
            for piece in [",\"", name, "\":", &value.to_string()] {
                text.push_str(piece);
            }
        };
        add("acquired_at", self.acquired_at.map(show_wall).into());
        add("host", self.host.as_str().into());
        if let Some(writer) = &self.writer {
            add("pid", writer.pid.into());
            add("start_ticks", writer.pid_start.into());
            add("boot_id", writer.boot_id.as_str().into());
            add("pid_ns", json!(writer.pid_ns));
            add("fs", json!(writer.fs));
            add("nonce", writer.nonce.as_str().into());
        }
        if let Some(took_over) = &self.took_over {
            add("took_over", took_over.as_str().into());
        }
        text.push_str("}\n");
        text.into_bytes()
    }

    /// Parses a note. Notes of other programs are read as far as they can be understood; an empty
    /// or torn note has no content.
    pub fn parse(bytes: &[u8]) -> Self {
        let members: Map<String, Value> = serde_json::from_slice(bytes).unwrap_or_default();
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(ToString::to_string);
        let number = |name: &str| members.get(name).and_then(Value::as_i64);
        let writer = || {
            Some(Writer {
                pid: number("pid")?,
                pid_start: number("start_ticks")?,
                boot_id: text("boot_id")?,
                pid_ns: members.get("pid_ns").and_then(Value::as_u64),
                fs: members.get("fs").and_then(Value::as_u64),
                // The nonce becomes part of a path.
                nonce: text("nonce").filter(|nonce| is_nonce(nonce))?,
            })
        };
        Self {
            agent_id: text("agent_id").unwrap_or_default(),
            acquired_at: text("acquired_at").and_then(|at| parse_wall(&at)),
            host: text("host").unwrap_or_default(),
            writer: writer(),
            took_over: text("took_over"),
        }
    }

    /// Reports whether it was written on another boot of this machine, on a disk that only this
    /// machine writes to. If so, its writer is gone.
    pub fn is_of_a_boot_that_is_over(&self, me: &Identity) -> bool {
        let Some(writer) = &self.writer else { return false };
        let is_other_boot = me.boot_id.as_ref().is_some_and(|boot_id| *boot_id != writer.boot_id);
        // A container may have made up its own boot id; it has its own pid namespace, too.
        let is_same_space = writer.pid_ns.is_some() && writer.pid_ns == me.pid_ns;
        is_other_boot && self.host == me.host && is_same_space && is_local(writer.fs) && is_local(me.fs)
    }
}

/// Reports whether these are 128 random bits, as hex digits.
fn is_nonce(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A lock as found by a process that holds our own mutex.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// Its content.
    pub note: &'a Note,
    /// Time of its last change, by the file system.
    pub modified: Timestamp,
    /// State of the process that it names, if that is a lokt process of this boot or of an earlier
    /// one of this machine.
    pub writer: Option<Process>,
    /// Milliseconds for which it has been seen unchanged, by the boot clock.
    pub unchanged_ms: u64,
    /// The current time.
    pub now: Timestamp,
}

/// Verdict on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A writer may be inside: wait.
    Held,
    /// Its writer is a dead lokt process, which can't come back: replace it.
    Dead,
    /// Left behind by a program that may still come back: take it over with care.
    Stale,
}

/// Judges a lock. Only its writer's death or its age ends it.
pub fn judge(sight: &Sight<'_>) -> Verdict {
    if sight.writer == Some(Process::Dead) {
        return Verdict::Dead;
    }
    let age_ms = |since: Timestamp| u64::try_from(millis_between(since, sight.now)).ok();
    // A date in the future proves nothing. The file system's date is the only one that can't be
    // left out: if it is in the future, the lock must have been seen for that long.
    let said = sight.note.acquired_at.and_then(age_ms);
    let by_file = age_ms(sight.modified).unwrap_or(sight.unchanged_ms);
    let age_ms = said.map_or(by_file, |said| said.min(by_file));
    let is_stale = age_ms >= STALE_MS && sight.unchanged_ms >= SECOND_LOOK_MS;
    if is_stale { Verdict::Stale } else { Verdict::Held }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        parse_wall(text).expect("a time")
    }

    const NOW: &str = "2026-11-15T12:00:00Z";

    fn judged(acquired_at: Option<&str>, modified: &str, unchanged_ms: u64) -> Verdict {
        let note = Note { acquired_at: acquired_at.map(at), ..Note::default() };
        judge(&Sight { note: &note, modified: at(modified), writer: None, unchanged_ms, now: at(NOW) })
    }

    #[test]
    fn a_foreign_lock_is_stale_when_its_younger_date_is_thirty_seconds_old_and_a_second_look_finds_it_unchanged() {
        let (old, young) = ("2026-11-15T11:59:30Z", "2026-11-15T11:59:31Z");
        assert_eq!(judged(Some(old), old, 1_000), Verdict::Stale);
        assert_eq!(judged(Some(old), old, 999), Verdict::Held, "no second look yet");
        assert_eq!(judged(Some(young), old, 9_000), Verdict::Held, "it says that it is younger");
        assert_eq!(judged(Some(old), young, 9_000), Verdict::Held, "it was changed since");
        assert_eq!(judged(None, old, 1_000), Verdict::Stale, "an empty one, or a directory, has only one date");
        assert_eq!(judged(None, young, 9_000), Verdict::Held);
    }

    #[test]
    fn dates_in_the_future_prove_nothing() {
        let (old, future) = ("2026-11-15T11:00:00Z", "2026-11-15T13:00:00Z");
        assert_eq!(judged(Some(future), old, 1_000), Verdict::Stale, "what it says of itself is ignored");
        assert_eq!(judged(Some(old), future, 29_999), Verdict::Held);
        assert_eq!(judged(Some(old), future, 30_000), Verdict::Stale, "it was watched for that long");
        assert_eq!(judged(None, future, 30_000), Verdict::Stale);
    }

    #[test]
    fn one_of_us_who_is_dead_has_left_at_once_and_one_who_lives_or_cannot_be_seen_has_not() {
        let me = Identity { boot_id: Some("b".into()), host: "h".into(), pid: 7, pid_start: 8, ..Identity::default() };
        let note = Note::of(&me, at(NOW), 1);
        let judged = |writer| judge(&Sight { note: &note, modified: at(NOW), writer, unchanged_ms: 0, now: at(NOW) });
        assert_eq!(judged(Some(Process::Dead)), Verdict::Dead);
        assert_eq!(judged(Some(Process::Alive)), Verdict::Held);
        assert_eq!(judged(Some(Process::Unseen)), Verdict::Held);
        assert_eq!(judged(None), Verdict::Held, "of another boot");
    }

    #[test]
    fn a_boot_is_known_to_be_over_only_on_the_same_machine_with_a_disk_of_its_own() {
        let then = Identity {
            boot_id: Some("a".into()),
            host: "h".into(),
            pid_ns: Some(9),
            fs: Some(0xef53),
            ..Identity::default()
        };
        let now = Identity { boot_id: Some("b".into()), ..then.clone() };
        let is_over = |then: &Identity, now: &Identity| Note::of(then, at(NOW), 1).is_of_a_boot_that_is_over(now);
        assert!(is_over(&then, &now));
        assert!(!is_over(&then, &then), "the same boot isn't over");
        assert!(!is_over(&then, &Identity { boot_id: None, ..now.clone() }), "which boot this is isn't known");
        assert!(!is_over(&then, &Identity { host: "other".into(), ..now.clone() }), "another machine");
        assert!(!is_over(&then, &Identity { pid_ns: Some(8), ..now.clone() }), "a container has a boot id of its own");
        let nfs = Some(0x6969);
        assert!(!is_over(&Identity { fs: nfs, ..then.clone() }, &now), "it came over the network");
        assert!(!is_over(&then, &Identity { fs: nfs, ..now.clone() }), "so do we");
        assert!(!is_over(&Identity { fs: None, ..then.clone() }, &now), "an older lokt doesn't say");
        assert!(!Note::parse(b"").is_of_a_boot_that_is_over(&now), "nobody knows whose it is");
    }

    #[test]
    fn our_note_has_the_documented_members_first_and_reads_back() {
        let me = Identity {
            boot_id: Some("b".into()),
            host: "h\"".into(),
            pid: 7,
            pid_start: 8,
            pid_ns: Some(9),
            fs: Some(0xef53),
            ..Identity::default()
        };
        let note = Note::of(&me, at(NOW), 255);
        let text = String::from_utf8(note.render()).expect("JSON is text");
        assert!(text.starts_with(r#"{"agent_id":"lokt-h\"-7-"#), "{text}");
        assert!(text.contains(r#","acquired_at":"2026-11-15T12:00:00Z","#), "{text}");
        assert!(text.ends_with("}\n"));
        assert_eq!(Note::parse(text.as_bytes()), note);
    }

    #[test]
    fn what_other_programs_write_is_understood_as_far_as_it_goes() {
        let go = Note::parse(br#"{"agent_id":"append-operation","acquired_at":"2026-11-15T23:21:14.658897752+05:30"}"#);
        assert_eq!(go.agent_id, "append-operation");
        assert_eq!(go.acquired_at.map(|at| at.to_string()).as_deref(), Some("2026-11-15T17:51:14.658897752Z"));
        assert_eq!(go.writer, None);
        let crafted = Note::parse(br#"{"pid":1,"start_ticks":1,"boot_id":"b","nonce":"/../../x","took_over":""}"#);
        assert_eq!(crafted.writer, None, "a nonce becomes part of a path");
        for nothing in [&b""[..], b"{", b"[]", b"null", br#"{"agent_id":7,"acquired_at":"soon","pid":1}"#, b"\xff"] {
            assert_eq!(Note::parse(nothing), Note::default());
        }
    }
}
