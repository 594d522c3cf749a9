//! Requests about a lease, and the answers to them.

use lokt_core::decide::Cause;
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, PulseRef};
use lokt_core::lease::evidence::Evidence;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::Record;
use lokt_core::time::Moment;
use lokt_sys::warnings::Warning;

/// The terms of a request for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Durations and limits of the lease.
    pub policy: LeasePolicy,
    /// The caller's reason.
    pub purpose: Option<String>,
    /// The leases that are acceptable.
    pub taking: Taking,
    /// The process that the lease is bound to; without one, it is bound to the session.
    pub bearer: Option<Bearer>,
}

/// The leases that are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taking {
    /// A free lease, or one that has ended.
    #[default]
    FreeOrOver,
    /// Only one that has ended.
    Over,
}

/// The process of `lease run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bearer {
    /// Its pulse, which is beating.
    pub pulse: PulseRef,
}

/// The answer to an `acquire` or `steal`.
#[derive(Debug)]
pub enum Leasing {
    /// The lease is ours.
    Granted(Box<Lease>),
    /// The lease was refused.
    Denied(Box<LeaseRefusal>),
    /// The lease was not acquired, because the wait was interrupted.
    Interrupted,
}

/// A lease that the caller holds.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The record on disk.
    pub record: Record,
    /// Its token.
    pub token: Fence,
    /// Start of the lease by all clocks: read before it was written.
    pub began: Moment,
    /// The lease that it replaced, and the evidence that this one had ended.
    pub stolen: Option<(Option<Record>, Evidence)>,
}

/// State of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// It is free.
    Free,
    /// It is held.
    Held,
    /// It has expired, but others must wait a little longer.
    ExpiredGrace,
    /// It has ended and has not been acquired again yet.
    Expired,
    /// Another program's lock file is there and counts as a lease.
    Foreign,
    /// The lease is unreadable; it counts until it has been unchanged for long enough.
    Corrupt,
    /// The worktree is shared: there is no lease.
    Shared,
}

/// Why a request was refused.
#[derive(Debug)]
pub struct LeaseRefusal {
    /// The result of the decision.
    pub denial: Denial,
    /// State of the lease.
    pub state: LeaseState,
    /// The holder's record.
    pub record: Option<Record>,
    /// When to ask again, if nothing is heard of the holder.
    pub retry_after_ms: Option<u64>,
    /// The measured skew of the holder's clock, if it exceeds the limit and nothing better is
    /// known.
    pub skew_ms: Option<i64>,
    /// The limit for the skew.
    pub skew_max_ms: u64,
    /// Evidence for the decision.
    pub evidence: Option<Evidence>,
    /// Why the lease is unreadable, if that is the reason for the refusal.
    pub unreadable: Option<String>,
}

/// The answer to a `renew`.
#[derive(Debug)]
pub enum Keeping {
    /// The lease was renewed.
    Renewed(Box<Lease>),
    /// The renewal was refused.
    Denied(Box<LeaseRefusal>),
}

/// The answer to a `release` or `break`.
#[derive(Debug)]
pub enum Releasing {
    /// The lease ended.
    Released(Released),
    /// The request was refused.
    Denied(Box<LeaseRefusal>),
}

/// A lease that ended.
#[derive(Debug)]
pub struct Released {
    /// The lease, if it was readable.
    pub record: Option<Box<Record>>,
    /// The cause of its end.
    pub cause: Cause,
}

/// The answer to a question about a token.
#[derive(Debug)]
pub enum TokenCheck {
    /// It is the token of this live lease.
    Current(Box<Record>),
    /// It is not.
    Denied(Box<LeaseRefusal>),
}

/// The answer to a `publish`.
#[derive(Debug)]
pub enum Publishing {
    /// The file was published.
    Published {
        /// Its length in bytes.
        bytes: u64,
        /// The lease under which it was published.
        record: Box<Record>,
    },
    /// The token is not valid any more; nothing was published.
    Denied(Box<LeaseRefusal>),
}

/// The status of a lease.
#[derive(Debug)]
pub struct LeaseStatus {
    /// State of the lease.
    pub state: LeaseState,
    /// The record of the holder, or of the last one.
    pub record: Option<Record>,
    /// The holder, in the form used for any lock.
    pub holder: Option<Holder>,
    /// Whether the session that asked holds it.
    pub mine: bool,
    /// Whether it is live.
    pub lives: bool,
    /// Evidence for the decision.
    pub evidence: Option<Evidence>,
    /// When others may acquire it, if nothing is heard of the holder.
    pub retry_after_ms: Option<u64>,
    /// The highest token that was ever issued here.
    pub last_token: Option<u64>,
    /// Anomalies.
    pub warnings: Vec<Warning>,
}

impl LeaseState {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::ExpiredGrace => "expired_grace",
            Self::Expired => "expired",
            Self::Foreign => "foreign",
            Self::Corrupt => "corrupt",
            Self::Shared => "shared",
        }
    }
}

impl LeaseRefusal {
    /// Returns the stable code used in JSON.
    pub fn code(&self) -> &'static str {
        match &self.denial {
            Denial::Held(_) | Denial::Corrupt { .. } if self.skew_ms.is_some() => "E_CLOCK_SKEW_EXCEEDED",
            // An unreadable lease counts as held, for a while.
            Denial::Corrupt { .. } => "E_LOCK_CONFLICT",
            Denial::Missing if self.state == LeaseState::Free => "E_LOCK_NOT_HELD",
            denial => denial.code(),
        }
    }
}
