//! Refusals and their reasons.

use std::fmt;
use std::time::Duration;

use lokt_core::denial::Denial as Why;
use lokt_core::hold::Fence;
use lokt_core::name::LockName;
use lokt_named::Refusal;

use crate::{Holder, Token};

/// A refusal: the lock, the reason and the holder.
#[derive(Debug)]
pub struct Denial {
    name: LockName,
    refusal: Refusal,
}

/// The reason why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DenialReason {
    /// The lock is held by another owner or another process.
    Held,
    /// The lock is free, but other requests are ahead in the queue.
    Queued {
        /// The number of requests ahead.
        ahead: usize,
    },
    /// The name is frozen.
    Frozen,
    /// Another program is writing the record at this moment.
    BeingWritten,
    /// The record was written by a newer version of lokt.
    NewerVersion,
    /// The record is invalid.
    Corrupt,
    /// There is no such lock.
    NotFound,
    /// The lock belongs to another owner.
    NotYours,
    /// The lock belongs to a running guard of the same owner.
    Guarded,
    /// The current hold is not the one that was named.
    OtherHold,
    /// The token is not the current one: a newer hold was granted.
    StaleToken {
        /// The current token.
        current: Option<Token>,
    },
    /// The hold has ended: its lease expired, or its process is gone.
    Expired,
    /// The hold is live, so it can't be broken as stale.
    NotStale,
    /// The lock was held and was lost.
    Lost,
}

impl Denial {
    pub(crate) fn of(name: LockName, refusal: Refusal) -> Self {
        Self { name, refusal }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The reason for the refusal.
    pub fn reason(&self) -> DenialReason {
        match &self.refusal.denial {
            Why::Held(_) => DenialReason::Held,
            Why::Queued { ahead } => DenialReason::Queued { ahead: *ahead },
            Why::Frozen(_) => DenialReason::Frozen,
            Why::BeingWritten => DenialReason::BeingWritten,
            Why::Newer { .. } => DenialReason::NewerVersion,
            Why::Corrupt { .. } => DenialReason::Corrupt,
            Why::Missing => DenialReason::NotFound,
            Why::NotYours(_) => DenialReason::NotYours,
            Why::Guarded(_) => DenialReason::Guarded,
            Why::OtherHold(_) | Why::OtherIssuer { .. } => DenialReason::OtherHold,
            Why::StaleToken { current, .. } => {
                DenialReason::StaleToken { current: current.map(|fence: Fence| Token::of(fence)) }
            }
            Why::Over(_) => DenialReason::Expired,
            Why::NotStale(_) | Why::Kept => DenialReason::NotStale,
            Why::Lost(_) => DenialReason::Lost,
        }
    }

    /// The holder of the lock or of the freeze, as far as it can be read.
    pub fn holder(&self) -> Option<Holder> {
        self.refusal.denial.holder().cloned().map(Holder::of)
    }

    /// The number of requests that wait for the lock.
    pub fn waiters(&self) -> usize {
        self.refusal.waiters
    }

    /// The time that the request waited before it was refused; `None` if it didn't wait.
    pub fn waited(&self) -> Option<Duration> {
        self.refusal.waited
    }

    /// The stable code that the command prints in JSON, such as `E_LOCK_CONFLICT`.
    pub fn code(&self) -> &'static str {
        self.refusal.denial.code()
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let by = |f: &mut fmt::Formatter<'_>, text: &str, or: &str| match self.holder() {
            Some(holder) => write!(f, "lock \"{name}\" {text} {holder}"),
            None => write!(f, "lock \"{name}\" {or}"),
        };
        match self.reason() {
            DenialReason::Held => by(f, "is held by", "is held"),
            DenialReason::Queued { ahead: 1 } => {
                write!(f, "lock \"{name}\" is free, but 1 request is ahead in its queue")
            }
            DenialReason::Queued { ahead } => {
                write!(f, "lock \"{name}\" is free, but {ahead} requests are ahead in its queue")
            }
            DenialReason::Frozen => by(f, "is frozen by", "is frozen"),
            DenialReason::BeingWritten => {
                write!(f, "the record of lock \"{name}\" is being written by another program")
            }
            DenialReason::NewerVersion => {
                write!(f, "the record of lock \"{name}\" was written by a newer version of lokt")
            }
            DenialReason::Corrupt => write!(f, "the record of lock \"{name}\" can't be understood"),
            DenialReason::NotFound => write!(f, "lock \"{name}\" is not held"),
            DenialReason::NotYours => by(f, "belongs to", "belongs to another owner"),
            DenialReason::Guarded => by(f, "is held by the running guard", "is held by a running guard"),
            DenialReason::OtherHold => by(f, "is held anew, by", "is held anew"),
            DenialReason::StaleToken { current: Some(current) } => {
                write!(f, "the token of lock \"{name}\" is stale: the current one is {current}")
            }
            DenialReason::StaleToken { current: None } => {
                write!(f, "the token of lock \"{name}\" is stale: the lock is not held")
            }
            DenialReason::Expired => write!(f, "the hold of lock \"{name}\" is over"),
            DenialReason::NotStale => by(f, "is not stale: it is held by", "is not stale"),
            DenialReason::Lost => by(f, "was lost to", "was lost"),
        }
    }
}
