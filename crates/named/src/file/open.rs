//! Opens a root, and creates it again.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lokt_core::hold::Identity;

use super::FileStore;
use lokt_sys::disk::Disk;
use lokt_sys::error::{Error, ErrorKind, is_link_loop};
use lokt_sys::files::is_link;
use lokt_sys::machine::{Linux, Machine};
use lokt_sys::os_disk::OsDisk;
use lokt_sys::warnings::Warning;

/// Returns the machine that named locks use if a caller brings none.
pub(crate) fn this_machine() -> Arc<dyn Machine> {
    Arc::new(Linux)
}

impl FileStore {
    /// Opens a root, creating it if it is missing.
    pub fn create(root: &Path, me: Identity) -> Result<Self, Error> {
        let (disk, made) = OsDisk::create(root).map_err(|error| cant_open(root, error))?;
        if made {
            keep_out_of_commits(root, &disk);
        }
        Ok(Self { is_new: made, ..Self::with(root, Arc::new(disk), this_machine(), me) })
    }

    /// Opens a root; `None` if there is none.
    pub fn existing(root: &Path, me: Identity) -> Result<Option<Self>, Error> {
        match OsDisk::open(root) {
            Ok(disk) => Ok(Some(Self::with(root, Arc::new(disk), this_machine(), me))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_link(root) => Ok(None),
            Err(error) => Err(cant_open(root, error)),
        }
    }

    /// Returns a root on any disk and machine; tests bring their own.
    pub fn with(root: &Path, disk: Arc<dyn Disk>, machine: Arc<dyn Machine>, mut me: Identity) -> Self {
        me.fs = disk.mount().fs;
        Self { root: root.to_owned(), disk, machine, me, is_new: false }
    }

    /// Reports whether the root was deleted or moved away since it was opened.
    pub(super) fn lost_root(&self) -> bool {
        self.disk.is_current().is_ok_and(|current| !current)
    }

    /// Continues in the root that has the name now: in one that another process created, or in a
    /// new one, with a warning about that.
    pub(super) fn remake_root(&self) -> io::Result<Option<Warning>> {
        let made = self.disk.remake()?;
        if made {
            keep_out_of_commits(&self.root, &*self.disk);
        }
        let said = || format!("the lock root {} was deleted during the wait; created it again", self.root.display());
        Ok(made.then(|| Warning::Damaged(said())))
    }
}

/// Best effort: a root in `.git` needs nothing.
fn keep_out_of_commits(root: &Path, disk: &dyn Disk) {
    if root.parent().is_none_or(|parent| parent.file_name() != Some(".git".as_ref())) {
        let _ = disk.create(".gitignore", b"*\n");
    }
}

fn cant_open(root: &Path, error: io::Error) -> Error {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Unusable, format!("{} can't be used as a root: {why}", root.display()))
            .hint("set LOKT_ROOT to a directory, or unset it")
    };
    match error.kind() {
        _ if is_link_loop(&error) => unusable(&error),
        io::ErrorKind::NotADirectory => unusable(&error),
        // A disk that isn't mounted, perhaps: we can't say that nothing is locked there.
        io::ErrorKind::NotFound if is_link(root) => unusable(&"it is a symbolic link to nothing"),
        _ => Error::io("open", root, error),
    }
}
