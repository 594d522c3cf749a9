//! Copies one file or link from one tree to another.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fsync, ioctl_ficlone, openat, readlinkat, seek, symlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::TreeError;
use super::attributes::{Given, Wanted};
use super::beneath::{Cursor, split};
use super::control::Meter;
use super::data::{Failed, Poured, Spring, pour};
use super::scan::is_gone;
use super::stat::{Stat, look, look_at};
use super::xattrs::{Owner, Xattrs};

/// Never waits for the other end of a FIFO that has replaced a file, and takes no controlling
/// terminal.
const SOURCE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const TARGET: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The bytes that are hashed when a file is cloned without being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashFrom {
    /// The source's, which are in memory more often. Valid if a later check proves that the source
    /// didn't change.
    Source,
    /// The copy's, which no other process changes.
    Copy,
}

/// Two trees, and how files are copied from one to the other.
pub(super) struct Way<'a> {
    pub(super) from: BorrowedFd<'a>,
    pub(super) from_path: &'a Path,
    pub(super) into: BorrowedFd<'a>,
    pub(super) into_path: &'a Path,
    pub(super) hash_from: HashFrom,
    /// Whether every file must be synced separately.
    pub(super) sync_each: bool,
    /// False after a clone was refused for a permanent reason.
    pub(super) may_clone: AtomicBool,
    pub(super) meter: Meter<'a>,
}

/// State that one thread keeps between files.
pub(super) struct Hand<'a> {
    pub(super) from: Cursor<'a>,
    pub(super) into: Cursor<'a>,
    pub(super) spare: Vec<u8>,
}

/// A finished copy of one entry.
#[derive(Debug)]
pub(super) struct Made {
    /// Metadata of the source that it was made from.
    pub(super) source: Stat,
    pub(super) given: Given,
    /// The attributes that were set.
    pub(super) xattrs: Xattrs,
    pub(super) what: What,
    /// The source changed in the meantime.
    pub(super) changed: bool,
}

#[derive(Debug)]
pub(super) enum What {
    File { poured: Poured, cloned: bool },
    Symlink { target: Vec<u8> },
}

impl<'a> Way<'a> {
    pub(super) fn hand(&self) -> Hand<'a> {
        Hand { from: Cursor::new(self.from), into: Cursor::new(self.into), spare: Vec::new() }
    }

    /// Wraps an error about a path in the source.
    pub(super) fn failed(&self, what: &'static str, path: &[u8], error: Errno) -> TreeError {
        TreeError::io(what, self.from_path, path, error)
    }

    /// Wraps an error about a path in the copy.
    pub(super) fn failed_into(&self, what: &'static str, path: &[u8], error: Errno) -> TreeError {
        TreeError::io(what, self.into_path, path, error)
    }

    /// Copies the file `path`, with the attributes of the source or those in `wanted`. `None` if it
    /// is not a file any more. `expected` is its metadata from a scan.
    pub(super) fn file(
        &self,
        hand: &mut Hand<'_>,
        path: &[u8],
        expected: Option<&Stat>,
        wanted: Option<Wanted<'_>>,
    ) -> Result<Option<Made>, TreeError> {
        let (dir, name) = split(path);
        let opened = hand.from.at(dir).and_then(|dir| open_source(dir, name));
        let source = match opened {
            Err(error) if is_gone(error) => return Ok(None),
            done => done.map_err(|error| self.failed("open", path, error))?,
        };
        let before = look_at(source.as_fd()).map_err(|error| self.failed("look at", path, error))?;
        if before.file_type() != FileType::RegularFile {
            return Ok(None);
        }
        let read = |error| self.failed("read", path, error);
        let wrote = |error| self.failed_into("write", path, error);
        let mode = wanted.map_or(before.permissions(), |wanted| wanted.mode);
        // No other process can enter the tree yet; the rest of the mode is set at the end.
        let rights = Mode::from_raw_mode(mode & 0o777);
        let into = hand.into.at(dir).map_err(wrote)?;
        let target = retry_on_intr(|| openat(into, name, TARGET, rights)).map_err(wrote)?;
        let (poured, cloned) =
            self.bytes(source.as_fd(), target.as_fd(), &before, &mut hand.spare).map_err(|failed| match failed {
                Failed::Reading(error) => read(error),
                Failed::Writing(error) => wrote(error),
                Failed::Halted(error) => error,
            })?;
        let own = match wanted {
            Some(_) => Vec::new(),
            None => Owner::Open(source.as_fd()).read().map_err(read)?,
        };
        let wanted = wanted.unwrap_or_else(|| Wanted::of(&before, &own));
        let given = wanted.give(target.as_fd()).map_err(wrote)?;
        if self.sync_each {
            retry_on_intr(|| fsync(&target)).map_err(wrote)?;
        }
        let after = look_at(source.as_fd()).map_err(read)?;
        let untouched = expected.is_none_or(|expected| before.is_untouched(expected)) && after.is_untouched(&before);
        let xattrs = kept(wanted.xattrs, &given.lost);
        self.meter.add(1, 0)?;
        let changed = !untouched || poured.size != before.size;
        Ok(Some(Made { source: before, given, xattrs, what: What::File { poured, cloned }, changed }))
    }

    /// Copies the bytes; clones them if the file system can.
    fn bytes(
        &self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        stat: &Stat,
        spare: &mut Vec<u8>,
    ) -> Result<(Poured, bool), Failed> {
        let spring = Spring { fd: source, size: stat.size, is_sparse: stat.is_sparse() };
        if stat.size > 0 && self.may_clone.load(Ordering::Relaxed) {
            match retry_on_intr(|| ioctl_ficlone(target, source)) {
                Ok(()) => {
                    let spring = match self.hash_from {
                        HashFrom::Source => spring,
                        HashFrom::Copy => {
                            let copy = look_at(target).map_err(Failed::Writing)?;
                            Spring { fd: target, size: copy.size, is_sparse: copy.is_sparse() }
                        }
                    };
                    return Ok((pour(spring, None, spare, &self.meter)?, true));
                }
                // Some files can't be cloned where others can: swap files, or files without
                // checksums next to files with them.
                Err(Errno::INVAL | Errno::PERM | Errno::TXTBSY | Errno::NOSPC | Errno::DQUOT) => {}
                Err(_) => self.may_clone.store(false, Ordering::Relaxed),
            }
        }
        Ok((pour(spring, Some(target), spare, &self.meter)?, false))
    }

    /// Creates the same symbolic link. `None` if the source is not a link any more.
    pub(super) fn symlink(&self, hand: &mut Hand<'_>, path: &[u8], expected: &Stat) -> Result<Option<Made>, TreeError> {
        let (dir, name) = split(path);
        let from = match hand.from.at(dir) {
            Err(error) if is_gone(error) => return Ok(None),
            done => done.map_err(|error| self.failed("open", path, error))?,
        };
        let look_again = || look(from, name).map(|seen| seen.stat);
        let before = match look_again() {
            Err(error) if is_gone(error) => return Ok(None),
            done => done.map_err(|error| self.failed("look at", path, error))?,
        };
        if before.file_type() != FileType::Symlink {
            return Ok(None);
        }
        let target = match readlinkat(from, name, Vec::new()) {
            Err(error) if is_gone(error) || error == Errno::INVAL => return Ok(None),
            done => done.map_err(|error| self.failed("read", path, error))?.into_bytes(),
        };
        let xattrs = Owner::Link(from, name).read().map_err(|error| self.failed("read", path, error))?;
        let untouched = before.is_untouched(expected) && look_again().is_ok_and(|after| after.is_untouched(&before));
        let given = self.make_symlink(hand, path, &target, &Wanted::of(&before, &xattrs))?;
        let xattrs = kept(&xattrs, &given.lost);
        self.meter.add(1, 0)?;
        Ok(Some(Made { source: before, given, xattrs, what: What::Symlink { target }, changed: !untouched }))
    }

    /// Creates a symbolic link.
    pub(super) fn make_symlink(
        &self,
        hand: &mut Hand<'_>,
        path: &[u8],
        target: &[u8],
        wanted: &Wanted<'_>,
    ) -> Result<Given, TreeError> {
        let (dir, name) = split(path);
        let wrote = |error| self.failed_into("write", path, error);
        let into = hand.into.at(dir).map_err(wrote)?;
        symlinkat(target, into, name).map_err(wrote)?;
        wanted.give_link(into, name).map_err(wrote)
    }
}

/// Opens a file for reading, when no write to it is in progress. The access time is left unchanged
/// if permitted: no user has read the file.
pub(super) fn open_source(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let file = match retry_on_intr(|| openat(dir, name, SOURCE | OFlags::NOATIME, Mode::empty())) {
        Err(Errno::PERM) => retry_on_intr(|| openat(dir, name, SOURCE, Mode::empty())),
        done => done,
    }?;
    // A write updates the times when it begins. Its bytes follow later, perhaps much later, so a
    // check in between shows nothing. Seeking for data waits for the lock that writers hold;
    // reading doesn't, on ext4.
    let _ = seek(&file, SeekFrom::Data(0));
    Ok(file)
}

/// Returns the attributes that could be set.
pub(super) fn kept(xattrs: &Xattrs, lost: &[Vec<u8>]) -> Xattrs {
    xattrs.iter().filter(|(name, _)| !lost.contains(name)).cloned().collect()
}
