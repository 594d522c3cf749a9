//! An answer that comes line by line: too long to be kept, or not over until somebody says so.

use std::io::{self, Write as _};
use std::ops::ControlFlow;

use lokt_sys::output::has_reader;
use lokt_sys::signals::SignalQueue;
use lokt_sys::wakeup::write_unless;

use crate::report::Failure;

/// What is kept before it is written.
const BUFFER_BYTES: usize = 64 << 10;

/// Lines on their way to stdout.
pub(crate) struct Stream {
    waiting: Vec<u8>,
    /// Ends a stream that has no end of its own.
    pub(crate) inbox: Option<SignalQueue>,
}

impl Stream {
    pub(crate) fn new(inbox: Option<SignalQueue>) -> Self {
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
            Some(inbox) => write_unless(io::stdout(), &self.waiting, inbox),
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
        has_reader(io::stdout())
    }
}
