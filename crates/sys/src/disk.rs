//! What lokt asks of a disk: a few whole-file operations below one root directory.
//!
//! Paths are relative to the root, have `/` between at most four components, and are made by this crate from checked names. No operation
//! follows a symlink. The set is small so that the fault tests can fail, tear or lose each call in turn.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use jiff::Timestamp;

use super::changes::Changes;
use super::wakeup::Wakeup;

/// How to know a file again: it is the same one while these four are equal.
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
    /// Which file it was.
    pub stamp: Stamp,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Missing,
    /// A regular file within the size limit.
    File(Content),
    /// Something that is no regular file: a symlink, directory, FIFO, socket or device. The text says which.
    NotRegular(&'static str),
    /// A regular file beyond the size limit.
    TooBig(u64),
}

/// A regular file that is open for reading. It stays the same one when it is renamed or removed, and its inode isn't given to another.
pub trait OpenFile: Send {
    /// Which file, and how long it is now.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Reads at `at` as much as there is and fits; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// What an attempt to open a file gave.
pub enum Opening {
    /// Nothing is there.
    Missing,
    /// Something that is no regular file; the text says what.
    NotRegular(&'static str),
    /// A regular file.
    File(Box<dyn OpenFile>),
}

/// An open file that was just created.
pub trait NewFile: Send {
    /// Makes its content durable.
    fn sync(&self) -> io::Result<()>;
    /// Locks it for as long as this value lives, so that tidying leaves it alone.
    fn keep_locked(&self) -> io::Result<()>;
}

/// A file that was written and has no name yet: whoever is killed now leaves nothing behind.
pub trait Unnamed {
    /// Makes its content durable.
    fn sync(&self) -> io::Result<()>;
    /// Which file.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Gives it a name, or one more, unless something is there (`AlreadyExists`).
    fn link(&self, path: &str) -> io::Result<()>;
}

/// A pulse: a file that is locked from its creation until it is let go, or the last process that inherited it has ended.
pub trait PulseFile: Send + Sync {
    /// Device and inode.
    fn id(&self) -> (u64, u64);
    /// Rewrites its content from the beginning, with one write.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;
    /// Drops the lock, for everyone who inherited it too. In a process that was forked from the one that made it, does nothing.
    fn let_go(&self);
    /// Its descriptor, for a child that writes its pid into it between `fork` and `exec`.
    fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// A second descriptor that commands inherit, for as long as it is kept: 100 or above, where scripts don't use them.
    fn inheritable(&self) -> io::Result<OwnedFd>;
}

/// Is a file locked by somebody?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedFile {
    /// Which file.
    pub stamp: Stamp,
    /// Somebody holds a lock on it.
    pub locked: bool,
}

/// The mutex couldn't be had.
#[derive(Debug)]
pub enum NoMutex {
    /// Somebody else kept it; the text says who, if that could be found out.
    Busy(String),
    /// The system said no.
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
    /// Opens a file of any length, to be read bit by bit.
    fn open(&self, path: &str) -> io::Result<Opening>;
    /// The last `limit` bytes of a file; nothing of a missing one.
    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>>;
    /// Creates a file that must not exist and writes it.
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>>;
    /// The same, readable by whom `mode` says, whatever the umask.
    fn create_as(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<Box<dyn NewFile>>;
    /// Writes a file that has no name, for a place in the root.
    fn unnamed<'d>(&'d self, bytes: &[u8], mode: u32) -> io::Result<Box<dyn Unnamed + 'd>>;
    /// Gives a file one more name, unless something is there (`AlreadyExists`).
    fn link(&self, path: &str, to: &str) -> io::Result<()>;
    /// Makes a directory, unless something is there (`AlreadyExists`).
    fn make_dir(&self, dir: &str) -> io::Result<()>;
    /// Writes a small file in place with one write, creating it if it is missing.
    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Appends with one write, creating the file if it is missing, and after a newline if the file doesn't end with one.
    /// Gives the file's new length.
    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64>;
    /// Cuts a file off at `size` bytes.
    fn cut(&self, path: &str, size: u64) -> io::Result<()>;
    /// Renames over whatever is there.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames unless something is there (`AlreadyExists`).
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;
    /// Swaps two files in one step: `NotFound` if either is missing, `Unsupported` if this file system can't.
    fn exchange(&self, one: &str, other: &str) -> io::Result<()>;
    /// Removes a file; a missing one is fine.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Which file is there; `None` if nothing is.
    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>>;
    /// Names in a directory, sorted; a missing one is empty.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Shows every name in a directory, in no order; a missing one has none.
    fn each_name(&self, dir: &str, see: &mut dyn FnMut(&str)) -> io::Result<()>;
    /// Makes everything on the file system durable.
    fn sync_fs(&self) -> io::Result<()>;
    /// Makes an existing file durable.
    fn sync(&self, path: &str) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Does somebody hold a lock on this file? `None` if there is no such file.
    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>>;
    /// Creates a pulse, which must not exist: locked before anybody can see it, then written.
    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>>;
    /// Removes a directory if it is empty; one that isn't there or isn't empty is fine.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;
    /// Looks for the directory and those below it by their names again: one that was moved away isn't it any more.
    fn refresh(&self, _dir: &str) {}
    /// Rings when nobody keeps the file locked any more. False: nobody does now, or there is no such file.
    fn watch(&self, path: &str, wakeup: &Wakeup) -> io::Result<bool>;
    /// What can be read when the file is changed, moved or removed, or something in it if it is a directory; `NotFound` if
    /// it is gone already.
    fn changes(&self, path: &str) -> io::Result<Changes>;
    /// Takes a mutex of its own for a directory that is there, where directories can be locked; gives back what drops it.
    fn lock_dir(&self, _dir: &str, _patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        Err(NoMutex::Io(io::ErrorKind::Unsupported.into()))
    }
    /// When the inode of a file last changed, by the clock of the file system; `None` if there is no such file, or no such clock.
    fn changed(&self, _path: &str) -> io::Result<Option<Timestamp>> {
        Ok(None)
    }
    /// What that clock shows now, for a file that is made in the root.
    fn file_clock(&self) -> io::Result<Option<Timestamp>> {
        Ok(None)
    }
    /// The file system under the root.
    fn mount(&self) -> Mount;
    /// Does the path by which it was opened still lead to the root?
    fn is_current(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Goes on with the directory that has the root's name now, making it if there is none. Says whether it was made.
    fn remake(&self) -> io::Result<bool> {
        Ok(false)
    }
    /// May others than its owner write to the root?
    fn is_shared(&self) -> bool {
        false
    }
    /// Takes the root's mutex; gives back what drops it.
    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex>;
    /// The pid of the process that holds the root's mutex, if that can be found out.
    fn mutex_holder(&self) -> Option<i64> {
        None
    }
}

/// The root's mutex, held.
pub trait Unlock {
    /// Lets go of it. Dropping does the same.
    fn unlock(self: Box<Self>);
}
