//! A shared or exclusive lock: users of snapshots share it, their removal holds it exclusively.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, retry_on_intr};

use super::flock::POLL;

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct SharedLock(OwnedFd);

/// The requested mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Having {
    /// Shared with others that do the same.
    Together,
    /// Exclusively.
    Alone,
}

impl SharedLock {
    /// Acquires it, waiting at most `patience`; `None` if others kept it. The file is created if it
    /// is missing.
    pub fn take(file: &Path, having: Having, patience: Duration) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match open(file, flags, Mode::from_raw_mode(0o644)) {
            // It belongs to another user: sharing needs only read access.
            Err(Errno::ACCESS) => open(file, flags - OFlags::RDWR - OFlags::CREATE, Mode::empty())?,
            done => done?,
        };
        let operation = match having {
            Having::Together => FlockOperation::NonBlockingLockShared,
            Having::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        for attempt in 0..=patience.as_millis() / POLL.as_millis() {
            if attempt > 0 {
                thread::park_timeout(POLL);
            }
            match retry_on_intr(|| flock(&fd, operation)) {
                Ok(()) => return Ok(Some(Self(fd))),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        // Explicitly: a child that was forked in the meantime would keep the lock with its copy of
        // the descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
