//! Compares two trees: of snapshots, or the current one of a worktree.

use crate::snapshot::catalog::Snapshots;
use crate::snapshot::worked_in::WorkingFiles;
use std::cmp::Ordering;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lokt_core::snapshot::entry::{Entry, Kind};
use lokt_core::snapshot::hash::{BLAKE3, Hash};
use lokt_core::snapshot::ignore::Ignore;
use lokt_core::snapshot::manifest::{Header, Manifest};
use lokt_core::snapshot::payload::READY;

use super::answers::{Difference, Listed};
use super::catalog::Catalog;
use super::places::manifest_file;
use super::trouble::of_tree;
use super::worked_in::{has_git, without_git};
use crate::lease::Worktree;
use lokt_sys::disk;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_tree::roots::without_roots;
use lokt_tree::{Control, HashOptions, Known, Names, Node, NodeKind, Silent, Tree, TreeError, ignored_in};

/// Maximum size of a manifest in bytes: that would be ten million files.
const MANIFEST_BYTES_MAX: usize = 4 << 30;

impl Snapshots<'_> {
    /// Returns the contents of a snapshot. One of `jvs` has no manifest; its files are read.
    pub(super) fn manifest_of(&self, listed: &Listed, control: &Control<'_>) -> Result<Manifest, Error> {
        let id = &listed.descriptor.id;
        if let Some(manifest) = self.stored_manifest(listed)? {
            // Older ones may contain a lock root, which is not a file of the user either.
            return Ok(Manifest { entries: without_roots(manifest.entries), ..manifest });
        }
        let tree = self.repo.tree_of(id);
        let mut manifest =
            read_tree(&tree, &Ignore::default(), &worked_in(&Known::default(), None), control).map_err(of_tree)?;
        // The marker of that program is not a file of the user.
        manifest.entries.retain(|entry| entry.path != READY);
        Ok(Manifest { entries: without_roots(manifest.entries), ..manifest })
    }

    /// Returns the size of a snapshot's files in bytes. `jvs` doesn't record the size of its own:
    /// they are scanned.
    pub fn bytes_of(&self, listed: &Listed) -> u64 {
        if let Some(bytes) = listed.descriptor.bytes {
            return bytes;
        }
        let halt = AtomicBool::new(false);
        let control = Control::new(&Silent, &halt);
        let scanned = Tree::open(&self.repo.tree_of(&listed.descriptor.id))
            .ok()
            .and_then(|tree| lokt_tree::scan(&tree, &Ignore::default(), &control).ok());
        let nodes = scanned.into_iter().flat_map(|scan| scan.entries);
        let is_file = |node: &Node| node.kind() == NodeKind::File && node.path != READY;
        nodes.filter(is_file).map(|node| node.stat.size).sum()
    }

    /// Returns the manifest, if there is one, and it is the one that the descriptor vouches for.
    pub(super) fn stored_manifest(&self, listed: &Listed) -> Result<Option<Manifest>, Error> {
        let path = manifest_file(&listed.descriptor.id);
        let shown = || self.repo.path.join(&path).display().to_string();
        let damaged = |why: &str| {
            let message = format!("{} {why}", shown());
            Error::new(ErrorKind::PayloadMismatch, message)
                .hint("`lokt snapshot verify --all` says what else is damaged")
        };
        if !listed.descriptor.schema.is_ours() {
            return Ok(None);
        }
        let content = match self.repo.disk.read(&path, MANIFEST_BYTES_MAX).at("read", &self.repo.path, &path)? {
            disk::Entry::File(content) => content,
            disk::Entry::Missing => return Err(damaged("is missing")),
            disk::Entry::NotRegular(kind) => return Err(damaged(&format!("is {kind}"))),
            disk::Entry::TooBig(_) => return Err(damaged("is too long")),
        };
        let manifest = Manifest::parse(&content.bytes).map_err(|why| damaged(&format!("is damaged: {why}")))?;
        let root_hash = manifest.root_hash().map_err(|why| damaged(&format!("is damaged: {why}")))?;
        if listed.descriptor.root_hash != Hash::new(BLAKE3, &root_hash) {
            return Err(damaged("isn't the one that the snapshot was published with"));
        }
        Ok(Some(manifest))
    }

    /// Returns the differences from one snapshot to another.
    pub fn compare(&self, from: &Listed, to: &Listed, control: &Control<'_>) -> Result<Option<Difference>, Error> {
        unless_halted(self.compare_both(from, to, control))
    }

    fn compare_both(&self, from: &Listed, to: &Listed, control: &Control<'_>) -> Result<Difference, Error> {
        let (from, to) = (self.manifest_of(from, control)?, self.manifest_of(to, control)?);
        Ok(self.fairly(from.entries, to.entries))
    }

    /// Returns the differences from a snapshot to the current files of a worktree.
    pub fn compare_with(
        &self,
        from: &Listed,
        worktree: &Worktree,
        control: &Control<'_>,
    ) -> Result<Option<Difference>, Error> {
        unless_halted(self.compare_with_tree(from, worktree, control))
    }

    pub(super) fn compare_with_tree(
        &self,
        from: &Listed,
        worktree: &Worktree,
        control: &Control<'_>,
    ) -> Result<Difference, Error> {
        let manifest = self.manifest_of(from, control)?;
        let now = worktree.working_files().files_now(Some(&manifest), has_git(&manifest.entries), control)?;
        Ok(self.fairly(manifest.entries, now.entries))
    }

    /// Compares two trees. If `.git` is a part of them only on request, it counts only if both have
    /// it.
    fn fairly(&self, old: Vec<Entry>, new: Vec<Entry>) -> Difference {
        if self.repo.is_here() && has_git(&old) != has_git(&new) {
            return between(&without_git(old), &without_git(new));
        }
        between(&old, &new)
    }

    /// Returns the files of a snapshot that are restored.
    pub(super) fn wanted(&self, listed: &Listed, with_git: bool, control: &Control<'_>) -> Result<Manifest, Error> {
        let manifest = self.manifest_of(listed, control)?;
        if with_git || !self.has_asked_git(listed, &manifest.entries) {
            return Ok(manifest);
        }
        Ok(Manifest { entries: without_git(manifest.entries), ..manifest })
    }
}

impl WorkingFiles<'_> {
    /// Returns what the worktree has that no snapshot does, as far as is known: compared with the
    /// snapshot that it is at.
    pub(super) fn unsaved(&self, with_git: bool, control: &Control<'_>) -> Result<Difference, Error> {
        let catalog: Catalog = self.worktree.repo.snapshots().catalog()?;
        let head = catalog.heads.get(&self.worktree.name).and_then(|id| catalog.get(id));
        if let Some(head) = head {
            let manifest = self.worktree.repo.snapshots().wanted(head, with_git, control)?;
            let now = self.files_now(Some(&manifest), with_git, control)?;
            let difference = between(&manifest.entries, &now.entries);
            let added = difference.added.into_iter();
            // A new directory is not a user's work: ignored files may need one.
            let added = added.filter(|path| now.get(path).is_none_or(|entry| entry.kind != Kind::Dir)).collect();
            return Ok(Difference { added, ..difference });
        }
        let now = self.files_now(None, with_git, control)?;
        let added = now.entries.into_iter().map(|entry| entry.path).filter(|path| !path.is_empty()).collect();
        Ok(Difference { added, ..Difference::default() })
    }

    fn files_now(&self, before: Option<&Manifest>, with_git: bool, control: &Control<'_>) -> Result<Manifest, Error> {
        let place = self.worktree.repo.files_of(&self.worktree.name);
        let ignore = ignored_in(&place).at("read what is ignored in", &place, "")?;
        read_open(&self.files(with_git)?, &ignore, &worked_in(&Known::default(), before), control).map_err(of_tree)
    }
}

/// Options for a tree in which two names of a file are hard links. `since` is an earlier manifest
/// of the same tree.
fn worked_in<'a>(known: &'a Known, since: Option<&'a Manifest>) -> HashOptions<'a> {
    HashOptions { names: Names::Links, known, since }
}

/// Reads everything that is in a directory now.
pub(super) fn read_tree(
    path: &Path,
    ignore: &Ignore,
    options: &HashOptions<'_>,
    control: &Control<'_>,
) -> Result<Manifest, TreeError> {
    let failed = |error| TreeError::Io { what: "open", path: path.to_owned(), error };
    read_open(&Tree::open(path).map_err(failed)?, ignore, options, control)
}

fn read_open(
    tree: &Tree,
    ignore: &Ignore,
    options: &HashOptions<'_>,
    control: &Control<'_>,
) -> Result<Manifest, TreeError> {
    let hashed = lokt_tree::hash_tree(tree, ignore, options, control)?;
    let scanned_at = hashed.scanned_at;
    Ok(Manifest { header: Header { scanned_at, trusted: false }, entries: hashed.entries })
}

/// Returns `None` if the work was told to stop.
fn unless_halted(difference: Result<Difference, Error>) -> Result<Option<Difference>, Error> {
    match difference {
        Ok(difference) => Ok(Some(difference)),
        Err(error) if error.kind() == ErrorKind::Halted => Ok(None),
        Err(error) => Err(error),
    }
}

impl Difference {
    /// Returns the opposite difference.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { added: self.removed, removed: self.added, ..self }
    }
}

/// Returns the differences from `old` to `new`; both are sorted by path.
pub(super) fn between(old: &[Entry], new: &[Entry]) -> Difference {
    let mut difference = Difference::default();
    let (mut at_old, mut at_new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (at_old.peek(), at_new.peek()) {
            (None, None) => return difference,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.path.cmp(&other.path),
        };
        match order {
            Ordering::Less => difference.removed.extend(at_old.next().map(|entry| entry.path.clone())),
            Ordering::Greater => difference.added.extend(at_new.next().map(|entry| entry.path.clone())),
            Ordering::Equal => {
                let (Some(one), Some(other)) = (at_old.next(), at_new.next()) else { return difference };
                if one.kind != other.kind {
                    difference.modified.push(one.path.clone());
                } else if is_touched(one, other) {
                    difference.touched.push(one.path.clone());
                }
            }
        }
    }
}

/// Reports whether the metadata differs. The time of a directory doesn't count: it shows that
/// entries came or went, which is reported separately.
fn is_touched(one: &Entry, other: &Entry) -> bool {
    // The file itself hasn't been touched since; the copy may lack attributes that couldn't be set.
    if one.source.is_some() && one.source == other.source {
        return false;
    }
    let has_time = !matches!(one.kind, Kind::Dir);
    one.mode != other.mode || one.xattrs != other.xattrs || (has_time && one.mtime != other.mtime)
}
