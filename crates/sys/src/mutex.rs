//! The root's mutex: everything that changes a root happens inside it, one process at a time.
//!
//! It is a `flock` on the root directory itself, so nothing that is deleted inside the root can split it, and the kernel drops it when
//! its holder dies in whatever way. Inside, every signal that can be blocked is blocked, and nobody forks or talks to a terminal.
//! Nobody syncs either, apart from the token ceiling (once in a thousand grants), a directory that was just made, and a record that
//! changed under three attempts to prepare it. What can't be prevented: a process that is `SIGSTOP`ped inside
//! stops the whole root until it is continued or killed; others then give up after [`PATIENCE`] and name it.

use std::time::Duration;

use super::disk::{Disk, NoMutex, Unlock};
use super::signals::Blocked;

/// How long one-shot commands wait for the mutex. It is normally held for well under a millisecond; by a command that ends many locks for
/// about 50.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The root's mutex, held; dropping lets go.
pub struct Inside {
    lock: Option<Box<dyn Unlock>>,
    _signals: Blocked,
}

impl Inside {
    /// Takes the mutex.
    pub fn enter(disk: &dyn Disk, patience: Duration) -> Result<Self, NoMutex> {
        // While waiting Ctrl-C must work, but Ctrl-Z must not stop us at the very moment when the lock is ours.
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
