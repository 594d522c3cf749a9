//! The root's mutex: all changes of a root happen inside it, one process at a time.
//!
//! It is a `flock` on the root directory itself. So no deletion inside the root can split it, and
//! the kernel drops it when its holder dies for any reason. Inside, every signal that can be
//! blocked is blocked, and there is no fork and no terminal I/O. There is no sync either, except
//! for the token ceiling (once in a thousand grants), a directory that was just created, and a
//! record that changed during three attempts to prepare it. One thing can't be prevented: a process
//! that is suspended (`SIGSTOP`) inside blocks the whole root until it is continued or killed.
//! Others then give up after [`PATIENCE`] and name it.

use std::time::Duration;

use super::disk::{Disk, NoMutex, Unlock};
use super::signals::Blocked;

/// Maximum wait of one-shot commands for the mutex. It is normally held for well under a
/// millisecond; by a command that releases many locks, for about 50 ms.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The root's mutex, held; dropping releases it.
pub struct Inside {
    lock: Option<Box<dyn Unlock>>,
    _signals: Blocked,
}

impl Inside {
    /// Acquires the mutex.
    pub fn enter(disk: &dyn Disk, patience: Duration) -> Result<Self, NoMutex> {
        // While waiting, Ctrl-C must work, but Ctrl-Z must not suspend us at the moment when we get
        // the lock.
        let signals = Blocked::stops();
        let lock = disk.lock(patience)?;
        Ok(Self { lock: Some(lock), _signals: signals.and_all() })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            lock.unlock();
        }
    }
}
