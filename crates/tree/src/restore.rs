//! Restores a tree from a stored copy and its manifest. The copy provides the bytes, verified for
//! each file; everything else comes from the manifest.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lokt_core::snapshot::entry::{Entry, Kind};
use rustix::fs::{AtFlags, Mode, fsync, linkat, mkdirat};
use rustix::io::retry_on_intr;

use super::attributes::Wanted;
use super::beneath::{Cursor, READABLE, Tree, open_beneath, split};
use super::control::Meter;
use super::copy::{Lost, make_root, stamp};
use super::error::joined;
use super::one::{Hand, HashFrom, Way, What};
use super::sync::Shore;
use super::{Control, Phase, Stat, TreeError, pool, room};

/// A tree that was restored.
#[derive(Debug)]
pub struct Restored {
    /// The manifest's entries, with the stamps of the new files: a later snapshot compares the
    /// files with them.
    pub entries: Vec<Entry>,
    /// Attributes that couldn't be restored.
    pub lost: Vec<Lost>,
    shore: Shore,
}

impl Restored {
    /// Waits until the tree is on the disk.
    pub fn sync(&self, control: &Control<'_>) -> Result<(), TreeError> {
        control.check()?;
        control.progress.step(Phase::Syncing, 0, 0, 0, 0);
        if self.shore.syncs_all() { self.shore.sync() } else { Ok(()) }
    }
}

/// Creates the tree of `entries`, which are sorted by path, in the new directory `into`, with the
/// files of the stored copy `from`. After an error, the partial tree is left for the caller to
/// remove.
pub fn restore(entries: &[Entry], from: &Path, into: &Path, control: &Control<'_>) -> Result<Restored, TreeError> {
    let failed = |error| TreeError::Io { what: "open", path: from.to_owned(), error };
    let stored = Tree::open_plain(from).map_err(failed)?;
    let made = make_root(into)?;
    let leaves: Vec<&Entry> =
        entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. })).collect();
    let size = |entry: &&Entry| if let Kind::File { size, .. } = entry.kind { size } else { 0 };
    let bytes = leaves.iter().map(size).sum();
    let way = Way {
        from: stored.root(),
        from_path: from,
        into: made.root.as_fd(),
        into_path: into,
        hash_from: HashFrom::Source,
        sync_each: !made.shore.syncs_all(),
        may_clone: AtomicBool::new(true),
        meter: Meter::new(control, Phase::Copying, leaves.len() as u64, bytes),
    };
    room::check_restore(&stored, made.root.as_fd(), into, &leaves)?;
    let job = Job { way: &way };
    job.make_dirs(entries)?;
    let work = |hand: &mut Hand<'_>, entry: &&Entry| job.leaf(hand, entry);
    let done = pool::each(&leaves, (control.threads, bytes), || way.hand(), work)?;
    let mut lost = Vec::new();
    let mut stamps = leaves.iter().zip(done).map(|(entry, (stat, mut more))| {
        lost.append(&mut more);
        (&entry.path, stat)
    });
    let mut restored: Vec<Entry> = entries.to_vec();
    for entry in &mut restored {
        entry.source = None;
        if matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. }) {
            let (path, stat) = stamps.next().expect("every leaf was made");
            debug_assert_eq!(*path, entry.path, "leaves are in the entries' order");
            entry.source = Some(stamp(&stat));
        }
    }
    drop(stamps);
    job.link_more_names(entries)?;
    job.finish_dirs(entries, &mut lost)?;
    Ok(Restored { entries: restored, lost, shore: made.shore })
}

struct Job<'a> {
    way: &'a Way<'a>,
}

impl Job<'_> {
    fn make_dirs(&self, entries: &[Entry]) -> Result<(), TreeError> {
        let mut into = Cursor::new(self.way.into);
        for entry in entries.iter().filter(|entry| entry.kind == Kind::Dir && !entry.path.is_empty()) {
            self.way.meter.control.check()?;
            let (dir, name) = split(&entry.path);
            let made = into.at(dir).and_then(|dir| mkdirat(dir, name, Mode::from_raw_mode(0o700)));
            made.map_err(|error| self.way.failed_into("make", &entry.path, error))?;
        }
        Ok(())
    }

    fn leaf(&self, hand: &mut Hand<'_>, entry: &Entry) -> Result<(Stat, Vec<Lost>), TreeError> {
        let wanted = wanted(entry);
        let given = match &entry.kind {
            Kind::Symlink { target } => self.way.make_symlink(hand, &entry.path, target, &wanted)?,
            Kind::File { size, hash } => {
                let damaged = |why| TreeError::Damaged { path: joined(self.way.from_path, &entry.path), why };
                let made = self.way.file(hand, &entry.path, None, Some(wanted))?;
                let Some(made) = made else { return Err(damaged("it is missing")) };
                let What::File { poured, .. } = made.what else { return Err(damaged("it is no file")) };
                if (poured.size, poured.hash) != (*size, *hash) {
                    return Err(damaged("its bytes are not those that were stored"));
                }
                made.given
            }
            Kind::Dir | Kind::HardLink { .. } => unreachable!("only files and links are leaves"),
        };
        let lost = given.lost.iter().map(|what| Lost { path: entry.path.clone(), what: what.clone() }).collect();
        Ok((given.stat, lost))
    }

    fn link_more_names(&self, entries: &[Entry]) -> Result<(), TreeError> {
        let (mut first_dir, mut more_dir) = (Cursor::new(self.way.into), Cursor::new(self.way.into));
        for entry in entries {
            let Kind::HardLink { to } = &entry.kind else { continue };
            self.way.meter.control.check()?;
            let ((from, old), (dir, name)) = (split(to), split(&entry.path));
            let linked = first_dir.at(from).and_then(|from| {
                let dir = more_dir.at(dir)?;
                linkat(from, old, dir, name, AtFlags::empty())
            });
            linked.map_err(|error| self.way.failed_into("link", &entry.path, error))?;
        }
        Ok(())
    }

    fn finish_dirs(&self, entries: &[Entry], lost: &mut Vec<Lost>) -> Result<(), TreeError> {
        for entry in entries.iter().rev().filter(|entry| entry.kind == Kind::Dir) {
            self.way.meter.control.check()?;
            let wrote = |error| self.way.failed_into("write", &entry.path, error);
            let dir = open_beneath(self.way.into, &entry.path, READABLE).map_err(wrote)?;
            let given = wanted(entry).give(dir.as_fd()).map_err(wrote)?;
            lost.extend(given.lost.into_iter().map(|what| Lost { path: entry.path.clone(), what }));
            if self.way.sync_each {
                retry_on_intr(|| fsync(&dir)).map_err(wrote)?;
            }
        }
        Ok(())
    }
}

fn wanted(entry: &Entry) -> Wanted<'_> {
    Wanted { mode: entry.mode, uid: entry.uid, gid: entry.gid, mtime: entry.mtime, xattrs: &entry.xattrs }
}
