//! An event to be written.
//!
//! The caller's input is kept as typed, number by number; only blanks between the pieces are
//! removed. `type` comes first and `timestamp` second, because the af program finds the type by
//! searching for the first `"type"` in the bytes.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde_json::Value;

use super::catalogue::{DOCUMENTED_CLAIMS, taken_for};
use super::chain::Digest;
use super::json;
use super::moment;
use super::seq::{Seq, Style};

/// Maximum size of an event in bytes, read or written.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// Maximum nesting depth of an event, so that every reader can parse it, in a carrier too.
pub const EVENT_DEPTH_MAX: usize = 126;

/// An event that a caller wants to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    kind: String,
    /// The value as JSON.
    timestamp: Option<String>,
    /// All other members: the name, and the value as JSON without blanks.
    members: Vec<(String, String)>,
}

/// Members that lokt adds to an event, after its own members.
#[derive(Debug, Clone, Copy, Default)]
pub struct Added<'a> {
    /// `idempotency_key`
    pub id: Option<&'a str>,
    /// `claim_token`
    pub token: Option<Seq>,
    /// `filler`
    pub filler: Option<Seq>,
    /// `chain`
    pub chain: Option<&'a Digest>,
}

/// Reason why something is not a valid event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEvent(pub String);

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadEvent {}

fn bad<T>(why: impl Into<String>) -> Result<T, BadEvent> {
    Err(BadEvent(why.into()))
}

impl Draft {
    /// Parses one JSON object, as typed or from a line of a file.
    pub fn parse(json: &[u8]) -> Result<Self, BadEvent> {
        let text = text_of(json)?;
        let mut draft = Self { kind: String::new(), timestamp: None, members: Vec::new() };
        let mut names: Vec<String> = Vec::new();
        for (nth, member) in json::members(text).into_iter().enumerate() {
            // `show` and `export` put the number that the event had there first.
            if nth == 0 && member.name == "\"seq\"" {
                continue;
            }
            let name: String =
                serde_json::from_str(member.name).map_err(|error| BadEvent(format!("an event is JSON: {error}")))?;
            if let Some(known @ ("type" | "timestamp")) = taken_for(&name) {
                return bad(format!(
                    "the member `{name}` would be taken for `{known}`; spell it so, or call it otherwise"
                ));
            }
            let mut value = String::with_capacity(member.value.len());
            json::plain_into(&mut value, member.value);
            draft.keep(&name, value)?;
            names.push(name);
        }
        if !names.iter().any(|name| name == "type") {
            return bad("an event needs a member `type`");
        }
        names.sort_unstable();
        let twice = |pair: &[String]| matches!(pair, [one, other] if one == other).then(|| pair[0].clone());
        match names.windows(2).find_map(twice) {
            Some(twice) => bad(format!("the event has the member `{twice}` twice")),
            None => Ok(draft),
        }
    }

    /// Creates an event of this type; `body` is a JSON object with its other members.
    pub fn with_body(kind: &str, body: &str) -> Result<Self, BadEvent> {
        let Some(members) = body.trim_ascii().strip_prefix('{') else {
            return bad("an event's body is a JSON object, and this isn't");
        };
        let comma = if members.trim_ascii_start().starts_with('}') { "" } else { "," };
        Self::parse(format!("{{\"type\":{}{comma}{members}", quoted(kind)).as_bytes())
    }

    /// Creates an event of ours.
    pub fn new(kind: &str, members: Vec<(&str, Value)>) -> Self {
        let mut draft = Self { kind: kind.to_owned(), timestamp: None, members: Vec::new() };
        for (name, value) in members {
            match name {
                "timestamp" => draft.timestamp = Some(value.to_string()),
                _ => draft.members.push((name.to_owned(), value.to_string())),
            }
        }
        draft
    }

    /// Creates the event that a take-over puts where a suspended writer may still write, and that a
    /// repair puts into a gap.
    pub fn filler(style: Style) -> Self {
        match style {
            Style::Documented => Self::new("lock_takeover", Vec::new()),
            Style::Native => Self::new(
                "nodes_released",
                alloc::vec![("node_ids", Value::Array(Vec::new())), ("takeover", Value::Bool(true))],
            ),
        }
    }

    /// Creates the event that a repair puts in the place of one with these bytes.
    pub fn repair(style: Style, original: &[u8]) -> Self {
        let digest = Value::String(Digest::of(original).to_string());
        match style {
            Style::Documented => Self::new("lock_takeover", alloc::vec![("repaired", digest)]),
            Style::Native => {
                Self::new("nodes_released", alloc::vec![("node_ids", Value::Array(Vec::new())), ("repaired", digest)])
            }
        }
    }

    /// Returns its `type`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns one of its members as JSON, but not `type` or `timestamp`.
    pub fn member(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the bytes of its file.
    pub fn render(&self, style: Style, now: Timestamp, added: Added<'_>) -> Result<Vec<u8>, BadEvent> {
        let timestamp = self.timestamp.clone().unwrap_or_else(|| quoted(&moment::show(now)));
        let mut out = String::with_capacity(256);
        if style.knows(&self.kind) {
            self.fits(style)?;
            self.write_into(&mut out, &timestamp);
        } else {
            self.is_no_claim()?;
            out.push_str("{\"type\":\"nodes_released\",\"timestamp\":");
            out.push_str(&timestamp);
            out.push_str(",\"node_ids\":[],\"event\":");
            self.write_into(&mut out, &timestamp);
            out.push('}');
        }
        out.pop();
        for (name, value) in self.to_add(added)? {
            push_member(&mut out, name, &value);
        }
        out.push('}');
        if out.len() > EVENT_BYTES_MAX {
            return bad(format!("the event has {} bytes, and an event has at most {EVENT_BYTES_MAX}", out.len()));
        }
        Ok(out.into_bytes())
    }

    fn keep(&mut self, name: &str, value: String) -> Result<(), BadEvent> {
        match name {
            "type" => match serde_json::from_str::<Value>(&value) {
                Ok(Value::String(kind)) if !kind.is_empty() => self.kind = kind,
                Ok(Value::String(_)) => return bad("an event's `type` must not be empty"),
                _ => return bad(format!("an event's `type` is a string, not {}", json::kind(&value))),
            },
            "timestamp" => match serde_json::from_str::<Value>(&value) {
                Ok(Value::String(text)) if moment::parse(&text).is_some() => self.timestamp = Some(value),
                Ok(Value::String(text)) => {
                    return bad(format!(
                        "{text:?} is no time; write one like 2026-01-31T12:00:00Z, or leave `timestamp` out"
                    ));
                }
                _ => return bad(format!("an event's `timestamp` is a string, not {}", json::kind(&value))),
            },
            "seq" => return bad("the member `seq` is the number that the ledger gives; call yours otherwise"),
            "filler" if Seq::new(value.parse().unwrap_or(0)).is_some() => {
                return bad("a number in the member `filler` is lokt's own; call it otherwise");
            }
            "chain" | "repaired" if value.trim_matches('"').parse::<Digest>().is_ok() => {
                return bad(format!("a digest in the member `{name}` is lokt's own; leave it out"));
            }
            _ => self.members.push((name.to_owned(), value)),
        }
        Ok(())
    }

    /// Checks that the af program would read the members of an event that it knows as they are
    /// meant.
    fn fits(&self, style: Style) -> Result<(), BadEvent> {
        let misleading = |(name, _): &&(String, String)| style == Style::Native && taken_for(name).is_some();
        match self.members.iter().find(misleading) {
            Some((name, _)) => bad(format!(
                "the member `{name}` would be taken for `{}` in a native ledger; spell it so, or call it otherwise",
                taken_for(name).unwrap_or_default()
            )),
            None => Ok(()),
        }
    }

    /// Refuses claims of the documented kind: in an af ledger no program would see them.
    fn is_no_claim(&self) -> Result<(), BadEvent> {
        if DOCUMENTED_CLAIMS.contains(&self.kind.as_str()) {
            return bad(format!(
                "`{}` has no meaning in a native ledger; `lokt claim take`, `release` and `reap` write what has",
                self.kind
            ));
        }
        Ok(())
    }

    fn write_into(&self, out: &mut String, timestamp: &str) {
        out.push_str("{\"type\":");
        out.push_str(&quoted(&self.kind));
        push_member(out, "timestamp", timestamp);
        for (name, value) in &self.members {
            push_member(out, name, value);
        }
        out.push('}');
    }

    /// Returns the members to be added that aren't there yet.
    fn to_add(&self, added: Added<'_>) -> Result<Vec<(&'static str, String)>, BadEvent> {
        let all = [
            ("idempotency_key", added.id.map(quoted)),
            ("claim_token", added.token.map(|token| token.to_string())),
            ("filler", added.filler.map(|filler| filler.to_string())),
            ("chain", added.chain.map(|chain| quoted(&chain.to_string()))),
        ];
        let mut missing = Vec::new();
        for (name, value) in all.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            match self.member(name) {
                None => missing.push((name, value)),
                Some(own) if same(own, &value) => {}
                Some(own) => {
                    return bad(format!(
                        "the event has a member `{name}` of its own, {own}, and {value} is to be added"
                    ));
                }
            }
        }
        Ok(missing)
    }
}

fn same(one: &str, other: &str) -> bool {
    one == other || serde_json::from_str::<Value>(one).ok() == serde_json::from_str::<Value>(other).ok()
}

fn push_member(out: &mut String, name: &str, value: &str) {
    out.push(',');
    out.push_str(&quoted(name));
    out.push(':');
    out.push_str(value);
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the text of what is to become an event.
fn text_of(bytes: &[u8]) -> Result<&str, BadEvent> {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return bad("an event must not begin with a byte order mark");
    }
    let Ok(text) = core::str::from_utf8(bytes) else { return bad("an event is UTF-8 text, and this isn't") };
    if text.trim_ascii().is_empty() {
        return bad("an event is a JSON object, and this is nothing");
    }
    if let Err(error) = json::check(text) {
        return bad(format!("an event is one JSON object, and this isn't: {error}"));
    }
    match json::kind(text) {
        "an object" => {}
        kind => return bad(format!("an event is a JSON object, and this is {kind}")),
    }
    if json::depth(text) > EVENT_DEPTH_MAX {
        return bad(format!("the event is nested deeper than {EVENT_DEPTH_MAX} levels"));
    }
    if json::without_half_pairs(text).is_some() {
        return bad("the event has half a surrogate pair (\\ud800 to \\udfff), which is no character");
    }
    Ok(text)
}
