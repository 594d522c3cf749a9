//! Startup steps of a program for which Rust's runtime doesn't do them.

use std::os::fd::IntoRawFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::stdio::{stderr, stdin, stdout};

use super::inherited::ignore_closed_pipes;

/// Ignores SIGPIPE, and opens standard descriptors that are closed. Otherwise a file of ours could
/// get one of their numbers, and be written to or passed to a command as its output.
pub fn prepare() {
    let mut standard = [stdin(), stdout(), stderr()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut standard, Some(&now)).is_ok() {
        let closed = standard.iter().filter(|fd| fd.revents().contains(PollFlags::NVAL)).count();
        for _ in 0..closed {
            // The lowest free number is one of theirs. It stays open as long as the process runs.
            if let Ok(null) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
                let _ = null.into_raw_fd();
            }
        }
    }
    ignore_closed_pipes();
}
