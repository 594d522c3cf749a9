//! Snapshots that somebody wants kept, whatever `gc` is told.

use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::pin::Pin;

use super::places::PINS;
use crate::error::{At as _, Error};
use crate::repo::{FILE_MODE, Repository, publish_new};

impl Repository {
    /// Keeps a snapshot. False: it is kept already.
    pub fn pin(&self, id: &SnapshotId, note: Option<&str>) -> Result<bool, Error> {
        // Not while `gc` removes what it has planned to; and what it has removed can't be kept.
        let _gc = self.keep_from_gc(id)?;
        self.make_place(PINS)?;
        let path = format!("{PINS}/{id}.json");
        let pin = Pin {
            snapshot_id: id.clone(),
            created_at: Some(self.machine.now().wall),
            created_by: Some(self.me.owner.clone()),
            note: note.map(str::to_owned),
        };
        let is_new = publish_new(&*self.disk, &path, &pin.to_bytes(), FILE_MODE).at("write", &self.path, &path)?;
        self.disk.sync_dir(PINS).at("sync", &self.path, PINS)?;
        Ok(is_new)
    }

    /// Keeps it no longer. False: it wasn't kept.
    pub fn unpin(&self, id: &SnapshotId) -> Result<bool, Error> {
        let path = format!("{PINS}/{id}.json");
        let was = self.disk.stamp(&path).at("look at", &self.path, &path)?.is_some();
        self.disk.remove(&path).at("remove", &self.path, &path)?;
        if was {
            self.disk.sync_dir(PINS).at("sync", &self.path, PINS)?;
        }
        Ok(was)
    }
}
