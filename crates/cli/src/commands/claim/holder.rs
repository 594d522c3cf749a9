//! Who has a claim, and until when, for people.

use jiff::Timestamp;
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, Hold};
use lokt_core::time::{Lease, show_wall_seconds};
use lokt_sys::wait_policy::Waiting;
use serde::Serialize;

use super::super::waiting::{Subject, how_long};
use crate::machine;
use crate::members::{HolderIdentity, text};
use crate::show::{ago, at_and_in, clean, quoted, seconds};

/// `alice@host (pid 42)`, as far as the event says so: other programs only write the owner.
pub(crate) fn claimant(hold: &Hold) -> String {
    let host = if hold.host.is_empty() { String::new() } else { format!("@{}", clean(&hold.host)) };
    let pid = if hold.pid > 0 { format!(" (pid {})", hold.pid) } else { String::new() };
    format!("{}{host}{pid}", clean(&hold.owner))
}

/// `3m ago`, if its time is over.
pub(crate) fn expired_ago(holder: &Holder) -> Option<String> {
    match (holder.elapsed.owner, holder.elapsed.process) {
        (Lease::Over(ms), _) | (Lease::Absent, Lease::Over(ms)) => Some(ago(seconds(ms))),
        _ => None,
    }
}

/// `until 2026-11-16T08:05:00Z (in 4m59s)`, or that it has expired.
pub(crate) fn until(holder: &Holder, now: Timestamp) -> String {
    match (holder.lives(), holder.left_ms()) {
        (true, Some(left_ms)) => format!("until {}", at_and_in(left_ms, now)),
        (true, None) => "without an end".to_owned(),
        (false, _) => expired_ago(holder).map_or_else(|| "expired".to_owned(), |ago| format!("expired {ago}")),
    }
}

/// When a claim ends, as JSON has it.
pub(crate) fn expires_at(hold: &Hold) -> Option<String> {
    hold.expires_at.map(show_wall_seconds)
}

/// The holder of a node in JSON.
#[derive(Serialize)]
pub(super) struct HolderMembers {
    #[serde(flatten)]
    who: HolderIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_remaining_sec: Option<i64>,
    holder_expired: bool,
}

impl HolderMembers {
    pub(super) fn of(holder: &Holder) -> Self {
        let hold = &holder.hold;
        Self {
            who: HolderIdentity {
                holder_owner: Some(hold.owner.clone()),
                holder_host: text(&hold.host),
                holder_pid: Some(hold.pid).filter(|pid| *pid > 0),
                holder_agent_id: None,
            },
            holder_token: hold.token.map(Fence::get),
            holder_since: hold.began().map(show_wall_seconds),
            holder_expires_at: expires_at(hold),
            holder_remaining_sec: holder.left_ms().map(seconds),
            holder_expired: !holder.lives(),
        }
    }
}

/// A node that a command waits for.
pub(super) struct ClaimWait;

impl Subject for ClaimWait {
    fn line(&self, waiting: &Waiting<'_>, _live: bool) -> String {
        let obstacle = match waiting.denial {
            Denial::Held(holder) => {
                format!("claimed by {} {}", claimant(&holder.hold), until(holder, machine::now().wall))
            }
            denial => denial.code().to_owned(),
        };
        format!("waiting for node {}: {obstacle}; {}", quoted(waiting.name), how_long(waiting))
    }
}
