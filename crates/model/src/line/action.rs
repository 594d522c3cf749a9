//! What can happen next, and to whom.

use std::fmt;

use super::state::{Command, Space};

/// One step of the world. A process is named by its place in [`State::processes`](super::State::processes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `guard --wait` is started and looks for the first time. Before that nobody can know of it.
    Arrive(Space),
    /// `guard` without `--wait` is started, looks once, and goes on or ends.
    Try(Space),
    /// A process takes its own next step.
    Step(usize),
    /// A process that was granted the lock publishes its record and starts a command.
    Publish(usize, Command),
    /// A sleeping waiter looks around, as it does once a second.
    Second(usize),
    /// A waiter's time is up: it unlinks its ticket, inside the mutex.
    TimeOut(usize),
    /// A command ends.
    CommandEnds {
        /// Whose.
        process: usize,
        /// Something that it started goes on and keeps the pulse.
        leaves: bool,
    },
    /// SIGKILL: a process with its command, or what was left of them.
    Kill(usize),
    /// SIGKILL: a guard, but not its command.
    Orphan(usize),
    /// `unlock --force`, or somebody deletes the record by hand.
    Force,
    /// SIGSTOP.
    Stop(usize),
    /// SIGCONT.
    Continue(usize),
    /// More than two seconds pass.
    Tick,
    /// From now on nothing happens but what processes do by themselves.
    Rest,
    /// All is quiet, and everybody who can has looked around since the last time.
    Round,
    /// The kernel drops the lock of a process that has ended: a step of its own only where waiters are woken before.
    Drop(usize),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrive(_) => f.write_str("a waiter comes and looks"),
            Self::Try(_) => f.write_str("somebody tries without waiting"),
            Self::Step(process) => write!(f, "{process} takes its next step"),
            Self::Publish(process, command) => write!(f, "{process} publishes its record, its command {command}"),
            Self::Second(process) => write!(f, "{process} looks around"),
            Self::TimeOut(process) => write!(f, "{process} times out and unlinks its ticket"),
            Self::CommandEnds { process, leaves } => {
                let left = if *leaves { ", but something goes on and keeps the pulse" } else { "" };
                write!(f, "the command of {process} ends{left}")
            }
            Self::Kill(process) => write!(f, "{process} is killed"),
            Self::Orphan(process) => write!(f, "{process} is killed, but not its command"),
            Self::Force => f.write_str("the record is removed by force"),
            Self::Stop(process) => write!(f, "{process} is stopped"),
            Self::Continue(process) => write!(f, "{process} is continued"),
            Self::Tick => f.write_str("two seconds pass"),
            Self::Rest => f.write_str("nothing comes from outside any more"),
            Self::Round => f.write_str("all is quiet, and everybody has looked around"),
            Self::Drop(process) => write!(f, "the kernel drops the lock of {process}"),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keeps => "keeps the pulse",
            Self::Closes => "closes the pulse",
        })
    }
}
