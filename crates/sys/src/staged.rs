//! A copy of a file beside its target: complete, synced, and one rename away from replacing it.
//!
//! Where the file system supports it, the copy has no name while it is written: if the process is
//! killed, nothing is left behind. It gets a name just before the rename, which needs one. That
//! happens inside the mutex, where no signal but SIGKILL arrives.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Stat, fchmod, fstat, fsync, linkat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::os_dirs::kind_of;
use super::signals::{Blocked, forget_file_size};

/// The reason why a copy failed, and which of the two paths it concerns.
#[derive(Debug)]
pub enum StageError {
    /// An error of the source.
    Source(io::Error),
    /// An error of the target.
    Target(io::Error),
    /// The source changed while it was copied.
    Changed,
}

/// A complete copy beside its target.
#[derive(Debug)]
pub struct Staged {
    dir: OwnedFd,
    target: OsString,
    copy: File,
    /// The copy's name in the directory.
    temp: OsString,
    /// True if it exists under that name.
    is_named: bool,
    /// Its length.
    pub bytes: u64,
}

impl Staged {
    /// Copies `source` into the directory of `target`, as a separate file with the same
    /// permissions, and syncs it. `unique` is for the copy's name.
    pub fn copy(source: &Path, target: &Path, unique: u128) -> Result<Self, StageError> {
        let from = open_regular(source).map_err(StageError::Source)?;
        let (dir, name) = open_parent(target).map_err(StageError::Target)?;
        let before = fstat(&from).map_err(|error| StageError::Source(error.into()))?;
        let there = replaceable(&dir, &name).map_err(StageError::Target)?;
        if there.is_some_and(|there| (there.st_dev, there.st_ino) == (before.st_dev, before.st_ino)) {
            return Err(StageError::Target(io::Error::new(io::ErrorKind::InvalidInput, "it is the source itself")));
        }
        let temp = OsString::from(format!(".lokt-publish-{unique:032x}"));
        let (to, is_named) = create(&dir, &temp).map_err(StageError::Target)?;
        let mut staged = Self { dir, target: name, copy: File::from(to), temp, is_named, bytes: 0 };
        let mut from = File::from(from);
        // The kernel copies the data or shares the blocks, where it can.
        let quiet = Blocked::file_size();
        staged.bytes = io::copy(&mut from, &mut staged.copy).map_err(|error| {
            forget_file_size(fstat(&staged.copy).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)));
            StageError::Target(error)
        })?;
        drop(quiet);
        let after = fstat(&from).map_err(|error| StageError::Source(error.into()))?;
        if is_changed(&before, &after) || staged.bytes != u64::try_from(after.st_size).unwrap_or(0) {
            return Err(StageError::Changed);
        }
        fchmod(&staged.copy, Mode::from_raw_mode(before.st_mode & 0o777))
            .and_then(|()| retry_on_intr(|| fsync(&staged.copy)))
            .map_err(|error| StageError::Target(error.into()))?;
        Ok(staged)
    }

    /// Creates an empty file in the directory of `target`, to be written and
    /// [finished](Self::finish). It gets the permissions of the file that it replaces. `unique` is
    /// for its name.
    pub fn create(target: &Path, unique: u128) -> io::Result<Self> {
        let (dir, name) = open_parent(target)?;
        let mode = replaceable(&dir, &name)?.map_or(0o644, |there| there.st_mode & 0o777);
        let temp = OsString::from(format!(".lokt-publish-{unique:032x}"));
        let (to, is_named) = create(&dir, &temp)?;
        fchmod(&to, Mode::from_raw_mode(mode))?;
        Ok(Self { dir, target: name, copy: File::from(to), temp, is_named, bytes: 0 })
    }

    /// Syncs what was written.
    pub fn finish(&mut self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.copy))?)
    }

    /// Moves the copy to its target, atomically. Only a regular file is ever replaced.
    pub fn publish(&mut self) -> io::Result<()> {
        replaceable(&self.dir, &self.target)?;
        if !self.is_named {
            let unnamed = format!("/proc/self/fd/{}", self.copy.as_raw_fd());
            linkat(CWD, unnamed, &self.dir, &self.temp, AtFlags::SYMLINK_FOLLOW)?;
            self.is_named = true;
        }
        renameat(&self.dir, &self.temp, &self.dir, &self.target)?;
        self.is_named = false;
        Ok(())
    }

    /// Makes the new name survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.dir))?)
    }
}

impl io::Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let quiet = Blocked::file_size();
        let written = self.copy.write(bytes);
        if written.is_err() {
            forget_file_size(self.bytes);
        }
        drop(quiet);
        let written = written?;
        self.bytes += u64::try_from(written).unwrap_or(0);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.is_named {
            let _ = unlinkat(&self.dir, &self.temp, AtFlags::empty());
        }
    }
}

/// Removes a published copy that is no longer needed. Best effort: the next sweep finds leftovers.
pub fn discard(copy: &Path) {
    let _ = unlinkat(CWD, copy, AtFlags::empty());
}

fn open_regular(path: &Path) -> io::Result<OwnedFd> {
    // An ordinary open of a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = retry_on_intr(|| open(path, flags, Mode::empty()))?;
    match kind_of(&fstat(&fd)?) {
        Some(kind) => Err(not_a_file(kind)),
        None => Ok(fd),
    }
}

/// Opens the directory of `path`; also returns its last component.
pub(super) fn open_parent(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let is_dir = || io::Error::new(io::ErrorKind::IsADirectory, "it names a directory, not a file");
    let bytes = path.as_os_str().as_bytes();
    // `file_name` would ignore both.
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(is_dir());
    }
    let name = path.file_name().ok_or_else(is_dir)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((retry_on_intr(|| open(parent, flags, Mode::empty()))?, name.to_owned()))
}

/// Returns the current file at the target, if it may be replaced.
pub(super) fn replaceable(dir: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match kind_of(&stat) {
            Some(kind) => Err(not_a_file(kind)),
            None => Ok(Some(stat)),
        },
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn not_a_file(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file"))
}

/// Creates an empty file in `dir`, without a name if possible. True: it has the name `temp`.
fn create(dir: &OwnedFd, temp: &OsStr) -> io::Result<(OwnedFd, bool)> {
    let mode = Mode::from_raw_mode(0o600);
    let unnamed = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    if let Ok(fd) = retry_on_intr(|| openat(dir, c".", unnamed, mode)) {
        return Ok((fd, false));
    }
    let named = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok((retry_on_intr(|| openat(dir, temp, named, mode))?, true))
}

fn is_changed(before: &Stat, after: &Stat) -> bool {
    let stamp = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    stamp(before) != stamp(after)
}
