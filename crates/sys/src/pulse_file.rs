//! A pulse on a real disk.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, pwrite, retry_on_intr};
use rustix::process::{Pid, getpid};

use super::disk::PulseFile;

/// Lowest inherited descriptor: scripts and programs use low descriptors by number, and a pulse
/// must not collide with them.
pub(super) const INHERITED_FD_MIN: i32 = 100;

/// A locked file.
pub(super) struct OsPulse {
    fd: OwnedFd,
    id: (u64, u64),
    /// The process that created it. A process forked from it shares the lock and must not release
    /// it.
    maker: Pid,
}

impl OsPulse {
    pub(super) fn new(fd: OwnedFd, id: (u64, u64)) -> Self {
        Self { fd, id, maker: getpid() }
    }
}

impl PulseFile for OsPulse {
    fn id(&self) -> (u64, u64) {
        self.id
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let written = retry_on_intr(|| pwrite(&self.fd, bytes, 0))?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn let_go(&self) {
        if self.maker == getpid() {
            let _ = flock(&self.fd, FlockOperation::Unlock);
        }
    }

    fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.fd.as_fd())
    }

    fn inheritable(&self) -> io::Result<OwnedFd> {
        let fd = match fcntl_dupfd_cloexec(&self.fd, INHERITED_FD_MIN) {
            // The limit on open files is lower; a possible collision is better than not running.
            Err(Errno::INVAL) => fcntl_dupfd_cloexec(&self.fd, 3)?,
            done => done?,
        };
        fcntl_setfd(&fd, FdFlags::empty())?;
        Ok(fd)
    }
}
