//! The one decision: from what is stored and what is requested to what is stored next.
//!
//! [`decide`] is pure. The shell gathers [`Facts`], calls it, and stores the result only if nobody
//! was faster; otherwise it starts over. No code above or below it decides an outcome. A [`Cause`]
//! is also the audit event; `why`, the JSON and the exit code are derived from a [`Denial`].

mod end;
mod fence;
mod freeze;
mod take;

use alloc::boxed::Box;
use alloc::string::String;

use crate::denial::{Denial, Holder, Staleness, part_lives};
use crate::hold::{Fence, Hold, Identity, LockId, PartKind, PulseRef};
use crate::liveness::Liveness;
use crate::pulse::ProcessRef;
use crate::time::{Elapsed, Moment};

/// The content that is stored under a name.
#[derive(Debug, Clone, Copy)]
pub enum Slot<'a> {
    /// Nothing.
    Free,
    /// A hold, live or not.
    Held(&'a Hold),
    /// A regular file that was read in full and is not a valid record; the text says why.
    Corrupt(&'a str),
    /// An empty file so recent that another process may be writing it.
    BeingWritten,
    /// A record of a later version.
    Newer(i64),
}

/// A freeze over a name.
#[derive(Debug, Clone, Copy)]
pub enum Freeze<'a> {
    /// A freeze that was read and hasn't ended.
    Known(&'a Holder),
    /// An unreadable freeze: it still counts.
    Unreadable,
}

/// The queue, as far as a decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Line {
    /// Waiters ahead of the caller that are neither dead nor skipped.
    pub ahead: usize,
}

/// The facts that the shell gathered before the decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The stored content.
    pub slot: Slot<'a>,
    /// The liveness of the stored hold's process.
    pub liveness: Liveness,
    /// The state of its leases.
    pub elapsed: Elapsed,
    /// A freeze over this name.
    pub frozen: Option<Freeze<'a>>,
    /// The waiters ahead.
    pub line: Line,
    /// The identity that a new hold would get.
    pub fresh_id: &'a LockId,
    /// The current time.
    pub now: Moment,
}

/// The requested terms of a new or refreshed part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// Its lease in whole seconds; with `None` or 0 it never expires.
    pub ttl_sec: Option<u64>,
    /// The reason, in the caller's words.
    pub reason: Option<String>,
}

/// Proof that the caller is the process of a certain hold: every field must match what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldKey {
    /// The identity of the hold.
    pub lock_id: LockId,
    /// Its token.
    pub token: Option<Fence>,
    /// The process part's pulse. Lock id and token stay the same when another guard of the same
    /// owner replaces one whose lease has expired; the pulse doesn't.
    pub pulse: Option<PulseRef>,
}

/// The process of a hold: a guard with its pulse, or the process of `lock --bind`, which has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessHolder {
    /// The process that must live.
    pub process: ProcessRef,
    /// True for a guard, whose pulse the store fills in; a bound process has none.
    pub has_pulse: bool,
    /// The hold of this name inside which the caller claims to run.
    pub inside: Option<InheritedHold>,
}

/// The hold under which a guarded command runs, as far as the command knows it. Lock id and token
/// must be the stored ones: the owner part of a hold can keep its lock id alive long after the
/// guard was superseded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedHold {
    /// The identity of the hold.
    pub lock_id: LockId,
    /// Its token.
    pub token: Option<Fence>,
    /// The number of its guard's pulse. An owner part keeps lock id and token when one guard has
    /// ended and the next one joins.
    pub pulse: Option<u64>,
}

/// The mode of an unlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaking {
    /// Only the caller's own hold.
    No,
    /// Only if every part has ended.
    Stale,
    /// Whatever is stored.
    Force,
}

/// The hold that a conditional unlock is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// The required lock id.
    pub lock_id: Option<LockId>,
    /// The required token.
    pub token: Option<u64>,
}

/// A token under which the caller wants to act. Every root counts from 1, so the number alone
/// doesn't distinguish a hold from one of another root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// The number.
    pub token: u64,
    /// The hold for which it was issued, if that is known: then the stored hold must be this one.
    pub lock_id: Option<LockId>,
}

impl From<u64> for Presented {
    fn from(token: u64) -> Self {
        Self { token, lock_id: None }
    }
}

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// `lokt lock`: an owner part.
    Lock(Terms),
    /// `lokt lease steal`: an owner part that replaces an ended hold of any owner. A free name
    /// isn't taken over.
    TakeOver(Terms),
    /// `lokt guard`, `lokt lock --bind`: a process part.
    Guard(Terms, ProcessHolder),
    /// A guard's renewal.
    Renew(HoldKey),
    /// A guard's release.
    Release(HoldKey),
    /// `lokt claim extend`: the caller's own live hold gets a new end, counted from now.
    Extend {
        /// Its new lease in whole seconds.
        ttl_sec: u64,
        /// The required token, if any.
        token: Option<u64>,
    },
    /// `lokt unlock`.
    Unlock(Breaking, Condition),
    /// `lokt unlock --owner O`: ends O's hold. The caller's authority has already been checked.
    UnlockFor(String),
    /// `lokt status --prune-expired`.
    Prune,
    /// `lokt freeze`: the slot is that of the freeze.
    Freeze(Terms),
    /// `lokt unfreeze`: the slot is that of the freeze.
    Unfreeze {
        /// Even if it belongs to another owner or is unreadable.
        force: bool,
    },
    /// `lokt fence check`, `lokt publish`: whether this token is still valid.
    Check(Presented),
}

/// The cause of a change; also the audit event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A new hold.
    Acquire,
    /// A hold was refreshed, renewed or got a second part.
    Renew,
    /// A part was released as its owner wished.
    Release(PartKind),
    /// Removed by `--force`.
    ForceBreak,
    /// Removed by `--break-stale`.
    StaleBreak,
    /// An invalid record was removed.
    CorruptBreak,
    /// An expired hold was pruned.
    Prune,
    /// A name was frozen, or its freeze got a new end.
    Freeze,
    /// A freeze ended as its owner wished.
    Unfreeze,
    /// A freeze was removed by `--force`.
    ForceUnfreeze,
}

/// The obstacle that had to be broken before a new hold could be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A hold that no longer counted.
    Stale(Staleness),
    /// An invalid record.
    Corrupt,
}

/// The token of a hold that is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The hold keeps the token that it has; a freeze has none.
    Keep,
    /// The hold gets a new token. It has none until the store fills it in.
    Draw,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Store this (`None`: store nothing), if what is stored is still what the decision was based
    /// on.
    Commit {
        /// The hold to store. The store fills in its name, a drawn token and the pulse of a guard.
        next: Option<Box<Hold>>,
        /// The token of that hold.
        token: Token,
        /// The cause of the change.
        cause: Cause,
        /// The obstacle that it breaks first.
        broken: Option<Broken>,
    },
    /// The caller is already inside this hold, or acts under its token: continue, and change
    /// nothing.
    Inside,
    /// The request is refused.
    Deny(Denial),
}

impl Decision {
    /// Fills in `drawn` as the token of the hold to store, if that gets a new one.
    #[must_use]
    pub fn with_token(mut self, drawn: Fence) -> Self {
        if let Self::Commit { next: Some(next), token: Token::Draw, .. } = &mut self {
            next.token = Some(drawn);
        }
        self
    }

    /// Fills in the pulse of the guard that asked.
    #[must_use]
    pub fn with_pulse(mut self, pulse: PulseRef) -> Self {
        if let Self::Commit { next: Some(next), .. } = &mut self {
            next.pulse = Some(pulse);
        }
        self
    }
}

/// The effect of `lock` on a hold of the same owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// While that hold lives, `lock` is refused as for any owner; once it has ended, `lock` gets a
    /// new one.
    Never,
    /// A live hold gets a new end.
    Refreshes,
    /// Like `Refreshes`, and a stale hold lives again under the same lock id.
    Revives,
}

/// The policy of a protocol: named locks here; claims and worktree leases have their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The effect of `lock` on a hold of the same owner.
    pub again: Again,
    /// True if stored records survive a power cut and removed ones stay removed. Then a hold of
    /// another boot keeps its token: nobody can have superseded it unseen.
    pub durable: bool,
    /// True if an owner may still unlock its own hold after it has ended. It may not where a holder
    /// must learn that its work came too late.
    pub ends_late: bool,
}

impl Policy {
    /// Named locks.
    pub const NAMED: Self = Self { again: Again::Revives, durable: false, ends_late: true };
    /// Claims on the tasks of a ledger, whose events are synced before any process learns of them
    /// and are never removed.
    pub const CLAIMS: Self = Self { again: Again::Refreshes, durable: true, ends_late: false };
    /// Worktree leases, whose chain is synced before any process learns of it and is never undone.
    pub const LEASES: Self = Self { again: Again::Never, durable: true, ends_late: true };
}

/// Decides, according to the table in `docs/protocol.md`.
pub fn decide(intent: &Intent, facts: Facts<'_>, me: &Identity, policy: &Policy) -> Decision {
    match intent {
        Intent::Lock(terms) => take::lock(terms, facts, me, *policy),
        Intent::TakeOver(terms) => take::take_over(terms, facts, me, *policy),
        Intent::Guard(terms, bearer) => take::guard(terms, bearer, facts, me, *policy),
        Intent::Renew(grip) => end::renew(grip, facts, me),
        Intent::Release(grip) => end::release(grip, facts),
        Intent::Extend { ttl_sec, token } => end::extend(*ttl_sec, *token, facts, me, *policy),
        Intent::Unlock(breaking, condition) => end::unlock(*breaking, condition, facts, me, *policy),
        Intent::UnlockFor(owner) => end::unlock_for(owner, facts, me),
        Intent::Prune => end::prune(facts),
        Intent::Freeze(terms) => freeze::freeze(terms, facts, me),
        Intent::Unfreeze { force } => freeze::unfreeze(*force, facts, me),
        Intent::Check(presented) => fence::check(presented, facts),
    }
}

impl Facts<'_> {
    /// The stored hold with what is known about it.
    fn holder(&self, hold: &Hold) -> Holder {
        Holder { hold: hold.clone(), liveness: self.liveness, elapsed: self.elapsed }
    }

    /// Reports whether the stored hold's process, or its command, is seen to run.
    fn is_seen_to_run(&self) -> bool {
        matches!(self.liveness, Liveness::Alive | Liveness::Orphan)
    }

    fn lives(&self, kind: PartKind) -> bool {
        part_lives(kind, self.liveness, self.elapsed)
    }
}

/// Stores `next` with the token that it has.
fn commit(next: Option<Hold>, cause: Cause) -> Decision {
    Decision::Commit { next: next.map(Box::new), token: Token::Keep, cause, broken: None }
}

fn held(facts: &Facts<'_>, hold: &Hold) -> Decision {
    Decision::Deny(Denial::Held(Box::new(facts.holder(hold))))
}
