//! Directories and files of snapshots, below `.jvs`.

use std::path::PathBuf;

use lokt_core::snapshot::id::SnapshotId;

use crate::repo::Repository;
use lokt_sys::error::{At as _, Error};

/// Trees, their manifests, their receipts.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// Descriptors of snapshots.
pub(crate) const DESCRIPTORS: &str = "descriptors";
/// Announced work in progress.
pub(crate) const INTENTS: &str = "intents";
/// Trees that are about to replace a worktree's.
pub(crate) const RESTORES: &str = "restores";
/// Names of snapshots.
pub(crate) const REFS: &str = "refs";
/// Everything about which snapshots are kept and which are removed.
pub(crate) const GC: &str = "gc";
/// Records of removed snapshots.
pub(crate) const TOMBSTONES: &str = "gc/tombstones";
/// Pins.
pub(crate) const PINS: &str = "gc/pins";

pub(crate) fn manifest_file(id: &SnapshotId) -> String {
    format!("{SNAPSHOTS}/{id}.manifest")
}

pub(crate) fn receipt_file(id: &SnapshotId) -> String {
    format!("{SNAPSHOTS}/{id}.ready")
}

pub(crate) fn descriptor_file(id: &SnapshotId) -> String {
    format!("{DESCRIPTORS}/{id}.json")
}

impl Repository {
    /// Returns the directory of a snapshot's files.
    pub fn tree_of(&self, id: &SnapshotId) -> PathBuf {
        self.path.join(SNAPSHOTS).join(id.as_str())
    }

    /// Creates a directory of `.jvs` unless it exists.
    pub(crate) fn make_place(&self, dir: &str) -> Result<(), Error> {
        match self.disk.make_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            done => done.at("make", &self.path, dir),
        }
    }
}
