//! A directory for experiments: created beside the directory that it tests, removed when it is
//! dropped.
//!
//! Its creator keeps it locked. An unlocked one was left by a process that was killed, and may be
//! removed. It is a directory, because every grant cleans up temp files that aren't records in the
//! making.
//!
//! Other users may be able to write to its parent, and may replace it at any moment. So all
//! operations use descriptors, without following links, in a directory that is ours. Of its
//! contents, only files that we put there are removed.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, fsync, mkdirat, openat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::look::us;
use super::os_dirs::{open_below, open_dir};
use super::os_disk::write_all;

/// Prefix of their names; neither locks nor other files of lokt have it.
const PREFIX: &str = ".lokt-doctor-";
/// Names of the entries that are put into them; for races, followed by numbers.
const CONTENTS: [&str; 6] = ["written", "file", "dir", "seen-twice", "rename", "link"];

/// A directory of our own.
pub struct ProbeDir {
    parent: OwnedFd,
    name: String,
    path: PathBuf,
    fd: OwnedFd,
}

impl ProbeDir {
    /// Creates one in the directory `below` `top`, to which no link may lead; `bits` are random.
    pub fn make(top: &Path, below: &str, bits: u128) -> io::Result<Self> {
        let parent = open_below(top, below)?;
        let name = format!("{PREFIX}{bits:032x}");
        mkdirat(&parent, &name, Mode::from_raw_mode(0o700))?;
        let fd = open_ours(parent.as_fd(), &name)?;
        if !is_empty(&fd)? {
            return Err(replaced());
        }
        let path = top.join(below).join(&name);
        let probe = Self { parent, name, path, fd };
        // Shared: a cleanup may try to lock it at the same time, and must not prevent our lock.
        let _ = flock(&probe.fd, FlockOperation::NonBlockingLockShared);
        Ok(probe)
    }

    /// The path at which it was created, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `command` run in it, even if its path has been replaced.
    pub fn enter(&self, mut command: Command) -> Command {
        command.current_dir(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        command
    }

    /// Creates a directory in it.
    pub fn make_dir(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.fd, name, Mode::from_raw_mode(0o700))?)
    }

    /// Creates, writes, syncs and deletes a file in it.
    pub fn try_writing(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = retry_on_intr(|| openat(&self.fd, "written", flags, Mode::from_raw_mode(0o600)))?;
        write_all(file.as_fd(), b"lokt\n")?;
        retry_on_intr(|| fsync(&file))?;
        Ok(unlinkat(&self.fd, "written", AtFlags::empty())?)
    }
}

impl Drop for ProbeDir {
    fn drop(&mut self) {
        let _ = clear(self.parent.as_fd(), &self.name, &self.fd);
    }
}

/// Returns those of ours in the directory `below` `top` that no process keeps locked.
pub fn left_over(top: &Path, below: &str) -> Vec<String> {
    let Ok(parent) = open_below(top, below) else { return Vec::new() };
    let entries = fs::read_dir(top.join(below)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut left: Vec<String> =
        names.filter(|name| is_probe(name) && open_nobodys(parent.as_fd(), name).is_ok()).collect();
    left.sort();
    left
}

/// Removes one with the files that a doctor put into it, unless it is in use or not ours.
pub fn clear_left_over(top: &Path, below: &str, name: &str) -> io::Result<()> {
    let parent = open_below(top, below)?;
    match open_nobodys(parent.as_fd(), name) {
        Ok(fd) => clear(parent.as_fd(), name, &fd),
        Err(_) => Ok(()),
    }
}

/// Reports whether the name of a directory entry is that of a probe directory.
pub fn is_probe(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Opens a directory in `parent` that is ours.
fn open_ours(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let fd = open_dir(parent, name)?;
    if fstat(&fd)?.st_uid != us() {
        return Err(replaced());
    }
    Ok(fd)
}

fn replaced() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "somebody replaced what was made there at this moment")
}

/// Opens one that is ours and that no process keeps locked; it is now locked by us.
fn open_nobodys(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let fd = open_ours(parent, name)?;
    flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
    Ok(fd)
}

/// Removes the files that we put into the directory, and then the directory, unless it contains
/// something else or was replaced.
fn clear(parent: BorrowedFd<'_>, name: &str, dir: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(dir)?.flatten() {
        if !entry.file_name().to_str().is_ok_and(is_ours) {
            continue;
        }
        let flags = match entry.file_type() {
            FileType::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        unlinkat(dir, entry.file_name(), flags)?;
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Reports whether a doctor put this into its directory. No record has such a name.
fn is_ours(name: &str) -> bool {
    let numbered = |rest: &str| rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    CONTENTS.iter().any(|known| name.strip_prefix(known).is_some_and(numbered))
}

fn is_empty(dir: &OwnedFd) -> io::Result<bool> {
    Ok(Dir::read_from(dir)?.flatten().all(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn one_that_is_kept_is_nobodys_to_clear_and_goes_away_with_its_maker() {
        let dir = tempfile::tempdir().expect("temp");
        let probe = ProbeDir::make(dir.path(), "", 7).expect("a temp directory is writable");
        probe.try_writing().expect("it is ours");
        assert_eq!(left_over(dir.path(), ""), Vec::<String>::new(), "it is ours");
        clear_left_over(dir.path(), "", &probe.name).expect("nothing is done");
        assert!(probe.path().exists());
        let (path, name) = (probe.path().to_owned(), probe.name.clone());
        drop(probe);
        assert!(!path.exists());
        fs::create_dir(&path).expect("a temp directory is writable");
        assert_eq!(left_over(dir.path(), ""), std::slice::from_ref(&name), "nobody keeps it");
        clear_left_over(dir.path(), "", &name).expect("it is ours");
        assert!(!path.exists());
    }

    #[test]
    fn what_is_put_in_its_place_is_left_alone() {
        let dir = tempfile::tempdir().expect("temp");
        let victim = dir.path().join("victim");
        fs::create_dir(&victim).expect("temp");
        for name in ["file", "written", "file.json"] {
            fs::create_dir(victim.join(name)).expect("temp");
        }
        let probe = ProbeDir::make(dir.path(), "", 7).expect("a temp directory is writable");
        #[expect(clippy::disallowed_methods, reason = "a test does what an attacker does")]
        fs::rename(probe.path(), dir.path().join("away")).expect("it is there");
        symlink(&victim, probe.path()).expect("its name is free");
        drop(probe);
        assert_eq!(fs::read_dir(&victim).expect("it is there").count(), 3, "nothing behind the link was touched");
        assert!(left_over(dir.path(), "").is_empty(), "a link is no directory of ours");
    }

    #[test]
    fn what_somebody_else_put_into_one_is_left_alone() {
        let dir = tempfile::tempdir().expect("temp");
        let probe = ProbeDir::make(dir.path(), "", 7).expect("a temp directory is writable");
        let theirs = probe.path().join("link-1.json");
        fs::create_dir(&theirs).expect("temp");
        drop(probe);
        assert!(theirs.exists(), "only what we put there is removed");
    }

    #[test]
    fn no_link_leads_to_the_place_where_it_is_made() {
        let dir = tempfile::tempdir().expect("temp");
        fs::create_dir(dir.path().join("elsewhere")).expect("temp");
        symlink("elsewhere", dir.path().join("state")).expect("temp");
        assert!(ProbeDir::make(dir.path(), "state", 7).is_err(), "a link is not followed");
        assert_eq!(fs::read_dir(dir.path().join("elsewhere")).expect("it is there").count(), 0);
    }
}
