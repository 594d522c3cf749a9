//! The one decision: what is stored, what is asked, what it should become.
//!
//! [`decide`] is pure. The shell gathers [`Facts`], asks, and swaps the answer in only if nobody was faster; otherwise it starts over.
//! Nothing above it invents an outcome and nothing below it makes one. A [`Cause`] is also the audit event; a [`Denial`] is also what
//! `why`, the JSON and the exit code are made of.

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

/// What is stored under a name.
#[derive(Debug, Clone, Copy)]
pub enum Slot<'a> {
    /// Nothing.
    Free,
    /// A hold, live or not.
    Held(&'a Hold),
    /// A regular file that was read in full and is no record; the text says why.
    Corrupt(&'a str),
    /// An empty file so young that somebody else may be writing it.
    BeingWritten,
    /// A record of a later version.
    Newer(i64),
}

/// A freeze over a name.
#[derive(Debug, Clone, Copy)]
pub enum Freeze<'a> {
    /// One that was read and hasn't ended.
    Known(&'a Holder),
    /// One that can't be read: it counts.
    Unreadable,
}

/// Who else is in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Line {
    /// Waiters before the caller that are neither dead nor passed over.
    pub ahead: usize,
}

/// What the shell learnt before it asked.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What is stored.
    pub slot: Slot<'a>,
    /// What is known about the stored hold's process.
    pub liveness: Liveness,
    /// How its leases stand.
    pub elapsed: Elapsed,
    /// A freeze over this name.
    pub frozen: Option<Freeze<'a>>,
    /// Who is ahead.
    pub line: Line,
    /// The identity that a new hold would get.
    pub fresh_id: &'a LockId,
    /// Now.
    pub now: Moment,
}

/// What a new or refreshed part is asked to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// Its lease in whole seconds; `None` and 0 have no end.
    pub ttl_sec: Option<u64>,
    /// Why, in the caller's words.
    pub reason: Option<String>,
}

/// Proof of being the process of a certain hold: all of it must match what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldKey {
    /// The hold.
    pub lock_id: LockId,
    /// Its token.
    pub token: Option<Fence>,
    /// The process part's pulse. Lock id and token stay when another guard of the same owner takes the place of one whose lease
    /// is over; the pulse doesn't.
    pub pulse: Option<PulseRef>,
}

/// A process that holds: a guard with its pulse, or the process of `lock --bind`, which has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessHolder {
    /// The process that must live.
    pub process: ProcessRef,
    /// A guard has a pulse, which the store fills in; a bound process has none.
    pub has_pulse: bool,
    /// The hold of this name that the caller says it runs inside of.
    pub inside: Option<InheritedHold>,
}

/// What a guarded command knows of the hold that it runs under. Lock id and token must be the stored ones: the owner part of a hold can
/// keep its lock id alive when the guard has long been overtaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedHold {
    /// The hold.
    pub lock_id: LockId,
    /// Its token.
    pub token: Option<Fence>,
    /// The number of its guard's pulse. An owner part keeps lock id and token when one guard has ended and the next one joins.
    pub pulse: Option<u64>,
}

/// How an unlock is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaking {
    /// One's own only.
    No,
    /// Only if every part is over.
    Stale,
    /// Whatever it is.
    Force,
}

/// The hold that a conditional unlock is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// Its lock id must be this.
    pub lock_id: Option<LockId>,
    /// Its token must be this.
    pub token: Option<u64>,
}

/// A token that the caller wants to act under. Every root counts from 1, so the number alone doesn't
/// tell a hold from one of another root.
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

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// `lokt lock`: an owner part.
    Lock(Terms),
    /// `lokt lease steal`: an owner part in place of a hold that is over, whoever's it was. What is free isn't taken over.
    TakeOver(Terms),
    /// `lokt guard`, `lokt lock --bind`: a process part.
    Guard(Terms, ProcessHolder),
    /// A guard's renewal.
    Renew(HoldKey),
    /// A guard's end.
    Release(HoldKey),
    /// `lokt claim extend`: one's own live hold gets a new end, counted from now.
    Extend {
        /// Its new lease in whole seconds.
        ttl_sec: u64,
        /// Only if its token is this.
        token: Option<u64>,
    },
    /// `lokt unlock`.
    Unlock(Breaking, Condition),
    /// `lokt unlock --owner O`: ends O's hold, with the caller's authority already checked.
    UnlockFor(String),
    /// `lokt status --prune-expired`.
    Prune,
    /// `lokt freeze`: the slot is that of the freeze.
    Freeze(Terms),
    /// `lokt unfreeze`: the slot is that of the freeze.
    Unfreeze {
        /// Whosever it is, and whatever.
        force: bool,
    },
    /// `lokt fence check`, `lokt publish`: is this token still the one to act under?
    Check(Presented),
}

/// What happened; also the audit event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A new hold.
    Acquire,
    /// A hold was refreshed, renewed or got a second part.
    Renew,
    /// A part ended as its owner wished.
    Release(PartKind),
    /// Removed by `--force`.
    ForceBreak,
    /// Removed by `--break-stale`.
    StaleBreak,
    /// Something that was no record was removed.
    CorruptBreak,
    /// An expired hold was tidied away.
    Prune,
    /// A name was frozen, or its freeze got a new end.
    Freeze,
    /// A freeze ended as its owner wished.
    Unfreeze,
    /// A freeze was removed by `--force`.
    ForceUnfreeze,
}

/// What had to be broken before a new hold could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A hold that no longer counted.
    Stale(Staleness),
    /// Something that was no record.
    Corrupt,
}

/// The token of a hold that is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The hold keeps what it has; a freeze has none.
    Keep,
    /// The hold gets a new token. It has none until the store fills it in.
    Draw,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Store this (`None`: store nothing), if what is stored is still what was judged.
    Commit {
        /// The hold to store. Its name, a drawn token and the pulse of a guard are for the store to fill in.
        next: Option<Box<Hold>>,
        /// Which token it gets.
        token: Token,
        /// What that means.
        cause: Cause,
        /// What it breaks first.
        broken: Option<Broken>,
    },
    /// The caller is inside this hold already, or acts under its token: go on, change nothing.
    Inside,
    /// No.
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

/// What the same owner's `lock` does about a hold of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It is refused like anybody's while that hold lives, and gets a new one when it is over.
    Never,
    /// A live one gets a new end.
    Refreshes,
    /// So it does, and a stale one lives again under the same lock id.
    Revives,
}

/// Policy of a protocol: named locks here; claims and worktree leases bring their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What the same owner's `lock` does about a hold of its own.
    pub again: Again,
    /// Does what was stored survive a power cut, and what was ended stay ended? Then a hold of another boot keeps its token: nobody can
    /// have overtaken it unseen.
    pub durable: bool,
    /// May an owner end a hold of its own that is over? Where somebody must be told that its work came too late, it may not.
    pub ends_late: bool,
}

impl Policy {
    /// Named locks.
    pub const NAMED: Self = Self { again: Again::Revives, durable: false, ends_late: true };
    /// Claims on the nodes of a ledger, whose events are synced before anybody hears of them and are never removed.
    pub const CLAIMS: Self = Self { again: Again::Refreshes, durable: true, ends_late: false };
    /// Worktree leases, whose chain is synced before anybody hears of it and is never taken back.
    pub const LEASES: Self = Self { again: Again::Never, durable: true, ends_late: true };
}

/// Decides. See the table in `docs/protocol.md`, which this is.
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

    /// Is the stored hold's process, or its command, seen to run?
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
