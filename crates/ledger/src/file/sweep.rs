//! Removes what killed processes left in the ledger's `.lokt` directory.

use super::inside::Inside;
use super::prepared::BATCH_LOCK;
use super::settings::STATE;

impl Inside<'_> {
    /// Removes what killed processes left in our state. No other process makes locks while we are
    /// inside; a batch that is in use is locked.
    pub(super) fn sweep(&self) {
        let Ok(names) = self.log.disk.list(STATE) else { return };
        for name in names {
            let path = format!("{STATE}/{name}");
            if name.starts_with("swap-") {
                let _ = self.log.disk.remove(&path);
            } else if name.starts_with("gone-") || name.starts_with("lock-") {
                self.log.writer_lock().discard(&path);
            } else if name.starts_with("batch-") {
                self.sweep_batch(&path);
            }
        }
    }

    fn sweep_batch(&self, dir: &str) {
        let lock = format!("{dir}/{BATCH_LOCK}");
        // One without a lock was made in this instant, or its maker died then: left for the next
        // sweep.
        if !self.log.disk.probe(&lock).is_ok_and(|found| found.is_some_and(|file| !file.locked)) {
            return;
        }
        for name in self.log.disk.list(dir).unwrap_or_default().iter().filter(|name| *name != BATCH_LOCK) {
            let _ = self.log.disk.remove(&format!("{dir}/{name}"));
        }
        let _ = self.log.disk.remove(&lock);
        let _ = self.log.disk.remove_dir(dir);
    }
}
