//! An answer that comes line by line: too long to be kept, or not over until somebody says so.

use std::io::{self, Write as _};
use std::ops::ControlFlow;

use lokt::Inbox;
use lokt::sys::bell::write_unless;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdout;

use crate::report::Failure;

/// What is kept before it is written.
const BUFFER_BYTES: usize = 64 << 10;

/// Lines on their way to stdout.
pub(crate) struct Stream {
    waiting: Vec<u8>,
    /// Ends a stream that has no end of its own.
    pub(crate) inbox: Option<Inbox>,
}

impl Stream {
    pub(crate) fn new(inbox: Option<Inbox>) -> Self {
        Self { waiting: Vec::new(), inbox }
    }

    /// Adds a line. Break: nobody wants more.
    pub(crate) fn line(&mut self, text: &str) -> Result<ControlFlow<()>, Failure> {
        self.waiting.extend_from_slice(text.as_bytes());
        self.waiting.push(b'\n');
        if self.waiting.len() < BUFFER_BYTES { Ok(ControlFlow::Continue(())) } else { self.flush() }
    }

    /// Writes what there is. Break: nobody wants more, because the reader has left or a signal came.
    pub(crate) fn flush(&mut self) -> Result<ControlFlow<()>, Failure> {
        let written = match &mut self.inbox {
            Some(inbox) => write_unless(stdout(), &self.waiting, inbox),
            None => io::stdout().write_all(&self.waiting).and_then(|()| io::stdout().flush()).map(|()| true),
        };
        self.waiting.clear();
        match written {
            Ok(true) => Ok(ControlFlow::Continue(())),
            Ok(false) => Ok(ControlFlow::Break(())),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            Err(error) => {
                let message = format!("the answer could not be written to stdout: {error}");
                Err(Failure::io(message, Some("write it to another place")))
            }
        }
    }

    /// Does anybody still read? Whoever has nothing to write finds out only by asking.
    pub(crate) fn is_read() -> bool {
        let stdout = stdout();
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let answered = poll(&mut polled, Some(&at_once)).is_ok();
        !answered || !polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }
}
