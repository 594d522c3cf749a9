//! The bytes of a lease on disk: the fourteen members that every tool knows, then ours.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::holder_id;
use super::json::{Ordered, link_number, object, show_ms, text, to_ms, whole};
use super::policy::LeasePolicy;
use crate::hold::{Fence, Hold, Identity, LockId, Part, Parts, PulseRef, RECORD_VERSION};
use crate::time::{Moment, parse_wall, plus_millis};

/// Maximum size of a record, slot or renewal in bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Maximum length in bytes of a purpose, reason or name: with all of them, and every byte escaped,
/// a link still has at most `RECORD_BYTES_MAX` bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// The lifetime that a lease is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// A process, `lease run`: the lease ends when the process is gone, or when the lease expires.
    Process,
    /// A session: the lease ends when it expires. The process that acquired it has long exited.
    Session,
}

/// A holder: `host:user:pid:start_time`, each percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HolderId {
    /// The machine.
    pub host: String,
    /// The owner.
    pub user: String,
    /// The process that acquired the lease.
    pub pid: i64,
    /// Start time of that process, in clock ticks since boot.
    pub start: i64,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Id of the lease.
    pub lock_id: LockId,
    /// The worktree.
    pub worktree: String,
    /// The holder, as written; [`HolderId::parse`] splits it into fields.
    pub holder_id: String,
    /// SHA-256 of the session's secret and the lock id.
    pub nonce: String,
    /// Id of the session.
    pub session_id: String,
    /// Number of grants, including this one.
    pub acquire_seq: u64,
    /// Time of the grant.
    pub created_at: Timestamp,
    /// Time of the last renewal, or of the grant.
    pub last_renewed_at: Timestamp,
    /// Its durations, as written.
    pub policy: LeasePolicy,
    /// Expiry time, by the holder's wall clock.
    pub lease_expires_at: Timestamp,
    /// Its fencing token. Other tools may write one that isn't valid for us.
    pub token: Option<Fence>,
    /// Its binding; other tools don't record it.
    pub binding: Option<Binding>,
    /// The boot during which it was last renewed.
    pub boot_id: Option<String>,
    /// `CLOCK_BOOTTIME` when it was last renewed, if that was in the initial time namespace.
    pub boottime_ms: Option<u64>,
    /// The pid namespace in which the pid means something.
    pub pid_ns: Option<u64>,
    /// The magic number of the file system as the holder saw it.
    pub fs: Option<u64>,
    /// The pulse of `lease run`.
    pub pulse: Option<PulseRef>,
    /// The owner's agent.
    pub agent_id: Option<String>,
    /// Purpose, in the holder's words.
    pub purpose: Option<String>,
    /// Evidence that the lease before had expired, if this one was stolen.
    pub evidence: Option<String>,
}

/// Result of parsing bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// A lease.
    Record(Box<Record>),
    /// Not a valid lease; the text says why. Includes an empty file.
    Corrupt(String),
}

impl Binding {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Session => "session",
        }
    }
}

impl HolderId {
    /// Returns the written form.
    pub fn text(&self) -> String {
        let (host, user) = (holder_id::encoded(&self.host), holder_id::encoded(&self.user));
        format!("{host}:{user}:{}:{}", self.pid, self.start)
    }

    /// Parses the written form; unreadable fields are empty or 0.
    pub fn parse(text: &str) -> Self {
        let mut fields = text.splitn(4, ':');
        let mut next = || fields.next().unwrap_or_default();
        Self {
            host: holder_id::decoded(next()),
            user: holder_id::decoded(next()),
            pid: next().parse().unwrap_or_default(),
            start: next().parse().unwrap_or_default(),
        }
    }
}

impl Record {
    /// Returns the fourteen members and ours. A map sorts them by name; [`Record`] itself
    /// serializes in the order of the seed.
    pub fn members(&self) -> Map<String, Value> {
        self.entries().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns the same members, in the order of the seed.
    pub(super) fn entries(&self) -> Vec<(&'static str, Value)> {
        let mut entries = vec![
            ("lock_id", self.lock_id.as_str().into()),
            ("worktree_id", self.worktree.as_str().into()),
            ("holder_id", self.holder_id.as_str().into()),
            ("holder_nonce", self.nonce.as_str().into()),
            ("session_id", self.session_id.as_str().into()),
            ("acquire_seq", self.acquire_seq.into()),
            ("created_at", show_ms(self.created_at).into()),
            ("last_renewed_at", show_ms(self.last_renewed_at).into()),
            ("lease_duration_ms", self.policy.lease_ms.into()),
            ("renew_interval_ms", self.policy.renew_ms.into()),
            ("max_clock_skew_ms", self.policy.skew_ms.into()),
            ("steal_grace_ms", self.policy.grace_ms.into()),
            ("lease_expires_at", show_ms(self.lease_expires_at).into()),
            ("fencing_token", self.token.map(Fence::get).into()),
        ];
        let pulse = |pulse: PulseRef| json!({"number": pulse.number, "dev": pulse.dev, "ino": pulse.ino});
        let ours: [(&'static str, Option<Value>); 10] = [
            ("holder_binding", self.binding.map(|binding| binding.as_str().into())),
            ("holder_boot_id", self.boot_id.as_deref().map(Value::from)),
            ("holder_boottime_ms", self.boottime_ms.map(Value::from)),
            // Only our own leases say anything about clocks.
            ("holder_initial_time_ns", self.binding.map(|_| self.boottime_ms.is_some().into())),
            ("holder_pid_ns", self.pid_ns.map(Value::from)),
            ("holder_fs", self.fs.map(Value::from)),
            ("holder_pulse", self.pulse.map(pulse)),
            ("holder_agent_id", self.agent_id.as_deref().map(Value::from)),
            ("purpose", self.purpose.as_deref().map(Value::from)),
            ("evidence", self.evidence.as_deref().map(Value::from)),
        ];
        entries.extend(ours.into_iter().filter_map(|(name, value)| Some((name, value?))));
        entries
    }

    /// Reads a record from the members of a file, which may have others, too.
    pub(super) fn from_members(members: &Map<String, Value>) -> Result<Self, String> {
        let own_text = |name| text(members, name).unwrap_or_default();
        let number = |name: &str| members.get(name).and_then(whole);
        let exact = |name: &str| members.get(name).and_then(Value::as_u64);
        let wall = |name: &str| members.get(name).and_then(Value::as_str).and_then(parse_wall);
        let default = LeasePolicy::DEFAULT;
        let policy = LeasePolicy {
            lease_ms: number("lease_duration_ms").unwrap_or(default.lease_ms),
            renew_ms: number("renew_interval_ms").unwrap_or(default.renew_ms),
            skew_ms: number("max_clock_skew_ms").unwrap_or(default.skew_ms),
            grace_ms: number("steal_grace_ms").unwrap_or(default.grace_ms),
        };
        let lock_id = text(members, "lock_id").filter(|lock_id| !lock_id.is_empty()).ok_or("it has no lock_id")?;
        let last_renewed_at = wall("last_renewed_at").ok_or("its last_renewed_at is no time")?;
        let binding = match members.get("holder_binding").and_then(Value::as_str) {
            Some("process") => Some(Binding::Process),
            Some("session") => Some(Binding::Session),
            _ => None,
        };
        // A reading of a clock in a time namespace of its own means nothing to others.
        let has_clock = members.get("holder_initial_time_ns").and_then(Value::as_bool) == Some(true);
        Ok(Self {
            lock_id: LockId::from_text(lock_id),
            worktree: own_text("worktree_id"),
            holder_id: own_text("holder_id"),
            nonce: own_text("holder_nonce"),
            session_id: own_text("session_id"),
            acquire_seq: number("acquire_seq").unwrap_or_default().min(Fence::LIMIT),
            created_at: wall("created_at").unwrap_or(last_renewed_at),
            last_renewed_at,
            policy,
            lease_expires_at: wall("lease_expires_at").unwrap_or_else(|| plus_millis(last_renewed_at, policy.lease_ms)),
            token: link_number(members.get("fencing_token")).and_then(Fence::new),
            binding,
            boot_id: text(members, "holder_boot_id").filter(|boot_id| !boot_id.is_empty()),
            boottime_ms: exact("holder_boottime_ms").filter(|_| has_clock && binding.is_some()),
            pid_ns: exact("holder_pid_ns"),
            fs: exact("holder_fs"),
            pulse: members.get("holder_pulse").and_then(pulse),
            agent_id: text(members, "holder_agent_id"),
            purpose: text(members, "purpose"),
            evidence: text(members, "evidence"),
        })
    }

    /// Returns the lease as renewed at `now` by `me`: with new times and clock readings, and our
    /// boot.
    #[must_use]
    pub fn renewed(&self, now: &Moment, me: &Identity) -> Self {
        let last_renewed_at = to_ms(now.wall);
        // Only one machine can be asked whether the holder's kernel is gone. If one machine
        // acquired the lease and another renewed it, none can.
        let is_same_place = HolderId::parse(&self.holder_id).host == me.host && self.pid_ns == me.pid_ns;
        let keeps_pid_ns = is_same_place || self.binding == Some(Binding::Process);
        Self {
            last_renewed_at,
            lease_expires_at: plus_millis(last_renewed_at, self.policy.lease_ms),
            boot_id: me.boot_id.clone(),
            boottime_ms: me.boot_clocks.then_some(now.boottime_ms),
            pid_ns: self.pid_ns.filter(|_| keeps_pid_ns),
            fs: me.fs,
            ..self.clone()
        }
    }

    /// Returns the lease as a hold, for [`crate::decide`]. Its owner is nonce and session together,
    /// so no other session can be that owner. Session-bound: an owner part; process-bound: a
    /// process part with its pulse; neither (another tool's): an owner part.
    pub fn hold(&self) -> Hold {
        let holder = HolderId::parse(&self.holder_id);
        let ttl_sec = self.policy.clamped().lease_ms.div_ceil(1000);
        let is_process = self.binding == Some(Binding::Process);
        let clock_ms = self.boottime_ms.filter(|_| !is_process);
        let part = Some(Part { since: self.last_renewed_at, ttl_sec: Some(ttl_sec), clock_ms });
        let (process, owner) = if is_process { (part, None) } else { (None, part) };
        Hold {
            version: RECORD_VERSION,
            name: self.worktree.clone(),
            lock_id: self.lock_id.clone(),
            owner: owner_of(&self.nonce, &self.session_id),
            host: holder.host,
            pid: holder.pid,
            pid_start: holder.start,
            agent_id: self.agent_id.clone().unwrap_or_default(),
            acquired: Some(self.last_renewed_at),
            ttl_sec: i64::try_from(ttl_sec).unwrap_or(i64::MAX),
            expires_at: Some(self.lease_expires_at),
            token: self.token,
            parts: Some(Parts { process, owner, edited: false }),
            pulse: self.pulse.filter(|_| is_process),
            boot_id: self.boot_id.clone(),
            pid_ns: self.pid_ns,
            fs: self.fs,
            held_since: Some(self.created_at),
            reason: self.purpose.clone(),
            extra: Map::new(),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Ordered(self.entries()).serialize(serializer)
    }
}

/// Reads a record from a view, a slot or a renewal, of ours or of another tool. Lenient about
/// members that a decision doesn't need: missing durations are the defaults, a missing or odd token
/// is none. Without `lock_id` or `last_renewed_at` the record is invalid.
pub fn parse(bytes: &[u8]) -> Parsed {
    match object(bytes).and_then(|members| Record::from_members(&members)) {
        Ok(record) => Parsed::Record(Box::new(record)),
        Err(why) => Parsed::Corrupt(why),
    }
}

/// Returns the owner that [`Record::hold`] has, for a nonce and a session. The length separates the
/// nonce from the session.
pub fn owner_of(nonce: &str, session_id: &str) -> String {
    format!("{}:{nonce}:{session_id}", nonce.len())
}

fn pulse(value: &Value) -> Option<PulseRef> {
    let number = |name| value.get(name).and_then(Value::as_u64);
    Some(PulseRef { number: number("number")?, dev: number("dev")?, ino: number("ino")? })
}
