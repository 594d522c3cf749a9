//! The real disk: system calls relative to descriptors, symlinks never followed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, RenameFlags, Stat, flock, fstat, fsync, ftruncate, linkat, openat,
    renameat, renameat_with, stat, statat, syncfs, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::changes::Changes;
use super::disk::{
    Content, Disk, Entry, LockedFile, Mount, NewFile, NoMutex, OpenFile, Opening, PulseFile, Stamp, Unlock, Unnamed,
};
use super::flock::{OsUnlock, flock_now, flock_within};
use super::os_dirs::{
    Missing, Opened, PLAIN, kind_of, make_root, make_usable_dir, open_dir, refuse_second_name, rename_new_at,
};
use super::pulse_file::OsPulse;
use super::unnamed::OsUnnamed;
use super::wakeup::Wakeup;
use super::{flock_waiters, signals};

/// Read size in bytes: a record fits into the first read; longer files take more.
const READ_BYTES: usize = 4096;

/// Files below a real directory.
pub struct OsDisk {
    pub(super) path: PathBuf,
    open: Mutex<Arc<Opened>>,
    /// Mode of new directories below it.
    dir_mode: u32,
}

impl OsDisk {
    /// Opens an existing root; `NotFound` if there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_as(path, 0o700)
    }

    /// The same; new directories below it get `dir_mode`, as far as the umask allows, unless the
    /// root is shared.
    pub fn open_as(path: &Path, dir_mode: u32) -> io::Result<Self> {
        let opened = Opened::new(path, dir_mode)?;
        Ok(Self { path: path.to_owned(), open: Mutex::new(Arc::new(opened)), dir_mode })
    }

    /// Opens a root, creating the directory and missing parents. Reports whether it was created.
    pub fn create(path: &Path) -> io::Result<(Self, bool)> {
        Self::create_as(path, 0o700)
    }

    /// The same, with directories of `mode`, as far as the umask allows.
    pub fn create_as(path: &Path, mode: u32) -> io::Result<(Self, bool)> {
        match Self::open_as(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = make_root(path, mode)?;
                Ok((Self::open_as(path, mode)?, made))
            }
            done => Ok((done?, false)),
        }
    }

    pub(super) fn opened(&self) -> Arc<Opened> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Switches to the directory that has the root's name now.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let fresh = Opened::new(&self.path, self.dir_mode)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(())
    }

    /// Runs `work` in the directory of `path`. If a cached directory was deleted, it is opened
    /// again, once.
    pub(super) fn within<T>(
        &self,
        path: &str,
        missing: Missing,
        work: impl Fn(BorrowedFd<'_>, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        // Paths are built from checked names. Regardless of its origin, no path may lead out of the
        // root.
        if path.split('/').any(|part| part == "..") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let opened = self.opened();
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        if dir.is_empty() {
            return work(opened.root.as_fd(), name);
        }
        let (fd, cached) = match opened.dir(dir, missing) {
            // A directory above it was deleted after it was cached.
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing != Missing::Fail => {
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

    /// Opens the object at `path` for reading, if it is a regular file.
    fn open_regular(&self, path: &str) -> io::Result<Regular> {
        let opened = self.within(path, Missing::Fail, |dir, name| {
            match retry_on_intr(|| openat(dir, name, OFlags::RDONLY | PLAIN, Mode::empty())) {
                Err(Errno::LOOP) => Ok(Err("a symbolic link")),
                Err(Errno::NXIO) => Ok(Err("a socket")),
                done => Ok(Ok(done?)),
            }
        });
        let fd = match opened {
            Ok(Ok(fd)) => fd,
            Ok(Err(kind)) => return Ok(Regular::No(kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Regular::Missing),
            Err(error) => return Err(error),
        };
        let stat = fstat(&fd)?;
        Ok(match kind_of(&stat) {
            Some(kind) => Regular::No(kind),
            None => Regular::Yes(fd, stamp_of(&stat)),
        })
    }

    fn within_both(
        &self,
        from: &str,
        to: &str,
        work: impl Fn(BorrowedFd<'_>, &str, BorrowedFd<'_>, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let done = self.within(from, Missing::Fail, |from_dir, from_name| {
            self.within(to, Missing::Make, |to_dir, to_name| work(from_dir, from_name, to_dir, to_name))
        });
        let opened = self.opened();
        opened.forget_dir(from);
        opened.forget_dir(to);
        done
    }
}

/// The result of opening a regular file.
enum Regular {
    Missing,
    No(&'static str),
    Yes(OwnedFd, Stamp),
}

pub(super) fn stamp_of(stat: &Stat) -> Stamp {
    let nanos = i32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Stamp {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: Timestamp::new(stat.st_mtime, nanos).unwrap_or(Timestamp::MAX),
    }
}

fn changed(stat: &Stat) -> Timestamp {
    Timestamp::new(stat.st_ctime, i32::try_from(stat.st_ctime_nsec).unwrap_or(0)).unwrap_or(Timestamp::MAX)
}

pub(super) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(fd, bytes)).inspect_err(|error| {
            // All writes here are at the end of the file.
            if let (Errno::FBIG, Ok(stat)) = (*error, fstat(fd)) {
                signals::forget_file_size(stamp_of(&stat).size);
            }
        });
        match written? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

impl Disk for OsDisk {
    fn read(&self, path: &str, limit: usize) -> io::Result<Entry> {
        let (fd, stamp) = match self.open_regular(path)? {
            Regular::Missing => return Ok(Entry::Missing),
            Regular::No(kind) => return Ok(Entry::NotRegular(kind)),
            Regular::Yes(fd, stamp) => (fd, stamp),
        };
        // Records are replaced, never appended to: one read is enough for a file of the reported
        // size.
        let size = usize::try_from(stamp.size).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(if size == 0 { READ_BYTES } else { size.min(limit.saturating_add(1)) });
        loop {
            if bytes.len() > limit {
                return Ok(Entry::TooBig(stamp.size.max(bytes.len() as u64)));
            }
            if bytes.len() == bytes.capacity() {
                bytes.reserve(READ_BYTES);
            }
            let got = retry_on_intr(|| rustix::io::read(&fd, rustix::buffer::spare_capacity(&mut bytes)))?;
            // One read may return more than the limit: check the limit before the end.
            if bytes.len() <= limit && (got == 0 || bytes.len() as u64 == stamp.size) {
                return Ok(Entry::File(Content { bytes, stamp }));
            }
        }
    }

    fn open(&self, path: &str) -> io::Result<Opening> {
        Ok(match self.open_regular(path)? {
            Regular::Missing => Opening::Missing,
            Regular::No(kind) => Opening::NotRegular(kind),
            Regular::Yes(fd, _) => Opening::File(Box::new(OsOpenFile(fd))),
        })
    }

    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        let (fd, size) = match self.open_regular(path)? {
            Regular::Missing => return Ok(Vec::new()),
            Regular::No(kind) => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}"))),
            Regular::Yes(fd, stamp) => (fd, stamp.size),
        };
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

    fn create_as(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<Box<dyn NewFile>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
        let ownership = self.opened().ownership;
        let fd = self.within(path, Missing::Make, |dir, name| {
            Ok(retry_on_intr(|| openat(dir, name, flags, Mode::from_raw_mode(mode)))?)
        })?;
        let owned = ownership.give(fd.as_fd(), mode).map_err(io::Error::from);
        if let Err(error) = owned.and_then(|()| write_all(fd.as_fd(), bytes)) {
            let _ = self.remove(path);
            return Err(error);
        }
        Ok(Box::new(OsNewFile(fd)))
    }

    fn unnamed<'d>(&'d self, bytes: &[u8], mode: u32) -> io::Result<Box<dyn Unnamed + 'd>> {
        let opened = self.opened();
        let file = OsUnnamed::create(self, opened.root.as_fd(), mode)?;
        opened.ownership.give(file.as_fd(), mode)?;
        write_all(file.as_fd(), bytes)?;
        Ok(Box::new(file))
    }

    fn link(&self, path: &str, to: &str) -> io::Result<()> {
        self.within_both(path, to, |from_dir, from, to_dir, to| {
            Ok(retry_on_intr(|| linkat(from_dir, from, to_dir, to, AtFlags::empty()))?)
        })
    }

    fn make_dir(&self, dir: &str) -> io::Result<()> {
        let ownership = self.opened().ownership;
        self.within(dir, Missing::Make, |parent, name| {
            make_usable_dir(parent, name, self.dir_mode)?;
            if ownership.is_plain() {
                return Ok(());
            }
            let made = open_dir(parent, name)?;
            Ok(ownership.apply(made.as_fd(), 0o2770)?)
        })
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let ownership = self.opened().ownership;
        self.within(path, Missing::Make, |dir, name| {
            let fd = match retry_on_intr(|| openat(dir, name, OFlags::WRONLY | PLAIN, Mode::empty())) {
                Err(Errno::NOENT) => ownership.create(dir, name, OFlags::WRONLY | PLAIN)?,
                done => {
                    let fd = done?;
                    refuse_second_name(dir, name, &fstat(&fd)?)?;
                    fd
                }
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
                    // Other programs write it, too, without the mutex.
                    Err(Errno::EXIST) => there()?,
                    done => done?,
                },
                done => done?,
            };
            let stat = fstat(&fd)?;
            refuse_second_name(dir, name, &stat)?;
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

    fn cut(&self, path: &str, size: u64) -> io::Result<()> {
        self.within(path, Missing::Fail, |dir, name| {
            let fd = retry_on_intr(|| openat(dir, name, OFlags::WRONLY | PLAIN, Mode::empty()))?;
            refuse_second_name(dir, name, &fstat(&fd)?)?;
            Ok(retry_on_intr(|| ftruncate(&fd, size))?)
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
        let mut names = Vec::new();
        self.each_name(dir, &mut |name| names.push(name.to_owned()))?;
        names.sort_unstable();
        Ok(names)
    }

    fn each_name(&self, dir: &str, see: &mut dyn FnMut(&str)) -> io::Result<()> {
        let opened = self.within(&format!("{dir}/."), Missing::Fail, |fd, _| {
            let fd = open_dir(fd, ".")?;
            // A deleted directory can still be opened through an open descriptor, and is empty; a
            // new one may have its name.
            if fstat(&fd)?.st_nlink == 0 { Err(io::ErrorKind::NotFound.into()) } else { Ok(fd) }
        });
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in Dir::new(fd)? {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => see(name),
            }
        }
        Ok(())
    }

    fn sync_fs(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| syncfs(&self.opened().root))?)
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

    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | PLAIN;
        let ownership = self.opened().ownership;
        let made = self.within(path, Missing::MakeFleeting, |dir, name| {
            for _ in 0..PULSE_TRIES {
                let fd = retry_on_intr(|| openat(dir, name, flags, Mode::from_raw_mode(0o600)))?;
                // A process that probes without the mutex may have locked it at this instant; the
                // next attempt creates another file.
                if flock_now(&fd)? {
                    return Ok(fd);
                }
                unlinkat(dir, name, AtFlags::empty())?;
            }
            Err(io::ErrorKind::WouldBlock.into())
        });
        let fd = made?;
        let stamp = stamp_of(&fstat(&fd)?);
        let owned = ownership.apply(fd.as_fd(), 0o660).map_err(io::Error::from);
        if let Err(error) = owned.and_then(|()| write_all(fd.as_fd(), bytes)) {
            let _ = self.remove(path);
            return Err(error);
        }
        Ok(Box::new(OsPulse::new(fd, (stamp.dev, stamp.ino))))
    }

    fn refresh(&self, dir: &str) {
        self.opened().forget_dir(dir);
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        let gone = self.within(dir, Missing::Fail, |parent, name| Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?));
        self.opened().forget_dir(dir);
        match gone {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(()),
            done => done,
        }
    }

    fn watch(&self, path: &str, wakeup: &Wakeup) -> io::Result<bool> {
        let opened = self.within(path, Missing::Fail, |dir, name| {
            Ok(retry_on_intr(|| openat(dir, name, OFlags::RDONLY | PLAIN, Mode::empty()))?)
        });
        match opened {
            Ok(fd) => {
                let stamp = stamp_of(&fstat(&fd)?);
                flock_waiters::watch(fd, (stamp.dev, stamp.ino), wakeup.rope())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn changes(&self, path: &str) -> io::Result<Changes> {
        Changes::of(&self.path.join(path))
    }

    fn lock_dir(&self, dir: &str, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        let opened = self.within(&format!("{dir}/."), Missing::Fail, |fd, _| open_dir(fd, "."));
        let fd = opened.and_then(|fd| flock_within(fd, patience)).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => NoMutex::Busy(String::new()),
            _ => NoMutex::Io(error),
        })?;
        Ok(Box::new(OsUnlock(fd)))
    }

    fn changed(&self, path: &str) -> io::Result<Option<Timestamp>> {
        match self.within(path, Missing::Fail, |dir, name| Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)) {
            Ok(stat) => Ok(Some(changed(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn file_clock(&self) -> io::Result<Option<Timestamp>> {
        let opened = self.opened();
        let file = OsUnnamed::create(self, opened.root.as_fd(), 0o600)?;
        Ok(Some(changed(&fstat(file.as_fd())?)))
    }

    fn mount(&self) -> Mount {
        self.opened().mount
    }

    fn is_current(&self) -> io::Result<bool> {
        let here = fstat(&self.opened().root)?;
        match stat(&self.path) {
            Err(Errno::NOENT) => Ok(false),
            named => named.map(|named| (named.st_dev, named.st_ino) == (here.st_dev, here.st_ino)).map_err(Into::into),
        }
    }

    fn remake(&self) -> io::Result<bool> {
        let made = make_root(&self.path, self.dir_mode)?;
        self.reopen().map(|()| made)
    }

    fn is_shared(&self) -> bool {
        self.opened().ownership.shared
    }

    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        self.lock_root(patience)
    }

    fn mutex_holder(&self) -> Option<i64> {
        self.root_holder()
    }
}

/// Maximum number of attempts to lock a new pulse. Another process that probes it between its
/// creation and its lock is a rare accident; this many are not.
const PULSE_TRIES: usize = 64;

struct OsOpenFile(OwnedFd);

impl OpenFile for OsOpenFile {
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(stamp_of(&fstat(&self.0)?))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::pread(&self.0, &mut *buffer, at))?)
    }
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
