//! The terminal: its size; its keys, one by one; handing it to a command that has its own process group, and taking it back, as a shell does for its jobs.

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

/// The width of a terminal, if it is one and says how wide it is.
pub fn told_width(fd: impl AsFd) -> Option<usize> {
    tcgetwinsize(fd).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width != 0)
}

/// Are we in the foreground of the terminal that we would draw on? Elsewhere it isn't ours to set up.
pub fn in_foreground() -> bool {
    let terminal = (0..2).map(standard).find(|fd| isatty(fd));
    terminal.is_some_and(|fd| tcgetpgrp(fd).is_ok_and(|group| group == getpgrp()))
}

/// The keys of the terminal as they are typed, without an echo, until this is dropped. Ctrl-C still sends its signal; Ctrl-Z is a key,
/// because whoever draws on the screen has to clean it up first: [`suspend`].
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Ctrl-Z, as it is read.
    pub const SUSPEND: u8 = 0x1a;

    /// Begins to listen; `None` if standard input is no terminal. In the background this stops us until we are in the foreground.
    pub fn listen() -> Option<Self> {
        let before = isatty(stdin()).then(|| tcgetattr(stdin()).ok()).flatten()?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Ctrl-S would keep us from drawing, and from hearing anything else.
        raw.input_modes -= InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        retry_on_intr(|| tcsetattr(stdin(), OptionalActions::Now, &raw)).ok()?;
        Some(Self { before })
    }

    /// What was typed; `None` if nothing will be any more.
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
        // Whoever is in the foreground by now has set it up for themselves.
        if tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp()) {
            let _ = retry_on_intr(|| tcsetattr(stdin(), OptionalActions::Now, &self.before));
        }
    }
}

/// Stops, as Ctrl-Z does; comes back when somebody continues us.
pub fn suspend() {
    let _ = kill_current_process_group(Signal::TSTP);
}

/// A terminal that we were in the foreground of.
pub struct Terminal {
    /// Standard input, output or error.
    number: u8,
}

impl Terminal {
    /// The terminal, if we have one and are in its foreground.
    pub fn ours() -> Option<Self> {
        let number = (0..3).find(|number| isatty(standard(*number)))?;
        let foreground = tcgetpgrp(standard(number)).ok()? == getpgrp();
        foreground.then_some(Self { number })
    }

    /// Makes `group` the foreground.
    pub fn give_to(&self, group: Pid) {
        // The background may do this only if it doesn't mind the signal that it gets for it.
        let _stops = Blocked::stops();
        let _ = tcsetpgrp(standard(self.number), group);
    }

    /// Makes us the foreground again.
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
