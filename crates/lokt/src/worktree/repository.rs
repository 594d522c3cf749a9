//! A lokt repository: worktrees side by side, and their snapshots.

use std::path::Path;

use crate::Error;
use lokt_core::lease::config::Isolation;
use lokt_core::name::LockName;
use lokt_sys::error::ErrorKind;
use lokt_sys::machine::{default_owner, identity};
use lokt_worktree::repo;
use lokt_worktree::snapshot::Named;

use super::restore::{self, RestoreError, Restored};
use super::{Snapshot, Worktree};

/// A lokt repository: a directory that contains `.jvs` and worktrees. Clones refer to the same
/// repository.
///
/// ```
/// use lokt::worktree::Repository;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let repository = Repository::create(dir.path().join("shop"))?;
/// assert_eq!(repository.worktrees()?, ["main"]);
/// assert!(repository.snapshots()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Repository {
    inner: repo::Repository,
}

impl Repository {
    /// Opens the repository in `dir`.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is none, and
    /// [`ErrorKind::NewerVersion`](crate::ErrorKind::NewerVersion) if its format is unknown.
    ///
    /// ```
    /// use lokt::ErrorKind;
    /// use lokt::worktree::Repository;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let missing = Repository::open(dir.path()).expect_err("there is none yet");
    /// assert_eq!(missing.kind(), ErrorKind::NotFound);
    ///
    /// Repository::create(dir.path())?;
    /// assert_eq!(Repository::open(dir.path())?.worktrees()?, ["main"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let found = repo::Repository::open(dir, identity(default_owner(), None))?;
        Ok(Self { inner: found.ok_or_else(|| none(&format!("in {}", dir.display())))? })
    }

    /// Opens the nearest repository in `dir` or above it, as the commands do.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    ///
    /// ```
    /// use lokt::worktree::Repository;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// Repository::create(dir.path())?;
    /// assert_eq!(Repository::find(dir.path().join("main"))?.top(), dir.path().canonicalize()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let found = repo::Repository::find(dir, identity(default_owner(), None))?;
        Ok(Self { inner: found.ok_or_else(|| none(&format!("in {} or above it", dir.display())))? })
    }

    /// Creates a repository in `dir`, as `lokt worktree init` does. Its worktree is the directory
    /// `main` in it. If there already is a repository, opens it.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::Unusable`](crate::ErrorKind::Unusable) if `dir` is inside another
    /// repository.
    ///
    /// ```
    /// use lokt::worktree::Repository;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let repository = Repository::create(dir.path())?;
    /// assert_eq!(repository.worktree("main")?.path(), dir.path().join("main"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::init(dir.as_ref(), false)
    }

    /// Creates a repository in `dir`, as `lokt worktree init --here` does. Its worktree `main` is
    /// `dir` itself, with its existing files. If there already is a repository, opens it.
    ///
    /// # Errors
    ///
    /// Same as [`create`](Self::create); also if an existing repository has its worktree elsewhere.
    ///
    /// ```
    /// use lokt::worktree::Repository;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let repository = Repository::create_here(dir.path())?;
    /// assert_eq!(repository.worktree("main")?.path(), dir.path());
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_here(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::init(dir.as_ref(), true)
    }

    fn init(dir: &Path, here: bool) -> Result<Self, Error> {
        let unusable = |message: String| Err(Error::new(ErrorKind::Unusable, message));
        let me = identity(default_owner(), None);
        let is_dir = |top: &Path| top == dir || lokt_sys::files::real_path(dir) == top;
        if let Some(around) = repo::Repository::find(dir, me.clone())?.filter(|around| !is_dir(around.top())) {
            return unusable(format!("{} is in a lokt repository, {}", dir.display(), around.top().display()));
        }
        let init = if here { repo::Repository::init_here } else { repo::Repository::init };
        let (inner, _) = init(dir, Isolation::default(), me)?;
        if inner.is_here() != here {
            let kind = if here { "with its worktree in main" } else { "whose worktree is the directory itself" };
            return unusable(format!("{} is a lokt repository {kind}", dir.display()));
        }
        Ok(Self { inner })
    }

    /// Returns a handle to the same repository with another owner of leases; the default is the
    /// login name.
    ///
    /// ```
    /// use lokt::worktree::Repository;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let worktree = Repository::create(dir.path())?.owner("alice").worktree("main")?;
    /// let leased = worktree.lease().try_acquire()?;
    /// assert_eq!(worktree.holder()?.expect("it is held").owner(), "alice");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { inner: self.inner.acting_as(identity(owner.into(), None)) }
    }

    /// Returns the directory that contains `.jvs`.
    pub fn top(&self) -> &Path {
        self.inner.top()
    }

    /// Returns the worktree of this name; every repository has `main`.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is none, and
    /// [`ErrorKind::BadInput`](crate::ErrorKind::BadInput) if the name is invalid.
    ///
    /// ```
    /// use lokt::ErrorKind;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let repository = lokt::worktree::Repository::create(dir.path())?;
    /// assert_eq!(repository.worktree("main")?.name(), "main");
    /// let missing = repository.worktree("feature").expect_err("there is none yet");
    /// assert_eq!(missing.kind(), ErrorKind::NotFound);
    /// # Ok(())
    /// # }
    /// ```
    pub fn worktree(&self, name: &str) -> Result<Worktree, Error> {
        let found = self.inner.worktree(&checked(name)?)?;
        found.map(Worktree::new).ok_or_else(|| {
            Error::new(ErrorKind::Missing, format!("there is no worktree {name:?}"))
                .with_hint("`lokt worktree list` shows those that there are")
        })
    }

    /// Returns the names of all worktrees.
    ///
    /// # Errors
    ///
    /// Fails if the repository cannot be read.
    pub fn worktrees(&self) -> Result<Vec<String>, Error> {
        Ok(self.inner.worktrees()?.into_iter().map(|entry| entry.name.to_string()).collect())
    }

    /// Returns all snapshots, newest first.
    ///
    /// # Errors
    ///
    /// Fails if the repository cannot be read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let repository = lokt::worktree::Repository::create(dir.path())?;
    /// assert!(repository.snapshots()?.is_empty());
    /// repository.worktree("main")?.snapshot().note("empty").create()?;
    /// assert_eq!(repository.snapshots()?[0].note(), Some("empty"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        let listed = self.inner.snapshots().catalog()?.snapshots;
        Ok(listed.into_iter().map(|listed| Snapshot::new(&self.inner, listed)).collect())
    }

    /// Returns the snapshot with this id, id prefix or name.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if no snapshot or several
    /// match, [`ErrorKind::Busy`](crate::ErrorKind::Busy) if the snapshot is not complete, and
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) if it cannot be used.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let repository = lokt::worktree::Repository::create(dir.path())?;
    /// let taken = repository.worktree("main")?.snapshot().create()?;
    /// let id = taken.snapshot().id();
    /// assert_eq!(repository.snapshot(&id[..8])?.id(), id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self, id: &str) -> Result<Snapshot, Error> {
        let missing = |message: String| Err(Error::new(ErrorKind::Missing, message));
        match self.inner.snapshots().catalog()?.named(id, None) {
            Named::Found(listed) => Ok(Snapshot::new(&self.inner, *listed)),
            Named::Missing => missing(format!("there is no snapshot {id:?}")),
            Named::Collected(collected) => missing(format!("snapshot {} was removed", collected.id)),
            Named::Ambiguous(ids) => missing(format!("{id:?} is the beginning of {} snapshots", ids.len())),
            Named::Partial(unfinished) => {
                Err(Error::new(ErrorKind::Busy, format!("snapshot {} is not complete", unfinished.id)))
            }
            Named::Spoiled(spoiled) => {
                let message = format!("{} of snapshot {}: {}", spoiled.path.display(), spoiled.id, spoiled.why);
                Err(Error::new(ErrorKind::Damaged, message))
            }
        }
    }

    /// Restores the files of a snapshot into a new worktree. No lease is needed.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Exists`] if there already is a worktree of this name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let repository = lokt::worktree::Repository::create(dir.path())?;
    /// let main = repository.worktree("main")?;
    /// std::fs::write(main.path().join("a.txt"), "a")?;
    /// let snapshot = main.snapshot().create()?.into_snapshot();
    /// let restored = repository.restore_into(&snapshot, "review")?;
    /// assert_eq!(std::fs::read_to_string(restored.path().join("a.txt"))?, "a");
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore_into(&self, snapshot: &Snapshot, name: &str) -> Result<Restored, RestoreError> {
        restore::into_new(&self.inner, snapshot, &checked(name)?)
    }
}

fn none(place: &str) -> Error {
    Error::new(ErrorKind::Missing, format!("there is no lokt repository (.jvs) {place}"))
        .with_hint("`Repository::create` or `lokt worktree init` makes one")
}

fn checked(name: &str) -> Result<LockName, Error> {
    LockName::new(name).map_err(|bad| Error::new(ErrorKind::BadName, format!("{name:?} names no worktree: {bad}")))
}
