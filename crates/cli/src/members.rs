//! JSON members that several answers share: who holds a lock, who froze it. Members that would be empty are left out.

use jiff::Timestamp;
use lokt_core::denial::Holder;
use lokt_core::liveness::Liveness;
use lokt_core::time::show_wall_seconds;
use lokt_named::Lokt;
use serde::Serialize;

use crate::show::{clean, seconds, seconds_since};

/// The identity of a holder of a lock, a claim or a lease.
#[derive(Serialize, Default)]
pub(crate) struct HolderIdentity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder_owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder_host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder_pid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder_agent_id: Option<String>,
}

/// Who holds a lock.
#[derive(Serialize, Default)]
pub(crate) struct HolderMembers {
    #[serde(flatten)]
    who: HolderIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_age_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_ttl_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_remaining_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_expired: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_pid_status: Option<&'static str>,
}

impl HolderMembers {
    pub(crate) fn of(lokt: &Lokt, holder: &Holder, now: Timestamp) -> Self {
        let hold = &holder.hold;
        Self {
            who: HolderIdentity {
                holder_owner: text(&hold.owner),
                holder_host: text(&hold.host),
                holder_pid: Some(hold.pid),
                holder_agent_id: text(&hold.agent_id),
            },
            holder_age_sec: Some(seconds_since(hold.acquired, now)).filter(|age| *age > 0),
            holder_ttl_sec: Some(hold.ttl_sec).filter(|ttl| *ttl > 0),
            holder_remaining_sec: holder.left_ms().map(seconds),
            holder_expired: holder.elapsed.is_expired().then_some(true),
            holder_pid_status: Some(lokt.inspect().pid_status(hold)),
        }
    }
}

/// Who froze a name.
#[derive(Serialize, Default)]
pub(crate) struct FreezeMembers {
    /// Present where a lock that is held may be frozen, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_pid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_age_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_remaining_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze_reason: Option<String>,
}

impl FreezeMembers {
    /// Of a freeze that may be unreadable, which counts as one.
    pub(crate) fn of_any(freeze: Result<Box<Holder>, String>, now: Timestamp) -> Self {
        let known = freeze.map(|freeze| Self::of(&freeze, now)).unwrap_or_default();
        Self { frozen: Some(true), ..known }
    }

    pub(crate) fn of(freeze: &Holder, now: Timestamp) -> Self {
        let hold = &freeze.hold;
        Self {
            frozen: None,
            freeze_owner: text(&hold.owner),
            freeze_host: text(&hold.host),
            freeze_pid: Some(hold.pid),
            freeze_agent_id: text(&hold.agent_id),
            freeze_age_sec: Some(seconds_since(hold.began(), now)).filter(|age| *age > 0),
            freeze_remaining_sec: freeze.elapsed.left_ms().map(seconds),
            freeze_expires_at: hold.expires_at.map(show_wall_seconds),
            freeze_reason: crate::show::reason(hold).map(ToOwned::to_owned),
        }
    }
}

/// A process that keeps a hold whose guard is gone.
#[derive(Serialize)]
pub(crate) struct KeeperMembers {
    pub(crate) pid: i64,
    command: String,
}

impl KeeperMembers {
    /// `sleep (pid 42)`
    pub(crate) fn line(&self) -> String {
        format!("{} (pid {})", clean(&self.command), self.pid)
    }
}

/// What runs although its guard is gone.
pub(crate) fn kept_by(lokt: &Lokt, holder: &Holder) -> Vec<KeeperMembers> {
    if holder.liveness != Liveness::Orphan {
        return Vec::new();
    }
    let keepers = lokt.inspect().keepers(&holder.hold).into_iter();
    keepers.map(|keeper| KeeperMembers { pid: keeper.pid, command: keeper.command }).collect()
}

/// A text, if there is one.
pub(crate) fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
