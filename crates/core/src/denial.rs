//! The reasons for refusals. A denial is an answer, not an error: the texts, the JSON and the exit
//! code are all derived from it.

use alloc::boxed::Box;
use alloc::string::String;

use crate::hold::{Fence, Hold, PartKind};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Lease};

/// A stored hold, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The stored hold.
    pub hold: Hold,
    /// The liveness of its process.
    pub liveness: Liveness,
    /// The state of its leases.
    pub elapsed: Elapsed,
}

impl Holder {
    /// Reports whether this part still counts.
    pub fn part_lives(&self, kind: PartKind) -> bool {
        part_lives(kind, self.liveness, self.elapsed)
    }

    /// Reports whether the hold still counts. It lives while either part lives.
    pub fn lives(&self) -> bool {
        self.part_lives(PartKind::Process) || self.part_lives(PartKind::Owner)
    }

    /// Returns why the hold no longer counts; `None` while it does.
    pub fn staleness(&self) -> Option<Staleness> {
        if self.lives() {
            return None;
        }
        // A process part whose lease hasn't expired can have ended only because its process is
        // gone.
        Some(if self.elapsed.process.runs() { Staleness::ProcessGone } else { Staleness::Expired })
    }

    /// Returns the milliseconds until the last live part ends; `None` if only an unlock or the end
    /// of the process ends it.
    pub fn left_ms(&self) -> Option<u64> {
        let process = if self.part_lives(PartKind::Process) { self.elapsed.process } else { Lease::Absent };
        let owner = if self.part_lives(PartKind::Owner) { self.elapsed.owner } else { Lease::Absent };
        Elapsed { process, owner }.left_ms()
    }
}

/// Reports whether a part still counts. A process part ends with its process or its lease, an owner
/// part with its lease.
pub(crate) fn part_lives(kind: PartKind, liveness: Liveness, elapsed: Elapsed) -> bool {
    match kind {
        PartKind::Process => elapsed.process.runs() && liveness != Liveness::Gone,
        PartKind::Owner => elapsed.owner.runs(),
    }
}

/// The reason why a hold no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staleness {
    /// Its lease has expired.
    Expired,
    /// Its process is proven gone.
    ProcessGone,
}

impl Staleness {
    /// The value in `holder_stale_reason` and the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::ProcessGone => "dead_pid",
        }
    }
}

/// The reason for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// A live hold of another owner (or, for a guard, of the same owner).
    Held(Box<Holder>),
    /// The name is free, but other waiters were there first.
    Queued {
        /// Number of waiters ahead.
        ahead: usize,
    },
    /// A freeze forbids new holds. `None`: the freeze is unreadable, but it still counts.
    Frozen(Option<Box<Holder>>),
    /// The record is empty and so recent that another process may be writing it.
    BeingWritten,
    /// The record has a version that this program must leave alone.
    Newer {
        /// Its version.
        version: i64,
    },
    /// The record is invalid, and the command doesn't guess.
    Corrupt {
        /// The problem with it.
        why: String,
    },
    /// There is no such hold.
    Missing,
    /// The hold belongs to another owner.
    NotYours(Box<Holder>),
    /// The hold is the caller's own, but a running guard's: unlocking would take it from under its
    /// command.
    Guarded(Box<Holder>),
    /// The named lock id isn't that of the current hold.
    OtherHold(Box<Holder>),
    /// The named token isn't that of the current hold.
    StaleToken {
        /// The named token.
        named: u64,
        /// The current token.
        current: Option<Fence>,
    },
    /// The number is the current one, but it was issued for another hold: by another root, or
    /// before this root was removed and created again.
    OtherIssuer {
        /// The named token.
        named: u64,
        /// The hold that has this number here.
        holder: Box<Holder>,
    },
    /// The named token belongs to a hold that has ended; nobody has acquired the name since.
    Over(Box<Holder>),
    /// `--break-stale` on a hold that isn't stale.
    NotStale(Box<Holder>),
    /// The caller's hold is gone; another process may hold the name.
    Lost(Option<Box<Holder>>),
    /// Nothing to prune here.
    Kept,
}

impl Denial {
    /// The stable code in the JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held(_) | Self::Queued { .. } | Self::BeingWritten => "E_LOCK_CONFLICT",
            Self::Frozen(_) => "E_FROZEN",
            Self::Newer { .. } => "E_UNSUPPORTED_VERSION",
            Self::Corrupt { .. } => "E_CORRUPT",
            Self::Missing => "E_NOT_FOUND",
            Self::NotYours(_) | Self::Guarded(_) | Self::OtherHold(_) | Self::Lost(_) => "E_LOCK_NOT_HELD",
            Self::Over(holder) if holder.staleness() == Some(Staleness::Expired) => "E_LOCK_EXPIRED",
            Self::StaleToken { .. } | Self::OtherIssuer { .. } | Self::Over(_) => "E_FENCING_MISMATCH",
            Self::NotStale(_) | Self::Kept => "E_NOT_STALE",
        }
    }

    /// Returns the hold that is in the way, if there is one.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held(holder)
            | Self::NotYours(holder)
            | Self::Guarded(holder)
            | Self::OtherHold(holder)
            | Self::OtherIssuer { holder, .. }
            | Self::Over(holder)
            | Self::NotStale(holder) => Some(holder),
            Self::Lost(holder) | Self::Frozen(holder) => holder.as_deref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(liveness: Liveness, process: Lease) -> Box<Holder> {
        Box::new(Holder { hold: Hold::blank(), liveness, elapsed: Elapsed { process, owner: Lease::Absent } })
    }

    #[test]
    fn the_code_of_a_hold_that_is_over_says_how_it_ended() {
        let (expired, gone) = (holder(Liveness::Alive, Lease::Over(1)), holder(Liveness::Gone, Lease::Endless));
        assert_eq!(expired.staleness().map(Staleness::as_str), Some("expired"));
        assert_eq!(gone.staleness().map(Staleness::as_str), Some("dead_pid"));
        assert_eq!(Denial::Over(expired).code(), "E_LOCK_EXPIRED");
        assert_eq!(Denial::Over(gone).code(), "E_FENCING_MISMATCH");
        assert_eq!(Denial::StaleToken { named: 6, current: None }.code(), "E_FENCING_MISMATCH");
    }
}
