//! What can happen next, and to whom.

use std::fmt;

use super::state::{Client, Op};

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A client starts a command (or a guard its renewal or release): it takes the mutex, reads and decides. A replacement of a record
    /// that has an owner part is only prepared, outside the mutex.
    Start(Client, Op),
    /// A client gets in line and draws its token: only where the ticket is the token.
    Arrive(Client, Op),
    /// A prepared client takes the mutex and compares.
    Enter(Client),
    /// The next effect on disk.
    Step(Client),
    /// The sync after the mutex, and the answer.
    Sync(Client),
    /// SIGKILL: a client's process, with a guard's command.
    Kill(Client),
    /// SIGKILL: a guard, but not its command.
    Orphan(Client),
    /// Time passes: every running lease is over.
    Tick,
    /// Somebody deletes the record by hand.
    Delete,
    /// The machine loses power and starts again.
    PowerCut {
        /// Which version of the directory is left, counted from the last durable one.
        kept: usize,
        /// The record that is left there has lost its bytes.
        torn: bool,
        /// The next file is lost.
        next_lost: bool,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(client, op) => write!(f, "{client} starts {}", op.as_str()),
            Self::Arrive(client, op) => write!(f, "{client} gets in line for {}", op.as_str()),
            Self::Enter(client) => write!(f, "{client} takes the mutex with a prepared record"),
            Self::Step(client) => write!(f, "{client} takes its next step on disk"),
            Self::Sync(client) => write!(f, "{client} syncs and answers"),
            Self::Kill(client) => write!(f, "{client} is killed"),
            Self::Orphan(client) => write!(f, "{client} is killed, but not its command"),
            Self::Tick => f.write_str("time passes"),
            Self::Delete => f.write_str("the record is deleted by hand"),
            Self::PowerCut { kept, torn, next_lost } => {
                write!(f, "the power is cut: version {kept} of the directory is left")?;
                f.write_str(if *torn { ", its record empty" } else { "" })?;
                f.write_str(if *next_lost { ", the next file lost" } else { "" })
            }
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} ({})", self.0, self.owner().as_str())
    }
}
