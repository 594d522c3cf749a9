//! Makes a copy survive a power cut.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fsync, open, openat, syncfs};
use rustix::io::{Errno, retry_on_intr};

use super::beneath::{Cursor, READABLE, Tree, open_beneath, split};
use super::scan::{NodeKind, scan};
use super::{Control, Ignore, Phase, TreeError};

/// A file system that is about to be written to. It is opened before the first write, because it
/// reports errors since it was opened.
#[derive(Debug)]
pub struct Shore {
    fd: OwnedFd,
    path: PathBuf,
    honours: bool,
}

impl Shore {
    /// Opens the file system of a directory.
    pub fn of(dir: &Path) -> Result<Self, TreeError> {
        let failed = |error| TreeError::Io { what: "open", path: dir.to_owned(), error };
        let tree = Tree::open(dir).map_err(failed)?;
        let fd = tree.root().try_clone_to_owned().map_err(failed)?;
        Ok(Self { fd, path: dir.to_owned(), honours: tree.is_trusted() })
    }

    /// Reports whether one call makes everything durable that was written. If not, every file and
    /// directory must be synced separately.
    pub fn syncs_all(&self) -> bool {
        self.honours
    }

    /// Waits until everything that was written is on the disk.
    pub fn sync(&self) -> Result<(), TreeError> {
        retry_on_intr(|| syncfs(&self.fd)).map_err(|error| TreeError::io("sync", &self.path, b"", error))
    }
}

/// Makes everything in `dir` durable, and its own name.
pub fn sync(dir: &Path, control: &Control<'_>) -> Result<(), TreeError> {
    control.progress.step(Phase::Syncing, 0, 0, 0, 0);
    let failed = |error| TreeError::Io { what: "open", path: dir.to_owned(), error };
    let tree = Tree::open(dir).map_err(failed)?;
    if tree.is_trusted() {
        return retry_on_intr(|| syncfs(tree.root())).map_err(|error| TreeError::io("sync", dir, b"", error));
    }
    let everything = scan(&tree, &Ignore::default(), control)?;
    let mut cursor = Cursor::new(tree.root());
    for node in everything.entries.iter().rev() {
        control.check()?;
        let synced = match node.kind() {
            NodeKind::File => {
                let (dir, name) = split(&node.path);
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                cursor.at(dir).and_then(|dir| openat(dir, name, flags, Mode::empty())).and_then(fsync)
            }
            NodeKind::Dir => open_beneath(tree.root(), &node.path, READABLE).and_then(fsync),
            NodeKind::Symlink => Ok(()),
        };
        synced.map_err(|error| TreeError::io("sync", dir, &node.path, error))?;
    }
    sync_name(dir)
}

/// Makes the name of `path` durable, which is stored in the parent directory.
pub fn sync_name(path: &Path) -> Result<(), TreeError> {
    let above = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = open(above, flags, Mode::empty()).and_then(|dir| retry_on_intr(|| fsync(dir.as_fd())));
    match synced {
        // Some file systems have nothing to sync about a directory.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(TreeError::io("sync", above, b"", error)),
    }
}
