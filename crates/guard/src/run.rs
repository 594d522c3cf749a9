//! One run of a command: its options, its end, and the notices in between.

use std::fmt;
use std::io;

use lokt_core::guard::{Ended, Guard, OnLost, Warning};
use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::Interrupt as _;

use crate::shell::Shell;

/// Options for running a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Reaction to a lost lock.
    pub on_lost: OnLost,
    /// Hold the locks until all processes that the command leaves behind have ended.
    pub until_all: bool,
    /// Let the command inherit the pulse, so that it keeps the lock even if the guard is killed.
    pub pass_pulse: bool,
}

/// A run that has ended, with everything released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// The code to exit with.
    pub code: u8,
    /// False if a signal came before the command was started.
    pub started: bool,
}

/// An error that occurred after the command had been started.
#[derive(Debug)]
struct AfterStart(io::Error);

impl fmt::Display for AfterStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for AfterStart {}

/// Reports whether the command had been started when this error occurred.
pub fn had_started(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<AfterStart>)
}

/// Drives a started command to its end.
pub fn drive(
    shell: Shell,
    machine: Guard,
    inbox: &mut SignalQueue,
    tell: &mut dyn FnMut(&Notice<'_>),
) -> io::Result<Finished> {
    let driven = shell.drive(machine, inbox, tell);
    driven.map(|code| Finished { code, started: true }).map_err(|error| io::Error::other(AfterStart(error)))
}

/// Returns the end of a run that Ctrl-C ended while the locks were being acquired, before there was
/// a command.
pub fn interrupted(inbox: &mut SignalQueue) -> Option<Finished> {
    inbox.is_raised().then(|| before_start(inbox))
}

/// Returns the end of a run that a signal ended before there was a command.
pub fn before_start(inbox: &SignalQueue) -> Finished {
    let signal = inbox.ended_by().and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0);
    Finished { code: Ended::Signal(signal).code(), started: false }
}

/// A notice for the user while the command runs. The receiver must return at once: the thread that
/// calls it also renews, and stops the command in time.
#[derive(Debug)]
pub struct Notice<'a> {
    /// The lock or node that it is about.
    pub name: &'a str,
    /// The warning to show.
    pub warning: &'a Warning,
}
