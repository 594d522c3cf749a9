//! The evidence: what stands in the way of a lock, as JSON members and as lines of text.

use jiff::Timestamp;
use lokt_core::denial::Holder;
use lokt_core::duration;
use lokt_core::hold::PartKind;
use lokt_core::liveness::Liveness;
use lokt_core::time::show_wall_seconds;
use lokt_named::{Entry, EntryState, Link, Lokt, Waiter};
use serde::Serialize;

use super::super::queue::{InLine, in_line, waits};
use crate::members::{FreezeMembers, HolderMembers, KeeperMembers, kept_by, text};
use crate::show::{age, agent_at, clean, owner_at, reason, seconds, until};

/// One piece of evidence. Members that would be empty are left out.
#[derive(Serialize, Default)]
pub(super) struct Reason {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
    #[serde(flatten)]
    freeze: FreezeMembers,
    #[serde(flatten)]
    holder: HolderMembers,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_stale_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    liveness: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What runs although its guard is gone, and keeps the hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) kept_by: Vec<KeeperMembers>,
    /// Who waits, first come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    line: Vec<InLine>,
    /// Who waits for whom; the last one waits for what the first one holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cycle: Vec<CycleMember>,
    /// The evidence as lines of text.
    #[serde(skip)]
    pub(super) label: String,
    #[serde(skip)]
    pub(super) lines: Vec<String>,
}

/// One process in a circle of processes that wait for each other.
#[derive(Serialize)]
struct CycleMember {
    holds: String,
    waits_for: String,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    pid: i64,
}

/// Each holds what the one before it waits for: none of them ever gets on.
pub(super) fn deadlock(cycle: &[Link]) -> Reason {
    let line = |link: &Link| {
        let (owner, pid) = (clean(&link.waiter.pulse.owner), link.waiter.pulse.process.pid);
        format!("{owner} (pid {pid}) holds {} and waits for {}", link.holds, link.waits_for)
    };
    let lines: Vec<String> = cycle.iter().map(line).collect();
    let member = |link: &Link| CycleMember {
        holds: link.holds.to_string(),
        waits_for: link.waits_for.to_string(),
        owner: link.waiter.pulse.owner.clone(),
        agent_id: text(&link.waiter.pulse.agent_id),
        pid: link.waiter.pulse.process.pid,
    };
    Reason {
        kind: "deadlock",
        message: format!("Deadlock: {}", lines.join("; ")),
        cycle: cycle.iter().map(member).collect(),
        label: "DEADLOCK: each waits for what the next one holds".into(),
        lines,
        ..Reason::default()
    }
}

pub(super) fn frozen(freeze: &Holder, now: Timestamp) -> Reason {
    let hold = &freeze.hold;
    let held = age(hold.began(), now);
    let left = freeze.elapsed.left_ms().map(seconds);
    let left = left.map(duration::show_seconds);
    let remaining = left.as_ref().map(|left| format!(" ({left} remaining)")).unwrap_or_default();
    Reason {
        kind: "frozen",
        message: format!("Frozen by {} for {held}{remaining}", owner_at(hold)),
        freeze: FreezeMembers::of(freeze, now),
        expires_at: hold.expires_at.map(show_wall_seconds),
        label: format!("FROZEN by {}", agent_at(hold)),
        lines: std::iter::once(format!("Age: {held}"))
            .chain(left.map(|left| format!("Remaining: {left}")))
            .chain(reason(hold).map(|reason| format!("Reason: {}", clean(reason))))
            .collect(),
        reason: reason(hold).map(ToOwned::to_owned),
        ..Reason::default()
    }
}

/// A freeze that can't be read counts as one.
pub(super) fn unreadable_freeze(why: &str) -> Reason {
    Reason {
        kind: "frozen",
        message: format!("Frozen by a freeze that can't be read: {}", clean(why)),
        label: "FROZEN".into(),
        lines: vec![format!("The freeze can't be read: {}", clean(why))],
        ..Reason::default()
    }
}

/// The waiters, in the order of the queue.
pub(super) fn queued(lokt: &Lokt, line: &[Waiter]) -> Reason {
    let who: Vec<String> = line.iter().map(|waiter| clean(&waiter.pulse.owner)).collect();
    Reason {
        kind: "queued",
        message: format!("{} waiting: {}", who.len(), who.join(", ")),
        line: in_line(lokt, line),
        label: format!("{} WAITING", who.len()),
        lines: line.iter().map(|waiter| waits(lokt, waiter)).collect(),
        ..Reason::default()
    }
}

pub(super) fn stored(lokt: &Lokt, entry: &Entry, now: Timestamp) -> Reason {
    let holder = match &entry.state {
        EntryState::Held(holder) => holder,
        EntryState::Corrupt(why) => {
            return Reason {
                kind: "corrupted",
                message: format!("Lock file contains invalid JSON or is no record: {}", clean(why)),
                label: "CORRUPTED lock file".into(),
                lines: vec![clean(why)],
                ..Reason::default()
            };
        }
        EntryState::BeingWritten => {
            return plain(
                "being_written",
                "The record is empty and younger than two seconds: another program is writing it",
            );
        }
        EntryState::Newer(version) => {
            return plain("newer", &format!("The record has version {version}; this lokt understands 1"));
        }
        EntryState::Unreadable(error) => return plain("unreadable", &error.to_string()),
    };
    let hold = &holder.hold;
    let yours = hold.owner == lokt.me().owner;
    let pid_status = lokt.inspect().pid_status(hold);
    let held = age(hold.began(), now);
    let who = owner_at(hold);
    let (kind, label, message) = match (holder.staleness().map(lokt_core::denial::Staleness::as_str), yours) {
        (Some("expired"), _) => {
            ("expired", "EXPIRED, held by", format!("Held by {who} (PID {}) for {held} — TTL expired", hold.pid))
        }
        (Some(_), _) => {
            ("dead_pid", "STALE (dead PID), held by", format!("Held by {who} (PID {}, dead) for {held}", hold.pid))
        }
        (None, true) => {
            let message = format!("Held by {who} ({}) for {held}: the same owner", holding(holder, pid_status));
            let process = hold.has(PartKind::Process);
            let label = if process { "HELD by another process of the same owner," } else { "HELD by the same owner," };
            ("self_held", label, message)
        }
        (None, false) => ("held", "HELD by", format!("Held by {who} ({}) for {held}", holding(holder, pid_status))),
    };
    let kept_by = kept_by(lokt, holder);
    let mut lines = evidence(holder, &held, now);
    lines.extend(kept_by.iter().map(|keeper| format!("Kept by: {}", keeper.line())));
    Reason {
        kind,
        message,
        holder: HolderMembers::of(lokt, holder, now),
        holder_stale_reason: stale_reason(lokt, holder),
        expires_at: hold.expires_at.map(show_wall_seconds),
        held_since: hold.began().map(show_wall_seconds),
        liveness: Some(holder.liveness.as_str()),
        lock_id: text(hold.lock_id.as_str()),
        fencing_token: hold.token.map(lokt_core::hold::Fence::get),
        reason: reason(hold).map(ToOwned::to_owned),
        label: format!("{label} {} ({})", agent_at(hold), holding(holder, pid_status)),
        lines,
        kept_by,
        ..Reason::default()
    }
}

/// Why it doesn't count any more; `unknown` if it counts only because its process can't be asked from here.
fn stale_reason(lokt: &Lokt, holder: &Holder) -> Option<&'static str> {
    let hold = &holder.hold;
    let is_unseen = holder.part_lives(PartKind::Process) && holder.liveness == Liveness::Unknown;
    let unknown = || (hold.host != lokt.me().host || is_unseen).then_some("unknown");
    holder.staleness().map(lokt_core::denial::Staleness::as_str).or_else(unknown)
}

fn plain(kind: &'static str, message: &str) -> Reason {
    Reason { kind, message: clean(message), label: clean(message), ..Reason::default() }
}

/// By what the hold is held: a process, or an owner who is none.
fn holding(holder: &Holder, pid_status: &str) -> String {
    let hold = &holder.hold;
    if hold.has(PartKind::Process) {
        let process = match holder.liveness.as_str() {
            "unknown" => "its process can't be verified from here".to_owned(),
            "orphan" => "its guard is gone, the command still runs".to_owned(),
            _ => pid_status.to_owned(),
        };
        format!("PID {}, {process}", hold.pid)
    } else {
        "by `lokt lock`; no process is behind it".to_owned()
    }
}

fn evidence(holder: &Holder, held: &str, now: Timestamp) -> Vec<String> {
    let hold = &holder.hold;
    let mut lines = vec![format!("Age: {held}")];
    if hold.ttl_sec > 0 {
        let ttl = duration::show_seconds(hold.ttl_sec);
        lines.push(match holder.left_ms() {
            Some(left) if holder.lives() => format!("TTL: {ttl} ({} remaining)", duration::show_seconds(seconds(left))),
            _ if holder.elapsed.is_expired() => format!("TTL: {ttl} (expired)"),
            _ => format!("TTL: {ttl}"),
        });
    }
    if holder.lives() {
        lines.push(format!("Until: {}", until(holder, now)));
    }
    if let Some(token) = hold.token {
        lines.push(format!("Token: {token}"));
    }
    if let Some(reason) = reason(hold) {
        lines.push(format!("Reason: {}", clean(reason)));
    }
    lines
}
