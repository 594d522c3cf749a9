//! What can happen next, and to whom.

use std::fmt;

use super::foreign::Tool;
use super::state::Draft;

/// One step of the world. Appends of ours are named by the order in which they began, foreign writers by their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// One of ours begins.
    Start(Draft),
    /// One of ours takes its next step, which is this in words.
    Step(u8, &'static str),
    /// One of ours takes its next step and is misled by its hint.
    Lag(u8),
    /// SIGKILL, for one of ours.
    Kill(u8),
    /// A foreign writer finds no lock and makes its own.
    Come {
        /// Which one.
        place: usize,
        /// Does it want to claim the node?
        claims: bool,
    },
    /// A foreign writer takes its next step, which is this in words.
    Foreign(usize, &'static str),
    /// A foreign writer dies.
    End(usize),
    /// Time passes: the foreign lock that is there has become old.
    Tick,
    /// The last event is taken away, with lokt's notes left as they are.
    Shorten,
    /// Somebody deletes the lock.
    Delete,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(Draft::Plain) => f.write_str("one of ours begins to append"),
            Self::Start(Draft::Claim) => f.write_str("one of ours begins to claim"),
            Self::Step(op, deed) => write!(f, "ours {op} {deed}"),
            Self::Lag(op) => write!(f, "ours {op} takes an old head for the head"),
            Self::Kill(op) => write!(f, "ours {op} is killed"),
            Self::Come { place, claims } => {
                write!(f, "foreign {place} makes its lock{}", if *claims { ", to claim" } else { "" })
            }
            Self::Foreign(place, deed) => write!(f, "foreign {place} {deed}"),
            Self::End(place) => write!(f, "foreign {place} dies"),
            Self::Tick => f.write_str("the lock has become old"),
            Self::Shorten => f.write_str("the last event is taken away"),
            Self::Delete => f.write_str("somebody deletes the lock"),
        }
    }
}

impl Tool {
    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Documented => "documented",
            Self::Shell => "shell",
        }
    }
}
