//! Something to sleep on until anything of several things happens.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// A bell that other threads ring.
#[derive(Debug, Clone)]
pub struct Bell(Arc<OwnedFd>);

/// A rope to a bell, which doesn't keep the bell.
#[derive(Debug, Clone)]
pub struct Rope(Weak<OwnedFd>);

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// For those who ring it.
    pub fn rope(&self) -> Rope {
        Rope(Arc::downgrade(&self.0))
    }

    /// Has it been rung since the last time?
    pub fn heard(&self) -> bool {
        let mut count = [0_u8; 8];
        rustix::io::read(&*self.0, &mut count).is_ok()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Rope {
    /// Is there still a bell?
    pub(super) fn hangs(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Is it the same bell's?
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// Rings. A bell that is gone has nobody who listens.
    pub fn ring(&self) {
        if let Some(bell) = self.0.upgrade() {
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Sleeps until one of `fds` can be read, at most `patience`. Says which can. A signal handler of the program doesn't wake it early for
/// long: whoever asks looks at the clock anyway.
pub fn sleep_on(fds: &[BorrowedFd<'_>], patience: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Takes away what a descriptor that doesn't block has to say, so that it can be slept on again.
pub fn drain(fd: impl AsFd) {
    let mut buffer = [0_u8; 4096];
    while rustix::io::read(&fd, &mut buffer).is_ok_and(|got| got > 0) {}
}
