//! The repository's audit log: lines that prove each other.

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

/// What happened, without its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Which event: of a link, `<worktree>/<chain>/<number>`.
    pub event_id: String,
    /// When, by the clock of whoever did it.
    pub timestamp: Timestamp,
    /// `lock_acquire`, `lock_steal`, …
    pub operation: String,
    /// Who: a holder id.
    pub actor: String,
    /// The worktree.
    pub target: String,
    /// Under which token.
    pub token: Option<u64>,
    /// Of which session.
    pub session_id: Option<String>,
    /// Why, in the user's words.
    pub reason: Option<String>,
    /// What else there is to say.
    pub details: Map<String, Value>,
}

/// The log as it was at some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anchor {
    /// So many lines.
    pub count: u64,
    /// The hash of the last one; empty if there was none.
    pub hash: String,
    /// So many bytes.
    pub size: u64,
    /// The links of the chain up to this one were in it.
    pub logged: u64,
    /// It was so during this boot of the machine that looked. During the same boot nothing of it is lost by itself.
    pub boot_id: Option<String>,
}

/// What the log should be, as kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// So many lines.
    pub count: u64,
    /// The hash of the last one.
    pub hash: String,
    /// So many bytes.
    pub size: u64,
    /// Written during this boot.
    pub boot_id: String,
}

/// What is wrong with a log, and in which line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The line.
    pub line: u64,
    /// What is wrong.
    pub why: String,
}

/// The digits of a hash.
const HASH_DIGITS: usize = 64;

impl Event {
    /// Its line in the log, after the line with `prev_hash` (empty: it is the first), with a newline; and its hash.
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

    /// As kept in a link.
    pub fn to_value(&self) -> Value {
        self.entries().into_iter().map(|(name, value)| (String::from(name), value)).collect::<Map<_, _>>().into()
    }

    /// Back.
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

    /// Its members in their order. What is unknown is null, so that every line has the same members.
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

    /// What a line tells whose hashes are right. `jvs` has other names for some members, and lacks others.
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

/// A line that was read: its event and hashes, if its own hash is right.
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

/// SHA-256 of the canonical members, the hash itself being empty.
fn record_hash(members: &mut Map<String, Value>) -> String {
    members.insert("record_hash".into(), "".into());
    // An object is cheap to move in and out; a copy of its members isn't.
    let object = Value::Object(core::mem::take(members));
    let hash = Digest::of(canonical(&object).as_bytes());
    if let Value::Object(taken) = object {
        *members = taken;
    }
    format!("{hash}")
}

impl Anchor {
    /// As kept in a link.
    pub fn to_value(&self) -> Value {
        let Self { count, hash, size, logged, boot_id } = self;
        json!({"count": count, "hash": hash, "size": size, "logged": logged, "boot_id": boot_id})
    }

    /// Back.
    pub fn from_value(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let number = |name: &str| count(members.get(name));
        let (count, hash) = counted_hash(members)?;
        Some(Self { count, hash, size: number("size")?, logged: number("logged")?, boot_id: text(members, "boot_id") })
    }
}

impl Head {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let members = [
            ("count", self.count.into()),
            ("hash", self.hash.as_str().into()),
            ("size", self.size.into()),
            ("boot_id", self.boot_id.as_str().into()),
        ];
        Ordered(members.into()).to_bytes()
    }

    /// Back.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let members = object(bytes).ok()?;
        let (count, hash) = counted_hash(&members)?;
        Some(Self { count, hash, size: super::json::count(members.get("size"))?, boot_id: text(&members, "boot_id")? })
    }
}

/// How many lines, and the hash of the last: that of none is empty. No log has as many as there are numbers: one more can always be counted.
fn counted_hash(members: &Map<String, Value>) -> Option<(u64, String)> {
    let count = count(members.get("count"))?;
    let hash = text(members, "hash")?;
    let is_right = if count == 0 { hash.is_empty() } else { is_hex(&hash, HASH_DIGITS) };
    is_right.then_some((count, hash))
}
