//! Scans everything in a tree: names, kinds and times, but no file contents.

use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use lokt_core::snapshot::entry::Time;
use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::beneath::{READABLE, Tree, open_beneath};
use super::control::Meter;
use super::stat::look;
use super::{Control, Ignore, Phase, Stat, TreeError};

/// Minimum number of waiting directories for another thread: below this, it has nothing to do.
const WORTH_A_THREAD: usize = 8;
/// Buffer size in bytes for one directory listing call.
const LISTING_BYTES: usize = 16 << 10;
/// Minimum distance in nanoseconds of two changes with different times. Clocks of file systems tick
/// every 10 ms at the slowest, and the kernel may be late by as much.
pub const TICK_NS: i128 = 20_000_000;

/// An entry that belongs to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its path below the root; empty for the root.
    pub path: Vec<u8>,
    /// Its metadata.
    pub stat: Stat,
    /// For a directory: something in it is left out, so its times say nothing about the rest.
    pub has_ignored: bool,
}

/// Kind of an entry of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
}

impl Node {
    /// Returns its kind.
    pub fn kind(&self) -> NodeKind {
        match self.stat.file_type() {
            FileType::Directory => NodeKind::Dir,
            FileType::Symlink => NodeKind::Symlink,
            _ => NodeKind::File,
        }
    }
}

/// An entry that can't be in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its path below the root.
    pub path: Vec<u8>,
    /// `socket`, `fifo`, `device` or `mount`.
    pub kind: &'static str,
}

/// Everything in a tree, at one time or nearly.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Entries by path. The root itself comes first.
    pub entries: Vec<Node>,
    /// Entries that can't be copied, by path.
    pub skipped: Vec<Skipped>,
    /// Paths that appeared or vanished during the scan itself.
    pub moved: Vec<Vec<u8>>,
    /// Number of files.
    pub files: u64,
    /// Bytes that they take on disk, each inode counted once per name.
    pub bytes: u64,
    /// Start of the scan, by the clock that local file systems take their times from.
    pub at: Time,
}

impl Scan {
    /// Reports whether a change is so recent that another change now could have the same time.
    pub fn is_racy(&self) -> bool {
        self.entries.iter().any(|node| (node.stat.ctime.as_nanos() - self.at.as_nanos()).abs() <= TICK_NS)
    }
}

/// Reads the clock that local file systems take their times from.
pub(super) fn file_clock() -> Time {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Time { secs: now.tv_sec, nanos: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

/// Scans everything in `tree` that isn't ignored. An ignored directory isn't entered.
pub fn scan(tree: &Tree, ignore: &Ignore, control: &Control<'_>) -> Result<Scan, TreeError> {
    let at = file_clock();
    let root = look(tree.root(), b"").map_err(|error| TreeError::io("look at", tree.path(), b"", error))?;
    let found =
        Found { entries: vec![Node { path: Vec::new(), stat: root.stat, has_ignored: false }], ..Found::default() };
    let meter = Meter::new(control, Phase::Scanning, 0, 0);
    let walk = Walk { tree, ignore, control, meter, queue: Mutex::default(), wake: Condvar::new() };
    let mut found = walk.run(found)?;
    found.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    found.skipped.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let bytes = found.entries.iter().filter(|node| node.kind() == NodeKind::File);
    let (files, bytes) = bytes.fold((0, 0_u64), |(files, bytes), node| (files + 1, bytes + node.stat.blocks * 512));
    Ok(Scan { entries: found.entries, skipped: found.skipped, moved: found.moved, files, bytes, at })
}

/// Results of one thread.
#[derive(Default)]
struct Found {
    entries: Vec<Node>,
    skipped: Vec<Skipped>,
    moved: Vec<Vec<u8>>,
    /// Directories that contain something ignored, found before or after their own entry.
    with_ignored: Vec<Vec<u8>>,
}

/// Directories that are still to be scanned.
#[derive(Default)]
struct Queue {
    dirs: Vec<Vec<u8>>,
    /// Number of threads that are scanning a directory, and may find more.
    busy: usize,
    failed: Option<TreeError>,
}

struct Walk<'a> {
    tree: &'a Tree,
    ignore: &'a Ignore,
    control: &'a Control<'a>,
    meter: Meter<'a>,
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl Walk<'_> {
    fn run(&self, mut found: Found) -> Result<Found, TreeError> {
        let mut dirs = vec![Vec::new()];
        while let Some(dir) = dirs.pop() {
            self.list(&dir, &mut found, &mut dirs)?;
            if dirs.len() >= WORTH_A_THREAD && self.control.threads > 1 {
                self.queue.lock().unwrap_or_else(PoisonError::into_inner).dirs = dirs;
                self.share(&mut found)?;
                break;
            }
        }
        found.with_ignored.sort_unstable();
        for node in &mut found.entries {
            node.has_ignored = found.with_ignored.binary_search(&node.path).is_ok();
        }
        Ok(found)
    }

    /// Scans the rest, with all threads that can be started.
    fn share(&self, found: &mut Found) -> Result<(), TreeError> {
        thread::scope(|scope| {
            let other = |_| thread::Builder::new().spawn_scoped(scope, || self.work(Found::default())).ok();
            let others: Vec<_> = (1..self.control.threads).filter_map(other).collect();
            *found = self.work(std::mem::take(found));
            for other in others {
                let more = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                found.entries.extend(more.entries);
                found.skipped.extend(more.skipped);
                found.moved.extend(more.moved);
                found.with_ignored.extend(more.with_ignored);
            }
        });
        let failed = self.queue.lock().unwrap_or_else(PoisonError::into_inner).failed.take();
        failed.map_or(Ok(()), Err)
    }

    fn work(&self, mut found: Found) -> Found {
        let mut more = Vec::new();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.failed.is_some() || (queue.dirs.is_empty() && queue.busy == 0) {
                self.wake.notify_all();
                return found;
            }
            let Some(dir) = queue.dirs.pop() else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.busy += 1;
            drop(queue);
            let fails = FailsByPanic(self);
            let listed = self.list(&dir, &mut found, &mut more);
            drop(fails);
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.busy -= 1;
            queue.dirs.append(&mut more);
            if let Err(error) = listed {
                queue.failed.get_or_insert(error);
            }
            self.wake.notify_all();
        }
    }

    /// Scans the entries of `dir`; directories found there are also added to `dirs`.
    fn list(&self, dir: &[u8], found: &mut Found, dirs: &mut Vec<Vec<u8>>) -> Result<(), TreeError> {
        self.control.check()?;
        let failed = |what, path: &[u8], error: Errno| TreeError::io(what, self.tree.path(), path, error);
        let fd = match open_beneath(self.tree.root(), dir, READABLE) {
            Err(error) if is_gone(error) => {
                found.moved.push(dir.to_vec());
                return Ok(());
            }
            done => done.map_err(|error| failed("open", dir, error))?,
        };
        let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
        let mut listing = RawDir::new(&fd, &mut buffer);
        let (before, mut has_ignored) = (found.entries.len(), false);
        while let Some(entry) = listing.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                // The directory was removed while it was open.
                Err(Errno::NOENT) => {
                    found.moved.push(dir.to_vec());
                    break;
                }
                done => done.map_err(|error| failed("list", dir, error))?,
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let path = below(dir, name);
            // Most listings include the type; then ignored entries are not even inspected.
            if entry.file_type() != FileType::Unknown
                && self.ignore.is_ignored(&path, entry.file_type() == FileType::Directory)
            {
                has_ignored = true;
                continue;
            }
            let seen = match look(fd.as_fd(), name) {
                Err(error) if is_gone(error) => {
                    found.moved.push(path);
                    continue;
                }
                done => done.map_err(|error| failed("look at", &path, error))?,
            };
            let kind = seen.stat.file_type();
            if entry.file_type() != kind && self.ignore.is_ignored(&path, kind == FileType::Directory) {
                has_ignored = true;
                continue;
            }
            if self.tree.leaves_out(fd.as_fd(), dir, name, kind) {
                has_ignored = true;
                continue;
            }
            let skipped = match kind {
                _ if seen.is_mount_root || (seen.mount.is_some() && seen.mount != self.tree.mount) => "mount",
                FileType::RegularFile | FileType::Symlink => {
                    found.entries.push(Node { path, stat: seen.stat, has_ignored: false });
                    continue;
                }
                FileType::Directory => {
                    dirs.push(path.clone());
                    found.entries.push(Node { path, stat: seen.stat, has_ignored: false });
                    continue;
                }
                FileType::Fifo => "fifo",
                FileType::Socket => "socket",
                FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => "device",
            };
            found.skipped.push(Skipped { path, kind: skipped });
        }
        if has_ignored {
            found.with_ignored.push(dir.to_vec());
        }
        self.meter.add((found.entries.len() - before) as u64, 0)
    }
}

/// Marks the scan as failed if a thread panics: the others must not wait for what it might have
/// found.
struct FailsByPanic<'a>(&'a Walk<'a>);

impl Drop for FailsByPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).failed.get_or_insert(TreeError::Halted);
            self.0.wake.notify_all();
        }
    }
}

/// Reports whether the error means that another process has removed or replaced the entry.
pub(super) fn is_gone(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::ISDIR | Errno::NXIO | Errno::NODEV
    )
}

fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    if !dir.is_empty() {
        path.extend_from_slice(dir);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
