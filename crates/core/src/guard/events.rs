//! What a guard is told, and what it answers.

use alloc::boxed::Box;
use alloc::string::String;

use crate::denial::Holder;

/// What to do when the lock is lost while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// Let it go on, but don't call it a success.
    #[default]
    Fail,
    /// Let it go on, and pass on how it ended.
    Warn,
    /// End it.
    Stop,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// By this signal.
    Signal(u8),
}

impl Ended {
    /// As an exit code: 128+n for signal n.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}

/// What came of a renewal, a look or a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The hold is ours, or was until it was released. A lease that had run out before says by how much.
    Kept {
        /// How long the lease had been over.
        late_ms: Option<u64>,
    },
    /// It is somebody else's, or nobody's.
    Lost(Option<Box<Holder>>),
    /// It couldn't be found out or done; the text says why.
    Failed(String),
}

/// Something happened. Holds are counted from 0, in the order of [`super::Guard::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time passed.
    Tick,
    /// A renewal that began at `began_ms` came back.
    Renewed {
        /// Of which hold.
        hold: usize,
        /// When the renewal that counts was sent, as its answer says: the new lease may have begun then.
        began_ms: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// A look at the record came back.
    Looked {
        /// Of which hold.
        hold: usize,
        /// What was seen.
        outcome: Outcome,
    },
    /// A signal came for us.
    Signal {
        /// Its number.
        number: i32,
        /// Its place in the group of signals that ask a process to end.
        ends: bool,
        /// The terminal sent it, to the command too.
        from_terminal: bool,
    },
    /// The command ended.
    Ended(Ended),
    /// Nobody but us keeps the pulses any more: what the command left behind has ended too.
    AllGone,
    /// A release came back.
    Released {
        /// Of which hold.
        hold: usize,
        /// What came of it.
        outcome: Outcome,
    },
}

/// What the user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The lease was over for so long when it was renewed; nobody took the lock meanwhile.
    Late {
        /// Of which hold.
        hold: usize,
        /// For how long.
        late_ms: u64,
    },
    /// A lease that isn't revived ended before it was renewed.
    Expired {
        /// Which hold.
        hold: usize,
        /// The command is told to end.
        stops: bool,
    },
    /// A renewal failed; it will be tried again.
    RenewalFailed {
        /// Of which hold.
        hold: usize,
        /// Why.
        why: String,
    },
    /// The lock is lost.
    Lost {
        /// Which hold.
        hold: usize,
        /// Who has it now.
        holder: Option<Box<Holder>>,
        /// The command is told to end.
        stops: bool,
    },
    /// The lock couldn't be released; with the pulse dropped it counts as dead.
    ReleaseFailed {
        /// Of which hold.
        hold: usize,
        /// Why.
        why: String,
    },
    /// We were told to end while waiting for what the command left behind: it keeps the lock.
    LeftBehind,
    /// The lock is as it should be, something beside it isn't: its line in the audit log. Reported by the shell; the machine doesn't know.
    Beside {
        /// Of which hold.
        hold: usize,
        /// What.
        what: String,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin a renewal; [`Event::Renewed`] must follow.
    Renew(usize),
    /// Look at the record; [`Event::Looked`] must follow.
    Look(usize),
    /// Send this signal to the command.
    Forward(i32),
    /// Tell the user.
    Warn(Warning),
    /// Ask the command to end.
    Terminate,
    /// End it.
    Kill,
    /// Wait for what the command left behind; [`Event::AllGone`] must follow.
    AwaitAll,
    /// Release; [`Event::Released`] must follow.
    Release(usize),
    /// That was all: exit with this code.
    Finish(u8),
}

/// How a guard is asked to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardConfig {
    /// The lease of every hold, in seconds; `None` needs no renewal.
    pub ttl_sec: Option<u64>,
    /// What to do about a lost lock.
    pub on_lost: OnLost,
    /// The lock is kept until everything that the command left behind has ended.
    pub until_all: bool,
    /// The time between looks at the record; `None` if a loss is reported without being asked for.
    pub look_ms: Option<u64>,
}
