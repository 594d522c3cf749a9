//! The destination of a file: its directory stays open from the first check to the last rename.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, fstat, fsync, renameat, stat, statx};
use rustix::io::retry_on_intr;

use super::staged::{open_parent, replaceable};

/// The destination of a file.
#[derive(Debug)]
pub struct Place {
    dir: OwnedFd,
    name: OsString,
}

impl Place {
    /// Opens the destination `target`, which is a regular file or doesn't exist yet.
    pub fn open(target: &Path) -> io::Result<Self> {
        let (dir, name) = open_parent(target)?;
        replaceable(&dir, &name)?;
        Ok(Self { dir, name })
    }

    /// Reports whether this file is already there.
    pub fn has(&self, file: &Path) -> io::Result<bool> {
        let (there, file) = (replaceable(&self.dir, &self.name)?, stat(file)?);
        Ok(there.is_some_and(|there| (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino)))
    }

    /// Reports whether a file of `dir` can be renamed to this destination.
    pub fn is_beside(&self, dir: &Path) -> io::Result<bool> {
        // A file system can be mounted in several places, and files can't be renamed between the
        // mounts.
        let mount = |found: rustix::io::Result<Statx>| {
            found.ok().filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0).map(|found| found.stx_mnt_id)
        };
        let here = mount(statx(&self.dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID));
        let there = mount(statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID));
        Ok(here == there && fstat(&self.dir)?.st_dev == stat(dir)?.st_dev)
    }

    /// Reports whether this destination is in `top` or below it.
    pub fn is_below(&self, top: &Path) -> io::Result<bool> {
        let here = std::fs::read_link(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))?;
        Ok(here.starts_with(top.canonicalize()?))
    }

    /// Moves a file to this destination, atomically. Only a regular file is ever replaced.
    pub fn fill(&self, from: &Path) -> io::Result<()> {
        replaceable(&self.dir, &self.name)?;
        Ok(retry_on_intr(|| renameat(CWD, from, &self.dir, &self.name))?)
    }

    /// Makes the rename survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.dir))?)
    }
}
