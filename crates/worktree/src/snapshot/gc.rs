//! Removal of snapshots. It is planned from the current state, planned again before anything is
//! touched, and carried out in steps that the next process can finish. Removed snapshots are
//! deleted an hour later: a process that reads one now can continue to.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::Descriptor;
use lokt_core::snapshot::gc::{Plan, Retention, Roots, plan};
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::tombstone::{GcState, Tombstone};
use lokt_core::time::millis_between;
use serde_json::Map;

use super::catalog::{BYTES_MAX, Catalog};
use super::places::{DESCRIPTORS, SNAPSHOTS, TOMBSTONES, descriptor_file, manifest_file, receipt_file};
use crate::repo::replace_file;
use crate::repo::{MAIN, Repository, TRASH};
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error};
use lokt_sys::look::look;
use lokt_sys::payload;
use lokt_sys::warnings::WithWarnings;

/// Time in ms after which an entry of the trash is deleted.
const TRASH_MS: i64 = 3_600_000;
/// Maximum wait for processes that make or use snapshots.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request to `gc`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcWish {
    /// The snapshots to keep, besides those that are kept anyway.
    pub retention: Retention,
    /// Delete removed snapshots at once, and everything in the trash.
    pub at_once: bool,
}

/// Result of `gc`.
#[derive(Debug)]
pub struct GcDone {
    /// The plan.
    pub plan: Plan,
    /// Snapshots that were removed.
    pub removed: Vec<SnapshotId>,
    /// Snapshots that could not be removed, and why.
    pub failed: Vec<(SnapshotId, String)>,
    /// Entries of the trash that could not be deleted, and why.
    pub undeleted: Vec<(PathBuf, String)>,
    /// Number of entries of the trash that were deleted.
    pub emptied: u64,
    /// Number of entries that are still there.
    pub in_trash: u64,
}

impl GcDone {
    /// Reports whether everything was removed that was to be removed.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.undeleted.is_empty()
    }
}

/// Removes snapshots, and keeps them in the trash for an hour.
pub struct Gc<'r> {
    pub(crate) repo: &'r Repository,
}

impl Gc<'_> {
    /// Returns what would be removed.
    pub fn plan(&self, retention: Retention) -> Result<Plan, Error> {
        let catalog = self.repo.snapshots().catalog()?;
        self.plan_for(&catalog, retention)
    }

    fn plan_for(&self, catalog: &Catalog, retention: Retention) -> Result<Plan, Error> {
        let (mut worktrees, mut bases) = (BTreeSet::new(), BTreeSet::new());
        for name in self.repo.worktree_names()? {
            // An unreadable configuration may say that something is kept.
            if let Some(config) = self.repo.config(&name)? {
                bases.extend(config.base().and_then(SnapshotId::parse));
                worktrees.insert(name.to_string());
            }
        }
        // Unusable snapshots are evidence, and so are those that they were made from.
        let spoiled = catalog.spoiled.iter().map(|spoiled| spoiled.id.clone());
        let roots = Roots {
            worktrees,
            heads: catalog.heads.values().cloned().collect(),
            bases,
            pins: catalog
                .snapshots
                .iter()
                .filter(|listed| listed.pinned)
                .map(|listed| listed.descriptor.id.clone())
                .collect(),
            refs: self.repo.snapshots().referred()?,
            running: self.repo.snapshots().running()?.into_iter().chain(self.vouched_for()?).chain(spoiled).collect(),
        };
        Ok(plan(&catalog.lineage(), retention, &roots, self.repo.machine.now().wall))
    }

    /// Returns the snapshots that the chains vouch for: their receipts may not exist yet. Also
    /// those that a worktree may go back to.
    fn vouched_for(&self) -> Result<Vec<SnapshotId>, Error> {
        let vouched = self.repo.snapshots().vouched()?.into_values();
        Ok(vouched.flat_map(|vouched| vouched.pending.into_iter().chain(vouched.was_head)).collect())
    }

    /// Removes the snapshots that are planned to be removed.
    pub fn run(&self, wish: &GcWish) -> Result<WithWarnings<GcDone>, Error> {
        let alone = self.be_alone(PATIENCE)?;
        let catalog = self.repo.snapshots().catalog()?;
        let plan = self.plan_for(&catalog, wish.retention)?;
        let mut done =
            GcDone { plan, removed: Vec::new(), failed: Vec::new(), undeleted: Vec::new(), emptied: 0, in_trash: 0 };
        for id in self.half_collected()? {
            if let Err(error) = self.collect(&id, "gc, finished") {
                done.failed.push((id, error.to_string()));
            }
        }
        for id in self.marked()?.into_iter().filter(|id| catalog.get(id).is_some()) {
            // The process that marked it got no further, and it may be in use since then: only the
            // plan counts.
            let path = format!("{TOMBSTONES}/{id}.json");
            self.repo.disk.remove(&path).at("remove", &self.repo.path, &path)?;
        }
        for id in done.plan.candidates.iter().map(|node| node.id.clone()) {
            match self.collect(&id, "gc") {
                Ok(()) => done.removed.push(id),
                Err(error) => done.failed.push((id, error.to_string())),
            }
        }
        drop(alone);
        let mut warnings = Vec::new();
        if !done.removed.is_empty() {
            let ids: Vec<&str> = done.removed.iter().map(SnapshotId::as_str).collect();
            let details: Map<_, _> = [("removed".to_owned(), ids.into())].into_iter().collect();
            warnings.extend(self.repo.note("gc_run", &LockName::new(MAIN).expect("it is a good name"), details));
        }
        self.empty_trash(wish.at_once, &mut done)?;
        Ok(WithWarnings { value: done, warnings })
    }

    /// Returns the snapshots whose removal was begun. Visible ones aren't among them: they may be
    /// used again.
    pub(crate) fn half_collected(&self) -> Result<Vec<SnapshotId>, Error> {
        let marked = self.marked()?;
        if marked.is_empty() {
            return Ok(marked);
        }
        let catalog = self.repo.snapshots().catalog()?;
        let is_visible =
            |id: &SnapshotId| catalog.get(id).is_some() || catalog.spoiled.iter().any(|spoiled| spoiled.id == *id);
        Ok(marked.into_iter().filter(|id| !is_visible(id)).collect())
    }

    /// Finishes a removal that was begun, while no process uses a snapshot. Returns false if there
    /// is nothing to finish.
    pub(crate) fn finish_collecting(&self, id: &SnapshotId, reason: &str) -> Result<bool, Error> {
        let _alone = self.be_alone(PATIENCE)?;
        if !self.half_collected()?.contains(id) {
            return Ok(false);
        }
        self.collect(id, reason).map(|()| true)
    }

    /// Returns the snapshots that are marked for removal.
    fn marked(&self) -> Result<Vec<SnapshotId>, Error> {
        let mut half = Vec::new();
        for id in self.repo.snapshots().ids_in(TOMBSTONES, ".json")? {
            let path = format!("{TOMBSTONES}/{id}.json");
            if let Entry::File(content) = self.repo.disk.read(&path, BYTES_MAX).at("read", &self.repo.path, &path)?
                && Tombstone::parse(&content.bytes).is_ok_and(|tombstone| tombstone.state == GcState::Marked)
            {
                half.push(id);
            }
        }
        Ok(half)
    }

    /// Moves a snapshot to the trash. Each step may have been done before. First it is marked, then
    /// it is no longer visible, then its parts are moved.
    fn collect(&self, id: &SnapshotId, reason: &str) -> Result<(), Error> {
        self.bury(id, GcState::Marked, reason)?;
        let receipt = receipt_file(id);
        self.repo.disk.remove(&receipt).at("remove", &self.repo.path, &receipt)?;
        self.repo.disk.sync_dir(SNAPSHOTS).at("sync", &self.repo.path, SNAPSHOTS)?;
        let place = format!("{TRASH}/collected-{id}-{:032x}", self.repo.random()?);
        self.repo.make_place(TRASH)?;
        self.repo.make_place(&place)?;
        for (file, name) in [(descriptor_file(id), "descriptor.json"), (manifest_file(id), "manifest")] {
            match self.repo.disk.rename(&file, &format!("{place}/{name}")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done.at("move away", &self.repo.path, &file)?,
            }
        }
        self.repo.disk.sync_dir(DESCRIPTORS).at("sync", &self.repo.path, DESCRIPTORS)?;
        let tree = self.repo.tree_of(id);
        // Its `..` entry changes, so it must be writable.
        payload::make_writable(&tree).at("move away", &tree, "")?;
        match payload::move_new(&tree, &self.repo.path.join(&place).join("tree")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.at("move away", &tree, "")?,
        }
        self.bury(id, GcState::Committed, reason)
    }

    fn bury(&self, id: &SnapshotId, state: GcState, reason: &str) -> Result<(), Error> {
        self.repo.make_place(TOMBSTONES)?;
        let path = format!("{TOMBSTONES}/{id}.json");
        let known = |path: &str| match self.repo.disk.read(path, BYTES_MAX).at("read", &self.repo.path, path)? {
            Entry::File(content) => Ok(Some(content.bytes)),
            _ => Ok::<_, Error>(None),
        };
        // Its position in the lineage is needed when it is gone.
        let before = known(&path)?.and_then(|bytes| Tombstone::parse(&bytes).ok());
        let descriptor = known(&descriptor_file(id))?.and_then(|bytes| Descriptor::parse(&bytes).ok());
        let of_descriptor = descriptor.map(|of| (Some(of.worktree), of.parent, of.bytes));
        let of_before = before.map(|of| (of.worktree_id, of.parent, of.bytes));
        let (worktree_id, parent, bytes) = of_descriptor.or(of_before).unwrap_or_default();
        let tombstone = Tombstone {
            snapshot_id: id.clone(),
            worktree_id,
            parent,
            state,
            deleted_at: Some(self.repo.machine.now().wall),
            reason: Some(reason.to_owned()),
            bytes,
        };
        replace_file(self.repo, TOMBSTONES, &path, &tombstone.to_bytes())
    }

    /// Deletes entries that have been in the trash for long enough, or everything.
    fn empty_trash(&self, at_once: bool, done: &mut GcDone) -> Result<(), Error> {
        let clock = self.repo.disk.file_clock().ok().flatten();
        for name in self.repo.disk.list(TRASH).at("list", &self.repo.path, TRASH)? {
            let path = self.repo.path.join(TRASH).join(&name);
            if !at_once && !is_old(&path, clock) {
                done.in_trash += 1;
                continue;
            }
            match payload::destroy(&path) {
                Ok(()) => done.emptied += 1,
                Err(error) => {
                    done.in_trash += 1;
                    done.undeleted.push((path, error.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of entries in the trash.
    pub fn in_trash(&self) -> Result<u64, Error> {
        Ok(self.repo.disk.list(TRASH).at("list", &self.repo.path, TRASH)?.len() as u64)
    }

    /// Returns the directory of the trash.
    pub fn trash(&self) -> PathBuf {
        self.repo.path.join(TRASH)
    }
}

fn is_old(path: &std::path::Path, clock: Option<Timestamp>) -> bool {
    let (Ok(Some(found)), Some(now)) = (look(path), clock) else { return false };
    millis_between(found.changed, now) > TRASH_MS
}
