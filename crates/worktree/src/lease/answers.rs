//! What is asked of a lease, and what is answered.

use lokt_core::decide::Cause;
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, PulseRef};
use lokt_core::lease::evidence::Evidence;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::Record;
use lokt_core::time::Moment;
use lokt_sys::warnings::Warning;

/// How a lease is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Its numbers.
    pub policy: LeasePolicy,
    /// What for.
    pub purpose: Option<String>,
    /// Which leases will do.
    pub taking: Taking,
    /// The process that it hangs on; without one it hangs on the session.
    pub bearer: Option<Bearer>,
}

/// Which leases will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taking {
    /// A free one, or one that is over.
    #[default]
    FreeOrOver,
    /// Only one that is over.
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
    /// It is ours.
    Granted(Box<Lease>),
    /// It is not.
    Denied(Box<LeaseRefusal>),
    /// It is not, because the wait was interrupted.
    Interrupted,
}

/// A lease of ours.
#[derive(Debug, Clone)]
pub struct Lease {
    /// As it is on disk.
    pub record: Record,
    /// Its token.
    pub token: Fence,
    /// From when on it lasts, by all clocks: before it was written.
    pub began: Moment,
    /// The lease that it took the place of, and how it was known to be over.
    pub stolen: Option<(Option<Record>, Evidence)>,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// It is free.
    Free,
    /// It is held.
    Held,
    /// It is past its end; others must wait a little longer.
    ExpiredGrace,
    /// It is over, and not taken yet.
    Expired,
    /// Another program's lock file is there, and counts.
    Foreign,
    /// What is there can't be read; it counts until it has been the same for long enough.
    Corrupt,
    /// The worktree is everybody's.
    Shared,
}

/// Why something was refused.
#[derive(Debug)]
pub struct LeaseRefusal {
    /// The answer of the decision.
    pub denial: Denial,
    /// How the lease stands.
    pub state: LeaseState,
    /// The holder's record.
    pub record: Option<Record>,
    /// When to ask again, if nothing is heard of the holder.
    pub retry_after_ms: Option<u64>,
    /// The measured skew of the holder's clock, if it is beyond what is allowed and nothing better is known.
    pub skew_ms: Option<i64>,
    /// What is allowed.
    pub skew_max_ms: u64,
    /// What the judgement goes by.
    pub evidence: Option<Evidence>,
    /// Why what is there can't be read, if that is what stands in the way.
    pub unreadable: Option<String>,
}

/// The answer to a `renew`.
#[derive(Debug)]
pub enum Keeping {
    /// It goes on.
    Renewed(Box<Lease>),
    /// It doesn't.
    Denied(Box<LeaseRefusal>),
}

/// The answer to a `release` or `break`.
#[derive(Debug)]
pub enum Releasing {
    /// It ended.
    Released(Released),
    /// It didn't.
    Denied(Box<LeaseRefusal>),
}

/// What ended.
#[derive(Debug)]
pub struct Released {
    /// The lease, if it could be read.
    pub record: Option<Box<Record>>,
    /// How.
    pub cause: Cause,
}

/// The answer to a question about a token.
#[derive(Debug)]
pub enum TokenCheck {
    /// It is the one of this living lease.
    Current(Box<Record>),
    /// It is not.
    Denied(Box<LeaseRefusal>),
}

/// The answer to a `publish`.
#[derive(Debug)]
pub enum Publishing {
    /// The file is in its place.
    Published {
        /// How long it is.
        bytes: u64,
        /// The lease under which it was published.
        record: Box<Record>,
    },
    /// The token is no good any more; nothing is to be seen of it.
    Denied(Box<LeaseRefusal>),
}

/// The status of a lease.
#[derive(Debug)]
pub struct LeaseStatus {
    /// In one word.
    pub state: LeaseState,
    /// The record of the holder, or of the last one.
    pub record: Option<Record>,
    /// The same, as a holder of any lock.
    pub holder: Option<Holder>,
    /// It is that of the session that asked.
    pub mine: bool,
    /// It counts.
    pub lives: bool,
    /// What the judgement goes by.
    pub evidence: Option<Evidence>,
    /// When others may have it, if nothing is heard of it.
    pub retry_after_ms: Option<u64>,
    /// The highest token that was ever given here.
    pub last_token: Option<u64>,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
}

impl LeaseState {
    /// As in JSON.
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
    /// The stable code of the JSON.
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
