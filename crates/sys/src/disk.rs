//! The disk operations that lokt needs: a few whole-file operations below one root directory.
//!
//! Paths are relative to the root, have at most four components separated by `/`, and are built by
//! this crate from checked names. No operation follows a symlink. The set is small so that the
//! fault tests can fail, tear or lose each call in turn.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use jiff::Timestamp;

use super::changes::Changes;
use super::wakeup::Wakeup;

/// The identity of a file: it is the same one while these four are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Length.
    pub size: u64,
    /// Last change of the content.
    pub modified: Timestamp,
}

/// A regular file, read in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The identity of the file.
    pub stamp: Stamp,
}

/// The object at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Missing,
    /// A regular file within the size limit.
    File(Content),
    /// Something other than a regular file: a symlink, directory, FIFO, socket or device. The text
    /// says which.
    NotRegular(&'static str),
    /// A regular file above the size limit.
    TooBig(u64),
}

/// A regular file that is open for reading. It stays the same file when it is renamed or removed,
/// and its inode is not reused.
pub trait OpenFile: Send {
    /// The identity of the file, with its current length.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Reads at `at` as many bytes as are there and fit; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// The result of opening a file.
pub enum Opening {
    /// Nothing is there.
    Missing,
    /// Something other than a regular file; the text says what.
    NotRegular(&'static str),
    /// A regular file.
    File(Box<dyn OpenFile>),
}

/// An open file that was just created.
pub trait NewFile: Send {
    /// Makes its content durable.
    fn sync(&self) -> io::Result<()>;
    /// Locks it for as long as this value lives, so that cleanup leaves it alone.
    fn keep_locked(&self) -> io::Result<()>;
}

/// A file that was written and has no name yet: if its writer is killed now, nothing is left
/// behind.
pub trait Unnamed {
    /// Makes its content durable.
    fn sync(&self) -> io::Result<()>;
    /// The identity of the file.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Gives it a name, or an additional one, unless something is there (`AlreadyExists`).
    fn link(&self, path: &str) -> io::Result<()>;
}

/// A pulse: a file that is locked from its creation until it is released, or until the last process
/// that inherited it has ended.
pub trait PulseFile: Send + Sync {
    /// Device and inode.
    fn id(&self) -> (u64, u64);
    /// Rewrites its content from the beginning, with one write.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;
    /// Releases the lock, also for all processes that inherited it. In a forked child of the
    /// process that made it, does nothing.
    fn let_go(&self);
    /// Its descriptor, for a child that writes its pid into it between `fork` and `exec`.
    fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// A second descriptor that commands inherit while it is kept. Its number is 100 or above,
    /// which scripts don't use.
    fn inheritable(&self) -> io::Result<OwnedFd>;
}

/// The lock state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedFile {
    /// The identity of the file.
    pub stamp: Stamp,
    /// True if a process holds a lock on it.
    pub locked: bool,
}

/// The reason why the mutex could not be acquired.
#[derive(Debug)]
pub enum NoMutex {
    /// Another process held it; the text says which, if that is known.
    Busy(String),
    /// A system call failed.
    Io(io::Error),
}

/// The file system under the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mount {
    /// Its magic number.
    pub fs: Option<u64>,
    /// The mount's id, unique for the life of the kernel; `None` before Linux 6.8.
    pub id: Option<u64>,
}

/// Files below one root.
pub trait Disk: Send + Sync {
    /// Reads a file of at most `limit` bytes.
    fn read(&self, path: &str, limit: usize) -> io::Result<Entry>;
    /// Opens a file of any length, to be read in parts.
    fn open(&self, path: &str) -> io::Result<Opening>;
    /// Reads the last `limit` bytes of a file; nothing if it is missing.
    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>>;
    /// Creates a file that must not exist and writes it.
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>>;
    /// The same, with exactly the permissions `mode`, regardless of the umask.
    fn create_as(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<Box<dyn NewFile>>;
    /// Writes a file that has no name yet, to be linked in the root.
    fn unnamed<'d>(&'d self, bytes: &[u8], mode: u32) -> io::Result<Box<dyn Unnamed + 'd>>;
    /// Gives a file an additional name, unless something is there (`AlreadyExists`).
    fn link(&self, path: &str, to: &str) -> io::Result<()>;
    /// Makes a directory, unless something is there (`AlreadyExists`).
    fn make_dir(&self, dir: &str) -> io::Result<()>;
    /// Writes a small file in place with one write, creating it if it is missing.
    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Appends with one write, creating the file if it is missing. Writes a newline first if the
    /// file doesn't end with one. Returns the file's new length.
    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64>;
    /// Cuts a file off at `size` bytes.
    fn cut(&self, path: &str, size: u64) -> io::Result<()>;
    /// Renames, replacing anything that is there.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames unless something is there (`AlreadyExists`).
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;
    /// Exchanges two files atomically: `NotFound` if either is missing, `Unsupported` if the file
    /// system can't.
    fn exchange(&self, one: &str, other: &str) -> io::Result<()>;
    /// Removes a file; a missing one is fine.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Returns the identity of the file; `None` if nothing is there.
    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>>;
    /// Lists the names in a directory, sorted; a missing one is empty.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Passes each name in a directory to `see`, in no order; a missing one has none.
    fn each_name(&self, dir: &str, see: &mut dyn FnMut(&str)) -> io::Result<()>;
    /// Makes everything on the file system durable.
    fn sync_fs(&self) -> io::Result<()>;
    /// Makes an existing file durable.
    fn sync(&self, path: &str) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Reports whether a process holds a lock on this file; `None` if there is no such file.
    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>>;
    /// Creates a pulse, which must not exist: locked before another process can see it, then
    /// written.
    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>>;
    /// Removes a directory if it is empty; one that isn't there or isn't empty is fine.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;
    /// Opens the directory and those below it by name again at the next use: a cached one may have
    /// been moved away.
    fn refresh(&self, _dir: &str) {}
    /// Rings `wakeup` when no process keeps the file locked any more. False: none does now, or
    /// there is no such file.
    fn watch(&self, path: &str, wakeup: &Wakeup) -> io::Result<bool>;
    /// Returns a descriptor that is readable when the file is changed, moved or removed, or an
    /// entry of it if it is a directory. `NotFound` if it is already gone.
    fn changes(&self, path: &str) -> io::Result<Changes>;
    /// Acquires a mutex of its own for an existing directory, where directories can be locked.
    /// Returns the guard that releases it.
    fn lock_dir(&self, _dir: &str, _patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        Err(NoMutex::Io(io::ErrorKind::Unsupported.into()))
    }
    /// Returns the time of the last change of the file's inode, by the clock of the file system;
    /// `None` if there is no such file or no such clock.
    fn changed(&self, _path: &str) -> io::Result<Option<Timestamp>> {
        Ok(None)
    }
    /// Returns the current time of that clock, as read from a new file in the root.
    fn file_clock(&self) -> io::Result<Option<Timestamp>> {
        Ok(None)
    }
    /// The file system under the root.
    fn mount(&self) -> Mount;
    /// Reports whether the path by which the root was opened still leads to it.
    fn is_current(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Switches to the directory that has the root's name now, creating it if there is none.
    /// Reports whether it was created.
    fn remake(&self) -> io::Result<bool> {
        Ok(false)
    }
    /// Reports whether users other than its owner may write to the root.
    fn is_shared(&self) -> bool {
        false
    }
    /// Acquires the root's mutex. Returns the guard that releases it.
    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex>;
    /// The pid of the process that holds the root's mutex, if it can be determined.
    fn mutex_holder(&self) -> Option<i64> {
        None
    }
}

/// The root's mutex, held.
pub trait Unlock {
    /// Releases it. Dropping does the same.
    fn unlock(self: Box<Self>);
}
