//! What a program must do first if Rust's runtime doesn't do it.

use std::os::fd::IntoRawFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::stdio::{stderr, stdin, stdout};

use super::inherited::ignore_closed_pipes;

/// Opens standard descriptors that are closed, so that no file of ours gets their numbers and is written to or handed to a command as
/// its output; and ignores SIGPIPE.
pub fn prepare() {
    let mut standard = [stdin(), stdout(), stderr()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut standard, Some(&now)).is_ok() {
        let closed = standard.iter().filter(|fd| fd.revents().contains(PollFlags::NVAL)).count();
        for _ in 0..closed {
            // The lowest number that is free is one of theirs. It stays open as long as we do.
            if let Ok(null) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
                let _ = null.into_raw_fd();
            }
        }
    }
    ignore_closed_pipes();
}
