//! The events that a guard receives, and the actions that it returns.

use alloc::boxed::Box;
use alloc::string::String;

use crate::denial::Holder;

/// The reaction to a lock that is lost while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// Let the command continue, but don't report success.
    #[default]
    Fail,
    /// Let the command continue, and pass on how it ended.
    Warn,
    /// End the command.
    Stop,
}

/// The way in which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// By this signal.
    Signal(u8),
}

impl Ended {
    /// The exit code: 128+n for signal n.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}

/// The result of a renewal, a check or a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The hold is ours, or was until it was released.
    Kept {
        /// Milliseconds since the lease had expired, if it had.
        late_ms: Option<u64>,
    },
    /// The lock is held by another process, or by nobody.
    Lost(Option<Box<Holder>>),
    /// The state is unknown, or the operation failed; the text says why.
    Failed(String),
}

/// An event. Holds are counted from 0, in the order of [`super::Guard::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time passed.
    Tick,
    /// A renewal that began at `began_ms` returned.
    Renewed {
        /// Index of the hold.
        hold: usize,
        /// Time at which the renewal that counts was sent, according to its answer: the new lease
        /// may have begun then.
        began_ms: u64,
        /// The result.
        outcome: Outcome,
    },
    /// A check of the record returned.
    Looked {
        /// Index of the hold.
        hold: usize,
        /// The result.
        outcome: Outcome,
    },
    /// The guard received a signal.
    Signal {
        /// Its number.
        number: i32,
        /// True for the signals that ask a process to end.
        ends: bool,
        /// True if the terminal sent it, and so also to the command.
        from_terminal: bool,
    },
    /// The command ended.
    Ended(Ended),
    /// Only the guard keeps the pulses: the processes that the command left behind have ended, too.
    AllGone,
    /// A release returned.
    Released {
        /// Index of the hold.
        hold: usize,
        /// The result.
        outcome: Outcome,
    },
}

/// A warning for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The lease had expired when it was renewed; nobody had acquired the lock in between.
    Late {
        /// Index of the hold.
        hold: usize,
        /// Milliseconds since the lease had expired.
        late_ms: u64,
    },
    /// A lease that can't be revived expired before it was renewed.
    Expired {
        /// Index of the hold.
        hold: usize,
        /// True if the command is asked to end.
        stops: bool,
    },
    /// A renewal failed; it will be tried again.
    RenewalFailed {
        /// Index of the hold.
        hold: usize,
        /// The reason.
        why: String,
    },
    /// The lock is lost.
    Lost {
        /// Index of the hold.
        hold: usize,
        /// The current holder.
        holder: Option<Box<Holder>>,
        /// True if the command is asked to end.
        stops: bool,
    },
    /// The lock couldn't be released; without its pulse it counts as dead.
    ReleaseFailed {
        /// Index of the hold.
        hold: usize,
        /// The reason.
        why: String,
    },
    /// The guard was asked to end while waiting for processes that the command left behind: they
    /// keep the lock.
    LeftBehind,
    /// The lock is intact, but something beside it isn't: its line in the audit log. The shell
    /// reports this; the state machine doesn't know it.
    Beside {
        /// Index of the hold.
        hold: usize,
        /// The problem.
        what: String,
    },
}

/// An action for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin a renewal; [`Event::Renewed`] must follow.
    Renew(usize),
    /// Check the record; [`Event::Looked`] must follow.
    Look(usize),
    /// Send this signal to the command.
    Forward(i32),
    /// Tell the user.
    Warn(Warning),
    /// Ask the command to end.
    Terminate,
    /// Kill the command.
    Kill,
    /// Wait for processes that the command left behind; [`Event::AllGone`] must follow.
    AwaitAll,
    /// Release; [`Event::Released`] must follow.
    Release(usize),
    /// Exit with this code: everything is done.
    Finish(u8),
}

/// The configuration of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardConfig {
    /// The lease of every hold, in seconds; `None` needs no renewal.
    pub ttl_sec: Option<u64>,
    /// The reaction to a lost lock.
    pub on_lost: OnLost,
    /// True if the lock is kept until every process that the command left behind has ended.
    pub until_all: bool,
    /// The interval between checks of the record; `None` if a loss is reported without asking.
    pub look_ms: Option<u64>,
}
