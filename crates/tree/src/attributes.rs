//! Owner, permissions, attributes and times of a copy, set in an order in which none undoes
//! another.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use lokt_core::snapshot::entry::Time;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chownat, fchmod, fchown, futimens, open,
    utimensat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::stat::{Stat, look, look_at, timespec};
use super::xattrs::{Owner, Xattrs};

/// Attributes that a copy is to have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Time,
    pub(super) xattrs: &'a Xattrs,
}

impl<'a> Wanted<'a> {
    pub(super) fn of(stat: &Stat, xattrs: &'a Xattrs) -> Self {
        Self { mode: stat.permissions(), uid: stat.uid, gid: stat.gid, mtime: stat.mtime, xattrs }
    }

    /// Sets everything on an open file or directory that was created with this mode. Only the
    /// superuser can change the owner and set every attribute; the result is what the copy has in
    /// the end.
    pub(super) fn give(&self, fd: BorrowedFd<'_>) -> Result<Given, Errno> {
        if (self.uid, self.gid) != (geteuid().as_raw(), getegid().as_raw()) {
            self.give_away(fd);
        }
        // After the owner, because changing it removes capabilities; before the permissions, which
        // an access control list would change.
        let lost = Owner::Open(fd).write(self.xattrs)?;
        futimens(fd, &self.times())?;
        let mut stat = look_at(fd)?;
        if (stat.uid, stat.gid) != (self.uid, self.gid) {
            self.give_away(fd);
            stat = look_at(fd)?;
        }
        if stat.permissions() != self.mode {
            fchmod(fd, Mode::from_raw_mode(self.mode))?;
            stat = look_at(fd)?;
        }
        Ok(Given { stat, lost })
    }

    fn give_away(&self, fd: BorrowedFd<'_>) {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        if fchown(fd, Some(uid), Some(gid)).is_err() {
            let _ = fchown(fd, None, Some(gid));
        }
    }

    /// Like `give`, for a symbolic link, which has no permissions.
    pub(super) fn give_link(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Given, Errno> {
        if (self.uid, self.gid) != (geteuid().as_raw(), getegid().as_raw()) {
            let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
            if chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).is_err() {
                let _ = chownat(dir, name, None, Some(gid), AtFlags::SYMLINK_NOFOLLOW);
            }
        }
        let lost = Owner::Link(dir, name).write(self.xattrs)?;
        utimensat(dir, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Given { stat: look(dir, name)?.stat, lost })
    }

    fn times(&self) -> Timestamps {
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        Timestamps { last_access: omitted, last_modification: timespec(self.mtime) }
    }
}

/// Gives the directory `to` the owner, the permissions and the attributes of `from`, but not its
/// times.
pub fn give_alike(from: &Path, to: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (from, to) = (open(from, flags, Mode::empty())?, open(to, flags, Mode::empty())?);
    let (model, now) = (look_at(from.as_fd())?, look_at(to.as_fd())?);
    let xattrs = Owner::Open(from.as_fd()).read()?;
    Wanted { mtime: now.mtime, ..Wanted::of(&model, &xattrs) }.give(to.as_fd())?;
    Ok(())
}

/// Attributes that a copy has.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) stat: Stat,
    /// Names of attributes that couldn't be set.
    pub(super) lost: Vec<Vec<u8>>,
}
