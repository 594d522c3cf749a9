//! Keeps `gc` away while a process creates or uses a snapshot. That saves work and errors, but
//! nothing depends on it: snapshots that are being created or restored are known from their
//! intents, too.

use crate::snapshot::gc::Gc;
use std::time::Duration;

use lokt_core::snapshot::id::SnapshotId;

use super::places::GC;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::shared_lock::{Having, SharedLock};

/// Maximum wait for `gc`, which works for as long as it takes to move directories.
const PATIENCE: Duration = Duration::from_secs(10);

impl Gc<'_> {
    /// Keeps `gc` away until it is dropped.
    pub(crate) fn keep_away(&self) -> Result<SharedLock, Error> {
        self.lock(Having::Together, PATIENCE)?.ok_or_else(|| {
            let message = format!("snapshots of {} are being removed", self.repo.top.display());
            Error::new(ErrorKind::Busy, message).hint("`lokt snapshot gc` takes a moment; try again")
        })
    }

    /// Like `keep_away`, for one snapshot, which may have been removed since the caller found it.
    pub(crate) fn keep_from(&self, id: &SnapshotId) -> Result<SharedLock, Error> {
        let away = self.keep_away()?;
        if self.repo.snapshots().listed(id)?.is_none() {
            return Err(Error::new(ErrorKind::Missing, format!("there is no snapshot {id} any more"))
                .hint("`lokt snapshot history --all` shows those that there are"));
        }
        Ok(away)
    }

    /// Waits until no process creates or uses a snapshot.
    pub(crate) fn be_alone(&self, patience: Duration) -> Result<SharedLock, Error> {
        self.lock(Having::Alone, patience)?.ok_or_else(|| {
            let message = format!("somebody makes or restores a snapshot of {}", self.repo.top.display());
            Error::new(ErrorKind::Busy, message).hint("try again when that is done")
        })
    }

    fn lock(&self, having: Having, patience: Duration) -> Result<Option<SharedLock>, Error> {
        self.repo.make_place(GC)?;
        let file = self.repo.path.join(GC).join("mutex");
        SharedLock::take(&file, having, patience).at("lock", &file, "")
    }
}
