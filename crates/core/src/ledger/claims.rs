//! All claims, folded from the events of both families.
//!
//! Folded as the seed folds, in the order of the numbers: the last `lock_acquired` holds, and any
//! release or reap frees the node, whichever program wrote it. The af family does the same with
//! other events. What doesn't fit the events before it is a [`Remark`], never an error: other
//! programs wrote it, and all readers have to cope with it.

mod rows;

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde_json::Value;

pub use rows::Row;

use super::members::Members;
use super::moment;
use super::seq::{Seq, Style};
use super::stored::Stored;
use crate::denial::Holder;
use crate::hold::{Fence, Hold, Identity, LockId, Part, Parts, RECORD_VERSION};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Moment, plus_seconds};

/// Expiry time that the af program reads from an event without one: the beginning of its time, long
/// ago.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// A claim: one owner holds one node until some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The owner; empty if the event names none.
    pub owner: String,
    /// The number of the claim's first event.
    pub token: Seq,
    /// The number of the last event about it.
    pub seq: Seq,
    /// The time in its first event.
    pub since: Option<Timestamp>,
    /// The time in its last event.
    pub renewed: Option<Timestamp>,
    /// Expiry time.
    pub end: End,
    /// The writer's boot clock, if the writer recorded it.
    pub clock: Option<BootClock>,
    /// Host of the writer, if the event names it.
    pub host: String,
    /// Pid of the writer; 0 if the event doesn't name it.
    pub pid: i64,
}

/// Expiry time of a claim by the wall clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It expires at this time.
    At(Timestamp),
    /// The event has something there that is not a time. It counts as no end: its writer meant some
    /// time in the future.
    Unreadable(String),
}

/// The clock by which a claim of ours is judged on the boot that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootClock {
    /// The boot.
    pub boot_id: String,
    /// `CLOCK_BOOTTIME` at the last write.
    pub boottime_ms: u64,
    /// Duration from then on in seconds, at least one.
    pub ttl_sec: u64,
}

/// Something that doesn't fit the events before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A claim was ended that didn't exist.
    Unheld {
        /// The node.
        node: String,
    },
    /// A claim replaced another one.
    Displaced {
        /// The node.
        node: String,
        /// Owner of the replaced claim.
        owner: String,
        /// Token of the replaced claim, which is stale now.
        token: Seq,
        /// True if, by the clocks in the events, it hadn't expired.
        live: bool,
    },
    /// A refresh of another owner's claim, or of none: nothing was refreshed.
    NotRefreshed {
        /// The node.
        node: String,
        /// The owner that tried to refresh it.
        owner: String,
    },
    /// The claim's end can't be read.
    EndUnreadable {
        /// The node.
        node: String,
        /// The unreadable text.
        text: String,
    },
    /// The event is about claims, but can't be understood: it isn't known which node it is about.
    Unreadable(String),
}

impl Remark {
    /// Reports whether the meaning of the event is unknown: the table may be wrong from here on.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unheld { node } => write!(f, "it releases node {node}, which nobody had"),
            Self::Displaced { node, owner, token, live } => {
                let state = if *live { "a claim that had not ended" } else { "an expired claim" };
                write!(f, "it takes node {node} from {owner}, {state} (token {token})")
            }
            Self::NotRefreshed { node, owner } => {
                write!(f, "it refreshes a claim on node {node} that {owner} doesn't have")
            }
            Self::EndUnreadable { node, text } => write!(f, "it claims node {node} until {text}, which is no time"),
            Self::Unreadable(why) => write!(f, "it is about claims, but {why}"),
        }
    }
}

/// All claims, expired ones too, up to some event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    style: Style,
    claims: BTreeMap<String, Claim>,
}

impl Table {
    /// Creates an empty table.
    pub const fn new(style: Style) -> Self {
        Self { style, claims: BTreeMap::new() }
    }

    /// Returns the claim on a node, expired or not, that no event has ended.
    pub fn claim(&self, node: &str) -> Option<&Claim> {
        self.claims.get(node)
    }

    /// Returns all claims, sorted by the text of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Claim)> {
        self.claims.iter().map(|(node, claim)| (node.as_str(), claim))
    }

    /// Returns the claims with this token. A node's claims have different tokens; those of one
    /// `nodes_claimed` share theirs.
    pub fn of_token(&self, token: Seq) -> impl Iterator<Item = (&str, &Claim)> {
        self.iter().filter(move |(_, claim)| claim.token == token)
    }

    /// Returns the number of claims.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Reports whether there are no claims.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Reports whether an event of this type says anything about claims.
    pub fn concerns(style: Style, kind: &str) -> bool {
        match kind {
            "lock_acquired" | "lock_released" | "lock_reaped" | "nodes_claimed" | "claim_refreshed"
            | "nodes_released" => true,
            "node_created" => style == Style::Native,
            _ => false,
        }
    }

    /// Applies the next event.
    pub fn apply(&mut self, seq: Seq, event: &Stored) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if let Err(why) = self.fold(seq, event, &mut remarks) {
            remarks.push(Remark::Unreadable(why));
        }
        remarks
    }

    fn fold(&mut self, seq: Seq, event: &Stored, remarks: &mut Vec<Remark>) -> Result<(), String> {
        let members = Members::of(&event.members);
        match event.kind.as_str() {
            "lock_acquired" => {
                let node = node_of(members)?;
                let claim = Claim::read(seq, event, end_of(members, "expires_at"))?;
                let refresh_of = members.number("refresh_of");
                self.acquire(node, claim, refresh_of, remarks);
            }
            "nodes_claimed" => {
                let claim = Claim::read(seq, event, end_of(members, "timeout"))?;
                for node in members.nodes()? {
                    self.acquire(node, claim.clone(), None, remarks);
                }
            }
            "claim_refreshed" => {
                let node = node_of(members)?;
                let claim = Claim::read(seq, event, end_of(members, "new_timeout"))?;
                self.refresh(node, claim, remarks);
            }
            "lock_released" | "lock_reaped" => self.free(node_of(members)?, remarks),
            "nodes_released" => {
                for node in members.nodes()? {
                    self.free(node, remarks);
                }
            }
            "node_created" if self.style == Style::Native => self.create(seq, event)?,
            _ => {}
        }
        Ok(())
    }

    fn acquire(&mut self, node: &str, mut claim: Claim, refresh_of: Option<u64>, remarks: &mut Vec<Remark>) {
        remarks.extend(claim.doubt(node));
        if let Some(before) = self.claims.get(node) {
            if before.owner == claim.owner && refresh_of == Some(before.token.get()) {
                claim.token = before.token;
                claim.since = before.since;
            } else {
                let reading = claim.clock.as_ref().map(|clock| (clock.boot_id.as_str(), clock.boottime_ms));
                let live = before.lived_at(reading, claim.renewed).unwrap_or(true);
                let (owner, token) = (before.owner.clone(), before.token);
                remarks.push(Remark::Displaced { node: node.to_owned(), owner, token, live });
            }
        }
        self.claims.insert(node.to_owned(), claim);
    }

    fn refresh(&mut self, node: &str, claim: Claim, remarks: &mut Vec<Remark>) {
        match self.claims.get_mut(node) {
            Some(before) if before.owner == claim.owner => {
                remarks.extend(claim.doubt(node));
                *before = Claim { token: before.token, since: before.since, ..claim };
            }
            _ => remarks.push(Remark::NotRefreshed { node: node.to_owned(), owner: claim.owner }),
        }
    }

    fn free(&mut self, node: &str, remarks: &mut Vec<Remark>) {
        if self.claims.remove(node).is_none() {
            remarks.push(Remark::Unheld { node: node.to_owned() });
        }
    }

    /// Applies the creation of a node. A node that is created again has the claim that it is
    /// created with: usually none.
    fn create(&mut self, seq: Seq, event: &Stored) -> Result<(), String> {
        let node = Members::of(&event.members).get("node").and_then(Value::as_object).ok_or("it has no node")?;
        let node = Members::of(node);
        let id = node.text("id")?.ok_or("its node has no id")?;
        if node.text("workflow_state")? == Some("claimed") {
            let owner = node.text("claimed_by")?.unwrap_or_default().to_owned();
            let claim = Claim { owner, clock: None, ..Claim::read(seq, event, end_of(node, "claimed_at"))? };
            self.claims.insert(id.to_owned(), claim);
        } else {
            self.claims.remove(id);
        }
        Ok(())
    }

    /// Returns the rows for a cache.
    pub fn rows(&self) -> Vec<Row> {
        self.claims.iter().map(|(node, claim)| Row::of(node, claim)).collect()
    }

    /// Restores a table from a cache; `None` if a row is invalid.
    pub fn from_rows(style: Style, rows: Vec<Row>) -> Option<Self> {
        let claims = rows.into_iter().map(Row::claim).collect::<Option<_>>()?;
        Some(Self { style, claims })
    }
}

impl Claim {
    fn read(seq: Seq, event: &Stored, end: End) -> Result<Self, String> {
        let members = Members::of(&event.members);
        let owner = members.text("owner")?.unwrap_or_default().to_owned();
        let clock = clock_of(members).filter(|clock| match (event.timestamp, &end) {
            // If a program copied the members but not the times, only the times count.
            (Some(at), End::At(end)) => plus_seconds(at, clock.ttl_sec) == *end,
            _ => false,
        });
        Ok(Self {
            owner,
            token: seq,
            seq,
            since: event.timestamp,
            renewed: event.timestamp,
            end,
            clock,
            host: members.get("host").and_then(Value::as_str).unwrap_or_default().to_owned(),
            pid: members.get("pid").and_then(Value::as_i64).unwrap_or(0),
        })
    }

    /// Reports whether it hadn't ended when `event` was written. `None` if nothing tells when that
    /// was.
    pub fn outlasts(&self, event: &Stored) -> Option<bool> {
        let members = Members::of(&event.members);
        let boot_id = members.get("boot_id").and_then(Value::as_str);
        self.lived_at(boot_id.zip(members.number("boottime_ms")), event.timestamp)
    }

    /// Judges by the boot clock if it was read on the boot on which the claim was written,
    /// otherwise by the wall clocks of the writers.
    fn lived_at(&self, reading: Option<(&str, u64)>, wall: Option<Timestamp>) -> Option<bool> {
        if let (Some(clock), Some((boot_id, reading_ms))) = (&self.clock, reading)
            && clock.boot_id == boot_id
            && clock.boottime_ms <= reading_ms
        {
            return Some(reading_ms - clock.boottime_ms <= clock.ttl_sec.saturating_mul(1000));
        }
        match (&self.end, wall) {
            (End::At(end), Some(at)) => Some(at <= *end),
            (End::At(_), None) => None,
            (End::Unreadable(_), _) => Some(true),
        }
    }

    fn doubt(&self, node: &str) -> Option<Remark> {
        match &self.end {
            End::At(_) => None,
            End::Unreadable(text) => Some(Remark::EndUnreadable { node: node.to_owned(), text: text.clone() }),
        }
    }

    /// Returns the claim as a hold with an owner part, which every decision is about.
    pub fn hold(&self, node: &str) -> Hold {
        let expires_at = match self.end {
            End::At(end) => Some(end),
            End::Unreadable(_) => None,
        };
        let since = self.renewed.or(expires_at).unwrap_or(Timestamp::UNIX_EPOCH);
        let part = Part {
            since,
            ttl_sec: self.clock.as_ref().map(|clock| clock.ttl_sec),
            clock_ms: self.clock.as_ref().map(|clock| clock.boottime_ms),
        };
        let ttl_sec = match (&self.clock, expires_at) {
            (Some(clock), _) => i64::try_from(clock.ttl_sec).unwrap_or(i64::MAX),
            (None, Some(end)) => end.duration_since(since).as_secs().max(0),
            (None, None) => 0,
        };
        Hold {
            version: RECORD_VERSION,
            name: node.to_owned(),
            lock_id: LockId::from_text(alloc::format!("claim-{}", self.token)),
            owner: self.owner.clone(),
            host: self.host.clone(),
            pid: self.pid,
            acquired: self.renewed,
            ttl_sec,
            expires_at,
            token: Fence::new(self.token.get()),
            // Without a boot clock only the times of the event count, as for an edited record.
            parts: Some(Parts { process: None, owner: Some(part), edited: self.clock.is_none() }),
            boot_id: self.clock.as_ref().map(|clock| clock.boot_id.clone()),
            held_since: self.since,
            ..Hold::blank()
        }
    }

    /// Returns the claim as a hold, with its state.
    pub fn holder(&self, node: &str, now: &Moment, me: &Identity) -> Holder {
        let hold = self.hold(node);
        let elapsed = Elapsed::of(&hold, now, me);
        Holder { hold, liveness: Liveness::Unknown, elapsed }
    }
}

/// Returns the node that a claim's event is about.
fn node_of(members: Members<'_>) -> Result<&str, String> {
    members.text("node_id")?.ok_or_else(|| "it names no node".to_owned())
}

/// Returns a claim's end.
fn end_of(members: Members<'_>, name: &str) -> End {
    let read = |text: &str| moment::parse(text).map_or_else(|| End::Unreadable(text.to_owned()), End::At);
    match members.get(name) {
        None => read(ZERO_TIME),
        Some(Value::String(text)) => read(text),
        Some(other) => End::Unreadable(other.to_string()),
    }
}

fn clock_of(members: Members<'_>) -> Option<BootClock> {
    Some(BootClock {
        boot_id: members.get("boot_id")?.as_str()?.to_owned(),
        boottime_ms: members.number("boottime_ms")?,
        ttl_sec: members.number("ttl_sec").filter(|ttl_sec| *ttl_sec > 0)?,
    })
}
