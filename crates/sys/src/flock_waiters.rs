//! Waiting for somebody else's pulse to stop: a blocking `flock(LOCK_SH)` in a thread of its own.
//!
//! The kernel wakes the thread when the lock is really gone, however that came about: an explicit unlock, or the end of the last process
//! that kept the descriptor. (Notifications about files come too early: a closing file is reported before its lock is dropped.) A
//! blocked thread can't be called back, so there is at most one per pulse in a process, however often it is waited for, and everyone
//! who waits for that pulse hangs a rope on it.

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

/// Who is woken by which pulse, by device and inode.
static SLEEPERS: Mutex<Option<FlockWaiters>> = Mutex::new(None);

fn flock_waiters() -> MutexGuard<'static, Option<FlockWaiters>> {
    SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rings when nobody keeps `pulse`, whose device and inode are `id`, locked any more. False: nobody does now.
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
    // A signal of the process must not find a thread that takes it while the others are inside the mutex.
    let _signals = Blocked::stops().and_all();
    thread::Builder::new().stack_size(64 << 10).spawn(move || {
        // An error wakes them too: they look again.
        let _ = retry_on_intr(|| flock(&pulse, FlockOperation::LockShared));
        let ropes = flock_waiters().as_mut().and_then(|all| all.remove(&id)).unwrap_or_default();
        ropes.iter().for_each(WakeHandle::ring);
        // Last: whoever closes a removed file last waits for the file system to forget it.
        drop(pulse);
    })?;
    all.insert(id, vec![rope]);
    Ok(true)
}
