//! A place that a file is to take: its directory stays open from the first look to the last rename.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, fstat, fsync, renameat, stat, statx};
use rustix::io::retry_on_intr;

use super::staged::{open_parent, replaceable};

/// Where a file is to go.
#[derive(Debug)]
pub struct Place {
    dir: OwnedFd,
    name: OsString,
}

impl Place {
    /// The place of `target`, which is a regular file or nothing yet.
    pub fn open(target: &Path) -> io::Result<Self> {
        let (dir, name) = open_parent(target)?;
        replaceable(&dir, &name)?;
        Ok(Self { dir, name })
    }

    /// Is this file there already?
    pub fn has(&self, file: &Path) -> io::Result<bool> {
        let (there, file) = (replaceable(&self.dir, &self.name)?, stat(file)?);
        Ok(there.is_some_and(|there| (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino)))
    }

    /// Can a file of this directory be renamed to here?
    pub fn is_beside(&self, dir: &Path) -> io::Result<bool> {
        // One file system can be mounted in several places, and nothing is renamed from one to the other.
        let mount = |found: rustix::io::Result<Statx>| {
            found.ok().filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0).map(|found| found.stx_mnt_id)
        };
        let here = mount(statx(&self.dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID));
        let there = mount(statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID));
        Ok(here == there && fstat(&self.dir)?.st_dev == stat(dir)?.st_dev)
    }

    /// Is this place in `top`, or further down?
    pub fn is_below(&self, top: &Path) -> io::Result<bool> {
        let here = std::fs::read_link(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))?;
        Ok(here.starts_with(top.canonicalize()?))
    }

    /// Moves a file to here, in one step. Something that isn't a regular file is never replaced.
    pub fn fill(&self, from: &Path) -> io::Result<()> {
        replaceable(&self.dir, &self.name)?;
        Ok(retry_on_intr(|| renameat(CWD, from, &self.dir, &self.name))?)
    }

    /// Makes that survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.dir))?)
    }
}
