//! A hold as bytes on disk, and back.
//!
//! The record is JSON, version 1, shared with other programs. Its first eleven members are theirs,
//! too, in this order; ours follow, and other programs ignore them. Unknown members survive a
//! rewrite. Like those programs, readers accept members in any case and order, `null` for absent,
//! and times with any offset.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::hold::{Fence, Hold, LockId, Part, Parts, PulseRef, RECORD_VERSION, lease_of};
use crate::time::{parse_wall, show_wall};

/// Maximum length of a record in bytes, read or written.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// The result of parsing a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// A hold.
    Hold(Box<Hold>),
    /// A record of a later version, which this program must leave alone.
    Newer(i64),
    /// Not a valid record; the text says why.
    Corrupt(String),
}

/// Parses the bytes of a record file.
pub fn parse(bytes: &[u8]) -> Parsed {
    match serde_json::from_slice::<Record>(bytes) {
        Ok(Record(hold)) if hold.version <= RECORD_VERSION => Parsed::Hold(Box::new(hold)),
        Ok(Record(hold)) => Parsed::Newer(hold.version),
        // A later version may have changed the type of anything but its version.
        Err(error) => match serde_json::from_slice::<VersionOnly>(bytes) {
            Ok(VersionOnly(version)) if version > RECORD_VERSION => Parsed::Newer(version),
            _ => Parsed::Corrupt(error.to_string()),
        },
    }
}

/// The bytes of a record file.
pub fn encode(hold: &Hold) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(&Encoded(hold)).expect("a hold has only strings and numbers");
    bytes.push(b'\n');
    bytes
}

/// The version of an object, whatever its other members are.
struct VersionOnly(i64);

impl<'de> Deserialize<'de> for VersionOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(VersionVisitor)
    }
}

struct VersionVisitor;

impl<'de> Visitor<'de> for VersionVisitor {
    type Value = VersionOnly;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a version")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VersionOnly, A::Error> {
        let mut version = 0;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key.eq_ignore_ascii_case("version") {
                version = map.next_value::<Option<Number>>()?.map_or(0, |number| whole(&number));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(VersionOnly(version))
    }
}

/// Returns the whole part, limited to the range of `i64`.
fn whole(number: &Number) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "that is what it is for, and it stops at the last number")]
    let rounded = || number.as_f64().map_or(0, |number| number as i64);
    number.as_i64().unwrap_or_else(rounded)
}

struct Record(Hold);

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RecordVisitor)
    }
}

struct RecordVisitor;

/// A member's name: one that this program knows, in any case, or another one. Known names are not
/// copied, because reading ten thousand records reads two hundred thousand names.
enum Member {
    Known(&'static str),
    Other(String),
}

/// The members that this program knows, in the order in which they are written.
const MEMBERS: [&str; 19] = [
    "version",
    "name",
    "lock_id",
    "owner",
    "host",
    "pid",
    "pid_start_ns",
    "agent_id",
    "acquired_ts",
    "ttl_sec",
    "expires_at",
    "fencing_token",
    "parts",
    "pulse",
    "boot_id",
    "pid_ns",
    "fs",
    "held_since",
    "reason",
];

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberVisitor;
        impl Visitor<'_> for MemberVisitor {
            type Value = Member;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Member, E> {
                let known = MEMBERS.iter().find(|member| member.eq_ignore_ascii_case(key));
                Ok(known.map_or_else(|| Member::Other(key.into()), |member| Member::Known(member)))
            }
        }
        deserializer.deserialize_identifier(MemberVisitor)
    }
}

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a lock record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut hold = Hold::blank();
        let mut has_owner = false;
        let mut acquired_text = Cow::default();
        let mut expires_text = Cow::default();
        let mut parts: Option<PartsText<'de>> = None;
        while let Some(member) = map.next_key()? {
            let known = match member {
                Member::Known(known) => known,
                Member::Other(key) => {
                    hold.extra.insert(key, map.next_value::<Value>()?);
                    continue;
                }
            };
            match known {
                "version" => hold.version = or_default(map.next_value()?),
                "name" => hold.name = or_default(map.next_value()?),
                "lock_id" => hold.lock_id = LockId::from_text(or_default::<String>(map.next_value()?)),
                "owner" => {
                    let owner: Option<String> = map.next_value()?;
                    has_owner |= owner.is_some();
                    hold.owner = owner.unwrap_or_default();
                }
                "host" => hold.host = or_default(map.next_value()?),
                "pid" => hold.pid = or_default(map.next_value()?),
                "pid_start_ns" => hold.pid_start = or_default(map.next_value()?),
                "agent_id" => hold.agent_id = or_default(map.next_value()?),
                "acquired_ts" => (acquired_text, hold.acquired) = wall(&mut map, "acquired_ts")?,
                "ttl_sec" => hold.ttl_sec = or_default(map.next_value()?),
                "expires_at" => (expires_text, hold.expires_at) = wall(&mut map, "expires_at")?,
                // A number that can't be one of our tokens is another program's; its hold still
                // counts.
                "fencing_token" => hold.token = map.next_value::<Value>()?.as_u64().and_then(Fence::new),
                "parts" => parts = map.next_value()?,
                "pulse" => hold.pulse = map.next_value::<Option<PulseText>>()?.map(Into::into),
                "boot_id" => hold.boot_id = map.next_value()?,
                "pid_ns" => hold.pid_ns = map.next_value()?,
                "fs" => hold.fs = map.next_value()?,
                "held_since" => hold.held_since = wall(&mut map, "held_since")?.1,
                "reason" => hold.reason = map.next_value()?,
                _ => unreachable!("every known member is handled"),
            }
        }
        if !has_owner && hold.version <= RECORD_VERSION {
            return Err(A::Error::custom("no owner"));
        }
        if let Some(text) = parts {
            let edited = !is_written_for(&text.written_for, &acquired_text, &expires_text);
            hold.parts = text.into_parts(edited).map_err(A::Error::custom)?;
        }
        Ok(Record(hold))
    }
}

fn or_default<T: Default>(value: Option<T>) -> T {
    value.unwrap_or_default()
}

fn wall<'de, A: MapAccess<'de>>(map: &mut A, member: &str) -> Result<(Cow<'de, str>, Option<Timestamp>), A::Error> {
    /// Serde copies every `Cow` that isn't a field of a derived struct.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    let Some(Text(text)) = map.next_value::<Option<Text<'de>>>()? else { return Ok((Cow::default(), None)) };
    let at = parse_wall(&text).ok_or_else(|| A::Error::custom(format!("{member} is not a time")))?;
    Ok((text, Some(at)))
}

fn is_written_for(text: &str, acquired: &str, expires: &str) -> bool {
    let expires = if expires.is_empty() { "-" } else { expires };
    text.strip_prefix(acquired).and_then(|rest| rest.strip_prefix(' ')) == Some(expires)
}

/// The value of `parts.for` if the parts belong to these top-level times.
fn written_for(acquired: &str, expires: &str) -> String {
    format!("{acquired} {}", if expires.is_empty() { "-" } else { expires })
}

#[derive(Serialize, Deserialize)]
struct PartsText<'a> {
    #[serde(rename = "for", default, borrow)]
    written_for: Cow<'a, str>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    process: Option<ProcessPartText<'a>>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerPartText<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ProcessPartText<'a> {
    #[serde(borrow)]
    since: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_sec: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    monotonic_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct OwnerPartText<'a> {
    #[serde(borrow)]
    since: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_sec: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boottime_ms: Option<u64>,
}

impl PartsText<'_> {
    fn of(hold: &Hold) -> Option<Self> {
        let parts = hold.parts.as_ref()?;
        let text = |at: Option<Timestamp>| at.map(show_wall).unwrap_or_default();
        Some(Self {
            written_for: written_for(&text(hold.acquired), &text(hold.expires_at)).into(),
            process: parts.process.as_ref().map(|part| ProcessPartText {
                since: show_wall(part.since).into(),
                ttl_sec: part.ttl_sec,
                monotonic_ms: part.clock_ms,
            }),
            owner: parts.owner.as_ref().map(|part| OwnerPartText {
                since: show_wall(part.since).into(),
                ttl_sec: part.ttl_sec,
                boottime_ms: part.clock_ms,
            }),
        })
    }

    fn into_parts(self, edited: bool) -> Result<Option<Parts>, &'static str> {
        let part = |since: &str, ttl_sec, clock_ms| match parse_wall(since) {
            Some(since) => Ok(Part { since, ttl_sec: lease_of(ttl_sec), clock_ms }),
            None => Err("a part's since is not a time"),
        };
        let process = self.process.map(|text| part(&text.since, text.ttl_sec, text.monotonic_ms)).transpose()?;
        let owner = self.owner.map(|text| part(&text.since, text.ttl_sec, text.boottime_ms)).transpose()?;
        let any = process.is_some() || owner.is_some();
        Ok(any.then_some(Parts { process, owner, edited }))
    }
}

#[derive(Serialize, Deserialize)]
struct PulseText {
    n: u64,
    dev: u64,
    ino: u64,
}

impl From<PulseText> for PulseRef {
    fn from(text: PulseText) -> Self {
        Self { number: text.n, dev: text.dev, ino: text.ino }
    }
}

struct Encoded<'a>(&'a Hold);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hold = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &hold.version)?;
        map.serialize_entry("name", &hold.name)?;
        if !hold.lock_id.is_empty() {
            map.serialize_entry("lock_id", hold.lock_id.as_str())?;
        }
        map.serialize_entry("owner", &hold.owner)?;
        map.serialize_entry("host", &hold.host)?;
        map.serialize_entry("pid", &hold.pid)?;
        if hold.pid_start != 0 {
            map.serialize_entry("pid_start_ns", &hold.pid_start)?;
        }
        if !hold.agent_id.is_empty() {
            map.serialize_entry("agent_id", &hold.agent_id)?;
        }
        if let Some(at) = hold.acquired {
            map.serialize_entry("acquired_ts", &show_wall(at))?;
        }
        if hold.ttl_sec != 0 {
            map.serialize_entry("ttl_sec", &hold.ttl_sec)?;
        }
        entry(&mut map, "expires_at", hold.expires_at.map(show_wall))?;
        entry(&mut map, "fencing_token", hold.token.map(Fence::get))?;
        entry(&mut map, "parts", PartsText::of(hold))?;
        entry(&mut map, "pulse", hold.pulse.map(|p| PulseText { n: p.number, dev: p.dev, ino: p.ino }))?;
        entry(&mut map, "boot_id", hold.boot_id.as_ref())?;
        entry(&mut map, "pid_ns", hold.pid_ns)?;
        entry(&mut map, "fs", hold.fs)?;
        entry(&mut map, "held_since", hold.held_since.map(show_wall))?;
        entry(&mut map, "reason", hold.reason.as_ref())?;
        for (key, value) in &hold.extra {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn entry<M: SerializeMap, T: Serialize>(map: &mut M, key: &str, value: Option<T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, &value))
}
