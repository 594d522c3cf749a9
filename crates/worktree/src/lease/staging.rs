//! Files that are about to be published, each under the token of a lease. The next lease holder
//! empties staging before it takes over, so a suspended publisher has nothing left to publish.

use crate::repo::Repository;
use lokt_core::name::LockName;
use std::path::{Path, PathBuf};

use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::publish_error::file_error;
use lokt_sys::staged::{StageError, Staged, discard};

/// A complete copy, ready to be published.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// The directory of files that are about to be published.
#[derive(Clone, Copy)]
pub(crate) struct Staging<'w> {
    pub(super) repo: &'w Repository,
    pub(super) name: &'w LockName,
}

impl Staging<'_> {
    fn dir(&self) -> String {
        format!("staging/{}", self.name)
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> PathBuf {
        self.repo.path.join(self.dir())
    }

    pub(crate) fn make(&self) -> Result<(), Error> {
        ["staging", &self.dir()].into_iter().try_for_each(|dir| self.repo.make_place(dir))
    }

    /// Copies `source`, and syncs the copy. `None`: another process removed it in the meantime.
    pub(crate) fn copy(&self, token: u64, source: &Path) -> Result<Option<Copy>, Error> {
        self.make()?;
        let unique = self.repo.random()?;
        let path = self.path().join(format!("{token}.{unique:032x}"));
        let mut staged = Staged::copy(source, &path, unique).map_err(|failure| match failure {
            StageError::Source(error) => file_error("read", source, error).hint("nothing was published"),
            StageError::Target(error) => Error::io("write", &path, error).hint("nothing was published"),
            StageError::Changed => {
                let message = format!("{} changed while it was copied", source.display());
                Error::new(ErrorKind::Moving, message).hint("publish what nobody writes to any more")
            }
        })?;
        match staged.publish() {
            Ok(()) => Ok(Some(Copy { path, bytes: staged.bytes })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("write", &path, error).hint("nothing was published")),
        }
    }

    /// Removes files that were staged under tokens below `next`: those tokens may not publish any
    /// more.
    pub(crate) fn empty(&self, next: u64) -> Result<(), Error> {
        let dir = self.dir();
        let mut late = Vec::new();
        let listed = self.repo.disk.each_name(&dir, &mut |name| {
            let token = name.split_once('.').and_then(|(token, _)| token.parse::<u64>().ok());
            // An unfinished copy has no token yet. Its publisher makes another, if it still may.
            if token.is_some_and(|token| token < next) || name.starts_with(".lokt-publish-") {
                late.push(format!("{dir}/{name}"));
            }
        });
        listed.at("list", &self.repo.path, &dir)?;
        late.iter().try_for_each(|path| match self.repo.disk.remove(path) {
            // A directory is never published.
            Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => Ok(()),
            done => done.at("remove", &self.repo.path, path),
        })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // It has been published, or must not be.
        discard(&self.path);
    }
}
