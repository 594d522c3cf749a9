//! Waiting for another process's pulse to stop: a blocking `flock(LOCK_SH)` in its own thread.
//!
//! The kernel wakes the thread when the lock is really released, for any reason: an explicit
//! unlock, or the end of the last process that kept the descriptor. (File notifications come too
//! early: a closing file is reported before its lock is dropped.) A blocked thread can't be
//! cancelled. So there is at most one per pulse in a process, and all waiters for that pulse
//! register a wake handle with it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use super::signals::Blocked;
use super::wakeup::WakeHandle;

type FlockWaiters = HashMap<(u64, u64), Vec<WakeHandle>>;

/// Wake handles by pulse, which is identified by device and inode.
static SLEEPERS: Mutex<Option<FlockWaiters>> = Mutex::new(None);

fn flock_waiters() -> MutexGuard<'static, Option<FlockWaiters>> {
    SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rings `rope` when no process keeps `pulse` (device and inode `id`) locked any more. False: none
/// does now.
pub(super) fn watch(pulse: OwnedFd, id: (u64, u64), rope: WakeHandle) -> io::Result<bool> {
    match retry_on_intr(|| flock(&pulse, FlockOperation::NonBlockingLockShared)) {
        Ok(()) => return Ok(false),
        Err(Errno::WOULDBLOCK) => {}
        Err(error) => return Err(error.into()),
    }
    let mut all = flock_waiters();
    let all = all.get_or_insert_with(HashMap::new);
    if let Some(ropes) = all.get_mut(&id) {
        ropes.retain(|other| other.hangs() && !other.is(&rope));
        ropes.push(rope);
        return Ok(true);
    }
    // A signal to the process must not be delivered to this thread while other threads are inside
    // the mutex.
    let _signals = Blocked::stops().and_all();
    thread::Builder::new().stack_size(64 << 10).spawn(move || {
        // An error wakes the waiters too: they check again.
        let _ = retry_on_intr(|| flock(&pulse, FlockOperation::LockShared));
        let ropes = flock_waiters().as_mut().and_then(|all| all.remove(&id)).unwrap_or_default();
        ropes.iter().for_each(WakeHandle::ring);
        // Last: the final close of a removed file waits for the file system to delete it.
        drop(pulse);
    })?;
    all.insert(id, vec![rope]);
    Ok(true)
}
