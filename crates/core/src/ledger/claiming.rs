//! Decisions about claims, and the events that record them.
//!
//! [`decide`] decides what is allowed, as for every other hold. This module only asks it, and turns
//! its answer into events. Numbers of future events aren't known here: a new claim's token is the
//! number of the event that makes it, whatever that will be.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::claims::{Claim, End, Table};
use super::draft::Draft;
use super::lock_file::LockFile;
use super::proof::{NODE_BYTES_MAX, Proof, Workflow, is_canonical_id};
use super::seq::{Seq, Style};
use crate::decide::{Breaking, Cause, Condition, Decision, Facts, Intent, Line, Policy, Slot, Terms, decide};
use crate::denial::Denial;
use crate::hold::{Hold, Identity, LockId};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Moment, show_wall};

/// Maximum number of claims that one event of an af ledger ends: the event then stays far below the
/// maximum size.
const REAPED_PER_EVENT: usize = 1000;

/// Reason why a claim wasn't made, extended or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// An af ledger has no node with that id.
    NoSuchNode,
    /// Nobody holds it, but it can't be claimed; the text is its state.
    NotAvailable(String),
    /// Refused as any hold.
    Hold(Denial),
}

/// Text that is not a valid node id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadNode {
    node: String,
    style: Style,
}

impl fmt::Display for BadNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node: String = self.node.chars().take(80).collect();
        match self.style {
            Style::Documented => {
                write!(f, "{node:?} is no node's id: it has 1 to {NODE_BYTES_MAX} bytes and no control characters")
            }
            Style::Native => write!(f, "{node:?} is no node's id: in a native ledger they are like 1 or 1.2.3"),
        }
    }
}

impl core::error::Error for BadNode {}

/// Checks whether a node may have this id.
pub fn check_node(style: Style, node: &str) -> Result<(), BadNode> {
    let good = match style {
        Style::Documented => !node.is_empty() && node.len() <= NODE_BYTES_MAX && !node.chars().any(char::is_control),
        Style::Native => is_canonical_id(node),
    };
    if good { Ok(()) } else { Err(BadNode { node: node.to_owned(), style }) }
}

/// Facts for a decision about a claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimFacts<'a> {
    /// Style of the events to be written.
    pub style: Style,
    /// All claims.
    pub table: &'a Table,
    /// State of the proof, in an af ledger.
    pub proof: Option<&'a Proof>,
    /// Claims in files of their own.
    pub files: &'a [LockFile],
    /// Now.
    pub now: Moment,
    /// The caller.
    pub me: &'a Identity,
    /// Number of the next event.
    pub next: Seq,
    /// The claim that this very request has made already, if only a part of its events is left to
    /// be written.
    pub made: Option<Seq>,
}

/// A claim that is to be made or extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The node.
    pub node: String,
    /// The events, the last of which makes the claim.
    pub drafts: Vec<Draft>,
    /// Its token, if it has one; a new claim's is the number of the last event.
    pub token: Option<Seq>,
    /// Owner of the expired claim that it replaces.
    pub from: Option<String>,
    /// The hold before the extension, if it is extended.
    pub before: Option<Hold>,
    /// Start time.
    pub at: Moment,
    /// Expiry time.
    pub expires_at: Timestamp,
}

/// A claim that is to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The event.
    pub draft: Draft,
    /// The claim's token.
    pub token: Seq,
}

/// Expired claims that are to be ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Node, owner and token of each.
    pub claims: Vec<(String, String, Seq)>,
    /// The events; none if there is nothing to end.
    pub drafts: Vec<Draft>,
}

/// Claims the first of `nodes` that is available. If none is, returns the reason for each.
/// `only_new`: a live claim of the same owner is another process's, and isn't extended.
pub fn take(
    scene: ClaimFacts<'_>,
    nodes: &[String],
    ttl_sec: u64,
    only_new: bool,
) -> Result<Taken, Vec<(String, Refused)>> {
    let mut why = Vec::new();
    for node in nodes {
        match scene.take(node, ttl_sec, only_new) {
            Ok(taken) => return Ok(taken),
            Err(refused) => why.push((node.clone(), refused)),
        }
    }
    Err(why)
}

/// Gives a claim a new expiry time.
pub fn extend(scene: ClaimFacts<'_>, node: &str, ttl_sec: u64, token: Option<Seq>) -> Result<Taken, Refused> {
    scene.exists(node)?;
    let claim = scene.table.claim(node);
    let intent = Intent::Extend { ttl_sec, token: token.map(Seq::get) };
    match (scene.decide(&intent, node), claim) {
        (Decision::Commit { next: Some(next), .. }, Some(claim)) => scene.refresh(node, claim, &next, ttl_sec),
        (Decision::Deny(denial), _) => Err(Refused::Hold(denial)),
        (decision, _) => unreachable!("an extension commits a hold or is denied, not {decision:?}"),
    }
}

/// Ends a claim.
pub fn release(scene: ClaimFacts<'_>, node: &str, token: Option<Seq>) -> Result<Ended, Refused> {
    scene.exists(node)?;
    let claim = scene.table.claim(node);
    let condition = Condition { lock_id: None, token: token.map(Seq::get) };
    match (scene.decide(&Intent::Unlock(Breaking::No, condition), node), claim) {
        (Decision::Commit { next: None, .. }, Some(claim)) => {
            scene.is_mirrored(node, claim)?;
            let (kind, named) = match scene.style {
                Style::Documented => ("lock_released", ("node_id", json!(node))),
                Style::Native => ("nodes_released", ("node_ids", json!([node]))),
            };
            let owner = ("owner", json!(claim.owner));
            let draft = Draft::new(kind, vec![scene.timestamp(), named, owner, ("token", json!(claim.token.get()))]);
            Ok(Ended { draft, token: claim.token })
        }
        (Decision::Deny(denial), _) => Err(Refused::Hold(denial)),
        (decision, _) => unreachable!("a release leaves nothing or is denied, not {decision:?}"),
    }
}

/// Ends every claim that has expired.
pub fn reap(scene: ClaimFacts<'_>) -> Swept {
    let expired: Vec<(&str, &Claim)> = scene
        .table
        .iter()
        .filter(|(node, _)| matches!(scene.decide(&Intent::Prune, node), Decision::Commit { next: None, .. }))
        .filter(|(node, claim)| scene.is_mirrored(node, claim).is_ok())
        .collect();
    let drafts = match scene.style {
        Style::Documented => expired.iter().map(|claim| scene.reaped(&[*claim])).collect(),
        Style::Native => expired.chunks(REAPED_PER_EVENT).map(|claims| scene.reaped(claims)).collect(),
    };
    let claims = expired.iter().map(|(node, claim)| ((*node).to_owned(), claim.owner.clone(), claim.token)).collect();
    Swept { claims, drafts }
}

/// Checks whether this is the token of a live claim. If not, the denial says why.
pub fn check(table: &Table, token: Seq, now: &Moment, me: &Identity) -> Result<(), Denial> {
    let mut why = Denial::StaleToken { named: token.get(), current: None };
    for (node, claim) in table.of_token(token) {
        match ask(&Intent::Check(token.get().into()), Some(&claim.hold(node)), token, *now, me) {
            Decision::Deny(denial) => why = denial,
            _ => return Ok(()),
        }
    }
    Err(why)
}

/// Asks for a decision about the claim `hold`.
fn ask(intent: &Intent, hold: Option<&Hold>, next: Seq, now: Moment, me: &Identity) -> Decision {
    let facts = Facts {
        slot: hold.map_or(Slot::Free, Slot::Held),
        liveness: Liveness::Unknown,
        elapsed: hold.map_or(Elapsed::NOTHING, |hold| Elapsed::of(hold, &now, me)),
        frozen: None,
        line: Line::default(),
        fresh_id: &LockId::from_text(format!("claim-{}", next.get())),
        now,
    };
    decide(intent, facts, me, &Policy::CLAIMS)
}

impl ClaimFacts<'_> {
    fn take(self, node: &str, ttl_sec: u64, only_new: bool) -> Result<Taken, Refused> {
        self.exists(node)?;
        let before = self.table.claim(node);
        let terms = Terms { ttl_sec: Some(ttl_sec), reason: None };
        let (next, cause) = match self.decide(&Intent::Lock(terms.clone()), node) {
            Decision::Commit { next: Some(next), cause, .. } => (next, cause),
            Decision::Deny(denial) => return Err(Refused::Hold(doubted(before, denial))),
            decision => unreachable!("a claim commits a hold or is denied, not {decision:?}"),
        };
        if let Some(claim) = before.filter(|claim| only_new && cause == Cause::Renew && !self.is_made(claim)) {
            let holder = claim.holder(node, &self.now, self.me);
            return Err(Refused::Hold(doubted(before, Denial::Held(holder.into()))));
        }
        for file in self.files.iter().filter(|file| file.node == node) {
            let hold = file.hold();
            match self.decide_on(&Intent::Lock(terms.clone()), Some(&hold)) {
                Decision::Deny(denial) => return Err(Refused::Hold(denial)),
                Decision::Commit { cause: Cause::Renew, .. } if only_new => {
                    return Err(Refused::Hold(Denial::Held(file.holder(&self.now, self.me).into())));
                }
                _ => {}
            }
        }
        match before {
            Some(claim) if cause == Cause::Renew => self.refresh(node, claim, &next, ttl_sec),
            before => {
                self.is_available(node, before)?;
                let mut drafts = Vec::new();
                if let Some(claim) = before.filter(|claim| self.is_mirrored(node, claim).is_ok()) {
                    drafts.push(self.reaped(&[(node, claim)]));
                }
                drafts.push(self.claimed(node, &next, ttl_sec));
                let expires_at = end_of(&next, self.now);
                let from = before.map(|claim| claim.owner.clone());
                Ok(Taken { node: node.to_owned(), drafts, token: None, from, before: None, at: self.now, expires_at })
            }
        }
    }

    /// Extends the claim as `next`.
    fn refresh(self, node: &str, claim: &Claim, next: &Hold, ttl_sec: u64) -> Result<Taken, Refused> {
        self.is_mirrored(node, claim)?;
        let (kind, end) = match self.style {
            Style::Documented => ("lock_acquired", "expires_at"),
            Style::Native => ("claim_refreshed", "new_timeout"),
        };
        let mut members = vec![
            self.timestamp(),
            ("node_id", json!(node)),
            ("owner", json!(next.owner)),
            (end, json!(show_wall(end_of(next, self.now)))),
            ("refresh_of", json!(claim.token.get())),
        ];
        members.extend(self.signature(ttl_sec));
        let (token, expires_at) = (Some(claim.token), end_of(next, self.now));
        let (node, drafts, before) = (node.to_owned(), vec![Draft::new(kind, members)], Some(claim.hold(node)));
        Ok(Taken { node, drafts, token, from: None, before, at: self.now, expires_at })
    }

    /// Reports whether this very request has made the claim.
    fn is_made(self, claim: &Claim) -> bool {
        self.made == Some(claim.token) && (claim.pid, &claim.host) == (self.me.pid, &self.me.host)
    }

    fn claimed(self, node: &str, next: &Hold, ttl_sec: u64) -> Draft {
        let (kind, named, end) = match self.style {
            Style::Documented => ("lock_acquired", ("node_id", json!(node)), "expires_at"),
            Style::Native => ("nodes_claimed", ("node_ids", json!([node])), "timeout"),
        };
        let end = (end, json!(show_wall(end_of(next, self.now))));
        let mut members = vec![self.timestamp(), named, ("owner", json!(next.owner)), end];
        members.extend(self.signature(ttl_sec));
        Draft::new(kind, members)
    }

    /// Returns the event that ends expired claims: in the documented style one of them.
    fn reaped(self, claims: &[(&str, &Claim)]) -> Draft {
        if let (Style::Documented, [(node, claim)]) = (self.style, claims) {
            let (owner, token) = (("owner", json!(claim.owner)), ("token", json!(claim.token.get())));
            let mut members = vec![self.timestamp(), ("node_id", json!(node)), owner, token];
            // A later check of this event must not compare two wall clocks either.
            members.extend(self.boot_clock());
            return Draft::new("lock_reaped", members);
        }
        let nodes: Vec<&str> = claims.iter().map(|(node, _)| *node).collect();
        let owners: Vec<&str> = claims.iter().map(|(_, claim)| claim.owner.as_str()).collect();
        let tokens: Vec<u64> = claims.iter().map(|(_, claim)| claim.token.get()).collect();
        let members = vec![
            self.timestamp(),
            ("node_ids", json!(nodes)),
            ("reason", json!("expired")),
            ("previous_owners", json!(owners)),
            ("tokens", json!(tokens)),
        ];
        Draft::new("nodes_released", members)
    }

    /// Returns the members that tell, on this boot, how long a claim lasts, and which process made
    /// it.
    fn signature(self, ttl_sec: u64) -> Vec<(&'static str, Value)> {
        let mut members = vec![("ttl_sec", json!(ttl_sec))];
        members.extend(self.boot_clock());
        members.extend([("host", json!(self.me.host)), ("pid", json!(self.me.pid))]);
        members
    }

    /// Returns a reading of the boot clock, if it is meaningful to others.
    fn boot_clock(self) -> Vec<(&'static str, Value)> {
        let Some(boot_id) = self.me.boot_id.as_ref().filter(|_| self.me.boot_clocks) else { return Vec::new() };
        vec![("boot_id", json!(boot_id)), ("boottime_ms", json!(self.now.boottime_ms))]
    }

    fn timestamp(self) -> (&'static str, Value) {
        ("timestamp", json!(show_wall(self.now.wall)))
    }

    fn exists(self, node: &str) -> Result<(), Refused> {
        match self.proof {
            Some(proof) if proof.node(node).is_none() => Err(Refused::NoSuchNode),
            _ => Ok(()),
        }
    }

    /// Checks whether, in an af ledger, the node would be free for the af program, too, once the
    /// known claim is gone.
    fn is_available(self, node: &str, claim: Option<&Claim>) -> Result<(), Refused> {
        let Some(node) = self.proof.and_then(|proof| proof.node(node)) else { return Ok(()) };
        match &node.workflow {
            Workflow::Available => Ok(()),
            Workflow::Claimed if claim.is_some_and(|claim| claim.owner == node.owner) => Ok(()),
            Workflow::Claimed => Err(Refused::NotAvailable(format!("claimed by {}", node.owner))),
            other => Err(Refused::NotAvailable(other.to_string())),
        }
    }

    /// Checks whether, in an af ledger, the af program knows of the claim. It doesn't if an event
    /// of the other family made it.
    fn is_mirrored(self, node: &str, claim: &Claim) -> Result<(), Refused> {
        let Some(known) = self.proof.and_then(|proof| proof.node(node)) else { return Ok(()) };
        if known.workflow == Workflow::Claimed && known.owner == claim.owner {
            return Ok(());
        }
        Err(Refused::NotAvailable(format!(
            "{} for the native program, which can't read event {}",
            known.workflow, claim.seq
        )))
    }

    fn decide(self, intent: &Intent, node: &str) -> Decision {
        let hold = self.table.claim(node).map(|claim| claim.hold(node));
        self.decide_on(intent, hold.as_ref())
    }

    fn decide_on(self, intent: &Intent, hold: Option<&Hold>) -> Decision {
        ask(intent, hold, self.next, self.now, self.me)
    }
}

/// Replaces the denial if the claim's end can't be read: such a claim never frees its node, and the
/// refused caller must learn that.
fn doubted(claim: Option<&Claim>, denial: Denial) -> Denial {
    match claim {
        Some(Claim { end: End::Unreadable(text), seq, owner, .. }) => {
            Denial::Corrupt { why: format!("event {seq} gives it to {owner} until {text:?}, which is no time") }
        }
        _ => denial,
    }
}

fn end_of(hold: &Hold, now: Moment) -> Timestamp {
    hold.expires_at.unwrap_or(now.wall)
}
