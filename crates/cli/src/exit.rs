//! Exit codes: an interface that scripts depend on. `docs/exit-codes.md` has the same table; a test compares them.

use lokt_core::denial::{Denial, Staleness};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::signals::SignalQueue;
use lokt_worktree::lease::LeaseRefusal;

/// What a shell adds to the signal that a process died of.
const SIGNAL_BASE: u8 = 128;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0
    Done,
    /// 1
    Failed,
    /// 2
    Held,
    /// 3
    Missing,
    /// 4
    NotYours,
    /// 5
    Expired,
    /// 6
    StaleToken,
    /// 7
    Skewed,
    /// 8
    Moving,
    /// 9
    Partial,
    /// 10
    Broken,
    /// 11
    Untrusted,
    /// 64
    Usage,
    /// 65
    Damaged,
    /// 69
    Unusable,
    /// 75
    TryAgain,
    /// 79
    Lost,
    /// 126
    NotExecutable,
    /// 127
    NoCommand,
    /// 128 and the signal that ended it. The process dies of that signal, so that a shell ends its loop too.
    Signal(u8),
    /// What a guarded command ended with, or a code that the user chose.
    Other(u8),
}

impl Exit {
    /// Every code that this program uses, with its meaning.
    pub(crate) const ALL: [(Self, &str); 19] = [
        (Self::Done, "done"),
        (Self::Failed, "error (also: `--break-stale` refused; files that are in no snapshot)"),
        (
            Self::Held,
            "held by another, frozen, others are first in line, or timed out waiting (`E_LOCK_CONFLICT`, `E_FROZEN`)",
        ),
        (Self::Missing, "no such lock, freeze, claim, ledger, worktree, repository, snapshot"),
        (Self::NotYours, "not yours (`E_LOCK_NOT_HELD`)"),
        (Self::Expired, "your lease has expired (`E_LOCK_EXPIRED`)"),
        (Self::StaleToken, "stale token (`E_FENCING_MISMATCH`)"),
        (Self::Skewed, "the holder's clock is too far off to judge its lease (`E_CLOCK_SKEW_EXCEEDED`)"),
        (Self::Moving, "not quiet enough: a file changed while it was copied (`E_CONSISTENCY_UNAVAILABLE`)"),
        (Self::Partial, "not whole: somebody is taking that snapshot, or didn't finish (`E_PARTIAL_SNAPSHOT`)"),
        (Self::Broken, "a promise was broken (`torture`)"),
        (Self::Untrusted, "every promise held, but locks on this file system can't be trusted (`torture`)"),
        (Self::Usage, "usage, bad name, no lease in a shared worktree"),
        (Self::Damaged, "damaged data, unsupported version, not a regular file, where the command can't go on"),
        (Self::Unusable, "engine or file system can't be used"),
        (Self::TryAgain, "somebody was faster or is busy, try again (`E_SEQUENCE_MISMATCH`, `E_BUSY`)"),
        (Self::Lost, "the lock was lost while the command ran"),
        (Self::NotExecutable, "the command can't be executed"),
        (Self::NoCommand, "the command was not found"),
    ];

    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Held => 2,
            Self::Missing => 3,
            Self::NotYours => 4,
            Self::Expired => 5,
            Self::StaleToken => 6,
            Self::Skewed => 7,
            Self::Moving => 8,
            Self::Partial => 9,
            Self::Broken => 10,
            Self::Untrusted => 11,
            Self::Usage => 64,
            Self::Damaged => 65,
            Self::Unusable => 69,
            Self::TryAgain => 75,
            Self::Lost => lokt_core::guard::LOST,
            Self::NotExecutable => 126,
            Self::NoCommand => 127,
            Self::Signal(number) => number.saturating_add(SIGNAL_BASE),
            Self::Other(code) => code,
        }
    }

    /// The `status` of a refusal in JSON.
    pub(crate) fn refusal_status(self) -> &'static str {
        if self == Self::Held { "blocked" } else { "error" }
    }

    /// A signal ended a wait, or work.
    pub(crate) fn of_signal(number: i32) -> Self {
        Self::Signal(u8::try_from(number).unwrap_or(0))
    }

    /// A guarded command ended with `code`. Of a signal that reached us too we die as it did; what it makes of one is its own affair.
    pub(crate) fn of_command(code: u8, inbox: &SignalQueue) -> Self {
        let shared = inbox.ended_by().map(Self::of_signal);
        shared.filter(|shared| shared.code() == code).unwrap_or(Self::Other(code))
    }

    pub(crate) fn of_denial(denial: &Denial) -> Self {
        match denial {
            Denial::Held(_) | Denial::Queued { .. } | Denial::BeingWritten | Denial::Frozen(_) => Self::Held,
            Denial::Newer { .. } | Denial::Corrupt { .. } => Self::Damaged,
            Denial::Missing => Self::Missing,
            Denial::NotYours(_) | Denial::Guarded(_) | Denial::OtherHold(_) | Denial::Lost(_) => Self::NotYours,
            Denial::Over(holder) if holder.staleness() == Some(Staleness::Expired) => Self::Expired,
            Denial::StaleToken { .. } | Denial::OtherIssuer { .. } | Denial::Over(_) => Self::StaleToken,
            Denial::NotStale(_) | Denial::Kept => Self::Failed,
        }
    }

    /// The answer to whoever asked about a worktree's lease.
    pub(crate) fn of_lease(refused: &LeaseRefusal) -> Self {
        match refused.code() {
            "E_CLOCK_SKEW_EXCEEDED" => Self::Skewed,
            // What can't be read is somebody's, for a while.
            "E_LOCK_CONFLICT" => Self::Held,
            "E_LOCK_NOT_HELD" => Self::NotYours,
            _ => Self::of_denial(&refused.denial),
        }
    }

    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Io | ErrorKind::NoProcess | ErrorKind::Halted => Self::Failed,
            ErrorKind::NotARecord
            | ErrorKind::Newer
            | ErrorKind::Damaged
            | ErrorKind::Format
            | ErrorKind::PayloadMismatch => Self::Damaged,
            ErrorKind::BadEvent | ErrorKind::Shared | ErrorKind::BadName => Self::Usage,
            ErrorKind::Missing => Self::Missing,
            ErrorKind::Moving => Self::Moving,
            ErrorKind::Busy | ErrorKind::OutcomeUnknown => Self::TryAgain,
            ErrorKind::Unusable => Self::Unusable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn the_documented_exit_codes_are_the_ones_in_the_code() {
        let page = include_str!("../../../docs/exit-codes.md");
        let rows: Vec<(u8, &str)> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
            .filter_map(|(code, meaning)| Some((code.parse().ok()?, meaning)))
            .collect();
        let in_code: Vec<(u8, &str)> = Exit::ALL.iter().map(|(exit, meaning)| (exit.code(), *meaning)).collect();
        assert_eq!(rows, in_code, "docs/exit-codes.md and crates/cli/src/exit.rs have the same rows");
    }
}
