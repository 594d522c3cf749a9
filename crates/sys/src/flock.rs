//! A `flock` with a timeout.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use super::disk::Unlock;

/// Polling interval for the mutex where no thread can be started to wait for it.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// Locks `fd`, waiting in the kernel's own queue for at most `patience`.
pub(super) fn flock_within(fd: OwnedFd, patience: Duration) -> io::Result<Arc<OwnedFd>> {
    let fd = Arc::new(fd);
    if flock_now(&fd)? {
        return Ok(fd);
    }
    if patience.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // The kernel serves blocked lockers in order, but a blocked `flock` has no timeout. So a thread
    // waits. If it gets the lock too late, no one receives its message, and it unlocks.
    let (send, receive) = mpsc::sync_channel::<io::Result<Arc<OwnedFd>>>(0);
    let theirs = fd.clone();
    let waiter = thread::Builder::new().stack_size(64 << 10).spawn(move || {
        let locked = retry_on_intr(|| flock(&theirs, FlockOperation::LockExclusive));
        if let Err(mpsc::SendError(Ok(late))) = send.send(locked.map(|()| theirs).map_err(Into::into)) {
            // Explicitly: a child that was forked in the meantime would keep the lock with its copy
            // of the descriptor.
            let _ = flock(&late, FlockOperation::Unlock);
        }
    });
    if waiter.is_err() {
        return poll_flock(fd, patience);
    }
    drop(fd);
    receive.recv_timeout(patience).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

pub(super) fn flock_now(fd: &OwnedFd) -> io::Result<bool> {
    match retry_on_intr(|| flock(fd, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Polls without a position in the kernel's queue, but also without a thread: a limit on processes
/// must not make a lock fail.
pub(super) fn poll_flock(fd: Arc<OwnedFd>, patience: Duration) -> io::Result<Arc<OwnedFd>> {
    for _ in 0..patience.as_millis() / POLL.as_millis() {
        thread::park_timeout(POLL);
        if flock_now(&fd)? {
            return Ok(fd);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

pub(super) struct OsUnlock(pub(super) Arc<OwnedFd>);

impl Unlock for OsUnlock {
    fn unlock(self: Box<Self>) {
        // Explicitly: a child that was forked in the meantime would keep the lock with its copy of
        // the descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
