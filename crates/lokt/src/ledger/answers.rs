//! What is asked of a ledger, and what it answers.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::Hold;
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::{Oddity, Seq, Style};
use lokt_core::ledger::stored::Damage;
use lokt_core::time::Moment;

/// What a new ledger is asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Founding {
    /// Its style; `None`: as found, else documented.
    pub style: Option<Style>,
    /// Every event carries the chain.
    pub chain: bool,
}

/// A ledger's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How files and claims are called.
    pub style: Style,
    /// Every event of ours carries the chain.
    pub chain: bool,
}

/// How long to wait for other programs' locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockPatience {
    /// Then `timeout waiting for lock`.
    pub timeout: Duration,
    /// How often to look.
    pub poll: Duration,
}

impl Default for LockPatience {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), poll: Duration::from_millis(10) }
    }
}

/// Under which conditions to append.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppendTerms<'a> {
    /// Only if the ledger's head is this.
    pub expect: Option<u64>,
    /// Only once under this key.
    pub id: Option<&'a str>,
    /// Only while this is a claim's token.
    pub token: Option<Seq>,
    /// With the chain, whatever the ledger's setting.
    pub chain: bool,
    /// Find out, but write nothing.
    pub dry_run: bool,
}

/// What came of an append.
#[derive(Debug)]
pub enum Appending {
    /// Durable.
    Appended(Appended),
    /// Not written.
    Denied(Unmet),
}

/// Events that were appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The first one's number.
    pub first: Seq,
    /// The last one's.
    pub last: Seq,
    /// How many there are. Fewer than the numbers from the first to the last where a program that ignores the lock came in between.
    pub count: u64,
    /// Nothing was written: the key was used before, for this number.
    pub duplicate: bool,
    /// The number that was filled for a writer whose lock was taken over.
    pub filler: Option<Seq>,
}

/// A condition that wasn't met.
#[derive(Debug)]
pub enum Unmet {
    /// The ledger's last event is another one than expected.
    Sequence {
        /// What was expected.
        expected: u64,
        /// The head.
        head: u64,
    },
    /// The token isn't good any more.
    Fence {
        /// The token.
        token: Seq,
        /// Why.
        denial: Denial,
    },
}

/// What a listing of the ledger says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// The highest number; 0 of an empty ledger.
    pub head: u64,
    /// How many events there are.
    pub events: u64,
    /// Missing numbers, as ranges from lowest to highest, the first few of them.
    pub gaps: Vec<(u64, u64)>,
    /// Files that look like events and are none, the first few of them.
    pub strays: Vec<(String, Oddity)>,
    /// How many strays there are.
    pub strays_count: u64,
}

/// What is under a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// An event.
    Event(Vec<u8>),
    /// Nothing.
    Missing,
    /// Something that is no event.
    Damaged(Damage),
    /// Only for those who follow: what was shown under this number and above isn't there any more. Somebody put back an earlier state.
    Rewound {
        /// The highest number now.
        head: u64,
    },
}

/// What a verification found.
#[derive(Debug)]
pub struct Verification {
    /// How many events were read.
    pub events: u64,
    /// How many of them carry the chain.
    pub chained: u64,
    /// The head and its digest.
    pub checkpoint: Checkpoint,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Something that is wrong with a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which check found it: a word with hyphens.
    pub code: &'static str,
    /// At which number, if at one.
    pub seq: Option<u64>,
    /// Which file, if one.
    pub path: Option<PathBuf>,
    /// What, in a sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What `--fix` did, or would do, about it.
    pub fix: Fix,
}

/// What can be done about a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// Nothing that is safe.
    No,
    /// It could be, so.
    Possible(String),
    /// It was, so.
    Done(String),
    /// It was tried.
    Failed(String),
}

/// How a claim is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClaimTerms {
    /// For how many seconds; `None`: as `meta.json` says, else five minutes.
    pub ttl_sec: Option<u64>,
    /// A live claim of the same owner is another process's: it isn't refreshed, but stands in the way.
    pub only_new: bool,
    /// Although the ledger has gaps or damaged events, which may be claims.
    pub force: bool,
    /// Find out, but write nothing.
    pub dry_run: bool,
}

/// What came of asking for a claim.
#[derive(Debug)]
pub enum Claiming {
    /// It is ours.
    Claimed(Claimed),
    /// It isn't; of several nodes, why the first isn't.
    Denied {
        /// Which node.
        node: String,
        /// Why.
        refused: Refused,
    },
    /// It isn't: the wait was interrupted.
    Interrupted,
}

/// A claim that was made or goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The node.
    pub node: String,
    /// Whose.
    pub owner: String,
    /// The number of the event that says so.
    pub seq: Seq,
    /// The claim's token: the number of its first event.
    pub token: Seq,
    /// Its lease.
    pub ttl_sec: u64,
    /// From when on it lasts that long.
    pub at: Moment,
    /// Until when.
    pub expires_at: Timestamp,
    /// How it came about.
    pub how: How,
    /// Of one that goes on: as it was before.
    pub before: Option<Box<Hold>>,
}

/// How a claim came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// The node was free.
    New,
    /// It was ours already, and got a new end.
    Refreshed,
    /// Somebody's claim had expired.
    TookOver {
        /// Whose.
        from: String,
    },
}

/// What came of ending a claim.
#[derive(Debug)]
pub enum Releasing {
    /// It is over.
    Released {
        /// The number of the event that says so.
        seq: Seq,
        /// The claim's token.
        token: Seq,
    },
    /// It isn't.
    Denied(Refused),
}

/// Expired claims that were ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reaped {
    /// Node, owner and token of each.
    pub claims: Vec<(String, String, Option<Seq>)>,
    /// The number of the last event that says so; `None` if there was nothing to end, or for a dry run.
    pub seq: Option<Seq>,
}

/// A claim in the list.
#[derive(Debug)]
pub struct ClaimEntry {
    /// The node.
    pub node: String,
    /// Who has it.
    pub holder: Holder,
    /// The file that says so, if no event does (`locks/*.lock`).
    pub lock_file: Option<PathBuf>,
}

/// Is told how long work goes on: what is done, and of how many.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;
