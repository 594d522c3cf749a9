//! Why something was refused. A denial is an answer, not an accident: the texts, the JSON and the exit code are all made from it.

use alloc::boxed::Box;
use alloc::string::String;

use crate::hold::{Fence, Hold, PartKind};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Lease};

/// A stored hold together with what was found out about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The stored hold.
    pub hold: Hold,
    /// What is known about its process.
    pub liveness: Liveness,
    /// How its leases stand.
    pub elapsed: Elapsed,
}

impl Holder {
    /// Does this part still count?
    pub fn part_lives(&self, kind: PartKind) -> bool {
        part_lives(kind, self.liveness, self.elapsed)
    }

    /// Does the hold still count? It lives while either part lives.
    pub fn lives(&self) -> bool {
        self.part_lives(PartKind::Process) || self.part_lives(PartKind::Owner)
    }

    /// Why the hold doesn't count any more; `None` while it does.
    pub fn staleness(&self) -> Option<Staleness> {
        if self.lives() {
            return None;
        }
        // A process part that still has time on its lease can only have ended by its process being gone.
        Some(if self.elapsed.process.runs() { Staleness::ProcessGone } else { Staleness::Expired })
    }

    /// Milliseconds until the last living part ends; `None` if nothing but an unlock or the process's end ends it.
    pub fn left_ms(&self) -> Option<u64> {
        let process = if self.part_lives(PartKind::Process) { self.elapsed.process } else { Lease::Absent };
        let owner = if self.part_lives(PartKind::Owner) { self.elapsed.owner } else { Lease::Absent };
        Elapsed { process, owner }.left_ms()
    }
}

/// Does a part still count? A process part ends with its process or its lease, an owner part with its lease.
pub(crate) fn part_lives(kind: PartKind, liveness: Liveness, elapsed: Elapsed) -> bool {
    match kind {
        PartKind::Process => elapsed.process.runs() && liveness != Liveness::Gone,
        PartKind::Owner => elapsed.owner.runs(),
    }
}

/// Why a hold no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staleness {
    /// Its lease is over.
    Expired,
    /// Its process is proven gone.
    ProcessGone,
}

impl Staleness {
    /// As in `holder_stale_reason` and the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::ProcessGone => "dead_pid",
        }
    }
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// A live hold of somebody else (or, for a guard, of the same owner).
    Held(Box<Holder>),
    /// The name is free, but others were there first.
    Queued {
        /// How many are ahead.
        ahead: usize,
    },
    /// A freeze forbids new holds. `None`: the freeze can't be read, which counts as one.
    Frozen(Option<Box<Holder>>),
    /// The record is empty and so young that somebody else may be writing it.
    BeingWritten,
    /// The record has a version that this program must leave alone.
    Newer {
        /// Its version.
        version: i64,
    },
    /// The record isn't one, and the command won't guess.
    Corrupt {
        /// What is wrong with it.
        why: String,
    },
    /// There is no such hold.
    Missing,
    /// Another owner's.
    NotYours(Box<Holder>),
    /// One's own, but a running guard's: unlocking it would take it from under its command.
    Guarded(Box<Holder>),
    /// The lock id that was named isn't the current hold's.
    OtherHold(Box<Holder>),
    /// The token that was named isn't the current hold's.
    StaleToken {
        /// The token that was named.
        named: u64,
        /// The current one.
        current: Option<Fence>,
    },
    /// The number is the current one, but it was issued for another hold: by another root, or before
    /// this root was removed and made again.
    OtherIssuer {
        /// The token that was named.
        named: u64,
        /// The hold that has this number here.
        holder: Box<Holder>,
    },
    /// The token that was named is that of a hold that is over; nobody has taken the name since.
    Over(Box<Holder>),
    /// `--break-stale` on something that isn't.
    NotStale(Box<Holder>),
    /// The caller's hold is gone; somebody else may have it.
    Lost(Option<Box<Holder>>),
    /// Nothing to prune here.
    Kept,
}

impl Denial {
    /// The stable code of the JSON.
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

    /// The hold that stands in the way, if there is one.
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
