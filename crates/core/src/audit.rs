//! Events as JSON lines of the audit log: building them, and parsing them again.
//!
//! `owner`, `host`, `pid` and `agent_id` belong to the actor; a victim is named in `extra`
//! (`pruned_*`). Every event about a hold also carries its token there, so that tokens can be
//! recovered if the counter is lost.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::decide::{Broken, Cause, Decision};
use crate::denial::{Denial, Staleness};
use crate::guard::Ended;
use crate::hold::{Fence, Hold, Identity, PartKind};
use crate::time::{Moment, millis_between, parse_wall, same_clocks, show_wall};

/// Maximum length of an audit line in bytes. Readers skip longer ones.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// The names of all events.
pub const EVENTS: [&str; 15] = [
    "acquire",
    "renew",
    "deny",
    "release",
    "force-break",
    "stale-break",
    "corrupt-break",
    "auto-prune",
    "freeze",
    "unfreeze",
    "force-unfreeze",
    "freeze-deny",
    "publish",
    "publish-deny",
    "token-rebase",
];

/// One event. The members are in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time, RFC 3339.
    pub ts: String,
    /// Kind of event: `acquire`, `renew`, `deny`, `release`, `force-break`, …
    pub event: String,
    /// Name of the lock.
    pub name: String,
    /// Id of the hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lock_id: String,
    /// Owner of the actor.
    pub owner: String,
    /// Host of the actor.
    pub host: String,
    /// Pid of the actor.
    pub pid: i64,
    /// Agent id of the actor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// Lease in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ttl_sec: i64,
    /// Further members, sorted by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Event {
    /// An event by `me` about `name` that has no hold.
    pub fn new(event: &str, name: &str, me: &Identity, at: Timestamp) -> Self {
        Self {
            ts: show_wall(at),
            event: event.into(),
            name: name.into(),
            lock_id: String::new(),
            owner: me.owner.clone(),
            host: me.host.clone(),
            pid: me.pid,
            agent_id: me.agent_id.clone(),
            ttl_sec: 0,
            extra: BTreeMap::new(),
        }
    }

    /// Adds a member to `extra`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.into(), value.into());
        self
    }

    fn about(mut self, hold: &Hold) -> Self {
        self.lock_id = hold.lock_id.to_string();
        self.ttl_sec = hold.ttl_sec;
        match hold.token {
            Some(token) => self.with("fencing_token", token.get()),
            None => self,
        }
    }

    /// Adds the hold's reason, if it has one.
    fn because(self, hold: Option<&Hold>) -> Self {
        match hold.and_then(|hold| hold.reason.as_deref()) {
            Some(reason) => self.with("reason", reason),
            None => self,
        }
    }

    fn victim(self, hold: &Hold) -> Self {
        self.with("pruned_owner", hold.owner.as_str())
            .with("pruned_host", hold.host.as_str())
            .with("pruned_pid", hold.pid)
    }

    /// Reports whether this event must survive a power cut. Events that took something from a
    /// holder must, and so must those of freezes; a refusal took nothing.
    pub fn is_synced(&self) -> bool {
        matches!(
            self.event.as_str(),
            "force-break"
                | "stale-break"
                | "corrupt-break"
                | "auto-prune"
                | "token-rebase"
                | "freeze"
                | "unfreeze"
                | "force-unfreeze"
        )
    }

    /// Parses a line; `None` if it is not an event.
    pub fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the line with its newline. If it would be longer than readers accept, its texts are
    /// cut.
    pub fn encode(&self) -> Vec<u8> {
        let encode = |event: &Self| serde_json::to_vec(event).expect("an event has only strings and numbers");
        let mut line = encode(self);
        if line.len() >= LINE_BYTES_MAX {
            line = encode(&self.cut());
        }
        line.push(b'\n');
        line
    }

    fn cut(&self) -> Self {
        let cut = shortened;
        let extra = self.extra.iter().map(|(key, value)| {
            (key.clone(), value.as_str().map_or_else(|| value.clone(), |text| Value::String(cut(text))))
        });
        Self {
            lock_id: cut(&self.lock_id),
            owner: cut(&self.owner),
            host: cut(&self.host),
            agent_id: cut(&self.agent_id),
            extra: extra.collect(),
            ..self.clone()
        }
    }
}

/// Cuts a text that is longer than a line has room for.
fn shortened(text: &str) -> String {
    if text.len() <= CUT_BYTES {
        return text.into();
    }
    let end = (0..=CUT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    alloc::format!("{}… (cut)", &text[..end])
}

/// Maximum length of a cut text in bytes. In JSON every character may take six bytes, and an event
/// has fewer than a dozen texts.
const CUT_BYTES: usize = 8 << 10;

/// Returns the events of a decision in order: first what was broken, then the outcome.
/// `requested_ttl` is the lease that a refused caller asked for.
pub fn events(
    decision: &Decision,
    before: Option<&Hold>,
    requested_ttl: Option<u64>,
    name: &str,
    me: &Identity,
    at: Timestamp,
) -> Vec<Event> {
    let new = |event: &str| Event::new(event, name, me, at);
    let mut events = Vec::new();
    match decision {
        Decision::Inside => {}
        Decision::Commit { next, cause, broken, .. } => {
            match (broken, before) {
                (Some(Broken::Stale(why)), Some(victim)) => events.push(pruned(new("auto-prune"), victim, *why)),
                (Some(Broken::Corrupt), _) => events.push(new("corrupt-break")),
                _ => {}
            }
            let subject = next.as_deref().or(before);
            let of_subject = |event| subject.map_or_else(|| new(event), |hold| new(event).about(hold));
            let of_victim = |event| before.map_or_else(|| new(event), |hold| new(event).about(hold).victim(hold));
            events.push(match cause {
                Cause::Acquire => of_subject("acquire"),
                Cause::Renew => of_subject("renew"),
                Cause::Release(part) => of_subject("release").with("part", part.as_str()),
                Cause::ForceBreak => of_victim("force-break"),
                Cause::StaleBreak => of_victim("stale-break"),
                Cause::CorruptBreak => new("corrupt-break"),
                Cause::Freeze => of_subject("freeze").because(subject),
                Cause::Unfreeze => of_subject("unfreeze"),
                Cause::ForceUnfreeze => of_victim("force-unfreeze"),
                Cause::Prune => before
                    .map_or_else(|| new("auto-prune"), |victim| pruned(new("auto-prune"), victim, Staleness::Expired)),
            });
        }
        Decision::Deny(denial) => events.extend(denied(denial, new, requested_ttl)),
    }
    events
}

/// Facts about a hold that the log records beside the decision: how it was acquired, and how it
/// ended. They become members of `extra`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The wait for it, if there was one.
    pub wait: Option<Wait>,
    /// The command that runs under it.
    pub program: Option<Program>,
    /// The way in which the command ended.
    pub ended: Option<Ended>,
    /// Time for which it was held, in milliseconds.
    pub held_ms: Option<u64>,
}

/// A wait in the queue that ended with a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Its duration in milliseconds.
    pub ms: u64,
    /// The position in the queue when the wait began; the first is 1.
    pub position: u64,
}

/// A command, as far as it is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The last component of its path.
    pub name: String,
    /// The whole command line, if it is to be logged: it may contain secrets.
    pub command: Option<Vec<String>>,
}

impl Program {
    /// Returns the program of this command line.
    pub fn of(words: &[String], tell_all: bool) -> Self {
        let path = words.first().map_or("", String::as_str);
        let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
        Self { name: shortened(name), command: tell_all.then(|| fitting(words)) }
    }
}

/// Returns as many words as a line has room for.
fn fitting(words: &[String]) -> Vec<String> {
    let mut bytes = 0;
    let mut fits = |word: &&String| {
        bytes += word.len();
        bytes <= CUT_BYTES
    };
    let mut told: Vec<String> = words.iter().take_while(&mut fits).cloned().collect();
    if told.len() < words.len() {
        told.push("… (cut)".into());
    }
    told
}

impl Account {
    /// Adds these facts to the events that they concern.
    pub fn complete(&self, events: &mut [Event]) {
        for event in events {
            let extra = &mut event.extra;
            let mut tell = |key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    extra.insert(key.into(), value);
                }
            };
            match event.event.as_str() {
                "acquire" | "renew" => {
                    tell("waited_ms", self.wait.map(|wait| wait.ms.into()));
                    tell("queue_position", self.wait.map(|wait| wait.position.into()));
                    tell("program", self.program.as_ref().map(|program| program.name.as_str().into()));
                    tell("command", self.program.as_ref().and_then(|program| program.command.clone()).map(Into::into));
                }
                "release" => {
                    tell("held_ms", self.held_ms.map(Into::into));
                    match self.ended {
                        Some(Ended::Code(code)) => tell("exit_code", Some(code.into())),
                        Some(Ended::Signal(signal)) => tell("signal", Some(signal.into())),
                        None => {}
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns how long `hold` has been held, if its record can tell. The boot clock counts since part
/// `kind` was last written; the recorded times count before that.
pub fn held_ms(hold: &Hold, kind: PartKind, now: &Moment, me: &Identity) -> Option<u64> {
    let parts = hold.parts.as_ref().filter(|parts| !parts.edited && same_clocks(hold, me))?;
    let (part, clock_ms) = match kind {
        PartKind::Process => (parts.process.as_ref()?, now.monotonic_ms),
        PartKind::Owner => (parts.owner.as_ref()?, now.boottime_ms),
    };
    let before_ms = hold.held_since.map_or(0, |since| millis_between(since, part.since));
    let since_ms = clock_ms.checked_sub(part.clock_ms?)?;
    Some(since_ms.saturating_add(u64::try_from(before_ms).unwrap_or(0)))
}

/// The immediate release of a new hold that could not be made durable.
pub fn given_back(hold: &Hold, name: &str, me: &Identity, at: Timestamp) -> Event {
    let part = if hold.has(PartKind::Owner) { PartKind::Owner } else { PartKind::Process };
    Event::new("release", name, me, at).about(hold).with("part", part.as_str()).with("reason", "not durable")
}

/// The publish of a file under a hold's token.
pub fn published(hold: &Hold, name: &str, target: &str, me: &Identity, at: Timestamp) -> Event {
    Event { ttl_sec: 0, ..Event::new("publish", name, me, at).about(hold).with("target", target) }
}

/// A publish that was refused because the caller's token is no longer valid. That token is only the
/// caller's claim, so it isn't recorded where tokens are recovered from.
pub fn publish_denied(named: u64, name: &str, target: &str, me: &Identity, at: Timestamp) -> Event {
    Event::new("publish-deny", name, me, at).with("named_token", named).with("target", target)
}

/// Completes the event for a stale hold that was removed: whose it was, and why. Its lease has
/// ended, too, so it isn't recorded.
fn pruned(event: Event, victim: &Hold, why: Staleness) -> Event {
    Event { ttl_sec: 0, ..event.about(victim).victim(victim).with("reason", why.as_str()) }
}

fn denied(denial: &Denial, new: impl Fn(&str) -> Event, requested_ttl: Option<u64>) -> Option<Event> {
    let ttl_sec = requested_ttl.and_then(|ttl| i64::try_from(ttl).ok()).unwrap_or(0);
    match denial {
        Denial::Held(holder) => Some(Event {
            ttl_sec,
            ..new("deny")
                .with("holder_owner", holder.hold.owner.as_str())
                .with("holder_host", holder.hold.host.as_str())
                .with("holder_pid", holder.hold.pid)
        }),
        Denial::Queued { ahead } => Some(Event { ttl_sec, ..new("deny").with("waiters", json!(ahead)) }),
        Denial::BeingWritten => Some(Event { ttl_sec, ..new("deny") }),
        Denial::Frozen(Some(freeze)) => Some(Event {
            lock_id: freeze.hold.lock_id.to_string(),
            ..new("freeze-deny")
                .with("freeze_owner", freeze.hold.owner.as_str())
                .with("freeze_host", freeze.hold.host.as_str())
                .with("freeze_pid", freeze.hold.pid)
        }),
        Denial::Frozen(None) => Some(new("freeze-deny")),
        _ => None,
    }
}

/// Reports whether this line may be about a hold that had a token. The Go program's holds have
/// none, nor do freezes; an unreadable line may be about anything.
pub fn may_be_of_a_token(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        extra: Map<String, Value>,
    }
    let mentions_none = |line: Line| !line.extra.contains_key("fencing_token");
    !line.is_empty() && !serde_json::from_slice(line).is_ok_and(mentions_none)
}

/// Returns the token that an audit line mentions, if any. An invalid line mentions none.
pub fn token_in(line: &[u8]) -> Option<Fence> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        extra: Extra,
    }
    #[derive(Deserialize, Default)]
    struct Extra {
        #[serde(default)]
        fencing_token: Option<u64>,
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    Fence::new(line.extra.fencing_token?)
}

/// A line of the log as it is read, whichever program wrote it.
///
/// It has a time, an event and a name. Other members that are missing or have another type count as
/// absent. Unknown members are in the text.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// The JSON object as it is in the file, without surrounding white space.
    pub text: &'a str,
    /// Time of the event.
    pub at: Timestamp,
    members: Map<String, Value>,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` if it is not an event.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(bytes).ok()?.trim_ascii();
        let members: Map<String, Value> = serde_json::from_str(text).ok()?;
        let at = parse_wall(members.get("ts")?.as_str()?)?;
        let line = Self { text, at, members };
        (line.member("event").is_some() && line.member("name").is_some()).then_some(line)
    }

    /// The kind of event.
    pub fn event(&self) -> &str {
        self.text_of("event")
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.text_of("name")
    }

    /// Returns a member that is a text; empty if it isn't one.
    pub fn text_of(&self, key: &str) -> &str {
        self.member(key).unwrap_or_default()
    }

    /// Returns a member that is a number; 0 if it isn't one.
    pub fn number(&self, key: &str) -> i64 {
        self.members.get(key).and_then(Value::as_i64).unwrap_or(0)
    }

    /// A member of `extra`.
    pub fn extra(&self, key: &str) -> Option<&Value> {
        self.members.get("extra")?.get(key)
    }

    fn member(&self, key: &str) -> Option<&str> {
        self.members.get(key)?.as_str()
    }
}

/// A filter for lines. A line must match one entry of each list; an empty list matches every line.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only events at or after this time.
    pub since: Option<Timestamp>,
    /// Only events of these locks.
    pub names: Vec<String>,
    /// Only events whose actor is one of these owners.
    pub owners: Vec<String>,
    /// Only these events.
    pub events: Vec<String>,
}

impl Filter {
    /// Reports whether this line passes the filter.
    pub fn wants(&self, line: &Line<'_>) -> bool {
        let any = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
        self.since.is_none_or(|since| line.at >= since)
            && any(&self.names, line.name())
            && any(&self.owners, line.text_of("owner"))
            && any(&self.events, line.event())
    }
}
