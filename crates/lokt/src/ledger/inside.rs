//! Both locks of a ledger, held: our own mutex, and the lock that all programs share.
//!
//! Our processes queue on the mutex (a `flock` on the directory, which the kernel drops when its holder dies), so at most one of them looks
//! at `ledger.lock` at a time. It is linked complete from a file without a name: nobody ever finds it empty. Signals are kept away from
//! the moment it is ours; while others have it, Ctrl-C works, because nothing has happened yet.

use std::time::Duration;

use jiff::Timestamp;
use lokt_core::ledger::writer_lock::{LOCK, NOTE, Note, Verdict};

use super::Ledger;
use super::head::Head;
use super::settings::STATE;
use super::takeover::{Found, Taken};
use crate::error::{At as _, Error, ErrorKind, joined};
use crate::sys::bell::sleep_on;
use crate::sys::disk::{Entry, NoMutex, Stamp, Unlock, Unnamed};
use crate::sys::signals::Blocked;

/// On which boot a lock was taken over from somebody who may come back.
const WARY: &str = ".lokt/wary";
const WARY_BYTES_MAX: usize = 4096;
/// So often the lock may be there when it is wanted and gone when it is looked at, before we wait for it.
const RELEASES_MAX: u64 = 64;
/// A lock file of ours is for us alone to read, as documented.
const LOCK_MODE: u32 = 0o600;
/// Where others may write to the ledger they must be able to tell whether we are gone.
const SHARED_LOCK_MODE: u32 = 0o644;

/// Inside: nobody else writes, of those who ask.
pub(crate) struct Inside<'l> {
    ledger: &'l Ledger,
    lock: Option<Lock<'l>>,
    /// When the directory was last changed, just before we changed it; unknown if we had to wait.
    changed: Option<Timestamp>,
    /// A writer that may come back was inside when it was stopped: its number must be filled.
    pub(super) owes_filler: bool,
    pub(crate) warnings: Vec<String>,
    mutex: Option<Box<dyn Unlock>>,
    _signals: Blocked,
    _stops: Blocked,
}

/// What is left to say, and to do.
pub(super) struct Left {
    pub(super) warnings: Vec<String>,
    /// The lock wasn't ours any more.
    pub(super) lost_lock: bool,
}

/// The lock file or directory that is ours.
pub(super) struct Lock<'l> {
    pub(super) stamp: Stamp,
    pub(super) kind: Kind,
    /// The file, kept open: while it is, no other one gets its number.
    pub(super) _file: Option<Box<dyn Unnamed + 'l>>,
}

/// Where the lock directory of a nonce was made, and what it displaced is until it has been looked at.
pub(super) fn dir_of(nonce: &str) -> String {
    format!("{STATE}/lock-{nonce}")
}

/// A directory that isn't empty can't be removed by those who release what isn't theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

impl Ledger {
    /// Takes both locks.
    pub(crate) fn enter(&self) -> Result<Inside<'_>, Error> {
        let began_ms = self.now().monotonic_ms;
        let stops = Blocked::stops();
        let mutex = self.disk.lock(self.patience.timeout).map_err(|failure| self.no_mutex(failure))?;
        let kind = if self.is_wary() { Kind::Directory } else { Kind::File };
        // Our own lock changes the directory. A program that gets in and out between this look and the lock has taken the number that
        // we are going to use, and is noticed by that.
        let changed = self.changed()?;
        let mut watched = None;
        for attempt in 0_u64.. {
            let signals = Blocked::all();
            let taken = match self.try_lock(kind)? {
                Some(lock) => Some(Taken { lock, owes_filler: false, warnings: Vec::new() }),
                None => match self.look_at_lock(&mut watched)? {
                    // Released in this instant.
                    None => None,
                    Some(found) => match found.verdict {
                        Verdict::Dead => self.replace_dead(&found)?,
                        Verdict::Stale => self.take_over(&found)?,
                        Verdict::Held => None,
                    },
                },
            };
            let Some(taken) = taken else {
                drop(signals);
                self.wait_for(watched.as_ref(), began_ms, attempt)?;
                continue;
            };
            return Ok(Inside {
                ledger: self,
                lock: Some(taken.lock),
                changed: (attempt == 0 && watched.is_none()).then_some(changed),
                owes_filler: taken.owes_filler,
                warnings: taken.warnings,
                mutex: Some(mutex),
                _signals: signals,
                _stops: stops,
            });
        }
        unreachable!("an endless loop is left from its inside")
    }

    /// Was a lock taken over on this boot? Its writer may come back and release a lock that isn't its own: of ours, only directories
    /// withstand that.
    fn is_wary(&self) -> bool {
        match self.disk.read(WARY, WARY_BYTES_MAX) {
            Ok(Entry::Missing) => false,
            Ok(Entry::File(content)) => {
                let boot_id = content.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                self.me.boot_id.as_ref().is_none_or(|ours| boot_id == ours.as_bytes())
            }
            _ => true,
        }
    }

    /// Nothing was taken over after all.
    pub(super) fn stop_being_wary(&self) {
        let _ = self.disk.remove(WARY);
    }

    /// Be wary from now on, whatever becomes of us.
    pub(super) fn beware(&self) -> Result<(), Error> {
        if self.is_wary() {
            return Ok(());
        }
        let boot_id = self.me.boot_id.as_deref().unwrap_or_default();
        self.disk.overwrite(WARY, format!("{boot_id}\n").as_bytes()).at("write", &self.path, WARY)
    }

    /// Makes the lock, unless something has its name.
    fn try_lock(&self, kind: Kind) -> Result<Option<Lock<'_>>, Error> {
        let made = match kind {
            Kind::File => self.link_lock(LOCK, self.random()?, None),
            Kind::Directory => {
                let (dir, stamp) = self.make_lock_dir(None)?;
                let made = self.disk.rename_new(&dir, LOCK);
                if made.is_err() {
                    self.clear_dir(&dir);
                }
                match made {
                    // A file system on which a directory can't be put where nothing is: a file is better than no lock.
                    Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                        self.link_lock(LOCK, self.random()?, None)
                    }
                    made => made.map(|()| Lock { stamp, kind, _file: None }),
                }
            }
        };
        match made {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(Error::io("make", &joined(&self.path, LOCK), error)),
        }
    }

    /// Puts a complete lock file at `path`. It is looked at before: once it is there, nothing may fail that would leave it there.
    pub(super) fn link_lock(&self, path: &str, nonce: u128, took_over: Option<String>) -> std::io::Result<Lock<'_>> {
        let note = Note { took_over, ..Note::of(&self.me, self.now().wall, nonce) }.render();
        let mode = if self.disk.is_shared() { SHARED_LOCK_MODE } else { LOCK_MODE };
        let file = self.disk.unnamed(&note, mode)?;
        let stamp = file.stamp()?;
        file.link(path)?;
        Ok(Lock { stamp, kind: Kind::File, _file: Some(file) })
    }

    /// A directory that is a lock of ours, complete, still in our own state.
    pub(super) fn make_lock_dir(&self, took_over: Option<String>) -> Result<(String, Stamp), Error> {
        let nonce = self.random()?;
        let note = Note { took_over, ..Note::of(&self.me, self.now().wall, nonce) }.render();
        let dir = dir_of(&format!("{nonce:032x}"));
        self.disk.make_dir(&dir).at("make", &self.path, &dir)?;
        let file = format!("{dir}/{NOTE}");
        let made = self.disk.create(&file, &note).and_then(|_| self.disk.stamp(&dir));
        let stamp = made.and_then(|stamp| stamp.ok_or_else(|| std::io::ErrorKind::NotFound.into()));
        match stamp.at("write", &self.path, &file) {
            Ok(stamp) => Ok((dir, stamp)),
            Err(error) => {
                self.clear_dir(&dir);
                Err(error)
            }
        }
    }

    /// Removes a lock directory of ours that nobody sees as a lock any more.
    pub(super) fn clear_dir(&self, dir: &str) {
        let _ = self.disk.remove(&format!("{dir}/{NOTE}"));
        let _ = self.disk.remove_dir(dir);
    }

    fn wait_for(&self, found: Option<&Found>, began_ms: u64, attempt: u64) -> Result<(), Error> {
        // It was released in this instant: tried again at once, unless that goes on and on.
        if found.is_none() && attempt < RELEASES_MAX {
            return Ok(());
        }
        let waited_ms = self.now().monotonic_ms.saturating_sub(began_ms);
        let timeout_ms = u64::try_from(self.patience.timeout.as_millis()).unwrap_or(u64::MAX);
        let poll = self.patience.poll.max(Duration::from_millis(1));
        // By the clock, and by count where the clock stands.
        let attempts_max = timeout_ms / u64::try_from(poll.as_millis()).unwrap_or(1).max(1);
        if waited_ms >= timeout_ms || attempt > attempts_max.saturating_mul(4) {
            found.inspect(|found| self.note_sighting(found));
            let who = found.map_or_else(|| "others are always faster".to_owned(), |found| found.describe(self));
            return Err(self.timed_out(&who));
        }
        let left = Duration::from_millis(timeout_ms - waited_ms);
        sleep_on(&[], poll.min(left)).at("wait for", &self.path, LOCK)?;
        Ok(())
    }

    fn no_mutex(&self, failure: NoMutex) -> Error {
        match failure {
            NoMutex::Io(source) => Error::io("lock", &self.path, source),
            NoMutex::Busy(who) => self.timed_out(&format!("it is held by {who}")),
        }
    }

    fn timed_out(&self, who: &str) -> Error {
        let message = format!("timeout waiting for lock: {} is busy: {who}", self.path.display());
        Error::new(ErrorKind::Busy, message)
            .hint("try again; `lokt ledger doctor` explains the lock, --timeout waits longer")
    }
}

impl Inside<'_> {
    /// Was the lock somebody else's when we came?
    pub(super) fn has_waited(&self) -> bool {
        self.changed.is_none()
    }

    /// Finds the head.
    pub(super) fn catch_up(&self) -> Result<Head, Error> {
        self.ledger.catch_up_since(self.changed)
    }

    /// Gives the shared lock back, notes the head, after `appended` more events, and what `note` notes, and gives our own back.
    pub(super) fn leave(mut self, head: &Head, appended: u64, note: &mut dyn FnMut()) -> Left {
        let kept_lock = self.unlock();
        self.ledger.note_head(head, appended);
        note();
        Left { warnings: std::mem::take(&mut self.warnings), lost_lock: !kept_lock }
    }

    /// False: the lock wasn't ours any more.
    fn unlock(&mut self) -> bool {
        let Some(lock) = self.lock.take() else { return true };
        // Whoever frees the name before that number is filled gives it to the next one, and the late writer replaces what that writes.
        if self.owes_filler {
            return true;
        }
        match self.ledger.give_back(&lock) {
            Ok(was_ours) => {
                if !was_ours {
                    let path = self.ledger.at(LOCK);
                    let why = "was taken away by another program while it was ours";
                    self.warnings.push(format!("{} {why}", path.display()));
                }
                was_ours
            }
            Err(error) => {
                self.warnings.push(format!("{} could not be removed: {error}", self.ledger.at(LOCK).display()));
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

impl Ledger {
    /// Removes our lock. False: it isn't ours any more, and is left alone.
    fn give_back(&self, lock: &Lock<'_>) -> std::io::Result<bool> {
        let there = self.disk.stamp(LOCK)?;
        // Its size too: a directory isn't kept open, and its number may be another's by now.
        let identity = |stamp: Stamp| (stamp.dev, stamp.ino, stamp.size);
        if there.map(identity) != Some(identity(lock.stamp)) {
            return Ok(false);
        }
        match lock.kind {
            Kind::File => self.disk.remove(LOCK)?,
            Kind::Directory => {
                let gone = format!("{STATE}/gone-{:032x}", self.machine.random()?);
                self.disk.rename(LOCK, &gone)?;
                self.clear_dir(&gone);
            }
        }
        Ok(true)
    }

    /// Our lock was taken away while we were inside, so somebody else may be: waits until nobody is, as long as for any lock. Whoever it is
    /// may still replace what we have just published.
    pub(super) fn see_them_out(&self) -> Result<(), Error> {
        self.beware()?;
        let began_ms = self.now().monotonic_ms;
        let mut watched = None;
        for attempt in 0.. {
            match self.look_at_lock(&mut watched)? {
                Some(found) if found.verdict == Verdict::Held => self.wait_for(Some(&found), began_ms, attempt)?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}
