//! The lock that all programs share, `ledger.lock`: making it, waiting for it and releasing it.
//!
//! It is linked complete from a file without a name, so no program ever finds it empty. After a
//! take-over it is a directory, which a late writer can't remove.

use std::time::Duration;

use lokt_core::ledger::writer_lock::{LOCK, NOTE, Note, Verdict};

use super::FileLog;
use super::inside::{Entered, Inside};
use super::settings::STATE;
use super::takeover::{Found, Taken};
use lokt_sys::call::Call;
use lokt_sys::disk::{Entry, NoMutex, Stamp, Unnamed};
use lokt_sys::error::{At as _, Error, ErrorKind, joined};
use lokt_sys::nap::{Nap, WaitClock};
use lokt_sys::signals::Blocked;

/// The boot on which a lock was taken over from a writer that may come back.
const WARY: &str = ".lokt/wary";
const WARY_BYTES_MAX: usize = 4096;
/// Maximum number of times that the lock exists when it is wanted and is gone when it is inspected,
/// before the caller sleeps.
const RELEASES_MAX: u64 = 64;
/// Mode of a lock file: private, as documented.
const LOCK_MODE: u32 = 0o600;
/// Mode of a lock file where other users may write to the ledger: they must be able to tell whether
/// its writer is dead.
const SHARED_LOCK_MODE: u32 = 0o644;

/// The lock that all programs share, whether it is there or not.
#[derive(Clone, Copy)]
pub(super) struct WriterLock<'l> {
    pub(super) log: &'l FileLog,
}

/// The lock file or directory that is ours.
pub(super) struct Lock<'l> {
    pub(super) stamp: Stamp,
    pub(super) kind: Kind,
    /// The file, kept open: while it is, no other one gets its inode number.
    pub(super) _file: Option<Box<dyn Unnamed + 'l>>,
}

/// The form of a lock of ours. A directory that isn't empty withstands programs that release a lock
/// that isn't theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// Path at which the lock directory with this nonce is made. What it displaces is there until it
/// has been inspected.
pub(super) fn dir_of(nonce: &str) -> String {
    format!("{STATE}/lock-{nonce}")
}

impl FileLog {
    /// The lock that all programs share.
    pub(super) fn writer_lock(&self) -> WriterLock<'_> {
        WriterLock { log: self }
    }

    /// Acquires both locks.
    pub(super) fn enter(&self, call: &Call<'_>) -> Result<Inside<'_>, Error> {
        self.writer_lock().enter(call)
    }
}

/// A wait for the lock.
struct LockWait<'c> {
    clock: WaitClock<'c>,
    timeout: Duration,
    call: &'c Call<'c>,
}

impl<'l> WriterLock<'l> {
    fn enter(self, call: &Call<'_>) -> Result<Inside<'l>, Error> {
        let wait = self.wait(call);
        let stops = Blocked::stops();
        let mutex = self.log.disk.lock(wait.timeout).map_err(|failure| self.no_mutex(failure))?;
        let kind = if self.is_wary() { Kind::Directory } else { Kind::File };
        // Our own lock changes the directory. A program that enters and leaves between this check
        // and the lock has taken the number that we are going to use, which reveals it.
        let changed = self.log.heads().changed()?;
        let mut watched = None;
        for attempt in 0_u64.. {
            let signals = Blocked::all();
            let taken = match self.try_lock(kind)? {
                Some(lock) => Some(Taken { lock, owes_filler: false, warnings: Vec::new() }),
                None => match self.look(&mut watched)? {
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
                self.wait_for(watched.as_ref(), &wait, attempt)?;
                continue;
            };
            let changed = (attempt == 0 && watched.is_none()).then_some(changed);
            return Ok(Inside::new(self, taken, Entered { changed, mutex, signals, stops }));
        }
        unreachable!("an endless loop is left from its inside")
    }

    fn wait<'c>(self, call: &'c Call<'c>) -> LockWait<'c>
    where
        'l: 'c,
    {
        let timeout = call.limit(self.log.patience.timeout, &self.log.now());
        LockWait { clock: WaitClock::start(&*self.log.machine, timeout.into()), timeout, call }
    }

    /// Reports whether a lock was taken over on this boot. Its writer may come back and release a
    /// lock that isn't its own: of ours, only directories withstand that.
    fn is_wary(self) -> bool {
        match self.log.disk.read(WARY, WARY_BYTES_MAX) {
            Ok(Entry::Missing) => false,
            Ok(Entry::File(content)) => {
                let boot_id = content.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                self.log.me.boot_id.as_ref().is_none_or(|ours| boot_id == ours.as_bytes())
            }
            _ => true,
        }
    }

    /// Forgets the warning: nothing was taken over after all.
    pub(super) fn stop_being_wary(self) {
        let _ = self.log.disk.remove(WARY);
    }

    /// Persists that a foreign writer may still be alive on this boot.
    pub(super) fn beware(self) -> Result<(), Error> {
        if self.is_wary() {
            return Ok(());
        }
        let boot_id = self.log.me.boot_id.as_deref().unwrap_or_default();
        self.log.disk.overwrite(WARY, format!("{boot_id}\n").as_bytes()).at("write", &self.log.path, WARY)
    }

    /// Makes the lock, unless something has its name.
    fn try_lock(self, kind: Kind) -> Result<Option<Lock<'l>>, Error> {
        let made = match kind {
            Kind::File => self.link_lock(LOCK, self.log.random()?, None),
            Kind::Directory => {
                let (dir, stamp) = self.make_lock_dir(None)?;
                let made = self.log.disk.rename_new(&dir, LOCK);
                if made.is_err() {
                    self.clear_dir(&dir);
                }
                match made {
                    // This file system can't move a directory to a free name atomically: a file is
                    // better than no lock.
                    Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                        self.link_lock(LOCK, self.log.random()?, None)
                    }
                    made => made.map(|()| Lock { stamp, kind, _file: None }),
                }
            }
        };
        match made {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(Error::io("make", &joined(&self.log.path, LOCK), error)),
        }
    }

    /// Puts a complete lock file at `path`. It is inspected before: once it has its name, nothing
    /// may fail that would leave it there.
    pub(super) fn link_lock(self, path: &str, nonce: u128, took_over: Option<String>) -> std::io::Result<Lock<'l>> {
        let note = Note { took_over, ..Note::of(&self.log.me, self.log.now().wall, nonce) }.render();
        let mode = if self.log.disk.is_shared() { SHARED_LOCK_MODE } else { LOCK_MODE };
        let file = self.log.disk.unnamed(&note, mode)?;
        let stamp = file.stamp()?;
        file.link(path)?;
        Ok(Lock { stamp, kind: Kind::File, _file: Some(file) })
    }

    /// Makes a lock directory of ours, complete, in our own state.
    pub(super) fn make_lock_dir(self, took_over: Option<String>) -> Result<(String, Stamp), Error> {
        let nonce = self.log.random()?;
        let note = Note { took_over, ..Note::of(&self.log.me, self.log.now().wall, nonce) }.render();
        let dir = dir_of(&format!("{nonce:032x}"));
        self.log.disk.make_dir(&dir).at("make", &self.log.path, &dir)?;
        let file = format!("{dir}/{NOTE}");
        let made = self.log.disk.create(&file, &note).and_then(|_| self.log.disk.stamp(&dir));
        let stamp = made.and_then(|stamp| stamp.ok_or_else(|| std::io::ErrorKind::NotFound.into()));
        match stamp.at("write", &self.log.path, &file) {
            Ok(stamp) => Ok((dir, stamp)),
            Err(error) => {
                self.clear_dir(&dir);
                Err(error)
            }
        }
    }

    /// Removes a lock directory of ours that isn't the lock any more.
    pub(super) fn clear_dir(self, dir: &str) {
        let _ = self.log.disk.remove(&format!("{dir}/{NOTE}"));
        let _ = self.log.disk.remove_dir(dir);
    }

    fn wait_for(self, found: Option<&Found>, wait: &LockWait<'_>, attempt: u64) -> Result<(), Error> {
        // It was released in this instant: try again at once, up to a limit.
        if found.is_none() && attempt < RELEASES_MAX {
            return Ok(());
        }
        let timeout_ms = u64::try_from(wait.timeout.as_millis()).unwrap_or(u64::MAX);
        let poll = self.log.patience.poll.max(Duration::from_millis(1));
        // By the clock, and by count if the clock doesn't advance.
        let attempts_max = timeout_ms / u64::try_from(poll.as_millis()).unwrap_or(1).max(1);
        if wait.clock.left().is_zero() || attempt > attempts_max.saturating_mul(4) {
            found.inspect(|found| self.note_sighting(found));
            let who = found.map_or_else(|| "others are always faster".to_owned(), |found| found.describe(self.log));
            return Err(self.timed_out(&who));
        }
        let stop = wait.call.stop();
        Nap::new(&wait.clock).on_all(&stop).every(poll).sleep(None).at("wait for", &self.log.path, LOCK)?;
        if wait.call.is_stopped() {
            let message = format!("stopped while waiting for {}", self.log.at(LOCK).display());
            return Err(Error::new(ErrorKind::Halted, message));
        }
        Ok(())
    }

    fn no_mutex(self, failure: NoMutex) -> Error {
        match failure {
            NoMutex::Io(source) => Error::io("lock", &self.log.path, source),
            NoMutex::Busy(who) => self.timed_out(&format!("it is held by {who}")),
        }
    }

    fn timed_out(self, who: &str) -> Error {
        let message = format!("timeout waiting for lock: {} is busy: {who}", self.log.path.display());
        Error::new(ErrorKind::Busy, message)
            .hint("try again; `lokt ledger doctor` explains the lock, --timeout waits longer")
    }

    /// Removes our lock. Returns false if it isn't ours any more, and is left alone.
    pub(super) fn give_back(self, lock: &Lock<'_>) -> std::io::Result<bool> {
        let there = self.log.disk.stamp(LOCK)?;
        // Its size, too: a directory isn't kept open, and another one may have its inode number by
        // now.
        let identity = |stamp: Stamp| (stamp.dev, stamp.ino, stamp.size);
        if there.map(identity) != Some(identity(lock.stamp)) {
            return Ok(false);
        }
        match lock.kind {
            Kind::File => self.log.disk.remove(LOCK)?,
            Kind::Directory => {
                let gone = self.log.temp("gone-")?;
                self.log.disk.rename(LOCK, &gone)?;
                self.clear_dir(&gone);
            }
        }
        Ok(true)
    }

    /// Waits until no writer is inside, at most as long as for the lock. Our lock was taken away
    /// while we were inside: another writer may be inside now, and may replace what we have just
    /// published.
    pub(super) fn see_them_out(self, call: &Call<'_>) -> Result<(), Error> {
        self.beware()?;
        let wait = self.wait(call);
        let mut watched = None;
        for attempt in 0.. {
            match self.look(&mut watched)? {
                Some(found) if found.verdict == Verdict::Held => self.wait_for(Some(&found), &wait, attempt)?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}
