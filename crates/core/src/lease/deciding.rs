//! The one decision, asked about leases. What may be done is decided by [`crate::decide::decide`]; here it is only asked.

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

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask<'a> {
    /// The lease, if it is free or over. `nonce`, `session_id`: what the new lease would have.
    Acquire {
        /// New for each lease, so that nobody is taken for the holder.
        nonce: &'a str,
        /// The session.
        session_id: &'a str,
    },
    /// The lease, if it is over, but not a free one.
    Steal {
        /// As above.
        nonce: &'a str,
        /// As above.
        session_id: &'a str,
    },
    /// More time for one's own. `nonce` is what the session makes of the stored lock id.
    Renew {
        /// As stored, if it is ours.
        nonce: &'a str,
        /// The session.
        session_id: &'a str,
    },
    /// The end of one's own.
    Release {
        /// As stored, if it is ours.
        nonce: &'a str,
        /// The session.
        session_id: &'a str,
    },
    /// The end of whoever's.
    Break,
    /// Is this the token to act under?
    Check(u64),
}

/// What is stored.
#[derive(Debug, Clone, Copy)]
pub enum Stored<'a> {
    /// Nobody's.
    Free,
    /// Somebody's, and how it stands.
    Held(&'a Record, Verdict),
    /// Something that can't be read; over or not.
    Unreadable {
        /// What is wrong.
        why: &'a str,
        /// It has been like that for so long that nobody can be behind it.
        over: bool,
    },
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A new lease.
    Grant {
        /// What it takes the place of.
        broken: Option<Broken>,
    },
    /// The lease goes on.
    Renew,
    /// It ends.
    End(Cause),
    /// The token is current.
    Current,
    /// No. `Missing` where there is nothing to renew or release.
    Deny(Denial),
}

/// Decides.
pub fn ask(ask: Ask<'_>, stored: Stored<'_>, fresh_id: &LockId, now: Moment, me: &Identity) -> Answer {
    let hold = match stored {
        Stored::Held(record, _) => Some(record.hold()),
        Stored::Free | Stored::Unreadable { .. } => None,
    };
    let slot = match (stored, &hold) {
        (Stored::Held(..), Some(hold)) => Slot::Held(hold),
        // Whoever writes there may still be at it, until it has been for so long that nobody can be.
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
        // One's own, and not over. Until when isn't decided here: the record says how long it lasts.
        Ask::Renew { .. } => decide(&Intent::Extend { ttl_sec: 1, token: None }, facts, &asker, &Policy::LEASES),
        Ask::Release { .. } => release(facts, &asker),
        Ask::Break => decide(&Intent::Unlock(Breaking::Force, Condition::default()), facts, &asker, &Policy::LEASES),
        Ask::Check(token) => decide(&Intent::Check(token.into()), facts, &asker, &Policy::LEASES),
    })
}

impl Ask<'_> {
    /// Who asks: whoever has the secret of a lease is its owner.
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

/// One's own, over or not. A process's can't be ended over its head, except by who has its secret, as that process would.
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
