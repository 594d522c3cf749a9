//! Events on disk that have no number yet: complete and durable before any lock is acquired.
//!
//! A sync takes far longer than everything else, and a sync inside the lock delays all other
//! writers. So each event is written and synced beforehand, as a file without a name. Many events
//! are written to a directory of their own and synced together: that takes one descriptor and one
//! sync.

use std::cell::Cell;
use std::io;

use super::FileLog;
use crate::answers::Progress;
use lokt_sys::disk::{Disk, NewFile, Stamp, Unnamed};
use lokt_sys::error::{At as _, Error};
use lokt_sys::signals::Blocked;

/// Minimum number of events for which one sync of the file system is faster than one per event.
const BATCH_MIN: usize = 16;
/// Mode of events: all users may read them, whatever the umask.
const EVENT_MODE: u32 = 0o644;
/// A file that is locked while a batch is in use.
pub(super) const BATCH_LOCK: &str = "lock";

/// Durable events, in the order of publication.
pub(super) struct Prepared<'l> {
    /// Their bytes.
    pub(super) events: Vec<Vec<u8>>,
    files: Files<'l>,
}

enum Files<'l> {
    Unnamed(Vec<Box<dyn Unnamed + 'l>>),
    Batch(Batch<'l>),
}

/// A directory of events; removed with what is left in it.
struct Batch<'l> {
    disk: &'l dyn Disk,
    dir: String,
    count: usize,
    /// The number of events that have left it.
    published: Cell<usize>,
    _lock: Box<dyn NewFile>,
}

impl FileLog {
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
        let dir = self.temp("batch-").at("get random bits for", &self.path, "")?;
        let lock = format!("{dir}/{BATCH_LOCK}");
        let file = self.disk.create(&lock, b"").at("write", &self.path, &lock)?;
        file.keep_locked().at("lock", &self.path, &lock)?;
        let total = events.len() as u64;
        let mut batch = Batch { disk: &*self.disk, dir, count: 0, published: Cell::new(0), _lock: file };
        for (nth, bytes) in events.iter().enumerate() {
            let path = batch.path(nth);
            // Counted first: a half-written file is removed, too.
            batch.count = nth + 1;
            self.disk.create_as(&path, bytes, EVENT_MODE).at("write", &self.path, &path)?;
            progress(batch.count as u64, total);
        }
        self.disk.sync_fs().at("sync", &self.path, "")?;
        Ok(batch)
    }
}

impl Prepared<'_> {
    /// The identity of an event's file.
    pub(super) fn stamp(&self, nth: usize) -> io::Result<Stamp> {
        match &self.files {
            Files::Unnamed(files) => files[nth].stamp(),
            Files::Batch(batch) => batch.disk.stamp(&batch.path(nth))?.ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// Gives an event its name. Fails with `AlreadyExists` if something has that name.
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
        // A sweep finds only batches that have a lock file.
        if left == 0 {
            let _ = self.disk.remove(&format!("{}/{BATCH_LOCK}", self.dir));
            let _ = self.disk.remove_dir(&self.dir);
        }
    }
}
