//! The repository's audit log: lines that verify each other by hashes.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::canonical::{canonical, escaped};
use super::json::{Ordered, Unique, count, is_hex, link_number, object, show_ms, text};
use crate::ledger::chain::Digest;
use crate::time::parse_wall;

/// An event, without its position in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Id of the event; for a link, `<worktree>/<chain>/<number>`.
    pub event_id: String,
    /// Time, by the clock of the process that acted.
    pub timestamp: Timestamp,
    /// `lock_acquire`, `lock_steal`, …
    pub operation: String,
    /// Holder id of the actor.
    pub actor: String,
    /// The worktree.
    pub target: String,
    /// Fencing token under which it happened.
    pub token: Option<u64>,
    /// Id of the session.
    pub session_id: Option<String>,
    /// Reason, in the user's words.
    pub reason: Option<String>,
    /// Further details.
    pub details: Map<String, Value>,
}

/// State of the log at some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anchor {
    /// Number of lines.
    pub count: u64,
    /// Hash of the last line; empty if there was none.
    pub hash: String,
    /// Number of bytes.
    pub size: u64,
    /// The log contained the links of the chain up to this number.
    pub logged: u64,
    /// Boot of the observing machine at that time. During the same boot no part of the log gets
    /// lost unless something removes it.
    pub boot_id: Option<String>,
}

/// Expected state of the log, stored beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Number of lines.
    pub count: u64,
    /// Hash of the last line.
    pub hash: String,
    /// Number of bytes.
    pub size: u64,
    /// Boot during which it was written.
    pub boot_id: String,
}

/// A defect of a log, and its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Number of the line.
    pub line: u64,
    /// Description of the defect.
    pub why: String,
}

/// Number of digits of a hash.
const HASH_DIGITS: usize = 64;

impl Event {
    /// Returns its line in the log, with a newline, and the hash of that line. `prev_hash` is the
    /// hash of the line before; empty if it is the first.
    pub fn line(&self, prev_hash: &str) -> (Vec<u8>, String) {
        let mut entries = self.entries();
        entries.push(("prev_hash", prev_hash.into()));
        let mut members: Map<String, Value> =
            entries.iter().map(|(name, value)| (String::from(*name), value.clone())).collect();
        let hash = record_hash(&mut members);
        entries.push(("record_hash", hash.as_str().into()));
        let text = serde_json::to_string(&Ordered(entries)).expect("JSON values are JSON");
        let mut line = escaped(&text).into_bytes();
        line.push(b'\n');
        (line, hash)
    }

    /// Returns its JSON form, as stored in a link.
    pub fn to_value(&self) -> Value {
        self.entries().into_iter().map(|(name, value)| (String::from(name), value)).collect::<Map<_, _>>().into()
    }

    /// Parses the stored form.
    pub fn from_value(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let token = match members.get("fencing_token") {
            None | Some(Value::Null) => None,
            token => Some(link_number(token)?),
        };
        let details = match members.get("details") {
            None | Some(Value::Null) => Map::new(),
            details => details?.as_object()?.clone(),
        };
        Some(Self {
            event_id: text(members, "event_id")?,
            timestamp: text(members, "timestamp").and_then(|at| parse_wall(&at))?,
            operation: text(members, "operation")?,
            actor: text(members, "actor")?,
            target: text(members, "target")?,
            token,
            session_id: text(members, "session_id"),
            reason: text(members, "reason"),
            details,
        })
    }

    /// Returns its members in their order. Unknown ones are null, so that every line has the same
    /// members.
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let mut entries = vec![
            ("event_id", self.event_id.as_str().into()),
            ("timestamp", show_ms(self.timestamp).into()),
            ("operation", self.operation.as_str().into()),
            ("actor", self.actor.as_str().into()),
            ("target", self.target.as_str().into()),
            ("fencing_token", self.token.into()),
            ("session_id", self.session_id.as_deref().into()),
            ("reason", self.reason.as_deref().into()),
        ];
        if !self.details.is_empty() {
            entries.push(("details", self.details.clone().into()));
        }
        entries
    }

    /// Reads the event of a line whose hashes are right. `jvs` has other names for some members,
    /// and lacks others.
    fn from_line(members: &Map<String, Value>) -> Option<Self> {
        if members.contains_key("event_id") {
            return Self::from_value(&members.clone().into());
        }
        let mut details = members.get("details").and_then(Value::as_object).cloned().unwrap_or_default();
        details.extend(members.get("snapshot_id").map(|id| (String::from("snapshot_id"), id.clone())));
        Some(Self {
            event_id: String::new(),
            timestamp: text(members, "timestamp").and_then(|at| parse_wall(&at))?,
            operation: text(members, "event_type")?,
            actor: String::new(),
            target: text(members, "worktree_name").unwrap_or_default(),
            token: None,
            session_id: None,
            reason: None,
            details,
        })
    }
}

/// Parses a line. Returns its event and hash, if its own hash is right and it follows `prev_hash`.
pub fn read_line(line: &[u8], number: u64, prev_hash: &str) -> Result<(Event, String), Broken> {
    let broken = |why: &str| Broken { line: number, why: why.into() };
    let Unique(mut members) =
        serde_json::from_slice(line).map_err(|error| broken(&format!("it is no event ({error})")))?;
    let own_hash = text(&members, "record_hash").ok_or_else(|| broken("it has no record_hash"))?;
    let named = text(&members, "prev_hash").ok_or_else(|| broken("it has no prev_hash"))?;
    if record_hash(&mut members) != own_hash {
        return Err(broken("it was changed: its record_hash is that of something else"));
    }
    if named != prev_hash {
        return Err(broken("it doesn't follow the line before: its prev_hash is that of something else"));
    }
    let event = Event::from_line(&members).ok_or_else(|| broken("it is no event: members are missing"))?;
    Ok((event, own_hash))
}

/// Returns the SHA-256 of the canonical members, with an empty `record_hash`.
fn record_hash(members: &mut Map<String, Value>) -> String {
    members.insert("record_hash".into(), "".into());
    // Moving the members into an object and back is cheap; copying them isn't.
    let object = Value::Object(core::mem::take(members));
    let hash = Digest::of(canonical(&object).as_bytes());
    if let Value::Object(taken) = object {
        *members = taken;
    }
    format!("{hash}")
}

impl Anchor {
    /// Returns its JSON form, as stored in a link.
    pub fn to_value(&self) -> Value {
        let Self { count, hash, size, logged, boot_id } = self;
        json!({"count": count, "hash": hash, "size": size, "logged": logged, "boot_id": boot_id})
    }

    /// Parses the stored form.
    pub fn from_value(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let number = |name: &str| count(members.get(name));
        let (count, hash) = counted_hash(members)?;
        Some(Self { count, hash, size: number("size")?, logged: number("logged")?, boot_id: text(members, "boot_id") })
    }
}

impl Head {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let members = [
            ("count", self.count.into()),
            ("hash", self.hash.as_str().into()),
            ("size", self.size.into()),
            ("boot_id", self.boot_id.as_str().into()),
        ];
        Ordered(members.into()).to_bytes()
    }

    /// Parses the bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let members = object(bytes).ok()?;
        let (count, hash) = counted_hash(&members)?;
        Some(Self { count, hash, size: super::json::count(members.get("size"))?, boot_id: text(&members, "boot_id")? })
    }
}

/// Returns the number of lines, and the hash of the last one, which is empty if there is none. The
/// number is below the limit of numbers, so one more can always be counted.
fn counted_hash(members: &Map<String, Value>) -> Option<(u64, String)> {
    let count = count(members.get("count"))?;
    let hash = text(members, "hash")?;
    let is_right = if count == 0 { hash.is_empty() } else { is_hex(&hash, HASH_DIGITS) };
    is_right.then_some((count, hash))
}
