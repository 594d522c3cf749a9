//! Who has which node, folded from the events of both families.
//!
//! Folded as the seed folds, in the order of the numbers: the last `lock_acquired` holds, and any release or reap frees, whoever wrote
//! it. The native family does the same in other words. Whatever an event says that doesn't fit what was known is a [`Remark`], never
//! an error: other programs wrote it, and everybody else has to live with it, too.

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

/// What an event that says nothing about its end has said to the native program: the beginning of its time, long ago.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// A claim: one owner has one node until some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose; empty if the event names nobody.
    pub owner: String,
    /// The number of the claim's first event.
    pub token: Seq,
    /// The number of the last event about it.
    pub seq: Seq,
    /// The time in its first event.
    pub since: Option<Timestamp>,
    /// The time in its last event.
    pub renewed: Option<Timestamp>,
    /// Until when.
    pub end: End,
    /// The boot clock of who wrote it, if it did.
    pub clock: Option<BootClock>,
    /// Where it was written, if it says so.
    pub host: String,
    /// By which process; 0 if it doesn't say.
    pub pid: i64,
}

/// Until when a claim lasts by the wall clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Until then.
    At(Timestamp),
    /// The event has something there that is no time. It counts as no end: who wrote it meant some time to come.
    Unreadable(String),
}

/// How a claim of ours is judged on the boot that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootClock {
    /// The boot.
    pub boot_id: String,
    /// `CLOCK_BOOTTIME` at the last write.
    pub boottime_ms: u64,
    /// The lease from then on, at least one second.
    pub ttl_sec: u64,
}

/// Something that doesn't fit what was known before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A claim was ended that there was none of.
    Unheld {
        /// The node.
        node: String,
    },
    /// A claim took the place of another one.
    Displaced {
        /// The node.
        node: String,
        /// Whose claim it was.
        owner: String,
        /// The token that is stale now.
        token: Seq,
        /// By the clocks in the events it hadn't ended.
        live: bool,
    },
    /// A refresh of a claim that isn't its owner's, or of none: nothing was refreshed.
    NotRefreshed {
        /// The node.
        node: String,
        /// Who wanted to.
        owner: String,
    },
    /// Its end can't be read.
    EndUnreadable {
        /// The node.
        node: String,
        /// What stands there.
        text: String,
    },
    /// It is about claims, but can't be understood: nobody knows which node it is about.
    Unreadable(String),
}

impl Remark {
    /// Nobody knows what the event meant: the table may be wrong from here on.
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
    /// Nobody has anything.
    pub const fn new(style: Style) -> Self {
        Self { style, claims: BTreeMap::new() }
    }

    /// Whose a node is, or was and hasn't been ended.
    pub fn claim(&self, node: &str) -> Option<&Claim> {
        self.claims.get(node)
    }

    /// All of them, by the text of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Claim)> {
        self.claims.iter().map(|(node, claim)| (node.as_str(), claim))
    }

    /// The claim of this token. A node's claims have different ones; those of one `nodes_claimed` share theirs.
    pub fn of_token(&self, token: Seq) -> impl Iterator<Item = (&str, &Claim)> {
        self.iter().filter(move |(_, claim)| claim.token == token)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Does an event of this type say anything about claims?
    pub fn concerns(style: Style, kind: &str) -> bool {
        match kind {
            "lock_acquired" | "lock_released" | "lock_reaped" | "nodes_claimed" | "claim_refreshed"
            | "nodes_released" => true,
            "node_created" => style == Style::Native,
            _ => false,
        }
    }

    /// The next event.
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

    /// A node that is made again has the claim that it is made with: mostly none.
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

    /// For a cache.
    pub fn rows(&self) -> Vec<Row> {
        self.claims.iter().map(|(node, claim)| Row::of(node, claim)).collect()
    }

    /// From a cache; `None` if a row isn't one.
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
            // Somebody copied the members, but not the times: then only these count.
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

    /// Had it not ended when `event` was written? `None` if nothing tells when that was.
    pub fn outlasts(&self, event: &Stored) -> Option<bool> {
        let members = Members::of(&event.members);
        let boot_id = members.get("boot_id").and_then(Value::as_str);
        self.lived_at(boot_id.zip(members.number("boottime_ms")), event.timestamp)
    }

    /// By the boot clock if it was read on the boot on which the claim was written, else by the wall clocks of whoever wrote.
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

    /// The claim as a hold with an owner part, which every decision is about.
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
            // Without a boot clock the times of the event alone count, as for a record that was edited.
            parts: Some(Parts { process: None, owner: Some(part), edited: self.clock.is_none() }),
            boot_id: self.clock.as_ref().map(|clock| clock.boot_id.clone()),
            held_since: self.since,
            ..Hold::blank()
        }
    }

    /// The same, with how it stands.
    pub fn holder(&self, node: &str, now: &Moment, me: &Identity) -> Holder {
        let hold = self.hold(node);
        let elapsed = Elapsed::of(&hold, now, me);
        Holder { hold, liveness: Liveness::Unknown, elapsed }
    }
}

/// The node that a claim's event is about.
fn node_of(members: Members<'_>) -> Result<&str, String> {
    members.text("node_id")?.ok_or_else(|| "it names no node".to_owned())
}

/// A claim's end.
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
