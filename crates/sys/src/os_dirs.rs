//! The directories of a real root: opened once, created when missing, with the right owner and
//! mode.
//!
//! Modes: directories 0700 and files 0600. In a root whose directory is group-writable: 2770 and
//! 0660, with the root's group. Files created by the superuser are given to the root's owner, so
//! that a `sudo lokt` doesn't lock its user out.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, StatxFlags, Uid, chmod, fchmod, fchown, fstat,
    fstatfs, fsync, linkat, mkdirat, open, openat, renameat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use super::disk::Mount;

/// `STATX_MNT_ID_UNIQUE`: a mount id that is never reused, since Linux 6.8.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
pub(super) const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// An opened root, with the directories below it that were used.
pub(super) struct Opened {
    pub(super) root: OwnedFd,
    pub(super) dirs: Mutex<BTreeMap<String, Arc<OwnedFd>>>,
    pub(super) ownership: Ownership,
    pub(super) mount: Mount,
    /// Mode of new directories in a root that is not shared.
    pub(super) dir_mode: u32,
}

/// The owner of new files, and who may access them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ownership {
    pub(super) shared: bool,
    pub(super) give_to: Option<(Option<Uid>, Option<Gid>)>,
}

/// The handling of a missing directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Fail,
    /// Create it so that it survives a power cut.
    Make,
    /// Create it; its content can't survive a power cut anyway.
    MakeFleeting,
}

impl Opened {
    pub(super) fn new(path: &Path, dir_mode: u32) -> io::Result<Self> {
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
        Ok(Self { root, dirs: Mutex::default(), ownership, mount: Mount { fs, id }, dir_mode })
    }

    pub(super) fn forget(&self) {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Forgets the directory `path` and those below it: another directory may have its name now.
    pub(super) fn forget_dir(&self, path: &str) {
        let is_below = |dir: &str| dir.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).retain(|dir, _| !is_below(dir));
    }

    /// Returns a descriptor of the directory `path`, and whether it had been opened before.
    pub(super) fn dir(&self, path: &str, missing: Missing) -> io::Result<(Arc<OwnedFd>, bool)> {
        if let Some(fd) = self.dirs.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok((fd.clone(), true));
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent_fd = if parent.is_empty() { None } else { Some(self.dir(parent, missing)?.0) };
        let parent_fd = parent_fd.as_ref().map_or(self.root.as_fd(), |fd| fd.as_fd());
        let fd = match open_dir(parent_fd, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing != Missing::Fail => {
                self.make_dir(parent_fd, name, missing)?;
                open_dir(parent_fd, name)?
            }
            done => done?,
        };
        let fd = Arc::new(fd);
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), fd.clone());
        Ok((fd, false))
    }

    fn make_dir(&self, parent: BorrowedFd<'_>, name: &str, missing: Missing) -> io::Result<()> {
        let made = if self.ownership.is_plain() {
            make_usable_dir(parent, name, self.dir_mode)
        } else {
            self.make_shared_dir(parent, name)
        };
        match made {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // If a power cut removes a directory, everything in it is lost.
        if missing == Missing::Make {
            retry_on_intr(|| fsync(parent))?;
        }
        Ok(())
    }
}

/// The temporary name under which shared files and directories are created; they are renamed when
/// owner and mode are set. If the process is killed in between, nothing is left that locks other
/// users out. No lock has a `~` in its name.
pub(super) fn unfinished(name: &str) -> String {
    format!("{name}~")
}

impl Opened {
    pub(super) fn make_shared_dir(&self, parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        let temp = unfinished(name);
        let _ = unlinkat(parent, &temp, AtFlags::REMOVEDIR);
        make_usable_dir(parent, &temp, 0o700)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| openat(parent, &temp, flags, Mode::empty()))?;
        let made = self.ownership.apply(fd.as_fd(), 0o2770).and_then(|()| {
            match renameat_with(parent, &temp, parent, name, RenameFlags::NOREPLACE) {
                // An empty directory may be replaced by another one; one that is in use can't be.
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
    /// Reports whether new files are usable by the intended users without further changes.
    pub(super) fn is_plain(self) -> bool {
        !self.shared && self.give_to.is_none()
    }

    /// Creates a file that must not exist (`EXIST` if it does), with owner and mode set.
    pub(super) fn create(self, dir: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o600);
        if self.is_plain() {
            let fd = retry_on_intr(|| openat(dir, name, flags, mode))?;
            return self.apply(fd.as_fd(), 0o660).map(|()| fd);
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

    /// Like [`Self::apply`], but with exactly this mode: for files read by programs that know
    /// nothing of shared roots.
    pub(super) fn give(self, fd: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
        if let Some((uid, gid)) = self.give_to {
            let _ = fchown(fd, uid, gid);
        }
        // The umask may have removed bits.
        if fstat(fd)?.st_mode & 0o7777 != mode {
            fchmod(fd, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    pub(super) fn apply(self, fd: BorrowedFd<'_>, shared_mode: u32) -> Result<(), Errno> {
        if let Some((uid, gid)) = self.give_to {
            // Not being allowed to change the owner is no reason to fail: the creator can use the
            // file.
            let _ = fchown(fd, uid, gid);
        }
        if self.shared {
            return fchmod(fd, Mode::from_raw_mode(shared_mode));
        }
        // The umask may have removed our own bits.
        let mode = fstat(fd)?.st_mode & 0o7777;
        if mode & 0o600 == 0o600 { Ok(()) } else { fchmod(fd, Mode::from_raw_mode(mode | 0o600)) }
    }
}

/// Creates a directory that its owner can use, regardless of the umask.
pub(super) fn make_usable_dir(parent: BorrowedFd<'_>, name: impl Arg + Copy, mode: u32) -> Result<(), Errno> {
    mkdirat(parent, name, Mode::from_raw_mode(mode))?;
    let made = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o7777;
    if made & 0o700 == mode & 0o700 {
        return Ok(());
    }
    // We may not be able to open it for reading. It isn't changed by name either, because the name
    // may be another user's link by now.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = retry_on_intr(|| openat(parent, name, flags, Mode::empty()))?;
    chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::from_raw_mode(made | mode & 0o700))
}

/// Opens a directory below `top`. Only `top` itself may be a link.
pub(super) fn open_below(top: &Path, below: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = retry_on_intr(|| open(top, flags, Mode::empty()))?;
    for name in below.split('/').filter(|name| !name.is_empty()) {
        dir = open_dir(dir.as_fd(), name)?;
    }
    Ok(dir)
}

pub(super) fn open_dir(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_on_intr(|| openat(parent, name, flags, Mode::empty())).map_err(|error| {
        let look = || statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let found = (error == Errno::NOTDIR).then(look).flatten();
        match found.map(|stat| kind_of(&stat).unwrap_or("a file")) {
            Some(kind) => io::Error::new(io::ErrorKind::NotADirectory, format!("{name} is {kind}, not a directory")),
            None => error.into(),
        }
    })
}

/// Creates the root directory and its missing parents, with `mode`, durably: acknowledged changes
/// below them must not vanish with them. False: another process was faster. The superuser gives
/// them to the owner of the directory above. Otherwise the first `sudo lokt` in a user's project
/// would lock the user out of the root.
pub(super) fn make_root(path: &Path, mode: u32) -> io::Result<bool> {
    let above = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open_above = || retry_on_intr(|| open(above, flags, Mode::empty()));
    let parent = match open_above() {
        Err(Errno::NOENT) if above != path => {
            make_root(above, mode)?;
            open_above()?
        }
        done => done?,
    };
    match make_usable_dir(CWD, path, mode) {
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

pub(super) fn rename_new_at(
    from_dir: BorrowedFd<'_>,
    from: &str,
    to_dir: BorrowedFd<'_>,
    to: &str,
) -> Result<(), Errno> {
    match retry_on_intr(|| renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE)) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match link_new(from_dir, from, to_dir, to) {
            // A directory can't have a second name.
            Err(Errno::PERM) => Err(Errno::OPNOTSUPP),
            done => done,
        },
        done => done,
    }
}

pub(super) fn link_new(from_dir: BorrowedFd<'_>, from: &str, to_dir: BorrowedFd<'_>, to: &str) -> Result<(), Errno> {
    let linked = linkat(from_dir, from, to_dir, to, AtFlags::empty());
    // Over NFS, the reply to a successful link may be lost; the link count tells.
    if let Err(error) = linked
        && !statat(from_dir, from, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| stat.st_nlink == 2 && kind_of(&stat).is_none())
    {
        return Err(error);
    }
    // It has its new name. If the old one stays, it is a temp file like any other leftover.
    let _ = unlinkat(from_dir, from, AtFlags::empty());
    Ok(())
}

/// Refuses to write to a file if that would change another one, too: it may have a second name
/// (hard link) anywhere, which a user may have created for that purpose.
pub(super) fn refuse_second_name(dir: BorrowedFd<'_>, name: &str, stat: &Stat) -> io::Result<()> {
    if let Some(kind) = kind_of(stat) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}")));
    }
    if stat.st_nlink < 2 || unlink_unfinished(dir, name, stat) {
        return Ok(());
    }
    let message = "it has another name (a hard link), so it is not written to; `cp` it to a new file and `mv` that into its place";
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Removes the second name if it is the one under which the file was created. Its creator was
/// killed before it could remove it, on a file system where renaming without replacing needs a
/// link.
fn unlink_unfinished(dir: BorrowedFd<'_>, name: &str, stat: &Stat) -> bool {
    let temp = unfinished(name);
    let is_same = |other: Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
    stat.st_nlink == 2
        && statat(dir, &temp, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_same)
        && unlinkat(dir, &temp, AtFlags::empty()).is_ok()
}

/// Returns the kind of object, if it isn't a regular file.
pub(super) fn kind_of(stat: &Stat) -> Option<&'static str> {
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
