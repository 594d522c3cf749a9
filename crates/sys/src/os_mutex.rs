//! The mutex of a real root: the locked object, whether it is still the root, and its holder.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fstat, openat, stat};
use rustix::io::{Errno, retry_on_intr};

use super::disk::{NoMutex, Unlock};
use super::flock::{OsUnlock, flock_within};
use super::os_dirs::{Missing, PLAIN, open_dir};
use super::os_disk::OsDisk;
use super::proc_locks;

/// Magic number of NFS, which can't lock directories; there the mutex is a file.
const NFS_MAGIC: u64 = 0x6969;
/// The mutex file where directories can't be locked.
const MUTEX_FILE: &str = "state/mutex";
/// Maximum number of changes of the root directory during one attempt; more are no accident.
const ROOT_CHANGES_MAX: usize = 8;

impl OsDisk {
    pub(super) fn lock_root(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        // If the root is replaced while we wait for its mutex, it is another root.
        for _ in 0..ROOT_CHANGES_MAX {
            let fd = self.mutex_file().map_err(NoMutex::Io)?;
            let fd = match flock_within(fd, patience) {
                Ok(fd) => fd,
                Err(error) => return Err(self.who_is_busy(error)),
            };
            if self.is_named(&fd).map_err(NoMutex::Io)? {
                // Cached directories may have been moved away and recreated since.
                self.opened().forget();
                return Ok(Box::new(OsUnlock(fd)));
            }
            self.reopen().map_err(NoMutex::Io)?;
        }
        Err(NoMutex::Busy("the root directory is being replaced again and again".into()))
    }

    /// The pid of the holder, as far as the kernel shows it to us.
    pub(super) fn root_holder(&self) -> Option<i64> {
        let stat = self.mutex_file().and_then(|fd| Ok(fstat(&fd)?)).ok()?;
        proc_locks::holder_of(stat.st_dev, stat.st_ino)
    }

    /// Opens the object to lock: a new descriptor each time, so that two threads exclude each
    /// other, too.
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

    /// Reports whether the path still names the locked object.
    fn is_named(&self, fd: &OwnedFd) -> io::Result<bool> {
        let on_nfs = self.opened().mount.fs == Some(NFS_MAGIC);
        let path = if on_nfs { self.path.join(MUTEX_FILE) } else { self.path.clone() };
        let named = match stat(&path) {
            Err(Errno::NOENT) => return Ok(false),
            done => done?,
        };
        let locked = fstat(fd)?;
        Ok((locked.st_dev, locked.st_ino) == (named.st_dev, named.st_ino))
    }

    fn who_is_busy(&self, error: io::Error) -> NoMutex {
        if error.kind() != io::ErrorKind::TimedOut {
            return NoMutex::Io(error);
        }
        let holder = self.root_holder().map(proc_locks::describe);
        NoMutex::Busy(holder.unwrap_or_else(|| "a process that can't be seen from here".into()))
    }
}
