//! Snapshots that a user wants kept, whatever `gc` is told.

use crate::snapshot::catalog::Snapshots;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::pin::Pin;

use super::places::PINS;
use crate::repo::{FILE_MODE, publish_new};
use lokt_sys::error::{At as _, Error};

impl Snapshots<'_> {
    /// Pins a snapshot. Returns false if it is already pinned.
    pub fn pin(&self, id: &SnapshotId, note: Option<&str>) -> Result<bool, Error> {
        // Not while `gc` removes what it has planned to; and a removed snapshot can't be kept.
        let _gc = self.repo.gc().keep_from(id)?;
        self.repo.make_place(PINS)?;
        let path = format!("{PINS}/{id}.json");
        let pin = Pin {
            snapshot_id: id.clone(),
            created_at: Some(self.repo.machine.now().wall),
            created_by: Some(self.repo.me.owner.clone()),
            note: note.map(str::to_owned),
        };
        let is_new =
            publish_new(&*self.repo.disk, &path, &pin.to_bytes(), FILE_MODE).at("write", &self.repo.path, &path)?;
        self.repo.disk.sync_dir(PINS).at("sync", &self.repo.path, PINS)?;
        Ok(is_new)
    }

    /// Unpins a snapshot. Returns false if it wasn't pinned.
    pub fn unpin(&self, id: &SnapshotId) -> Result<bool, Error> {
        let path = format!("{PINS}/{id}.json");
        let was = self.repo.disk.stamp(&path).at("look at", &self.repo.path, &path)?.is_some();
        self.repo.disk.remove(&path).at("remove", &self.repo.path, &path)?;
        if was {
            self.repo.disk.sync_dir(PINS).at("sync", &self.repo.path, PINS)?;
        }
        Ok(was)
    }
}
