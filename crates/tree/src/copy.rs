//! Copies a tree: everything that a scan found, with all metadata that can be copied.
//!
//! The order: directories from the top, accessible to us only; files and links, on several threads;
//! further names of files; finally the directories' own attributes from the bottom up, when nothing
//! changes their times any more.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lokt_core::snapshot::entry::{Entry, Kind, SourceStamp};
use rustix::fs::{AtFlags, CWD, Mode, fchmod, fsync, linkat, mkdirat, open};
use rustix::io::{Errno, retry_on_intr};

use super::attributes::Wanted;
use super::beneath::{Cursor, READABLE, Tree, open_beneath, split};
use super::control::Meter;
use super::one::{Hand, HashFrom, Made, Way, What, kept, open_source};
use super::reuse::{Reusable, Reuse};
use super::scan::{Node, NodeKind, Scan, is_gone};
use super::stat::{Stat, look_at};
use super::sync::Shore;
use super::xattrs::{Owner, strip_inherited};
use super::{Control, Phase, TreeError, pool, room};

/// Reaction to a source that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChanged {
    /// Stop at the first change.
    Refuse,
    /// Continue and list the changes.
    List,
}

/// Options of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyOptions<'a> {
    /// An earlier copy of the same tree.
    pub reuse: Option<Reuse<'a>>,
    /// The bytes that are hashed if files are cloned.
    pub hash_from: HashFrom,
    /// Reaction to a source that changes.
    pub on_changed: OnChanged,
}

/// A property of the source that the copy doesn't have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The entry that lost it.
    pub path: Vec<u8>,
    /// `owner`, `mode`, `mtime`, or the name of an extended attribute.
    pub what: Vec<u8>,
}

/// A copy.
#[derive(Debug)]
pub struct Copied {
    /// Entries by path, with the attributes that the copy has, if these are fewer than the
    /// source's.
    pub entries: Vec<Entry>,
    /// `reflink-copy` if at least one file was cloned, else `copy`.
    pub engine: &'static str,
    /// Paths that changed during the copy. Entries that vanished are not in the copy.
    pub changed: Vec<Vec<u8>>,
    /// Properties that couldn't be copied.
    pub lost: Vec<Lost>,
    /// Number of files shared with the earlier copy.
    pub reused_files: u64,
    /// Number of files that were copied.
    pub copied_files: u64,
    /// Number of bytes that were copied or cloned.
    pub copied_bytes: u64,
    shore: Shore,
}

impl Copied {
    /// Waits until the copy is on the disk. Reports errors of any write since before the first one.
    pub fn sync(&self, control: &Control<'_>) -> Result<(), TreeError> {
        control.check()?;
        control.progress.step(Phase::Syncing, 0, 0, 0, 0);
        // If one call can't do that, every file and directory was synced when it was complete.
        if self.syncs_all() { self.shore.sync() } else { Ok(()) }
    }

    /// Reports whether [`Copied::sync`] also makes durable everything else that was written to that
    /// file system before.
    pub fn syncs_all(&self) -> bool {
        self.shore.syncs_all()
    }
}

/// Copies what `scan` found in `source` to the new directory `into`. After an error, the partial
/// copy is left for the caller to remove.
pub fn copy(
    source: &Tree,
    scan: &Scan,
    into: &Path,
    options: &CopyOptions<'_>,
    control: &Control<'_>,
) -> Result<Copied, TreeError> {
    let plan = Plan::new(scan);
    let reusable = options.reuse.filter(|_| source.is_trusted()).map(Reusable::open).transpose()?;
    let reusable = reusable.as_ref();
    let (new, bytes) = plan.volume(scan, reusable);
    let made = make_root(into)?;
    let sample = || plan.leaves.iter().find_map(|leaf| open_leaf(source, &scan.entries[*leaf]));
    room::check(made.root.as_fd(), into, bytes, sample)?;
    let way = Way {
        from: source.root(),
        from_path: source.path(),
        into: made.root.as_fd(),
        into_path: into,
        hash_from: options.hash_from,
        sync_each: !made.shore.syncs_all(),
        may_clone: AtomicBool::new(true),
        meter: Meter::new(control, Phase::Copying, new, bytes),
    };
    let job = Job { way: &way, scan, reusable, on_changed: options.on_changed };
    job.make_dirs()?;
    let begin = || Worker { hand: way.hand(), earlier: reusable.map(Reusable::cursor) };
    let work = |worker: &mut Worker<'_>, leaf: &usize| job.leaf(worker, &scan.entries[*leaf]);
    let done = pool::each(&plan.leaves, (control.threads, bytes), begin, work)?;
    let mut result = Gathered::new(scan.entries.len());
    for (leaf, done) in plan.leaves.iter().zip(done) {
        result.add(*leaf, done);
    }
    job.link_more_names(&plan, &mut result)?;
    job.finish_dirs(&mut result)?;
    Ok(result.finish(made.shore))
}

/// A new and empty directory for a copy.
pub(super) struct NewRoot {
    pub(super) root: OwnedFd,
    pub(super) shore: Shore,
}

/// Creates a directory that only we can access, and that passes no permissions on to entries
/// created in it.
pub(super) fn make_root(into: &Path) -> Result<NewRoot, TreeError> {
    let failed = |error: Errno| TreeError::io("make", into, b"", error);
    let above = into.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shore = Shore::of(above)?;
    let private = Mode::from_raw_mode(0o700);
    mkdirat(CWD, into, private).map_err(failed)?;
    let root = retry_on_intr(|| open(into, READABLE, Mode::empty())).map_err(failed)?;
    strip_inherited(root.as_fd());
    fchmod(&root, private).map_err(failed)?;
    Ok(NewRoot { root, shore })
}

/// Opens a file for a trial clone.
fn open_leaf(source: &Tree, node: &Node) -> Option<OwnedFd> {
    if node.kind() != NodeKind::File || node.stat.size == 0 {
        return None;
    }
    let (dir, name) = split(&node.path);
    open_source(Cursor::new(source.root()).at(dir).ok()?, name).ok()
}

/// Separates entries that are copied themselves from further names of others.
struct Plan {
    /// Files and links, neighbours together.
    leaves: Vec<usize>,
    /// Further names, and the entries that they are names of.
    more_names: Vec<(usize, usize)>,
}

impl Plan {
    fn new(scan: &Scan) -> Self {
        let (mut leaves, mut more_names, mut first_names) = (Vec::new(), Vec::new(), HashMap::new());
        for (at, node) in scan.entries.iter().enumerate() {
            if node.kind() == NodeKind::Dir {
                continue;
            }
            if node.stat.nlink > 1 {
                let first = *first_names.entry((node.stat.dev, node.stat.ino)).or_insert(at);
                if first != at {
                    more_names.push((at, first));
                    continue;
                }
            }
            leaves.push(at);
        }
        leaves.sort_by(|a, b| split(&scan.entries[*a].path).cmp(&split(&scan.entries[*b].path)));
        Self { leaves, more_names }
    }

    /// Returns how many files have to be copied, and how many bytes they take on disk.
    fn volume(&self, scan: &Scan, reusable: Option<&Reusable<'_>>) -> (u64, u64) {
        let leaves = self.leaves.iter().map(|leaf| &scan.entries[*leaf]);
        let new = leaves.filter(|node| reusable.is_none_or(|reusable| reusable.find(node).is_none()));
        new.fold((0, 0_u64), |(files, bytes), node| (files + 1, bytes.saturating_add(node.stat.blocks * 512)))
    }
}

/// State of one thread.
struct Worker<'a> {
    hand: Hand<'a>,
    earlier: Option<Cursor<'a>>,
}

/// Result for one entry.
struct Done {
    /// `None` if there was nothing left to copy.
    entry: Option<Entry>,
    changed: Option<Vec<u8>>,
    lost: Vec<Lost>,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Reused,
    Cloned,
    Copied,
    Neither,
}

struct Job<'a> {
    way: &'a Way<'a>,
    scan: &'a Scan,
    reusable: Option<&'a Reusable<'a>>,
    on_changed: OnChanged,
}

impl Job<'_> {
    fn dirs(&self) -> impl DoubleEndedIterator<Item = (usize, &Node)> {
        self.scan.entries.iter().enumerate().filter(|(_, node)| node.kind() == NodeKind::Dir)
    }

    fn make_dirs(&self) -> Result<(), TreeError> {
        let mut into = Cursor::new(self.way.into);
        for (_, node) in self.dirs().filter(|(_, node)| !node.path.is_empty()) {
            self.way.meter.control.check()?;
            let (dir, name) = split(&node.path);
            let made = into.at(dir).and_then(|dir| mkdirat(dir, name, Mode::from_raw_mode(0o700)));
            made.map_err(|error| self.way.failed_into("make", &node.path, error))?;
        }
        Ok(())
    }

    fn leaf(&self, worker: &mut Worker<'_>, node: &Node) -> Result<Done, TreeError> {
        if let (Some(reusable), Some(earlier)) = (self.reusable, &mut worker.earlier)
            && let Some(entry) = reusable.link(earlier, &mut worker.hand.into, node)
        {
            self.way.meter.add(0, 0)?;
            return Ok(Done { entry: Some(entry), changed: None, lost: Vec::new(), how: How::Reused });
        }
        let made = match node.kind() {
            NodeKind::Symlink => self.way.symlink(&mut worker.hand, &node.path, &node.stat)?,
            _ => self.way.file(&mut worker.hand, &node.path, Some(&node.stat), None)?,
        };
        let changed = made.as_ref().is_none_or(|made| made.changed).then(|| node.path.clone());
        self.refuse(changed.as_ref())?;
        let Some(made) = made else { return Ok(Done { entry: None, changed, lost: Vec::new(), how: How::Neither }) };
        let how = match made.what {
            What::File { cloned: true, .. } => How::Cloned,
            What::File { .. } => How::Copied,
            What::Symlink { .. } => How::Neither,
        };
        let lost = lost(&node.path, &made.source, &made.given.stat, &made.given.lost);
        Ok(Done { entry: Some(entry(node.path.clone(), made)), changed, lost, how })
    }

    fn refuse(&self, changed: Option<&Vec<u8>>) -> Result<(), TreeError> {
        match (self.on_changed, changed) {
            (OnChanged::Refuse, Some(path)) => Err(TreeError::Changed { paths: vec![path.clone()] }),
            _ => Ok(()),
        }
    }

    fn link_more_names(&self, plan: &Plan, result: &mut Gathered) -> Result<(), TreeError> {
        let (mut first_dir, mut more_dir) = (Cursor::new(self.way.into), Cursor::new(self.way.into));
        for (more, first) in &plan.more_names {
            self.way.meter.control.check()?;
            let node = &self.scan.entries[*more];
            let done = match &result.entries[*first] {
                Some(original) => {
                    let ((from, old), (dir, name)) = (split(&original.path), split(&node.path));
                    let linked = first_dir.at(from).and_then(|from| {
                        let dir = more_dir.at(dir)?;
                        linkat(from, old, dir, name, AtFlags::empty())
                    });
                    linked.map_err(|error| self.way.failed_into("link", &node.path, error))?;
                    let kind = Kind::HardLink { to: original.path.clone() };
                    let entry = Entry { path: node.path.clone(), kind, ..original.clone() };
                    Done { entry: Some(entry), changed: None, lost: Vec::new(), how: How::Neither }
                }
                // Its first name vanished before it could be copied.
                None => self.leaf(&mut Worker { hand: self.way.hand(), earlier: None }, node)?,
            };
            result.add(*more, done);
        }
        Ok(())
    }

    fn finish_dirs(&self, result: &mut Gathered) -> Result<(), TreeError> {
        for (at, node) in self.dirs().rev() {
            self.way.meter.control.check()?;
            let path = &node.path;
            let opened = match open_beneath(self.way.from, path, READABLE) {
                Err(error) if is_gone(error) => None,
                done => Some(done.map_err(|error| self.way.failed("open", path, error))?),
            };
            let (mut stat, mut xattrs) = (node.stat, Vec::new());
            if let Some(opened) = &opened {
                stat = look_at(opened.as_fd()).map_err(|error| self.way.failed("look at", path, error))?;
                xattrs = Owner::Open(opened.as_fd()).read().map_err(|error| self.way.failed("read", path, error))?;
            }
            let same = if node.has_ignored { stat.is_same_place(&node.stat) } else { stat.is_untouched(&node.stat) };
            let changed = (opened.is_none() || !same).then(|| path.clone());
            self.refuse(changed.as_ref())?;
            let wrote = |error| self.way.failed_into("write", path, error);
            let copy = open_beneath(self.way.into, path, READABLE).map_err(wrote)?;
            let given = Wanted::of(&stat, &xattrs).give(copy.as_fd()).map_err(wrote)?;
            if self.way.sync_each {
                retry_on_intr(|| fsync(&copy)).map_err(wrote)?;
            }
            let entry = Entry {
                path: path.clone(),
                kind: Kind::Dir,
                mode: given.stat.permissions(),
                uid: given.stat.uid,
                gid: given.stat.gid,
                mtime: given.stat.mtime,
                xattrs: kept(&xattrs, &given.lost),
                source: Some(stamp(&stat)),
            };
            let lost = lost(path, &stat, &given.stat, &given.lost);
            result.add(at, Done { entry: Some(entry), changed, lost, how: How::Neither });
        }
        Ok(())
    }
}

pub(super) fn stamp(stat: &Stat) -> SourceStamp {
    SourceStamp { dev: stat.dev, ino: stat.ino, ctime: stat.ctime }
}

fn entry(path: Vec<u8>, made: Made) -> Entry {
    let kind = match made.what {
        What::File { poured, .. } => Kind::File { size: poured.size, hash: poured.hash },
        What::Symlink { target } => Kind::Symlink { target },
    };
    let stat = &made.given.stat;
    Entry {
        path,
        kind,
        mode: stat.permissions(),
        uid: stat.uid,
        gid: stat.gid,
        mtime: stat.mtime,
        xattrs: made.xattrs,
        source: Some(stamp(&made.source)),
    }
}

/// Returns the properties that the copy doesn't have.
fn lost(path: &[u8], source: &Stat, copy: &Stat, xattrs: &[Vec<u8>]) -> Vec<Lost> {
    let differs = [
        ((source.uid, source.gid) != (copy.uid, copy.gid), "owner"),
        (source.permissions() != copy.permissions(), "mode"),
        (source.mtime != copy.mtime, "mtime"),
    ];
    let differs = differs.iter().filter(|(differs, _)| *differs).map(|(_, what)| what.as_bytes().to_vec());
    differs.chain(xattrs.iter().cloned()).map(|what| Lost { path: path.to_vec(), what }).collect()
}

/// Results of all threads.
struct Gathered {
    entries: Vec<Option<Entry>>,
    changed: Vec<Vec<u8>>,
    lost: Vec<Lost>,
    cloned: bool,
    reused_files: u64,
    copied_files: u64,
    copied_bytes: u64,
}

impl Gathered {
    fn new(count: usize) -> Self {
        Self {
            entries: (0..count).map(|_| None).collect(),
            changed: Vec::new(),
            lost: Vec::new(),
            cloned: false,
            reused_files: 0,
            copied_files: 0,
            copied_bytes: 0,
        }
    }

    fn add(&mut self, at: usize, done: Done) {
        self.changed.extend(done.changed);
        self.lost.extend(done.lost);
        self.cloned |= done.how == How::Cloned;
        self.reused_files += u64::from(done.how == How::Reused);
        if let (How::Cloned | How::Copied, Some(Entry { kind: Kind::File { size, .. }, .. })) = (done.how, &done.entry)
        {
            self.copied_files += 1;
            self.copied_bytes += size;
        }
        self.entries[at] = done.entry;
    }

    fn finish(mut self, shore: Shore) -> Copied {
        self.changed.sort_unstable();
        self.lost.sort_unstable_by(|a, b| (&a.path, &a.what).cmp(&(&b.path, &b.what)));
        Copied {
            entries: self.entries.into_iter().flatten().collect(),
            engine: if self.cloned { "reflink-copy" } else { "copy" },
            changed: self.changed,
            lost: self.lost,
            reused_files: self.reused_files,
            copied_files: self.copied_files,
            copied_bytes: self.copied_bytes,
            shore,
        }
    }
}
