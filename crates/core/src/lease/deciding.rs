//! Decisions about leases. [`crate::decide::decide`] decides what is allowed; this module only asks
//! it.

use alloc::string::String;

use super::evidence::Verdict;
use super::record::{Record, owner_of};
use crate::decide::{
    Breaking, Broken, Cause, Condition, Decision, Facts, HoldKey, Intent, Line, Policy, Slot, Terms, decide,
};
use crate::denial::Denial;
use crate::hold::{Identity, LockId, PartKind};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Moment};

/// A request about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask<'a> {
    /// Acquires the lease, if it is free or has expired. `nonce` and `session_id` are those of the
    /// new lease.
    Acquire {
        /// New for each lease, so that no other session is mistaken for the holder.
        nonce: &'a str,
        /// Id of the session.
        session_id: &'a str,
    },
    /// Acquires an expired lease, but not a free one.
    Steal {
        /// As for `Acquire`.
        nonce: &'a str,
        /// As for `Acquire`.
        session_id: &'a str,
    },
    /// Renews the caller's own lease. `nonce` is what the session derives from the stored lock id.
    Renew {
        /// Equal to the stored nonce, if the lease is the caller's.
        nonce: &'a str,
        /// Id of the session.
        session_id: &'a str,
    },
    /// Releases the caller's own lease.
    Release {
        /// Equal to the stored nonce, if the lease is the caller's.
        nonce: &'a str,
        /// Id of the session.
        session_id: &'a str,
    },
    /// Ends the lease of any holder.
    Break,
    /// Checks whether this is the current token.
    Check(u64),
}

/// Stored state of a lease.
#[derive(Debug, Clone, Copy)]
pub enum Stored<'a> {
    /// Not held.
    Free,
    /// Held, with the verdict on the lease.
    Held(&'a Record, Verdict),
    /// Unreadable, expired or not.
    Unreadable {
        /// Description of the defect.
        why: &'a str,
        /// True if it has been unreadable long enough that no writer can still be at work on it.
        over: bool,
    },
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A new lease is granted.
    Grant {
        /// The lease that it replaces.
        broken: Option<Broken>,
    },
    /// The lease is renewed.
    Renew,
    /// The lease ends.
    End(Cause),
    /// The token is current.
    Current,
    /// The request is refused, with `Missing` if there is nothing to renew or release.
    Deny(Denial),
}

/// Decides about a request.
pub fn ask(ask: Ask<'_>, stored: Stored<'_>, fresh_id: &LockId, now: Moment, me: &Identity) -> Answer {
    let hold = match stored {
        Stored::Held(record, _) => Some(record.hold()),
        Stored::Free | Stored::Unreadable { .. } => None,
    };
    let slot = match (stored, &hold) {
        (Stored::Held(..), Some(hold)) => Slot::Held(hold),
        // A writer may still be at work on it, until it has been unreadable for too long.
        (Stored::Unreadable { over: false, .. }, _) => Slot::BeingWritten,
        (Stored::Unreadable { why, .. }, _) => Slot::Corrupt(why),
        _ => Slot::Free,
    };
    let (liveness, elapsed) = match stored {
        Stored::Held(_, verdict) => (verdict.liveness, verdict.elapsed),
        _ => (Liveness::Unknown, Elapsed::NOTHING),
    };
    let facts = Facts { slot, liveness, elapsed, frozen: None, line: Line::default(), fresh_id, now };
    let asker = Identity { owner: ask.owner(me), ..me.clone() };
    answer(match ask {
        Ask::Acquire { .. } => decide(&Intent::Lock(Terms::default()), facts, &asker, &Policy::LEASES),
        Ask::Steal { .. } => decide(&Intent::TakeOver(Terms::default()), facts, &asker, &Policy::LEASES),
        // Only the caller's own lease, and only if it hasn't expired. The new end isn't decided
        // here: the record says how long the lease lasts.
        Ask::Renew { .. } => decide(&Intent::Extend { ttl_sec: 1, token: None }, facts, &asker, &Policy::LEASES),
        Ask::Release { .. } => release(facts, &asker),
        Ask::Break => decide(&Intent::Unlock(Breaking::Force, Condition::default()), facts, &asker, &Policy::LEASES),
        Ask::Check(token) => decide(&Intent::Check(token.into()), facts, &asker, &Policy::LEASES),
    })
}

impl Ask<'_> {
    /// Returns the owner that asks: a caller that has the secret of a lease is its owner.
    fn owner(self, me: &Identity) -> String {
        match self {
            Self::Acquire { nonce, session_id }
            | Self::Steal { nonce, session_id }
            | Self::Renew { nonce, session_id }
            | Self::Release { nonce, session_id } => owner_of(nonce, session_id),
            Self::Break | Self::Check(_) => me.owner.clone(),
        }
    }
}

/// Releases the caller's own lease, expired or not. A process-bound lease can't be ended without
/// its process, except by a caller that has its secret, as that process would end it.
fn release(facts: Facts<'_>, asker: &Identity) -> Decision {
    let unlock = Intent::Unlock(Breaking::No, Condition::default());
    let decision = decide(&unlock, facts, asker, &Policy::LEASES);
    match (&decision, process_grip(facts.slot)) {
        (Decision::Deny(Denial::Guarded(_)), Some(grip)) => {
            decide(&Intent::Release(grip), facts, asker, &Policy::LEASES)
        }
        _ => decision,
    }
}

fn process_grip(slot: Slot<'_>) -> Option<HoldKey> {
    let Slot::Held(hold) = slot else { return None };
    let grip = || HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse };
    hold.has(PartKind::Process).then(grip)
}

fn answer(decision: Decision) -> Answer {
    match decision {
        Decision::Commit { cause: Cause::Acquire, broken, .. } => Answer::Grant { broken },
        Decision::Commit { cause: Cause::Renew, .. } => Answer::Renew,
        Decision::Commit { cause, .. } => Answer::End(cause),
        Decision::Inside => Answer::Current,
        Decision::Deny(denial) => Answer::Deny(denial),
    }
}
