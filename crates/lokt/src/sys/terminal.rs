//! Handing the terminal to a command that has its own process group, and taking it back, as a shell does for its jobs.

use std::os::fd::BorrowedFd;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use super::signals::Blocked;

/// A terminal that we were in the foreground of.
pub(crate) struct Terminal {
    /// Standard input, output or error.
    number: u8,
}

impl Terminal {
    /// The terminal, if we have one and are in its foreground.
    pub(crate) fn ours() -> Option<Self> {
        let number = (0..3).find(|number| isatty(standard(*number)))?;
        let foreground = tcgetpgrp(standard(number)).ok()? == getpgrp();
        foreground.then_some(Self { number })
    }

    /// Makes `group` the foreground.
    pub(crate) fn give_to(&self, group: Pid) {
        // The background may do this only if it doesn't mind the signal that it gets for it.
        let _stops = Blocked::stops();
        let _ = tcsetpgrp(standard(self.number), group);
    }

    /// Makes us the foreground again.
    pub(crate) fn take_back(&self) {
        self.give_to(getpgrp());
    }
}

fn standard(number: u8) -> BorrowedFd<'static> {
    match number {
        0 => rustix::stdio::stdin(),
        1 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}
