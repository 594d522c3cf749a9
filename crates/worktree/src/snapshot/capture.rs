//! Copies the files of a worktree to the directory of a snapshot.

use crate::snapshot::create::SnapshotTaker;
use jiff::Timestamp;
use lokt_core::snapshot::descriptor::{Consistency, Schema};
use lokt_core::snapshot::entry::{Entry, Kind};
use lokt_core::snapshot::hash::Hash;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::manifest::{Header, Manifest};
use lokt_core::snapshot::risk::{Risk, Skipped};

use super::answers::SnapshotWish;
use super::trouble::of_tree;
use super::verify::as_files;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_tree::{Control, Reuse, ignored_in};

/// A copy. It is durable after [`Captured::sync`], together with whatever else was written there
/// before.
pub(super) struct Captured {
    copied: lokt_tree::Copied,
    pub(super) at: Timestamp,
    pub(super) engine: &'static str,
    pub(super) root_hash: [u8; 32],
    /// The program that its descriptor is written for.
    pub(super) schema: Schema,
    /// The hash by the recipe of `jvs`, if `jvs` has to read the descriptor.
    pub(super) jvs_root_hash: Option<Hash>,
    /// The manifest's bytes.
    pub(super) manifest: Vec<u8>,
    pub(super) changed: Vec<Vec<u8>>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) skipped: Vec<Skipped>,
    pub(super) skipped_count: u64,
    pub(super) reused_files: u64,
    pub(super) copied_files: u64,
    pub(super) copied_bytes: u64,
}

impl SnapshotTaker<'_> {
    /// Copies everything to the directory of snapshot `id`.
    pub(super) fn capture(
        &self,
        id: &SnapshotId,
        wish: &SnapshotWish<'_>,
        schema: Schema,
        control: &Control<'_>,
    ) -> Result<Captured, Error> {
        let place = self.worktree.repo.files_of(&self.worktree.name);
        let ignore = ignored_in(&place).at("read what is ignored in", &place, "")?;
        let source = self.worktree.working_files().files(wish.with_git)?;
        let before = self.snapshot_before()?;
        let reuse = before.as_ref().map(|(of, manifest)| (self.worktree.repo.tree_of(of), manifest));
        let reuse = reuse.as_ref().map(|(tree, manifest)| Reuse { tree, manifest });
        let into = self.worktree.repo.tree_of(id);
        let captured =
            lokt_tree::capture(&source, &ignore, &into, wish.consistency, reuse, control).map_err(of_tree)?;
        let at = self.worktree.repo.machine.now().wall;
        let lokt_tree::Captured { mut copied, scan, trusted, changed } = captured;
        let scanned_at = scan.at;
        let manifest =
            Manifest { header: Header { scanned_at, trusted }, entries: std::mem::take(&mut copied.entries) };
        let odd =
            |why: String| Error::new(ErrorKind::Unusable, format!("{} can't be described: {why}", place.display()));
        let lost: Vec<_> = copied.lost.iter().map(|lost| (&*lost.path, String::from_utf8_lossy(&lost.what))).collect();
        let lost = lost.iter().map(|(path, what)| (*path, &**what));
        let skipped = scan.skipped.iter().map(|skipped| (&*skipped.path, skipped.kind));
        let (skipped, skipped_count) = Skipped::list(skipped.chain(lost));
        let (files, bytes) = volume(&manifest.entries);
        let jvs_root_hash = match schema.era() {
            Some(_) => {
                let entries = as_files(manifest.entries.clone());
                Some(self.worktree.repo.snapshots().old_root_hash(id, schema, &entries, control).map_err(of_tree)?)
            }
            None => None,
        };
        Ok(Captured {
            schema,
            jvs_root_hash,
            at,
            engine: copied.engine,
            root_hash: manifest.root_hash().map_err(odd)?,
            files,
            bytes,
            manifest: manifest.to_bytes().map_err(odd)?,
            changed,
            skipped,
            skipped_count,
            reused_files: copied.reused_files,
            copied_files: copied.copied_files,
            copied_bytes: copied.copied_bytes,
            copied,
        })
    }

    /// Returns the snapshot that the worktree is at, with its manifest, if files that haven't
    /// changed since can be reused from it.
    fn snapshot_before(&self) -> Result<Option<(SnapshotId, Manifest)>, Error> {
        let Some(head) = self.worktree.head()? else { return Ok(None) };
        let Some(listed) = self.worktree.repo.snapshots().listed(&head)? else { return Ok(None) };
        // A damaged manifest is of no use here; the new snapshot is complete without it.
        let manifest = self.worktree.repo.snapshots().stored_manifest(&listed).unwrap_or_default();
        Ok(manifest.filter(|manifest| manifest.header.trusted).map(|manifest| (head, manifest)))
    }
}

impl Captured {
    /// Reports whether [`Captured::sync`] also makes durable what was written beside the copy.
    pub(super) fn syncs_all(&self) -> bool {
        self.copied.syncs_all()
    }

    /// Waits until it is on the disk.
    pub(super) fn sync(&self, control: &Control<'_>) -> Result<(), Error> {
        self.copied.sync(control).map_err(of_tree)
    }

    /// Returns the warning in a snapshot that isn't guaranteed to be of one moment.
    pub(super) fn risk(&self, consistency: Consistency) -> Option<Risk> {
        (consistency == Consistency::BestEffort).then(|| Risk::new(self.changed.iter().map(Vec::as_slice)))
    }
}

/// Returns the number of files and of bytes.
pub(super) fn volume<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> (u64, u64) {
    let size = |entry: &Entry| if let Kind::File { size, .. } = entry.kind { size } else { 0 };
    let add = |(files, bytes), entry: &Entry| (files + u64::from(entry.kind != Kind::Dir), bytes + size(entry));
    entries.into_iter().fold((0, 0), add)
}
