//! Events on disk that have no number yet: complete and durable before any lock is taken.
//!
//! Syncing takes far longer than everything else, and whoever syncs inside the lock keeps all others waiting for it. So each event is
//! written and synced beforehand, as a file without a name. Many of them are written as files of a directory of their own and synced
//! together: that takes one descriptor and one sync for all of them.

use std::cell::Cell;
use std::io;

use super::Ledger;
use super::answers::Progress;
use super::settings::STATE;
use crate::error::{At as _, Error};
use crate::sys::disk::{Disk, NewFile, Stamp, Unnamed};
use crate::sys::signals::Blocked;

/// From so many events on, one sync of everything is faster than one for each.
const BATCH_MIN: usize = 16;
/// Everybody may read events, whatever the umask.
const EVENT_MODE: u32 = 0o644;
/// Locked while a batch is in use.
const BATCH_LOCK: &str = "lock";

/// Durable events, in the order in which they are to be published.
pub(super) struct Prepared<'l> {
    /// Their bytes.
    pub(super) events: Vec<Vec<u8>>,
    files: Files<'l>,
}

enum Files<'l> {
    Unnamed(Vec<Box<dyn Unnamed + 'l>>),
    Batch(Batch<'l>),
}

/// A directory of events; removed with whatever is left in it.
struct Batch<'l> {
    disk: &'l dyn Disk,
    dir: String,
    count: usize,
    /// So many of them have left it.
    published: Cell<usize>,
    _lock: Box<dyn NewFile>,
}

impl Ledger {
    /// Writes events and makes them durable.
    pub(super) fn prepare(&self, events: Vec<Vec<u8>>, progress: &mut Progress<'_>) -> Result<Prepared<'_>, Error> {
        let _quiet = Blocked::file_size();
        let files = if events.len() < BATCH_MIN {
            let files = events.iter().map(|bytes| {
                let file = self.disk.unnamed(bytes, EVENT_MODE)?;
                file.sync()?;
                Ok(file)
            });
            Files::Unnamed(files.collect::<io::Result<_>>().at("write an event in", &self.path, "")?)
        } else {
            Files::Batch(self.prepare_batch(&events, progress)?)
        };
        Ok(Prepared { events, files })
    }

    fn prepare_batch(&self, events: &[Vec<u8>], progress: &mut Progress<'_>) -> Result<Batch<'_>, Error> {
        let dir = format!("{STATE}/batch-{:032x}", self.random()?);
        let lock = format!("{dir}/{BATCH_LOCK}");
        let file = self.disk.create(&lock, b"").at("write", &self.path, &lock)?;
        file.keep_locked().at("lock", &self.path, &lock)?;
        let total = events.len() as u64;
        let mut batch = Batch { disk: &*self.disk, dir, count: 0, published: Cell::new(0), _lock: file };
        for (nth, bytes) in events.iter().enumerate() {
            let path = batch.path(nth);
            // Counted first: what was written half is removed, too.
            batch.count = nth + 1;
            self.disk.create_as(&path, bytes, EVENT_MODE).at("write", &self.path, &path)?;
            progress(batch.count as u64, total);
        }
        self.disk.sync_fs().at("sync", &self.path, "")?;
        Ok(batch)
    }
}

impl Prepared<'_> {
    /// Which file an event is in.
    pub(super) fn stamp(&self, nth: usize) -> io::Result<Stamp> {
        match &self.files {
            Files::Unnamed(files) => files[nth].stamp(),
            Files::Batch(batch) => batch.disk.stamp(&batch.path(nth))?.ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// Gives an event its name, unless something has it (`AlreadyExists`).
    pub(super) fn publish(&self, nth: usize, file: &str) -> io::Result<()> {
        match &self.files {
            Files::Unnamed(files) => files[nth].link(file),
            Files::Batch(batch) => {
                batch.disk.rename_new(&batch.path(nth), file)?;
                batch.published.set(nth + 1);
                Ok(())
            }
        }
    }
}

impl Batch<'_> {
    fn path(&self, nth: usize) -> String {
        format!("{}/{nth}", self.dir)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let left = (self.published.get()..self.count).filter(|nth| self.disk.remove(&self.path(*nth)).is_err()).count();
        // Only what has its lock is found by those who sweep.
        if left == 0 {
            let _ = self.disk.remove(&format!("{}/{BATCH_LOCK}", self.dir));
            let _ = self.disk.remove_dir(&self.dir);
        }
    }
}

impl Ledger {
    /// Removes what the killed left in our state. Inside, where nobody else makes locks; a batch that is in use is locked.
    pub(super) fn sweep(&self) {
        let Ok(names) = self.disk.list(STATE) else { return };
        for name in names {
            let path = format!("{STATE}/{name}");
            if name.starts_with("swap-") {
                let _ = self.disk.remove(&path);
            } else if name.starts_with("gone-") || name.starts_with("lock-") {
                self.discard(&path);
            } else if name.starts_with("batch-") {
                self.sweep_batch(&path);
            }
        }
    }

    fn sweep_batch(&self, dir: &str) {
        let lock = format!("{dir}/{BATCH_LOCK}");
        // One that has no lock yet was made in this instant, or its maker died in that instant: the next sweep finds it as old.
        if !self.disk.probe(&lock).is_ok_and(|found| found.is_some_and(|file| !file.locked)) {
            return;
        }
        for name in self.disk.list(dir).unwrap_or_default().iter().filter(|name| *name != BATCH_LOCK) {
            let _ = self.disk.remove(&format!("{dir}/{name}"));
        }
        let _ = self.disk.remove(&lock);
        let _ = self.disk.remove_dir(dir);
    }
}
