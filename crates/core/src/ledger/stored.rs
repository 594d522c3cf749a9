//! An event that was read.
//!
//! It is read as the af program reads it: member names without regard to case, the last of two
//! members with one name, an unpaired surrogate as U+FFFD, numbers and nesting beyond what we
//! compute with. What that program refuses as not an event is [`Damage`]; so is invalid UTF-8,
//! which it accepts. An event that it refuses for another reason (an unknown type, a release of an
//! unclaimed node) is reported by [`proof`](super::proof), and a `type` that it overlooks by
//! [`misread`].

mod lenient;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::catalogue::taken_for;
use super::chain::Digest;
use super::draft::EVENT_BYTES_MAX;
use super::json;
use super::moment;
use super::seq::Seq;

/// Maximum nesting depth that the af program reads.
const DEPTH_MAX: usize = 10_000;

/// An event as stored in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// `type`; for a carrier, its own.
    pub kind: String,
    /// `timestamp`, if there is one.
    pub timestamp: Option<Timestamp>,
    /// All of its members, `type` and `timestamp` too. Members that the af program knows are under
    /// its spelling.
    pub members: Map<String, Value>,
}

/// Reason why a file is not a valid event; a sentence without the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(pub String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Stored {
    /// Parses the bytes of an event's file, as strictly as the af program does.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let text = text_of(bytes)?;
        let mut members = match serde_json::from_str::<Members>(text) {
            Ok(Members(members)) => members,
            // serde_json may have refused no more than a number that is too large for it.
            Err(error) => lenient::members(object_in(text)?).ok_or_else(|| Damage(format!("is not JSON: {error}")))?,
        };
        let kind = match members.get_mut("type") {
            Some(Value::String(kind)) if !kind.is_empty() => kind.clone(),
            Some(Value::String(_)) => return Err(Damage("has an empty `type`".into())),
            Some(_) => return Err(Damage("has a `type` that is no string".into())),
            None => return Err(Damage("has no member `type`".into())),
        };
        let timestamp = match members.get("timestamp") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => match moment::parse(text) {
                Some(at) => Some(at),
                None => return Err(Damage(format!("has a `timestamp` that is no time: {text:?}"))),
            },
            Some(_) => return Err(Damage("has a `timestamp` that is no string".into())),
        };
        Ok(Self { kind, timestamp, members })
    }

    /// Returns the event inside, if this is the carrier of one that the af program doesn't know.
    pub fn carried(&self) -> Option<&Map<String, Value>> {
        let event = self.members.get("event")?.as_object()?;
        (self.is_no_op() && event.get("type").is_some_and(Value::is_string)).then_some(event)
    }

    /// Returns the type that its author gave it: that of the event inside, if this is a carrier.
    pub fn shown_kind(&self) -> &str {
        self.carried().and_then(|event| event.get("type")?.as_str()).unwrap_or(&self.kind)
    }

    /// `idempotency_key`
    pub fn id(&self) -> Option<&str> {
        let own = self.members.get("idempotency_key");
        own.or_else(|| self.carried()?.get("idempotency_key"))?.as_str()
    }

    /// `filler`
    pub fn filler(&self) -> Option<Seq> {
        Seq::new(self.members.get("filler")?.as_u64()?)
    }

    /// Reports whether this is an event that a take-over put in its place.
    pub fn is_filler(&self) -> bool {
        let own: &[&str] = match self.kind.as_str() {
            "lock_takeover" => &[],
            "nodes_released" if self.is_no_op() && self.members.get("takeover") == Some(&Value::Bool(true)) => {
                &["node_ids", "takeover"]
            }
            _ => return false,
        };
        let known = |name: &str| ["type", "timestamp", "filler", "chain"].contains(&name) || own.contains(&name);
        self.members.keys().all(|name| known(name))
    }

    /// `chain`
    pub fn chain(&self) -> Option<Digest> {
        self.members.get("chain")?.as_str()?.parse().ok()
    }

    /// Returns the digest of the bytes that a repair replaced with this event. An event with any
    /// other member than a repair has is not a repair.
    pub fn repaired(&self) -> Option<Digest> {
        let own: &[&str] = match self.kind.as_str() {
            "lock_takeover" => &[],
            "nodes_released" if self.is_no_op() => &["node_ids"],
            _ => return None,
        };
        let known = |name: &str| ["type", "timestamp", "repaired"].contains(&name) || own.contains(&name);
        let says = self.members.get("repaired")?.as_str()?.parse().ok()?;
        self.members.keys().all(|name| known(name)).then_some(says)
    }

    /// Reports whether it releases nothing, which the af program accepts as an event.
    fn is_no_op(&self) -> bool {
        let none = |ids: &Value| ids.as_array().is_some_and(Vec::is_empty);
        self.kind == "nodes_released" && self.members.get("node_ids").is_some_and(none)
    }
}

/// Reports whether the af program reads another type than the event's. It searches for the first
/// `"type"` in the bytes, wherever it is, and takes the text after it as it is. `bytes` are an
/// event's.
pub fn misread(bytes: &[u8]) -> bool {
    let Ok(text) = core::str::from_utf8(bytes) else { return true };
    let Some(first) = text.find("\"type\"") else { return true };
    let members = json::members(text);
    let found = members.iter().find(|member| member.at == first);
    found.is_none_or(|member| !member.value.starts_with('"') || member.value.contains('\\'))
}

/// Returns the event as a line for people and programs: `seq` first, then the [`shown`] members.
pub fn line(seq: Seq, bytes: &[u8]) -> Result<String, Damage> {
    let mut line = format!("{{\"seq\":{seq}");
    for (name, value) in shown(bytes)? {
        line.push(',');
        line.push_str(name);
        line.push(':');
        line.push_str(&value);
    }
    line.push('}');
    Ok(line)
}

/// Returns the members of an event that are shown, in their order and as they are written, names
/// and values as JSON without blanks. For a carrier, these are the members of the event inside, and
/// those that lokt added to it. A member called `seq` is left out. Accepts any depth: nothing is
/// computed with.
pub fn shown(bytes: &[u8]) -> Result<Vec<(&str, String)>, Damage> {
    let event = Stored::parse(bytes)?;
    let own = json::members(text_of(bytes)?);
    let carried = event.carried().and_then(|_| own.iter().rfind(|member| member.name == "\"event\""));
    let members = match carried {
        Some(event) => {
            let mut members = json::members(event.value);
            members.retain(|member| member.name != "\"seq\"");
            members.extend(own.iter().filter(|member| ADDED.contains(&member.name)));
            members
        }
        None => own.into_iter().filter(|member| member.name != "\"seq\"").collect(),
    };
    let shown = |member: json::Member<'_>| {
        let mut value = String::with_capacity(member.value.len());
        json::compact_into(&mut value, member.value);
        value
    };
    Ok(members.into_iter().map(|member| (member.name, shown(member))).collect())
}

/// Returns valid JSON without escapes that people don't need. Everything else stays as it is
/// written: a parsed number would be shown as the nearest one that we compute with.
pub fn readable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    json::plain_into(&mut text, json);
    text
}

/// Members that lokt adds to an event, as they are written.
const ADDED: [&str; 4] = ["\"idempotency_key\"", "\"claim_token\"", "\"filler\"", "\"chain\""];

/// Returns the text of an event's file.
fn text_of(bytes: &[u8]) -> Result<&str, Damage> {
    if bytes.len() > EVENT_BYTES_MAX {
        return Err(Damage(format!("has {} bytes, and an event has at most {EVENT_BYTES_MAX}", bytes.len())));
    }
    if bytes.is_empty() {
        return Err(Damage("is empty".into()));
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(Damage("begins with a byte order mark, which is no JSON".into()));
    }
    core::str::from_utf8(bytes).map_err(|error| Damage(format!("is not UTF-8: {error}")))
}

/// Returns the text, if it is one JSON object.
fn object_in(text: &str) -> Result<&str, Damage> {
    json::check(text).map_err(|error| Damage(format!("is not JSON: {error}")))?;
    match json::kind(text) {
        "an object" if json::depth(text) > DEPTH_MAX => {
            Err(Damage(format!("is nested deeper than {DEPTH_MAX} levels")))
        }
        "an object" => Ok(text),
        kind => Err(Damage(format!("is {kind}, not an object"))),
    }
}

/// Members of an event as the af program reads them.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            keep(&mut members, name, map.next_value()?);
        }
        Ok(Members(members))
    }
}

/// Keeps the last of two members with one name, but the first of two types. Only the exact spelling
/// `type` is a type.
fn keep(members: &mut Map<String, Value>, name: Cow<'_, str>, value: Value) {
    match taken_for(&name) {
        None | Some("type") if name == "type" && members.contains_key("type") => {}
        None | Some("type") => drop(members.insert(name.into_owned(), value)),
        Some(known) => drop(members.insert(known.to_string(), value)),
    }
}
