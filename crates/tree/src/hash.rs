//! Builds the entries of a tree from the tree itself: to verify a copy, to compare two trees, and
//! for trees without a manifest.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, PoisonError};

use lokt_core::snapshot::entry::{Entry, Kind, Time};
use lokt_core::snapshot::manifest::Manifest;
use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::beneath::{Cursor, READABLE, Tree, open_beneath, split};
use super::control::Meter;
use super::copy::stamp;
use super::data::{Failed, Hash, Spring, pour};
use super::one::open_source;
use super::reuse::still_holds;
use super::scan::{Node, NodeKind, Scan, Skipped, is_gone, scan};
use super::stat::{Stat, look_at};
use super::xattrs::Owner;
use super::{Control, Ignore, Phase, TreeError, pool};

/// Hashes of files that were already read, by inode: many copies share the same files.
#[derive(Debug, Default)]
pub struct Known {
    by_inode: Mutex<HashMap<(u64, u64), (Stat, Hash)>>,
}

impl Known {
    fn find(&self, stat: &Stat) -> Option<Hash> {
        let known = self.by_inode.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(stat.dev, stat.ino)).filter(|(was, _)| stat.is_untouched(was)).map(|(_, hash)| *hash)
    }

    fn add(&self, stat: &Stat, hash: Hash) {
        if stat.nlink > 1 {
            let mut known = self.by_inode.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert((stat.dev, stat.ino), (*stat, hash));
        }
    }
}

/// Meaning of two names of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// The second is a hard link to the first: for trees that people work in.
    Links,
    /// Both are independent files: for stored copies, which share equal files.
    Files,
}

/// Options for reading a tree.
#[derive(Debug, Clone, Copy)]
pub struct HashOptions<'a> {
    /// Meaning of two names of one file.
    pub names: Names,
    /// Hashes of files that were already read.
    pub known: &'a Known,
    /// An earlier manifest of the same tree: where times can be trusted, files that didn't change
    /// since are not read.
    pub since: Option<&'a Manifest>,
}

/// The contents of a tree.
#[derive(Debug)]
pub struct Hashed {
    /// Entries by path.
    pub entries: Vec<Entry>,
    /// Entries that can't be in a snapshot.
    pub skipped: Vec<Skipped>,
    /// Paths that changed while the tree was read.
    pub changed: Vec<Vec<u8>>,
    /// Start of the scan.
    pub scanned_at: Time,
}

/// Reads everything in `tree` that isn't ignored.
pub fn hash_tree(
    tree: &Tree,
    ignore: &Ignore,
    options: &HashOptions<'_>,
    control: &Control<'_>,
) -> Result<Hashed, TreeError> {
    let seen = scan(tree, ignore, control)?;
    let Scan { entries: nodes, skipped, moved: mut changed, files, bytes, at } = seen;
    let meter = Meter::new(control, Phase::Hashing, files, bytes);
    let reader = Reader { tree, meter: &meter };
    let mut first_names: HashMap<(u64, u64), usize> = HashMap::new();
    let mut jobs = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        let is_link = options.names == Names::Links && node.stat.nlink > 1 && node.kind() != NodeKind::Dir;
        let first = if is_link { *first_names.entry((node.stat.dev, node.stat.ino)).or_insert(at) } else { at };
        jobs.push((node, first, at));
    }
    let begin = || (Cursor::new(tree.root()), Vec::new());
    let work = |(cursor, spare): &mut (Cursor<'_>, Vec<u8>), job: &(&Node, usize, usize)| {
        let (node, first, at) = *job;
        reader.entry(cursor, spare, node, (first != at).then(|| nodes[first].path.as_slice()), options)
    };
    let read = pool::each(&jobs, (control.threads, bytes), begin, work)?;
    let mut entries = Vec::with_capacity(nodes.len());
    for (node, read) in nodes.iter().zip(read) {
        let (entry, is_changed) = read.map_or((None, true), |(entry, is_changed)| (Some(entry), is_changed));
        entries.extend(entry);
        if is_changed {
            changed.push(node.path.clone());
        }
    }
    changed.sort_unstable();
    changed.dedup();
    Ok(Hashed { entries, skipped, changed, scanned_at: at })
}

/// Reads the files of `source` again and returns the paths of those that differ from the copy: for
/// file systems whose times prove nothing.
pub fn recheck_hashes(source: &Tree, entries: &[Entry], control: &Control<'_>) -> Result<Vec<Vec<u8>>, TreeError> {
    let files: Vec<&Entry> = entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).collect();
    let size = |entry: &&Entry| if let Kind::File { size, .. } = entry.kind { size } else { 0 };
    let bytes = files.iter().map(size).sum();
    let meter = Meter::new(control, Phase::Checking, files.len() as u64, bytes);
    let reader = Reader { tree: source, meter: &meter };
    let begin = || (Cursor::new(source.root()), Vec::new());
    let work = |(cursor, spare): &mut (Cursor<'_>, Vec<u8>), entry: &&Entry| {
        let Kind::File { size, hash } = entry.kind else { return Ok(true) };
        let read = reader.file(cursor, spare, &entry.path)?;
        Ok(read.is_some_and(|(stat, found)| (stat.size, found) == (size, hash)))
    };
    let same = pool::each(&files, (control.threads, bytes), begin, work)?;
    Ok(files.iter().zip(same).filter(|(_, same)| !same).map(|(entry, _)| entry.path.clone()).collect())
}

struct Reader<'a> {
    tree: &'a Tree,
    meter: &'a Meter<'a>,
}

impl Reader<'_> {
    fn failed(&self, what: &'static str, path: &[u8], error: Errno) -> TreeError {
        TreeError::io(what, self.tree.path(), path, error)
    }

    /// Reads one entry, and reports whether it changed in the meantime; `None` if it has vanished.
    fn entry(
        &self,
        cursor: &mut Cursor<'_>,
        spare: &mut Vec<u8>,
        node: &Node,
        first: Option<&[u8]>,
        options: &HashOptions<'_>,
    ) -> Result<Option<(Entry, bool)>, TreeError> {
        let path = &node.path;
        let (dir, name) = split(path);
        let reading = |error| self.failed("read", path, error);
        let mut is_changed = false;
        let (kind, xattrs) = match node.kind() {
            NodeKind::Dir => match open_beneath(self.tree.root(), path, READABLE) {
                Err(error) if is_gone(error) => return Ok(None),
                done => (Kind::Dir, Owner::Open(done.map_err(reading)?.as_fd()).read().map_err(reading)?),
            },
            NodeKind::Symlink => {
                let dir = match cursor.at(dir) {
                    Err(error) if is_gone(error) => return Ok(None),
                    done => done.map_err(reading)?,
                };
                let target = match readlinkat(dir, name, Vec::new()) {
                    Err(error) if is_gone(error) || error == Errno::INVAL => return Ok(None),
                    done => done.map_err(reading)?.into_bytes(),
                };
                (Kind::Symlink { target }, Owner::Link(dir, name).read().map_err(reading)?)
            }
            NodeKind::File => {
                if let Some(same) = self.unchanged(node, options) {
                    self.meter.add(1, node.stat.blocks * 512)?;
                    (same.kind.clone(), same.xattrs.clone())
                } else {
                    let dir = match cursor.at(dir) {
                        Err(error) if is_gone(error) => return Ok(None),
                        done => done.map_err(reading)?,
                    };
                    let file = match open_source(dir, name) {
                        Err(error) if is_gone(error) => return Ok(None),
                        done => done.map_err(reading)?,
                    };
                    let before = look_at(file.as_fd()).map_err(reading)?;
                    if before.file_type() != FileType::RegularFile {
                        return Ok(None);
                    }
                    let hash = if let Some(hash) = options.known.find(&before) {
                        hash
                    } else {
                        let spring = Spring { fd: file.as_fd(), size: before.size, is_sparse: before.is_sparse() };
                        pour(spring, None, spare, self.meter).map_err(|failed| self.explained(path, failed))?.hash
                    };
                    let after = look_at(file.as_fd()).map_err(reading)?;
                    is_changed = !after.is_untouched(&node.stat);
                    if !is_changed {
                        options.known.add(&before, hash);
                    }
                    self.meter.add(1, 0)?;
                    let xattrs = Owner::Open(file.as_fd()).read().map_err(reading)?;
                    (Kind::File { size: before.size, hash }, xattrs)
                }
            }
        };
        let kind = first.map_or(kind, |first| Kind::HardLink { to: first.to_vec() });
        let stat = &node.stat;
        let entry = Entry {
            path: path.clone(),
            kind,
            mode: stat.permissions(),
            uid: stat.uid,
            gid: stat.gid,
            mtime: stat.mtime,
            xattrs,
            source: Some(stamp(stat)),
        };
        Ok(Some((entry, is_changed)))
    }

    /// Returns the entry from an earlier manifest of the same tree, if it is still valid.
    fn unchanged<'e>(&self, node: &Node, options: &HashOptions<'e>) -> Option<&'e Entry> {
        let since = options.since.filter(|_| self.tree.is_trusted())?;
        let entry = since.get(&node.path)?;
        let is_file = matches!(entry.kind, Kind::File { size, .. } if size == node.stat.size);
        let is_same = is_file && entry.source == Some(stamp(&node.stat)) && entry.mtime == node.stat.mtime;
        (is_same && still_holds(&since.header, node.stat.ctime)).then_some(entry)
    }

    /// Hashes one file; `None` if it is not a file any more.
    fn file(
        &self,
        cursor: &mut Cursor<'_>,
        spare: &mut Vec<u8>,
        path: &[u8],
    ) -> Result<Option<(Stat, Hash)>, TreeError> {
        let (dir, name) = split(path);
        let file = match cursor.at(dir).and_then(|dir| open_source(dir, name)) {
            Err(error) if is_gone(error) => return Ok(None),
            done => done.map_err(|error| self.failed("open", path, error))?,
        };
        let stat = look_at(file.as_fd()).map_err(|error| self.failed("look at", path, error))?;
        if stat.file_type() != FileType::RegularFile {
            return Ok(None);
        }
        let spring = Spring { fd: file.as_fd(), size: stat.size, is_sparse: stat.is_sparse() };
        let poured = pour(spring, None, spare, self.meter).map_err(|failed| self.explained(path, failed))?;
        self.meter.add(1, 0)?;
        Ok(Some((stat, poured.hash)))
    }

    fn explained(&self, path: &[u8], failed: Failed) -> TreeError {
        match failed {
            Failed::Reading(error) | Failed::Writing(error) => self.failed("read", path, error),
            Failed::Halted(error) => error,
        }
    }
}
