//! The terminal: its size; its keys, one by one; handing it to a command that has its own process
//! group, and taking it back, as a shell does for its jobs.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};
use rustix::stdio::stdin;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr, tcsetpgrp,
};

use super::signals::Blocked;

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The width.
    pub columns: usize,
    /// The height.
    pub rows: usize,
}

/// Size of a terminal that doesn't report one.
const USUAL: Size = Size { columns: 80, rows: 24 };

impl Size {
    /// Returns the size of a terminal; `None` if `fd` isn't one.
    pub fn of(fd: impl AsFd) -> Option<Self> {
        let size = tcgetwinsize(&fd).ok().filter(|_| isatty(&fd))?;
        let known = |told: u16, usual| if told == 0 { usual } else { usize::from(told) };
        Some(Self { columns: known(size.ws_col, USUAL.columns), rows: known(size.ws_row, USUAL.rows) })
    }
}

/// Returns the width of a terminal, if `fd` is one and reports its width.
pub fn told_width(fd: impl AsFd) -> Option<usize> {
    tcgetwinsize(fd).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width != 0)
}

/// Reports whether we are in the foreground of the terminal that we would draw on. Otherwise we
/// must not configure it.
pub fn in_foreground() -> bool {
    let terminal = (0..2).map(standard).find(|fd| isatty(fd));
    terminal.is_some_and(|fd| tcgetpgrp(fd).is_ok_and(|group| group == getpgrp()))
}

/// The keys of the terminal as they are typed, without echo, until this is dropped. Ctrl-C still
/// sends its signal. Ctrl-Z is a key, because a program that draws on the screen has to clean it up
/// first: [`suspend`].
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Ctrl-Z, as it is read.
    pub const SUSPEND: u8 = 0x1a;

    /// Starts listening; `None` if standard input isn't a terminal. In the background this suspends
    /// us until we are in the foreground.
    pub fn listen() -> Option<Self> {
        let before = isatty(stdin()).then(|| tcgetattr(stdin()).ok()).flatten()?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Ctrl-S would keep us from drawing, and from receiving anything else.
        raw.input_modes -= InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        retry_on_intr(|| tcsetattr(stdin(), OptionalActions::Now, &raw)).ok()?;
        Some(Self { before })
    }

    /// Returns the typed bytes; `None` if there will be no more.
    pub fn typed(&self) -> Option<Vec<u8>> {
        let mut bytes = [0_u8; 64];
        match retry_on_intr(|| rustix::io::read(stdin(), &mut bytes)) {
            Ok(0) | Err(_) => None,
            Ok(read) => Some(bytes[..read].to_vec()),
        }
    }
}

impl AsFd for Keys {
    fn as_fd(&self) -> BorrowedFd<'_> {
        stdin()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The process that is in the foreground by now has its own settings.
        if tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp()) {
            let _ = retry_on_intr(|| tcsetattr(stdin(), OptionalActions::Now, &self.before));
        }
    }
}

/// Suspends us, as Ctrl-Z does; returns when we are continued.
pub fn suspend() {
    let _ = kill_current_process_group(Signal::TSTP);
}

/// A terminal in whose foreground we were.
pub struct Terminal {
    /// Standard input, output or error.
    number: u8,
}

impl Terminal {
    /// Returns the terminal, if we have one and are in its foreground.
    pub fn ours() -> Option<Self> {
        let number = (0..3).find(|number| isatty(standard(*number)))?;
        let foreground = tcgetpgrp(standard(number)).ok()? == getpgrp();
        foreground.then_some(Self { number })
    }

    /// Puts `group` into the foreground.
    pub fn give_to(&self, group: Pid) {
        // A background process may do this only while it blocks the signal that it gets for it.
        let _stops = Blocked::stops();
        let _ = tcsetpgrp(standard(self.number), group);
    }

    /// Puts us back into the foreground.
    pub fn take_back(&self) {
        self.give_to(getpgrp());
    }
}

fn standard(number: u8) -> BorrowedFd<'static> {
    match number {
        0 => stdin(),
        1 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}
