//! Who is doing what.

use super::disk::{Disk, Event, Fold, Form, Inode, Owner};
use super::foreign::Foreign;
use super::truth::{Offence, Truth};

/// What one of ours appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draft {
    /// An event without a condition.
    Plain,
    /// A claim of the one node, if nobody has it. It stands for every append with a condition: a fenced one, a
    /// compare-and-swap.
    Claim,
}

/// What one of ours does next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Waits for the mutex.
    Waiting,
    /// Puts its lock there, or looks at the one that is.
    Locking,
    /// Looks a second time at a foreign lock that is old.
    Looking(Owner),
    /// Notes that from now on somebody may come back whose lock was taken over.
    Bewaring(Owner),
    /// Exchanges the lock that it judged with its own.
    Exchanging(Swap),
    /// Looks at what it displaced.
    Inspecting(Swap),
    /// Deletes what the owner of the displaced lock had prepared.
    Cleaning(Swap),
    /// Looks for the head.
    CatchingUp {
        /// Has it to publish a filler?
        owes: bool,
        /// Without the hint, since a number that it said was free was not.
        listing: bool,
    },
    /// Publishes a filler after that number.
    Filling(u8),
    /// Folds, and decides whether it may append after that number.
    Validating {
        /// The head.
        head: u8,
        /// Has it to publish a filler yet? Only where that comes after.
        owes: bool,
    },
    /// Has been refused, and publishes a second filler that names the first.
    Closing(u8, Fold),
    /// Publishes after that number.
    Publishing(u8, Fold),
    /// Removes its lock.
    Releasing(Outcome),
    /// Writes its notes and leaves the mutex.
    Noting(Outcome),
    /// Looks whether its event is still there, and answers.
    Confirming(u8),
    /// Keeps a hard link after it has answered: only where that comes last.
    Keeping(u8),
}

impl Phase {
    /// What comes next, in words.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "takes the mutex",
            Self::Locking => "makes its lock or looks at the one that is there",
            Self::Looking(_) => "looks a second time at the lock",
            Self::Bewaring(_) => "notes that somebody may come back",
            Self::Exchanging(_) => "exchanges the lock with its own",
            Self::Inspecting(_) => "looks at what it displaced",
            Self::Cleaning(_) => "deletes temporary files",
            Self::CatchingUp { .. } => "looks for the head",
            Self::Filling(_) => "publishes a filler",
            Self::Validating { .. } => "reads the claims and decides",
            Self::Closing(..) => "publishes a second filler",
            Self::Publishing(..) => "publishes its event",
            Self::Releasing(_) => "removes its lock",
            Self::Noting(_) => "writes its notes and leaves the mutex",
            Self::Confirming(_) => "looks at its event and answers",
            Self::Keeping(_) => "keeps a hard link",
        }
    }
}

/// A lock of ours that goes in another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Swap {
    /// Whose place.
    pub judged: Owner,
    /// What ours is made of.
    pub form: Form,
    /// Which foreign lock ours says to have taken over.
    pub took_over: Option<Owner>,
}

/// What came of it, inside the lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome {
    /// Its event's number; `None` if it was refused.
    pub wrote: Option<u8>,
    /// The claims as it knows them.
    pub fold: Fold,
}

/// An append of ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// Which one, in the order in which they began.
    pub op: u8,
    /// For the how manyth time it is tried.
    pub attempt: u8,
    /// What it appends.
    pub draft: Draft,
    /// What it has read before it should, where it does that.
    pub early: Option<Fold>,
    /// Did it find the note, when it got the mutex, that somebody may come back?
    pub is_wary: bool,
    /// What it does next.
    pub phase: Phase,
}

impl Writer {
    /// Its event's file.
    pub(super) fn inode(&self) -> Inode {
        Inode::Ours(self.op, self.attempt)
    }

    /// Does it have the kernel's mutex?
    pub fn has_mutex(&self) -> bool {
        !matches!(self.phase, Phase::Waiting | Phase::Confirming(_) | Phase::Keeping(_))
    }

    /// Does it have the lock, or act as if it had?
    pub fn is_inside(&self) -> bool {
        let outside = matches!(
            self.phase,
            Phase::Locking | Phase::Looking(_) | Phase::Bewaring(_) | Phase::Exchanging(_) | Phase::Noting(_)
        );
        self.has_mutex() && !outside
    }
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The files.
    pub disk: Disk,
    /// Appends of ours that are under way, in the order in which they began.
    pub writers: Vec<Writer>,
    /// Foreign writers.
    pub foreign: Vec<Foreign>,
    /// Appends of ours that have begun.
    pub ops: u8,
    /// How often the ledger was shortened.
    pub shortened: u8,
    /// What is true.
    pub truth: Truth,
}

impl State {
    /// A ledger without events, or with a claim, and foreign writers that have not come yet.
    pub(super) fn new(foreign: Vec<Foreign>, is_claimed: bool) -> Self {
        let claim = Event { inode: Inode::First, claims: true, names_filler: false, chain: 0 };
        let disk = Disk { slots: is_claimed.then_some(Some(claim)).into_iter().collect(), ..Disk::default() };
        Self { disk, writers: Vec::new(), foreign, ops: 0, shortened: 0, truth: Truth::default() }
    }

    /// Can somebody take the mutex?
    pub fn is_mutex_free(&self) -> bool {
        !self.writers.iter().any(Writer::has_mutex)
    }

    /// Where an append of ours is, if it goes on.
    pub fn writer(&self, op: u8) -> Option<&Writer> {
        self.writers.iter().find(|writer| writer.op == op)
    }

    /// A foreign program, or a person, removes the lock.
    pub(super) fn delete_lock(&mut self) {
        let lock = self.disk.lock.take();
        let is_ours = lock.is_some_and(|lock| matches!(lock.owner, Owner::Ours(op) if self.writer(op).is_some()));
        self.truth.note(Offence::Freed, is_ours);
    }

    /// The last event is taken away: nobody promised to keep that.
    pub(super) fn shorten(&mut self) {
        self.disk.slots.pop();
        self.shortened += 1;
        let head = self.disk.head();
        self.truth.acknowledged.retain(|(number, _)| *number <= head);
    }
}
