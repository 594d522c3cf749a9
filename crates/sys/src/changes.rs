//! Notifications about changes of a file or a directory.
//!
//! The kernel takes milliseconds to close an inotify descriptor, because it waits until no
//! processor can still be delivering an event. A waiter that has just acquired a lock would keep
//! others waiting for that long. So only the watch is removed, which is immediate, and the
//! descriptor is kept for the next waiter.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};

/// Maximum number of idle descriptors: a user usually has 128 of them.
const IDLE_MAX: usize = 4;

/// Descriptors that watch nothing, of the process with this pid. A forked child shares them with
/// its parent and must not use them.
static IDLE: Mutex<(u32, Vec<OwnedFd>)> = Mutex::new((0, Vec::new()));

/// A descriptor that is readable when something has changed.
#[derive(Debug)]
pub struct Changes {
    /// `None` once dropped.
    fd: Option<OwnedFd>,
    watch: i32,
}

impl Changes {
    /// Watches `path`, and its entries if it is a directory; `NotFound` if nothing is there.
    pub fn of(path: &Path) -> io::Result<Self> {
        let kept = idle().1.pop();
        let fd = kept.map_or_else(|| init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK), Ok)?;
        // Drop events that were meant for the previous user.
        drain(&fd);
        let changes = WatchFlags::ATTRIB
            | WatchFlags::MODIFY
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DONT_FOLLOW;
        let watch = add_watch(&fd, path, changes)?;
        Ok(Self { fd: Some(fd), watch })
    }

    /// Consumes the pending events. Reports whether the object itself was moved or removed, or the
    /// event queue overflowed.
    pub fn drain(&self) -> bool {
        drain(self)
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it hasn't ended").as_fd()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        // The kernel has already removed the watch of a removed file.
        let _ = remove_watch(&fd, self.watch);
        let mut idle = idle();
        if idle.1.len() < IDLE_MAX {
            idle.1.push(fd);
        }
    }
}

fn idle() -> MutexGuard<'static, (u32, Vec<OwnedFd>)> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.0 != std::process::id() {
        *idle = (std::process::id(), Vec::new());
    }
    idle
}

fn drain(fd: impl AsFd) -> bool {
    let gone = ReadFlags::DELETE_SELF
        | ReadFlags::MOVE_SELF
        | ReadFlags::IGNORED
        | ReadFlags::UNMOUNT
        | ReadFlags::QUEUE_OVERFLOW;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(fd, &mut buffer);
    let mut is_gone = false;
    while let Ok(event) = events.next() {
        is_gone |= event.events().intersects(gone);
    }
    is_gone
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes what a user would")]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::Changes;
    use crate::wakeup::sleep_on;
    use std::os::fd::AsFd as _;

    fn tells(changes: &Changes) -> bool {
        sleep_on(&[changes.as_fd()], Duration::ZERO).expect("it can be asked") == [true]
    }

    #[test]
    fn a_descriptor_that_is_used_again_tells_of_the_new_place_only() {
        let (one, other) = (tempfile::tempdir().expect("temp"), tempfile::tempdir().expect("temp"));
        let changes = Changes::of(one.path()).expect("it is there");
        fs::write(one.path().join("a"), "").expect("temp");
        assert!(tells(&changes), "something is new");
        drop(changes);
        let changes = Changes::of(other.path()).expect("it is there");
        fs::write(one.path().join("b"), "").expect("temp");
        assert!(!tells(&changes), "nobody asked about that");
        fs::write(other.path().join("b"), "").expect("temp");
        assert!(tells(&changes), "something is new");
        assert!(!changes.drain(), "the directory is still there");
        assert!(!tells(&changes), "everything was told");
        fs::remove_dir_all(other.path()).expect("temp");
        assert!(changes.drain(), "the directory is gone");
    }
}
