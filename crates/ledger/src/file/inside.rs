//! Both locks of a ledger, held: our own mutex, and the lock that all programs share.
//!
//! Our processes queue on the mutex (a `flock` on the directory, which the kernel drops when its
//! holder dies), so at most one of them inspects `ledger.lock` at a time. Signals are blocked from
//! the moment it is ours; while another program has it, Ctrl-C works, because nothing has happened
//! yet.
//!
//! [`Inside`] is the proof: what must only run inside is a method of it, or takes it as an
//! argument.

use jiff::Timestamp;
use lokt_core::ledger::writer_lock::LOCK;

use super::FileLog;
use super::head::Head;
use super::takeover::Taken;
use super::writer_lock::{Lock, WriterLock};
use lokt_sys::disk::Unlock;
use lokt_sys::error::Error;
use lokt_sys::mutex;
use lokt_sys::signals::Blocked;
use lokt_sys::warnings::Warning;

/// Proof that this process holds the mutex: no other lokt process writes.
pub(super) trait MutexHeld {}

impl MutexHeld for Inside<'_> {}
impl MutexHeld for mutex::Inside {}

/// Proof that this process holds both locks: no other program that respects them writes.
pub(super) struct Inside<'l> {
    pub(super) log: &'l FileLog,
    lock: Option<Lock<'l>>,
    /// A writer that may come back was inside when it was suspended: its number must be filled.
    pub(super) owes_filler: bool,
    pub(super) warnings: Vec<Warning>,
    /// Time of the directory's last change before our own; unknown if we had to wait.
    changed: Option<Timestamp>,
    mutex: Option<Box<dyn Unlock>>,
    _signals: Blocked,
    _stops: Blocked,
}

/// Facts and locks collected on the way in.
pub(super) struct Entered {
    pub(super) changed: Option<Timestamp>,
    pub(super) mutex: Box<dyn Unlock>,
    pub(super) signals: Blocked,
    pub(super) stops: Blocked,
}

/// Warnings, and the state of the lock, after both locks have been released.
pub(super) struct Left {
    pub(super) warnings: Vec<Warning>,
    /// The lock wasn't ours any more.
    pub(super) lost_lock: bool,
}

impl<'l> Inside<'l> {
    pub(super) fn new(lock: WriterLock<'l>, taken: Taken<'l>, entered: Entered) -> Self {
        let Taken { lock: ours, owes_filler, warnings } = taken;
        let Entered { changed, mutex, signals, stops } = entered;
        Self {
            log: lock.log,
            lock: Some(ours),
            owes_filler,
            warnings,
            changed,
            mutex: Some(mutex),
            _signals: signals,
            _stops: stops,
        }
    }

    /// Reports whether another program held the lock when we came.
    pub(super) fn has_waited(&self) -> bool {
        self.changed.is_none()
    }

    /// Finds the head.
    pub(super) fn catch_up(&self) -> Result<Head, Error> {
        self.log.heads().catch_up_since(self.changed)
    }

    /// Releases the shared lock, notes the head after `appended` more events, runs `note`, and
    /// releases the mutex.
    pub(super) fn leave(mut self, head: &Head, appended: u64, note: &mut dyn FnMut(&dyn MutexHeld)) -> Left {
        let kept_lock = self.unlock();
        self.log.heads().note(head, appended, &self);
        note(&self);
        Left { warnings: std::mem::take(&mut self.warnings), lost_lock: !kept_lock }
    }

    /// Releases the shared lock. Returns false if it wasn't ours any more.
    fn unlock(&mut self) -> bool {
        let Some(lock) = self.lock.take() else { return true };
        // Freeing the name before that number is filled would give the number to the next writer,
        // whose event the late writer would replace.
        if self.owes_filler {
            return true;
        }
        let path = self.log.at(LOCK);
        match self.log.writer_lock().give_back(&lock) {
            Ok(was_ours) => {
                if !was_ours {
                    let why = "was taken away by another program while it was ours";
                    self.warnings.push(Warning::OtherPrograms(format!("{} {why}", path.display())));
                }
                was_ours
            }
            Err(error) => {
                let why = format!("{} could not be removed: {error}", path.display());
                self.warnings.push(Warning::NotReleased(why));
                true
            }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.unlock();
        if let Some(mutex) = self.mutex.take() {
            mutex.unlock();
        }
    }
}
