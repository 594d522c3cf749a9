//! The terminal: its size; handing it to a command that has its own process group, and taking it back, as a shell does for its jobs.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::{Pid, getpgrp};
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize, tcsetpgrp};

use super::signals::Blocked;

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How wide it is.
    pub columns: usize,
    /// How high it is.
    pub rows: usize,
}

/// What a terminal has that doesn't say.
const USUAL: Size = Size { columns: 80, rows: 24 };

impl Size {
    /// The size of a terminal; `None` if it is none.
    pub fn of(fd: impl AsFd) -> Option<Self> {
        let size = tcgetwinsize(&fd).ok().filter(|_| isatty(&fd))?;
        let known = |told: u16, usual| if told == 0 { usual } else { usize::from(told) };
        Some(Self { columns: known(size.ws_col, USUAL.columns), rows: known(size.ws_row, USUAL.rows) })
    }
}

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
