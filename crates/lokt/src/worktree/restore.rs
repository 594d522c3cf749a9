//! Restoring the files of a snapshot, into an existing worktree or a new one.

use std::error;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use lokt_core::name::LockName;
use lokt_worktree::repo;
use lokt_worktree::snapshot::{self, Difference, InPlace, Restoring, Unfolding};

use super::lease_error::{Inner, denied};
use super::snapshot::{Acting, halted, work};
use super::{LeaseError, Snapshot};
use crate::request::sealed;
use crate::{Cancel, Error, Warning};

/// A requested restore of the files of a snapshot. Made by
/// [`Leased::restore`](super::Leased::restore) and [`Worktree::restore`](super::Worktree::restore).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// let snapshot = worktree.snapshot().create()?.into_snapshot();
/// worktree.restore(&snapshot).in_place()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a request does nothing until `in_place` is called"]
#[derive(Debug, Clone)]
pub struct RestoreRequest<'a> {
    worktree: &'a Inner,
    snapshot: &'a Snapshot,
    acting: Acting,
    force: bool,
    with_git: bool,
    cancel: Option<&'a Cancel>,
}

impl<'a> RestoreRequest<'a> {
    pub(super) fn new(worktree: &'a Inner, snapshot: &'a Snapshot, acting: Acting) -> Self {
        Self { worktree, snapshot, acting, force: false, with_git: false, cancel: None }
    }

    /// Also replaces files that are in no snapshot.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Also replaces `.git`, if the worktree is the directory that contains `.jvs`.
    pub fn with_git(mut self) -> Self {
        self.with_git = true;
        self
    }

    /// Lets `cancel` end the copying. Then nothing is changed, unless the files were already
    /// replaced.
    pub fn cancel(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Atomically replaces the files of the worktree with those of the snapshot.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Unsaved`] if files are in no snapshot, [`RestoreError::Refused`] if the
    /// lease is not held, and [`RestoreError::Cancelled`] if [`cancel`](Self::cancel) ended the
    /// work. In these cases nothing was changed.
    pub fn in_place(self) -> Result<Restored, RestoreError> {
        let how = InPlace { force: self.force, dry_run: false, with_git: self.with_git };
        let said = work(self.cancel, |control| {
            self.worktree.restore_in_place(self.snapshot.listed(), self.acting.inner(), how, control)
        });
        let said = said.ok_or(RestoreError::Cancelled)?.map_err(Error::from)?;
        match said.value {
            Restoring::Restored(inner) => Ok(Restored { inner: *inner, warnings: said.warnings }),
            Restoring::Denied(refusal) => Err(RestoreError::Refused(denied(&refusal, self.acting.token()))),
            Restoring::Dirty(difference) | Restoring::Planned(difference) => {
                Err(RestoreError::Unsaved { paths: paths(difference) })
            }
            Restoring::Interrupted => Err(halted(self.cancel)),
        }
    }
}

/// The files that differ. Paths may contain any bytes.
fn paths(difference: Difference) -> Vec<PathBuf> {
    let Difference { added, removed, modified, touched } = difference;
    let all = [added, removed, modified, touched].into_iter().flatten();
    let mut paths: Vec<PathBuf> = all.map(|path| OsString::from_vec(path).into()).collect();
    paths.sort();
    paths
}

/// Restores the files of a snapshot into a new worktree.
pub(super) fn into_new(
    repo: &repo::Repository,
    snapshot: &Snapshot,
    name: &LockName,
) -> Result<Restored, RestoreError> {
    let said = work(None, |control| repo.snapshots().restore_into(snapshot.listed(), name, false, control));
    let said = said.ok_or(RestoreError::Cancelled)?.map_err(Error::from)?;
    match said.value {
        Unfolding::Made(inner) => Ok(Restored { inner: *inner, warnings: said.warnings }),
        Unfolding::Exists(other) => Err(RestoreError::Exists { worktree: other.to_string() }),
        Unfolding::NotEmpty(path) => Err(RestoreError::Occupied { path }),
        Unfolding::Interrupted => Err(halted(None)),
    }
}

/// Files that were restored.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// std::fs::write(worktree.path().join("a.txt"), "a")?;
/// let snapshot = worktree.snapshot().create()?.into_snapshot();
/// let restored = worktree.restore(&snapshot).in_place()?;
/// assert_eq!((restored.worktree(), restored.files(), restored.bytes()), ("main", 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Restored {
    inner: snapshot::Restored,
    warnings: Vec<Warning>,
}

impl Restored {
    /// Returns the name of the worktree that has the files now.
    pub fn worktree(&self) -> &str {
        self.inner.worktree.as_str()
    }

    /// Returns the directory of the files.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the number of restored files.
    pub fn files(&self) -> u64 {
        self.inner.files
    }

    /// Returns the size of the restored files in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// Returns the directory that keeps the previous files until the repository is cleaned up, for
    /// at least an hour.
    pub fn old_files(&self) -> Option<&Path> {
        self.inner.old_tree.as_deref()
    }

    /// Returns the warnings of the successful restore.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// The reason why nothing was restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The lease is not held.
    Refused(LeaseError),
    /// Files of the worktree are in no snapshot, and would be lost.
    #[non_exhaustive]
    Unsaved {
        /// The files, relative to the worktree.
        paths: Vec<PathBuf>,
    },
    /// There already is a worktree of this name, or of one that differs only in upper and lower
    /// case.
    #[non_exhaustive]
    Exists {
        /// The name of that worktree.
        worktree: String,
    },
    /// Something already exists where the files of the new worktree would be.
    #[non_exhaustive]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// [`Cancel`] ended the work.
    Cancelled,
    /// The operation failed.
    Failed(Error),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Unsaved { paths } => write!(f, "{} files are in no snapshot", paths.len()),
            Self::Exists { worktree } => write!(f, "there is a worktree {worktree:?} already"),
            Self::Occupied { path } => write!(f, "{} is not empty", path.display()),
            Self::Cancelled => f.write_str("the restore was cancelled"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Failed(error) => Some(error),
            Self::Unsaved { .. } | Self::Exists { .. } | Self::Occupied { .. } | Self::Cancelled => None,
        }
    }
}

impl From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl sealed::Cancellable for RestoreError {
    fn cancelled() -> Self {
        Self::Cancelled
    }
}
