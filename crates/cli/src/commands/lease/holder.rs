//! Who has a lease, and until when, for people.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use lokt_core::duration;
use lokt_core::hold::Fence;
use lokt_core::lease::evidence::Evidence;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{Binding, HolderId, Record as LeaseRecord};
use lokt_core::time::show_wall_seconds;
use lokt_worktree::lease::Worktree;
use serde::Serialize;

use crate::members::{HolderIdentity, text};
use crate::show::clean;

/// A lease shorter than this is shown to the millisecond.
const SHORT_MS: u64 = 10_000;

/// `alice (agent: agent-1a2b)@host (pid 42)`, as far as the record says so; other programs may write anything.
pub(crate) fn holder(record: &LeaseRecord) -> String {
    let id = HolderId::parse(&record.holder_id);
    if id.user.is_empty() && id.host.is_empty() {
        return if record.holder_id.is_empty() { "somebody".to_owned() } else { clean(&record.holder_id) };
    }
    let agent = record.agent_id.as_deref().filter(|agent| is_telling(agent));
    let agent = agent.map(|agent| format!(" (agent: {})", clean(agent))).unwrap_or_default();
    let pid = if id.pid > 0 { format!(" (pid {})", id.pid) } else { String::new() };
    // The lock of `jvs` names no machine.
    let host = if id.host.is_empty() { String::new() } else { format!("@{}", clean(&id.host)) };
    format!("{}{agent}{host}{pid}", clean(&id.user))
}

/// An agent that nobody named is called by a number that means nothing to people.
fn is_telling(agent: &str) -> bool {
    let made_up =
        agent.strip_prefix("agent-").is_some_and(|rest| rest.len() == 4 && u16::from_str_radix(rest, 16).is_ok());
    !agent.is_empty() && !made_up
}

/// `, token 7`
pub(crate) fn token(record: &LeaseRecord) -> String {
    record.token.map(|token| format!(", token {token}")).unwrap_or_default()
}

/// When something was or will be, as exact as the lease is short.
pub(crate) fn at(moment: Timestamp, policy: LeasePolicy) -> String {
    if policy.lease_ms >= SHORT_MS {
        return show_wall_seconds(moment);
    }
    moment.round(Unit::Millisecond).unwrap_or(moment).to_string()
}

/// So many milliseconds.
pub(crate) fn span(ms: u64) -> String {
    duration::show(Duration::from_millis(ms))
}

/// How long a lease lasts that isn't renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Left {
    /// For its holder.
    pub(crate) own_ms: Option<u64>,
    /// Until others may have it.
    pub(crate) others_ms: Option<u64>,
}

impl Left {
    /// From when to ask again: a session waits for its own lease to end, others for doubts to end, too.
    pub(crate) fn of(record: Option<&LeaseRecord>, retry_after_ms: Option<u64>, mine: bool) -> Self {
        let Some(record) = record else { return Self { own_ms: None, others_ms: retry_after_ms } };
        let policy = record.policy.clamped();
        let doubt_ms = policy.skew_ms + policy.grace_ms;
        if mine {
            return Self { own_ms: retry_after_ms, others_ms: retry_after_ms.map(|ms| ms + doubt_ms) };
        }
        let own_ms = retry_after_ms.and_then(|ms| ms.checked_sub(doubt_ms)).filter(|ms| *ms > 0);
        Self { own_ms, others_ms: retry_after_ms }
    }
}

/// `2026-11-16T08:00:30Z (in 29s)`: when a lease ends that isn't renewed. `left_ms`: by our own clock, if that is known.
pub(crate) fn until(record: &LeaseRecord, left_ms: Option<u64>) -> String {
    let left = left_ms.filter(|ms| *ms > 0).map(|ms| format!(" (in {})", span(ms))).unwrap_or_default();
    let renewed = if record.binding == Some(Binding::Process) { "; it is renewed while its command runs" } else { "" };
    format!("{}{left}{renewed}", at(record.lease_expires_at, record.policy))
}

/// What a judgement goes by, in words.
pub(crate) fn by(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::BootClock => "the boot clock of this machine",
        Evidence::ProcessGone => "its process is gone",
        Evidence::BootGone => "the machine was started anew since, and the disk is its own",
        Evidence::ServerClock => "the clock of the file server",
        Evidence::Observed => "it was watched for that long, and nobody renewed it",
        Evidence::WallClock => "the time at which it says that it expires",
    }
}

/// The file that others see, or that `jvs` wrote: only its lock is judged by the wall clock.
pub(crate) fn view(worktree: &Worktree, evidence: Option<Evidence>) -> PathBuf {
    let path = match evidence {
        Some(Evidence::WallClock) => format!(".jvs/worktrees/{}/lock.json", worktree.name()),
        _ => format!(".jvs/locks/{}.lock", worktree.name()),
    };
    worktree.repository().top().join(path)
}

/// The holder of a lease in JSON.
#[derive(Serialize)]
pub(crate) struct HolderMembers {
    #[serde(flatten)]
    who: HolderIdentity,
    holder_id: String,
    holder_session_id: String,
    holder_lock_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_fencing_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_binding: Option<&'static str>,
    holder_since: String,
    holder_last_renewed_at: String,
    holder_expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_purpose: Option<String>,
}

impl HolderMembers {
    pub(crate) fn of(record: &LeaseRecord) -> Self {
        let id = HolderId::parse(&record.holder_id);
        Self {
            who: HolderIdentity {
                holder_owner: text(&id.user),
                holder_host: text(&id.host),
                holder_pid: Some(id.pid).filter(|pid| *pid > 0),
                holder_agent_id: record.agent_id.as_deref().and_then(text),
            },
            holder_id: record.holder_id.clone(),
            holder_session_id: record.session_id.clone(),
            holder_lock_id: record.lock_id.to_string(),
            holder_fencing_token: record.token.map(Fence::get),
            holder_binding: record.binding.map(Binding::as_str),
            holder_since: at(record.created_at, record.policy),
            holder_last_renewed_at: at(record.last_renewed_at, record.policy),
            holder_expires_at: at(record.lease_expires_at, record.policy),
            holder_purpose: record.purpose.as_deref().and_then(text),
        }
    }
}
