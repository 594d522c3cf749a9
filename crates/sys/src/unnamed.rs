//! A file of a real disk that has no name yet.
//!
//! Where the file system supports it (`O_TMPFILE`), nothing is left of it if its writer is killed.
//! Elsewhere it has a name that no program looks for, and is locked while its writer lives, so that
//! cleanup can recognize leftovers.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, fsync, linkat, openat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::disk::{Stamp, Unnamed};
use super::machine::{Linux, Machine as _};
use super::os_dirs::{Missing, PLAIN};
use super::os_disk::{OsDisk, stamp_of};

/// Prefix of the name of such a file, where it needs one.
pub(crate) const PREFIX: &str = ".lokt-";
/// Suffix of that name.
pub(crate) const SUFFIX: &str = ".tmp";

/// An open file of `disk`.
pub(super) struct OsUnnamed<'d> {
    disk: &'d OsDisk,
    fd: OwnedFd,
    /// Its name in the root, where it can't do without one.
    temp: Option<String>,
}

impl<'d> OsUnnamed<'d> {
    /// Creates an empty one, to be linked in `root`.
    pub(super) fn create(disk: &'d OsDisk, root: BorrowedFd<'_>, mode: u32) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(mode);
        let unnamed = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match retry_on_intr(|| openat(root, c".", unnamed, mode)) {
            Ok(fd) => return Ok(Self { disk, fd, temp: None }),
            // The errors of file systems and kernels that don't support it.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let temp = Linux.unique_name(PREFIX, SUFFIX)?;
        let named = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
        let fd = retry_on_intr(|| openat(root, &temp, named, mode))?;
        let _ = flock(&fd, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { disk, fd, temp: Some(temp) })
    }
}

impl Unnamed for OsUnnamed<'_> {
    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.fd))?)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        Ok(stamp_of(&fstat(&self.fd)?))
    }

    fn link(&self, path: &str) -> io::Result<()> {
        self.disk.within(path, Missing::Make, |dir, name| {
            let linked = match &self.temp {
                None => {
                    let unnamed = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
                    linkat(CWD, unnamed, dir, name, AtFlags::SYMLINK_FOLLOW)
                }
                Some(temp) => self
                    .disk
                    .within(temp, Missing::Fail, |root, temp| Ok(linkat(root, temp, dir, name, AtFlags::empty())))?,
            };
            Ok(linked?)
        })
    }
}

impl AsFd for OsUnnamed<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for OsUnnamed<'_> {
    fn drop(&mut self) {
        if let Some(temp) = &self.temp {
            let _ = self.disk.within(temp, Missing::Fail, |root, temp| Ok(unlinkat(root, temp, AtFlags::empty())?));
        }
    }
}
