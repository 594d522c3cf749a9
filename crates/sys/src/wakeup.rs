//! Something to sleep on until anything of several things happens.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, retry_on_intr};

use crate::wait_policy::Interrupt;

/// How often somebody tries to ring.
const RINGS_MAX: usize = 3;

/// A wakeup that other threads ring.
#[derive(Debug, Clone)]
pub struct Wakeup(Arc<OwnedFd>);

/// A handle that rings a wakeup and does not keep it alive.
#[derive(Debug, Clone)]
pub struct WakeHandle(Weak<OwnedFd>);

impl Wakeup {
    /// A silent wakeup.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// For those who ring it.
    pub fn rope(&self) -> WakeHandle {
        WakeHandle(Arc::downgrade(&self.0))
    }

    /// Has it been rung since the last time?
    pub fn heard(&self) -> bool {
        let mut count = [0_u8; 8];
        rustix::io::read(&*self.0, &mut count).is_ok()
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl WakeHandle {
    /// Is there still a wakeup?
    pub fn hangs(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Is it the same wakeup's?
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// Rings. A wakeup that is gone has nobody who listens.
    pub fn ring(&self) {
        let Some(wakeup) = self.0.upgrade() else { return };
        // Whoever isn't woken may sleep for an hour, so no error is the last word.
        for _ in 0..RINGS_MAX {
            match rustix::io::write(&*wakeup, &1_u64.to_ne_bytes()) {
                // One that was rung too often to be counted is heard, too.
                Ok(_) | Err(Errno::AGAIN) => return,
                Err(_) => {}
            }
        }
    }
}

/// Sleeps until one of `fds` can be read, at most `patience`. Says which can. A signal handler of the program doesn't wake it early for
/// long: whoever asks looks at the clock anyway.
pub fn sleep_on(fds: &[BorrowedFd<'_>], patience: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    poll_for(&mut polled, patience)?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// The same, and says whether `output` is one that nobody reads any more, which wakes too.
pub fn sleep_or_closed(
    fds: &[BorrowedFd<'_>],
    output: BorrowedFd<'_>,
    patience: Duration,
) -> io::Result<(Vec<bool>, bool)> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    polled.push(PollFd::from_borrowed_fd(output, PollFlags::empty()));
    poll_for(&mut polled, patience)?;
    let mut ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
    let closed = ready.pop().unwrap_or(false);
    Ok((ready, closed))
}

pub(super) fn poll_for(polled: &mut [PollFd<'_>], patience: Duration) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    match poll(polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whoever writes this much to a pipe that has room isn't kept waiting.
const WRITE_BYTES: usize = 4096;

/// Writes all of `bytes`, unless `alarm` goes off before somebody makes room for them. Says whether it did.
pub fn write_unless(output: impl AsFd, bytes: &[u8], alarm: &mut impl Interrupt) -> io::Result<bool> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut polled = [PollFd::from_borrowed_fd(alarm.fd(), PollFlags::IN), PollFd::new(&output, PollFlags::OUT)];
        poll_for(&mut polled, Duration::from_secs(1))?;
        let has_room = !polled[1].revents().is_empty();
        if !has_room {
            if alarm.is_raised() {
                return Ok(false);
            }
            continue;
        }
        let part = &rest[..rest.len().min(WRITE_BYTES)];
        match retry_on_intr(|| rustix::io::write(&output, part)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            // Somebody else filled it, of a pipe that doesn't block.
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
