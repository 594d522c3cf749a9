//! An answer that comes line by line: too long to be kept, or not over until somebody says so.

use std::ops::ControlFlow;

use lokt::{Alarm as _, Inbox};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd as _;
use rustix::io::Errno;
use rustix::stdio::stdout;

use crate::report::Failure;

/// What is kept before it is written.
const BUFFER_BYTES: usize = 64 << 10;
/// A pipe that has room has room for this; a longer write might block, and with signals in an inbox nothing would end it.
const WRITE_BYTES: usize = 4096;

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
        let mut rest = self.waiting.as_slice();
        while !rest.is_empty() {
            if !has_room(self.inbox.as_ref())? {
                if self.inbox.as_mut().is_some_and(Inbox::went_off) {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            match rustix::io::write(stdout(), &rest[..rest.len().min(WRITE_BYTES)]) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::PIPE) => return Ok(ControlFlow::Break(())),
                Err(error) => return Err(lost(error)),
            }
        }
        self.waiting.clear();
        Ok(ControlFlow::Continue(()))
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

/// Waits until stdout has room or a signal came. False: a signal came.
fn has_room(inbox: Option<&Inbox>) -> Result<bool, Failure> {
    let stdout = stdout();
    let mut polled = vec![PollFd::new(&stdout, PollFlags::OUT)];
    let signals = inbox.map(|inbox| inbox.as_fd());
    polled.extend(signals.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    match poll(&mut polled, None) {
        Ok(_) => Ok(polled.get(1).is_none_or(|signals| signals.revents().is_empty())),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(lost(error)),
    }
}

fn lost(error: Errno) -> Failure {
    Failure::io(format!("the answer could not be written to stdout: {error}"), Some("write it to another place"))
}
