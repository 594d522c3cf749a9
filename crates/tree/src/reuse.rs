//! Files of an earlier copy that still match the source: they get a hard link instead of being
//! copied again.

use std::path::Path;

use lokt_core::snapshot::entry::{Entry, Kind, Time};
use lokt_core::snapshot::manifest::{Header, Manifest};
use rustix::fs::{AtFlags, FileType, linkat};

use super::beneath::{Cursor, Tree, split};
use super::scan::{Node, NodeKind, TICK_NS};
use super::stat::look;
use super::{TreeError, copy::stamp};

/// An earlier copy of the same source, taken when nothing changed.
#[derive(Debug, Clone, Copy)]
pub struct Reuse<'a> {
    /// The directory of the copy.
    pub tree: &'a Path,
    /// Its contents, and when the source was scanned.
    pub manifest: &'a Manifest,
}

/// Reports whether an equal ctime means that nothing changed since. A file that changed close to
/// the time of the scan may have changed again with the same ctime.
pub(super) fn still_holds(header: &Header, ctime: Time) -> bool {
    header.trusted && ctime.as_nanos() < header.scanned_at.as_nanos() - TICK_NS
}

/// An earlier copy, open.
pub(super) struct Reusable<'a> {
    reuse: Reuse<'a>,
    tree: Tree,
}

impl<'a> Reusable<'a> {
    pub(super) fn open(reuse: Reuse<'a>) -> Result<Self, TreeError> {
        let failed = |error| TreeError::Io { what: "open", path: reuse.tree.to_owned(), error };
        Ok(Self { tree: Tree::open_plain(reuse.tree).map_err(failed)?, reuse })
    }

    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.tree.root())
    }

    /// Returns the earlier copy's entry for `node`, if that didn't change since.
    pub(super) fn find(&self, node: &Node) -> Option<&Entry> {
        if node.kind() != NodeKind::File {
            return None;
        }
        let entry = self.reuse.manifest.get(&node.path)?;
        let Kind::File { size, .. } = entry.kind else { return None };
        let is_same = entry.source == Some(stamp(&node.stat))
            && (size, entry.mtime, entry.mode) == (node.stat.size, node.stat.mtime, node.stat.permissions());
        (is_same && still_holds(&self.reuse.manifest.header, node.stat.ctime)).then_some(entry)
    }

    /// Links the earlier copy's file under the same name in a new copy. `None` if it has to be
    /// copied.
    pub(super) fn link(&self, earlier: &mut Cursor<'_>, into: &mut Cursor<'_>, node: &Node) -> Option<Entry> {
        let entry = self.find(node)?;
        let (dir, name) = split(&node.path);
        let from = earlier.at(dir).ok()?;
        let found = look(from, name).ok()?.stat;
        let Kind::File { size, .. } = entry.kind else { return None };
        let is_whole = found.file_type() == FileType::RegularFile
            && (found.size, found.mtime, found.permissions()) == (size, entry.mtime, entry.mode);
        if !is_whole {
            return None;
        }
        // The number of names of a file is limited, and none can be on another file system.
        linkat(from, name, into.at(dir).ok()?, name, AtFlags::empty()).ok()?;
        Some(entry.clone())
    }
}
