//! A wait for any of several events.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, retry_on_intr};

use crate::wait_policy::Interrupt;

/// Maximum number of attempts to ring.
const RINGS_MAX: usize = 3;

/// A wakeup that other threads ring.
#[derive(Debug, Clone)]
pub struct Wakeup(Arc<OwnedFd>);

/// A handle that rings a wakeup and does not keep it alive.
#[derive(Debug, Clone)]
pub struct WakeHandle(Weak<OwnedFd>);

impl Wakeup {
    /// Creates a wakeup that was not rung.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Returns a handle that rings it.
    pub fn rope(&self) -> WakeHandle {
        WakeHandle(Arc::downgrade(&self.0))
    }

    /// Reports whether it was rung since the last call.
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
    /// Reports whether the wakeup still exists.
    pub fn hangs(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Reports whether both handles ring the same wakeup.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// Rings the wakeup. If it is gone, there is no listener.
    pub fn ring(&self) {
        let Some(wakeup) = self.0.upgrade() else { return };
        // A waiter that isn't woken may sleep for an hour, so errors are retried.
        for _ in 0..RINGS_MAX {
            match rustix::io::write(&*wakeup, &1_u64.to_ne_bytes()) {
                // A full counter wakes the waiter, too.
                Ok(_) | Err(Errno::AGAIN) => return,
                Err(_) => {}
            }
        }
    }
}

/// Sleeps until one of `fds` is readable, for at most `patience`. Returns which ones are. A signal
/// handler of the program may end it early; callers check the clock anyway.
pub fn sleep_on(fds: &[BorrowedFd<'_>], patience: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    poll_for(&mut polled, patience)?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// The same, and reports whether `output` has lost its reader, which ends the sleep, too.
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

/// Maximum size of a write that doesn't block on a pipe with room.
const WRITE_BYTES: usize = 4096;

/// Writes all of `bytes`, unless `alarm` is raised before there is room for them. Reports whether
/// all were written.
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
            // Another writer filled a pipe that doesn't block.
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
