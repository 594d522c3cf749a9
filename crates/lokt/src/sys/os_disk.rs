//! The real disk: system calls relative to descriptors, symlinks never followed.
//!
//! Modes: directories 0700 and files 0600; in a root whose directory is group-writable 0770 and 0660, with the root's group. Files
//! made by the superuser are given to the root's owner, so that a `sudo lokt` doesn't lock its user out.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, StatxFlags, Uid, fchmod, fchown,
    flock, fstat, fstatfs, fsync, linkat, mkdirat, open, openat, renameat, renameat_with, stat, statat, statx,
    unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::disk::{Content, Disk, Entry, LockedFile, Mount, NewFile, NoMutex, Stamp, Unlock};
use super::{proc_locks, signals};

/// `STATX_MNT_ID_UNIQUE`: a mount id that is never used again, since Linux 6.8.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
/// NFS can't lock directories; there the mutex is a file.
const NFS_MAGIC: u64 = 0x6969;
/// The mutex where directories can't be locked.
const MUTEX_FILE: &str = "state/mutex";
/// A record fits the first read; longer files take more.
const READ_BYTES: usize = 4096;

/// Files below a real directory.
pub struct OsDisk {
    path: PathBuf,
    open: Mutex<Arc<Opened>>,
}

/// The root as it was found, with the directories below it that were used.
struct Opened {
    root: OwnedFd,
    dirs: Mutex<HashMap<String, Arc<OwnedFd>>>,
    ownership: Ownership,
    mount: Mount,
}

/// Whose files to make, and who may touch them.
#[derive(Debug, Clone, Copy)]
struct Ownership {
    shared: bool,
    give_to: Option<(Option<Uid>, Option<Gid>)>,
}

impl OsDisk {
    /// Opens an existing root; `NotFound` if there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), open: Mutex::new(Arc::new(Opened::new(path)?)) })
    }

    /// Opens a root, making the directory and missing parents. Says whether it was made.
    pub fn create(path: &Path) -> io::Result<(Self, bool)> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = make_root(path)?;
                Ok((Self::open(path)?, made))
            }
            done => Ok((done?, false)),
        }
    }

    fn opened(&self) -> Arc<Opened> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` in the directory of `path`. A directory that was deleted after it was opened is opened again, once.
    fn within<T>(
        &self,
        path: &str,
        missing: Missing,
        work: impl Fn(BorrowedFd<'_>, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        let opened = self.opened();
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        if dir.is_empty() {
            return work(opened.root.as_fd(), name);
        }
        let (fd, cached) = match opened.dir(dir, missing) {
            // A directory above it was deleted after it was opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Make => {
                opened.forget();
                opened.dir(dir, missing)?
            }
            done => done?,
        };
        match work(fd.as_fd(), name) {
            Err(error) if cached && error.kind() == io::ErrorKind::NotFound && fstat(&fd)?.st_nlink == 0 => {
                opened.forget();
                work(opened.dir(dir, missing)?.0.as_fd(), name)
            }
            done => done,
        }
    }

    fn within_both(
        &self,
        from: &str,
        to: &str,
        work: impl Fn(BorrowedFd<'_>, &str, BorrowedFd<'_>, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.within(from, Missing::Fail, |from_dir, from_name| {
            self.within(to, Missing::Make, |to_dir, to_name| work(from_dir, from_name, to_dir, to_name))
        })
    }
}

/// What to do about a missing directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Fail,
    Make,
}

impl Opened {
    fn new(path: &Path) -> io::Result<Self> {
        let root = retry_on_intr(|| open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))?;
        let stat = fstat(&root)?;
        let shared = stat.st_mode & 0o020 != 0;
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        let us = (rustix::process::geteuid(), rustix::process::getegid());
        let give_to = match (us.0.is_root(), shared) {
            (true, _) if us != (uid, gid) => Some((Some(uid), Some(gid))),
            (false, true) if us.1 != gid => Some((None, Some(gid))),
            _ => None,
        };
        let fs = fstatfs(&root).ok().and_then(|statfs| u64::try_from(statfs.f_type).ok());
        let mask = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
        let id = statx(&root, c"", AtFlags::EMPTY_PATH, mask).ok();
        let id = id.filter(|found| found.stx_mask & STATX_MNT_ID_UNIQUE != 0).map(|found| found.stx_mnt_id);
        let ownership = Ownership { shared, give_to };
        Ok(Self { root, dirs: Mutex::default(), ownership, mount: Mount { fs, id } })
    }

    fn forget(&self) {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A descriptor of the directory `path`, and whether it had been opened before.
    fn dir(&self, path: &str, missing: Missing) -> io::Result<(Arc<OwnedFd>, bool)> {
        if let Some(fd) = self.dirs.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok((fd.clone(), true));
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent_fd = if parent.is_empty() { None } else { Some(self.dir(parent, missing)?.0) };
        let parent_fd = parent_fd.as_ref().map_or(self.root.as_fd(), |fd| fd.as_fd());
        let fd = match open_dir(parent_fd, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Make => {
                self.make_dir(parent_fd, name)?;
                open_dir(parent_fd, name)?
            }
            done => done?,
        };
        let fd = Arc::new(fd);
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), fd.clone());
        Ok((fd, false))
    }

    fn make_dir(&self, parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let made = if self.ownership.is_plain() {
            mkdirat(parent, name, Mode::from_raw_mode(0o700))
        } else {
            self.make_shared_dir(parent, name)
        };
        match made {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // A directory that a power cut takes away takes everything in it along.
        retry_on_intr(|| fsync(parent))?;
        Ok(())
    }
}

/// What is to be everybody's is made under this name and renamed when it is: whoever is killed half-way leaves nothing that shuts the
/// others out. No lock has a `~` in its name.
fn unfinished(name: &str) -> String {
    format!("{name}~")
}

impl Opened {
    fn make_shared_dir(&self, parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        let temp = unfinished(name);
        let _ = unlinkat(parent, &temp, AtFlags::REMOVEDIR);
        mkdirat(parent, &temp, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| openat(parent, &temp, flags, Mode::empty()))?;
        let made = self.ownership.apply(fd.as_fd(), 0o2770).and_then(|()| {
            match renameat_with(parent, &temp, parent, name, RenameFlags::NOREPLACE) {
                // An empty directory may be replaced by another one; a used one can't be.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match renameat(parent, &temp, parent, name) {
                    Err(Errno::NOTEMPTY) => Err(Errno::EXIST),
                    done => done,
                },
                done => done,
            }
        });
        made.inspect_err(|_| {
            let _ = unlinkat(parent, &temp, AtFlags::REMOVEDIR);
        })
    }
}

impl Ownership {
    /// Is whatever we make usable by whom it should be, without doing anything about it?
    fn is_plain(self) -> bool {
        !self.shared && self.give_to.is_none()
    }

    /// Creates a file that isn't there (`EXIST` if it is), complete with owner and mode.
    fn create(self, dir: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o600);
        if self.is_plain() {
            return retry_on_intr(|| openat(dir, name, flags, mode));
        }
        let temp = unfinished(name);
        let _ = unlinkat(dir, &temp, AtFlags::empty());
        let fd = retry_on_intr(|| openat(dir, &temp, flags, mode))?;
        let made = self.apply(fd.as_fd(), 0o660).and_then(|()| rename_new_at(dir, &temp, dir, name));
        if made.is_err() {
            let _ = unlinkat(dir, &temp, AtFlags::empty());
        }
        made.map(|()| fd)
    }

    fn apply(self, fd: BorrowedFd<'_>, shared_mode: u32) -> Result<(), Errno> {
        if let Some((uid, gid)) = self.give_to {
            // Not being allowed to give a file away is no reason to fail: it is usable by whoever made it.
            let _ = fchown(fd, uid, gid);
        }
        if self.shared {
            fchmod(fd, Mode::from_raw_mode(shared_mode))?;
        }
        Ok(())
    }
}

fn open_dir(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_on_intr(|| openat(parent, name, flags, Mode::empty())).map_err(|error| {
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok().filter(|_| error == Errno::NOTDIR);
        match found.map(|stat| kind_of(&stat).unwrap_or("a file")) {
            Some(kind) => io::Error::new(io::ErrorKind::NotADirectory, format!("{name} is {kind}, not a directory")),
            None => error.into(),
        }
    })
}

/// Makes the root directory and its missing parents, 0700, durably: what is acknowledged below them must not vanish with them. False:
/// somebody else was faster. The superuser gives them to whom the directory above belongs: the first
/// `sudo lokt` in somebody's project would otherwise lock them out of their own root.
fn make_root(path: &Path) -> io::Result<bool> {
    let above = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open_above = || retry_on_intr(|| open(above, flags, Mode::empty()));
    let parent = match open_above() {
        Err(Errno::NOENT) if above != path => {
            make_root(above)?;
            open_above()?
        }
        done => done?,
    };
    match mkdirat(CWD, path, Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let whose = fstat(&parent)?;
    if rustix::process::geteuid().is_root() && whose.st_uid != 0 {
        let made = retry_on_intr(|| open(path, flags | OFlags::NOFOLLOW, Mode::empty()))?;
        fchown(&made, Some(Uid::from_raw(whose.st_uid)), Some(Gid::from_raw(whose.st_gid)))?;
    }
    retry_on_intr(|| fsync(&parent))?;
    Ok(true)
}

fn stamp_of(stat: &Stat) -> Stamp {
    let nanos = i32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Stamp {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: Timestamp::new(stat.st_mtime, nanos).unwrap_or(Timestamp::MAX),
    }
}

fn kind_of(stat: &Stat) -> Option<&'static str> {
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return None,
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    })
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(fd, bytes)).inspect_err(|error| {
            if *error == Errno::FBIG {
                signals::forget_file_size();
            }
        });
        match written? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Disk for OsDisk {
    fn read(&self, path: &str, limit: usize) -> io::Result<Entry> {
        let opened = self.within(path, Missing::Fail, |dir, name| {
            match retry_on_intr(|| openat(dir, name, OFlags::RDONLY | PLAIN, Mode::empty())) {
                Err(Errno::LOOP) => Ok(Err("a symbolic link")),
                Err(Errno::NXIO) => Ok(Err("a socket")),
                done => Ok(Ok(done?)),
            }
        });
        let fd = match opened {
            Ok(Ok(fd)) => fd,
            Ok(Err(kind)) => return Ok(Entry::NotRegular(kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entry::Missing),
            Err(error) => return Err(error),
        };
        let stat = fstat(&fd)?;
        if let Some(kind) = kind_of(&stat) {
            return Ok(Entry::NotRegular(kind));
        }
        let stamp = stamp_of(&stat);
        // Records are replaced, never appended to: a file of the size that it says is read in full, and one read is enough.
        let mut bytes = Vec::with_capacity(READ_BYTES);
        loop {
            if bytes.len() > limit {
                return Ok(Entry::TooBig(stamp.size.max(bytes.len() as u64)));
            }
            if bytes.len() == bytes.capacity() {
                bytes.reserve(READ_BYTES);
            }
            let got = retry_on_intr(|| rustix::io::read(&fd, rustix::buffer::spare_capacity(&mut bytes)))?;
            if got == 0 || bytes.len() as u64 == stamp.size {
                return Ok(Entry::File(Content { bytes, stamp }));
            }
        }
    }

    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        let opened = self.within(path, Missing::Fail, |dir, name| {
            Ok(retry_on_intr(|| openat(dir, name, OFlags::RDONLY | PLAIN, Mode::empty()))?)
        });
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let stat = fstat(&fd)?;
        if let Some(kind) = kind_of(&stat) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}")));
        }
        let size = stamp_of(&stat).size;
        let mut at = size.saturating_sub(limit as u64);
        let mut bytes = Vec::new();
        while bytes.len() < limit {
            bytes.reserve(READ_BYTES.max(usize::try_from(size - at.min(size)).unwrap_or(limit).min(limit)));
            let got = retry_on_intr(|| rustix::io::pread(&fd, rustix::buffer::spare_capacity(&mut bytes), at))?;
            if got == 0 {
                break;
            }
            at += got as u64;
        }
        Ok(bytes)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
        let ownership = self.opened().ownership;
        let fd = self.within(path, Missing::Make, |dir, name| {
            Ok(retry_on_intr(|| openat(dir, name, flags, Mode::from_raw_mode(0o600)))?)
        })?;
        let owned = ownership.apply(fd.as_fd(), 0o660).map_err(io::Error::from);
        if let Err(error) = owned.and_then(|()| write_all(fd.as_fd(), bytes)) {
            let _ = self.remove(path);
            return Err(error);
        }
        Ok(Box::new(OsNewFile(fd)))
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let ownership = self.opened().ownership;
        self.within(path, Missing::Make, |dir, name| {
            let fd = match retry_on_intr(|| openat(dir, name, OFlags::WRONLY | PLAIN, Mode::empty())) {
                Err(Errno::NOENT) => ownership.create(dir, name, OFlags::WRONLY | PLAIN)?,
                done => done?,
            };
            write_all(fd.as_fd(), bytes)
        })
    }

    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64> {
        let ownership = self.opened().ownership;
        self.within(path, Missing::Make, |dir, name| {
            let flags = OFlags::RDWR | OFlags::APPEND | PLAIN;
            let there = || retry_on_intr(|| openat(dir, name, flags, Mode::empty()));
            let fd = match there() {
                Err(Errno::NOENT) => match ownership.create(dir, name, flags) {
                    // Other programs write it too, without the mutex.
                    Err(Errno::EXIST) => there()?,
                    done => done?,
                },
                done => done?,
            };
            let stat = fstat(&fd)?;
            if let Some(kind) = kind_of(&stat) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}")));
            }
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mut last = [b'\n'];
            if size > 0 {
                retry_on_intr(|| rustix::io::pread(&fd, &mut last, size - 1))?;
            }
            let torn = last != [b'\n'];
            let line = if torn { [b"\n", bytes].concat() } else { bytes.to_vec() };
            write_all(fd.as_fd(), &line)?;
            Ok(size + line.len() as u64)
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.within_both(from, to, |from_dir, from, to_dir, to| {
            Ok(retry_on_intr(|| renameat(from_dir, from, to_dir, to))?)
        })
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.within_both(from, to, |from_dir, from, to_dir, to| Ok(rename_new_at(from_dir, from, to_dir, to)?))
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        self.within_both(one, other, |one_dir, one, other_dir, other| {
            match retry_on_intr(|| renameat_with(one_dir, one, other_dir, other, RenameFlags::EXCHANGE)) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
                done => Ok(done?),
            }
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        match self.within(path, Missing::Fail, |dir, name| Ok(retry_on_intr(|| unlinkat(dir, name, AtFlags::empty()))?))
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>> {
        match self.within(path, Missing::Fail, |dir, name| Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)) {
            Ok(stat) => Ok(Some(stamp_of(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let opened = self.within(&format!("{dir}/."), Missing::Fail, |fd, _| open_dir(fd, "."));
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in Dir::new(fd)? {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        self.within(path, Missing::Fail, |dir, name| {
            let fd = retry_on_intr(|| openat(dir, name, OFlags::RDONLY | PLAIN, Mode::empty()))?;
            Ok(retry_on_intr(|| fsync(&fd))?)
        })
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        if dir.is_empty() {
            return Ok(retry_on_intr(|| fsync(&self.opened().root))?);
        }
        self.within(&format!("{dir}/."), Missing::Fail, |fd, _| Ok(retry_on_intr(|| fsync(fd))?))
    }

    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>> {
        let opened = self.within(path, Missing::Fail, |dir, name| {
            Ok(retry_on_intr(|| openat(dir, name, OFlags::RDONLY | PLAIN, Mode::empty()))?)
        });
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stamp = stamp_of(&fstat(&fd)?);
        let locked = match retry_on_intr(|| flock(&fd, FlockOperation::NonBlockingLockShared)) {
            Ok(()) => false,
            Err(Errno::WOULDBLOCK) => true,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(LockedFile { stamp, locked }))
    }

    fn mount(&self) -> Mount {
        self.opened().mount
    }

    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        // A root that is replaced while we wait for its mutex is another root.
        for _ in 0..ROOT_CHANGES_MAX {
            let fd = self.mutex_file().map_err(NoMutex::Io)?;
            let fd = match flock_within(fd, patience) {
                Ok(fd) => fd,
                Err(error) => return Err(self.who_is_busy(error)),
            };
            if self.is_current(&fd).map_err(NoMutex::Io)? {
                // Directories that were opened earlier may have been moved away and made anew since.
                self.opened().forget();
                return Ok(Box::new(OsUnlock(fd)));
            }
            let fresh = Opened::new(&self.path).map_err(NoMutex::Io)?;
            *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        }
        Err(NoMutex::Busy("the root directory is being replaced again and again".into()))
    }
}

/// More changes of the root directory than this during one attempt are no accident.
const ROOT_CHANGES_MAX: usize = 8;

impl OsDisk {
    /// Opens what is locked: a descriptor of its own each time, so that two threads exclude each other too.
    fn mutex_file(&self) -> io::Result<OwnedFd> {
        let opened = self.opened();
        if opened.mount.fs != Some(NFS_MAGIC) {
            return open_dir(opened.root.as_fd(), ".");
        }
        self.within(MUTEX_FILE, Missing::Make, |dir, name| {
            let there = || retry_on_intr(|| openat(dir, name, OFlags::RDWR | PLAIN, Mode::empty()));
            Ok(match there() {
                Err(Errno::NOENT) => match opened.ownership.create(dir, name, OFlags::RDWR | PLAIN) {
                    Err(Errno::EXIST) => there()?,
                    done => done?,
                },
                done => done?,
            })
        })
    }

    /// Does the path still name what was locked?
    fn is_current(&self, fd: &OwnedFd) -> io::Result<bool> {
        let opened = self.opened();
        let path = if opened.mount.fs == Some(NFS_MAGIC) { self.path.join(MUTEX_FILE) } else { self.path.clone() };
        let (locked, named) = (
            fstat(fd)?,
            match stat(&path) {
                Err(Errno::NOENT) => return Ok(false),
                done => done?,
            },
        );
        Ok((locked.st_dev, locked.st_ino) == (named.st_dev, named.st_ino))
    }

    fn who_is_busy(&self, error: io::Error) -> NoMutex {
        if error.kind() != io::ErrorKind::TimedOut {
            return NoMutex::Io(error);
        }
        let holder = self.mutex_file().and_then(|fd| Ok(fstat(&fd)?)).ok();
        let holder = holder.and_then(|stat| proc_locks::holder_of(stat.st_dev, stat.st_ino));
        NoMutex::Busy(holder.unwrap_or_else(|| "a process that can't be seen from here".into()))
    }
}

/// How often the mutex is tried where no thread can be had to wait for it.
const POLL: Duration = Duration::from_millis(5);

/// Locks `fd`, waiting in the kernel's own line for at most `patience`.
fn flock_within(fd: OwnedFd, patience: Duration) -> io::Result<Arc<OwnedFd>> {
    let fd = Arc::new(fd);
    if flock_now(&fd)? {
        return Ok(fd);
    }
    // The kernel serves blocked lockers first come, first served, but can't be told when to give up. So a thread waits; if it is
    // too late, nobody receives what it sends, and it unlocks.
    let (send, receive) = mpsc::sync_channel::<io::Result<Arc<OwnedFd>>>(0);
    let theirs = fd.clone();
    let waiter = thread::Builder::new().stack_size(64 << 10).spawn(move || {
        let locked = retry_on_intr(|| flock(&theirs, FlockOperation::LockExclusive));
        if let Err(mpsc::SendError(Ok(late))) = send.send(locked.map(|()| theirs).map_err(Into::into)) {
            // Explicitly: a child that was forked meanwhile would keep the lock together with the descriptor.
            let _ = flock(&late, FlockOperation::Unlock);
        }
    });
    if waiter.is_err() {
        return poll_flock(fd, patience);
    }
    drop(fd);
    receive.recv_timeout(patience).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn flock_now(fd: &OwnedFd) -> io::Result<bool> {
    match retry_on_intr(|| flock(fd, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Without a place in the kernel's line, but without a thread: a limit on processes must not make a lock fail.
fn poll_flock(fd: Arc<OwnedFd>, patience: Duration) -> io::Result<Arc<OwnedFd>> {
    for _ in 0..patience.as_millis() / POLL.as_millis() {
        thread::park_timeout(POLL);
        if flock_now(&fd)? {
            return Ok(fd);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn rename_new_at(from_dir: BorrowedFd<'_>, from: &str, to_dir: BorrowedFd<'_>, to: &str) -> Result<(), Errno> {
    match retry_on_intr(|| renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE)) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(from_dir, from, to_dir, to),
        done => done,
    }
}

fn link_new(from_dir: BorrowedFd<'_>, from: &str, to_dir: BorrowedFd<'_>, to: &str) -> Result<(), Errno> {
    let linked = linkat(from_dir, from, to_dir, to, AtFlags::empty());
    // Over NFS the answer of a link that worked may be lost; the link count tells.
    if let Err(error) = linked
        && !statat(from_dir, from, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_nlink == 2)
    {
        return Err(error);
    }
    unlinkat(from_dir, from, AtFlags::empty())
}

struct OsNewFile(OwnedFd);

impl NewFile for OsNewFile {
    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.0))?)
    }

    fn keep_locked(&self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::NonBlockingLockExclusive)?)
    }
}

struct OsUnlock(Arc<OwnedFd>);

impl Unlock for OsUnlock {
    fn unlock(self: Box<Self>) {
        // Explicitly: a child that was forked meanwhile would keep the lock together with the descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
