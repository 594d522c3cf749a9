//! Requests to a ledger and its answers.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::checkup::Finding;
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::Hold;
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::{Oddity, Seq, Style};
use lokt_core::ledger::stored::Damage;
use lokt_core::time::Moment;

/// The properties that a new ledger is asked to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InitOptions {
    /// Its style; `None`: as found, else documented.
    pub style: Option<Style>,
    /// Every event carries the chain.
    pub chain: bool,
}

/// A ledger's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The names of files and of claims' members.
    pub style: Style,
    /// Every event of ours carries the chain.
    pub chain: bool,
}

/// Limits on waiting for other programs' locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockPatience {
    /// Maximum wait; then the error `timeout waiting for lock`.
    pub timeout: Duration,
    /// Interval between checks.
    pub poll: Duration,
}

impl Default for LockPatience {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), poll: Duration::from_millis(10) }
    }
}

/// Conditions under which to append.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppendTerms<'a> {
    /// Only if the ledger's head is this.
    pub expect: Option<u64>,
    /// Only once under this key.
    pub id: Option<&'a str>,
    /// Only while this is a claim's token.
    pub token: Option<Seq>,
    /// Adds the chain even if the ledger's setting says no.
    pub chain: bool,
    /// Checks everything, but writes nothing.
    pub dry_run: bool,
}

/// The outcome of an append.
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
    /// Their count. Less than the distance of the two numbers if a program that ignores the lock
    /// wrote in between.
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
        /// The expected head.
        expected: u64,
        /// The actual head.
        head: u64,
    },
    /// The token is stale.
    Fence {
        /// The token.
        token: Seq,
        /// The reason.
        denial: Denial,
    },
}

/// The names in a ledger's directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// The highest number; 0 of an empty ledger.
    pub head: u64,
    /// The number of events.
    pub events: u64,
    /// Missing numbers, as ranges from lowest to highest, the first few of them.
    pub gaps: Vec<(u64, u64)>,
    /// Files that look like events and are none, the first few of them.
    pub strays: Vec<(String, Oddity)>,
    /// The number of strays.
    pub strays_count: u64,
}

/// The content under a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// An event.
    Event(Vec<u8>),
    /// Nothing.
    Missing,
    /// Something that is no event.
    Damaged(Damage),
    /// Only from `follow`: what was shown under this number and above isn't there any more, because
    /// an earlier state of the ledger was restored.
    Rewound {
        /// The highest number now.
        head: u64,
    },
}

/// The result of a verification.
#[derive(Debug)]
pub struct Verification {
    /// The number of events that were read.
    pub events: u64,
    /// The number of events that carry the chain.
    pub chained: u64,
    /// The head and its digest.
    pub checkpoint: Checkpoint,
    /// The problems that were found.
    pub problems: Vec<Finding>,
}

/// Terms of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClaimTerms {
    /// Duration in seconds; `None`: as `meta.json` says, else five minutes.
    pub ttl_sec: Option<u64>,
    /// Treats a live claim of the same owner as another process's: it isn't extended, but stands in
    /// the way.
    pub only_new: bool,
    /// Judges claims even though the ledger has gaps or damaged events, which may be claims.
    pub force: bool,
    /// Checks everything, but writes nothing.
    pub dry_run: bool,
}

/// The outcome of asking for a claim.
#[derive(Debug)]
pub enum Claiming {
    /// The caller holds the claim.
    Claimed(Claimed),
    /// The claim was refused; of several nodes, the first one's reason.
    Denied {
        /// The node.
        node: String,
        /// The reason.
        refused: Refused,
    },
    /// The wait was interrupted.
    Interrupted,
}

/// A claim that was made or extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The node.
    pub node: String,
    /// The owner.
    pub owner: String,
    /// The number of the event that made or extended it.
    pub seq: Seq,
    /// The claim's token: the number of its first event.
    pub token: Seq,
    /// Its duration in seconds.
    pub ttl_sec: u64,
    /// The start of that duration.
    pub at: Moment,
    /// The end of that duration.
    pub expires_at: Timestamp,
    /// The way it was obtained.
    pub how: How,
    /// The claim before the extension.
    pub before: Option<Box<Hold>>,
}

/// The way a claim was obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// The node was free.
    New,
    /// The owner held it already, and it was extended.
    Refreshed,
    /// An expired claim of another owner was replaced.
    TookOver {
        /// The other owner.
        from: String,
    },
}

/// The outcome of a release.
#[derive(Debug)]
pub enum Releasing {
    /// The claim has ended.
    Released {
        /// The number of the event that ended it.
        seq: Seq,
        /// The claim's token.
        token: Seq,
    },
    /// The claim was not ended.
    Denied(Refused),
}

/// Expired claims that were ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reaped {
    /// Node, owner and token of each.
    pub claims: Vec<(String, String, Option<Seq>)>,
    /// The number of the last event that ended one; `None` if there was nothing to end, or for a
    /// dry run.
    pub seq: Option<Seq>,
}

/// A claim in the list.
#[derive(Debug)]
pub struct ClaimEntry {
    /// The node.
    pub node: String,
    /// The holder.
    pub holder: Holder,
    /// The file that makes the claim, if no event does (`locks/*.lock`).
    pub lock_file: Option<PathBuf>,
}

/// Progress callback: how much is done, and of how much.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;
