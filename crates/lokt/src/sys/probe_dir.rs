//! A directory to try things in: made beside what it is about, gone when it is dropped.
//!
//! Its maker keeps it locked. One that isn't was left by a process that was killed, and may be cleared away by anybody. A directory,
//! because files among the temp files that aren't records in the making are tidied away by every grant.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fsync, mkdirat, openat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::os_disk::write_all;

/// How they are called; no lock, and nothing else of lokt's, is.
const PREFIX: &str = ".lokt-doctor-";

/// A directory of one's own.
pub(crate) struct ProbeDir {
    path: PathBuf,
    fd: OwnedFd,
}

impl ProbeDir {
    /// Makes one in `parent`; `bits` are random.
    pub(crate) fn make(parent: &Path, bits: u128) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{bits:032x}"));
        mkdirat(CWD, &path, Mode::from_raw_mode(0o700))?;
        let opened = open_dir(&path).inspect_err(|_| drop(clear(&path)))?;
        let probe = Self { path, fd: opened };
        // Shared: whoever tidies tries the same at times, and that must not keep us from it.
        let _ = flock(&probe.fd, FlockOperation::NonBlockingLockShared);
        Ok(probe)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it.
    pub(crate) fn make_dir(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.fd, name, Mode::from_raw_mode(0o700))?)
    }

    /// Creates a file in it, writes, syncs and deletes it.
    pub(crate) fn try_writing(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = retry_on_intr(|| openat(&self.fd, "written", flags, Mode::from_raw_mode(0o600)))?;
        write_all(file.as_fd(), b"lokt\n")?;
        retry_on_intr(|| fsync(&file))?;
        Ok(unlinkat(&self.fd, "written", AtFlags::empty())?)
    }
}

impl Drop for ProbeDir {
    fn drop(&mut self) {
        let _ = clear(&self.path);
    }
}

/// Those in `dir` that nobody keeps locked.
pub(crate) fn left_over(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let mut paths: Vec<PathBuf> = ours.map(|entry| entry.path()).filter(|path| is_nobodys(path)).collect();
    paths.sort();
    paths
}

/// Removes one with everything in it, which is flat, unless it is somebody's.
pub(crate) fn clear_left_over(path: &Path) -> io::Result<()> {
    if is_nobodys(path) { clear(path) } else { Ok(()) }
}

/// Is it, among the names in a directory, one of these?
pub(crate) fn is_probe(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn is_nobodys(path: &Path) -> bool {
    open_dir(path).is_ok_and(|fd| flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn clear(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let flags = if entry.file_type()?.is_dir() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(CWD, entry.path(), flags)?;
    }
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(CWD, path, flags, Mode::empty()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_kept_is_nobodys_to_clear_and_goes_away_with_its_maker() {
        let dir = tempfile::tempdir().expect("temp");
        let probe = ProbeDir::make(dir.path(), 7).expect("a temp directory is writable");
        probe.try_writing().expect("it is ours");
        assert_eq!(left_over(dir.path()), Vec::<PathBuf>::new(), "it is ours");
        clear_left_over(probe.path()).expect("nothing is done");
        assert!(probe.path().exists());
        let path = probe.path().to_owned();
        drop(probe);
        assert!(!path.exists());
        mkdirat(CWD, &path, Mode::from_raw_mode(0o700)).expect("a temp directory is writable");
        assert_eq!(left_over(dir.path()), std::slice::from_ref(&path), "nobody keeps it");
        clear_left_over(&path).expect("it is ours");
        assert!(!path.exists());
    }
}
