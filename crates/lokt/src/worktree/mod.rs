//! Worktrees: one writer at a time under a lease, and snapshots that only the writer can publish.
//!
//! A [`Repository`] is a directory that contains `.jvs` and worktrees. [`Worktree::lease`] makes
//! this program the only writer, identified by a fencing token. A [`Snapshot`] is a copy of all
//! files that becomes visible when it is complete.
//!
//! ```
//! use lokt::worktree::Repository;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let repository = Repository::create(dir)?;
//! let worktree = repository.worktree("main")?;
//! let leased = worktree.lease().reason("first draft").try_acquire()?;
//!
//! std::fs::write(worktree.path().join("draft.txt"), "one")?;
//! let first = leased.snapshot().note("one").create()?.into_snapshot();
//!
//! std::fs::write(worktree.path().join("draft.txt"), "two")?;
//! leased.restore(&first).force().in_place()?;
//! assert_eq!(std::fs::read_to_string(worktree.path().join("draft.txt"))?, "one");
//! leased.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Limitations
//!
//! A lease does not prevent programs from writing to a directory. It decides which program may
//! publish snapshots, restore files and renew the lease.

mod lease;
mod lease_error;
mod repository;
mod restore;
mod snapshot;

use std::path::PathBuf;

use lokt_core::lease::config::Isolation;
use lokt_worktree::snapshot::{LATEST, Named};

pub use lease::Leased;
pub use lease_error::LeaseError;
pub use repository::Repository;
pub use restore::{RestoreError, RestoreRequest, Restored};
pub use snapshot::{NewSnapshot, Snapshot, SnapshotRequest};

use self::lease_error::{Inner, live_holder};
use self::snapshot::Acting;
use crate::{Error, Holder, Request};

/// A worktree of a [`Repository`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// assert_eq!(worktree.name(), "main");
/// assert!(worktree.path().is_dir() && !worktree.is_shared());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Worktree {
    inner: Inner,
}

impl Worktree {
    fn new(inner: Inner) -> Self {
        Self { inner }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.inner.name().as_str()
    }

    /// Returns the directory of its files.
    pub fn path(&self) -> PathBuf {
        self.inner.repository().files_of(self.inner.name())
    }

    /// Reports whether all programs may write to it. If so, it has no lease.
    pub fn is_shared(&self) -> bool {
        self.inner.isolation() == Isolation::Shared
    }

    /// Requests the lease, which makes this program the only writer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lokt::worktree::{LeaseError, Repository};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let alice = Repository::create(dir.path())?.owner("alice").worktree("main")?;
    /// let bob = Repository::open(dir.path())?.owner("bob").worktree("main")?;
    ///
    /// let leased = alice.lease().ttl(Duration::from_secs(60)).try_acquire()?;
    /// let refused = bob.lease().try_acquire().expect_err("alice has it");
    /// assert!(matches!(refused, LeaseError::Held { .. }));
    /// assert_eq!(refused.holder().map(|holder| holder.owner()), Some("alice"));
    /// drop(leased);
    /// assert!(bob.lease().acquire_timeout(Duration::from_secs(5)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self) -> Request<'_, Leased> {
        Request::new(&self.inner, vec![self.name().to_owned()])
    }

    /// Returns the holder of the lease; `None` if it is free or has expired.
    ///
    /// # Errors
    ///
    /// Fails if the repository cannot be read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// assert!(worktree.holder()?.is_none());
    /// let leased = worktree.lease().reason("a merge").try_acquire()?;
    /// assert_eq!(worktree.holder()?.expect("it is held").reason(), Some("a merge"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder(&self) -> Result<Option<Holder>, Error> {
        live_holder(&self.inner)
    }

    /// Requests a snapshot under a lease that is acquired only for it. A program that holds the
    /// lease uses [`Leased::snapshot`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// std::fs::write(worktree.path().join("a.txt"), "a")?;
    /// let taken = worktree.snapshot().note("before the merge").create()?;
    /// assert_eq!(taken.snapshot().files(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> SnapshotRequest<'_> {
        SnapshotRequest::new(&self.inner, Acting::Acquire)
    }

    /// Requests a restore of the files of a snapshot, under a lease that is acquired only for it. A
    /// program that holds the lease uses [`Leased::restore`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// std::fs::write(worktree.path().join("a.txt"), "a")?;
    /// let snapshot = worktree.snapshot().create()?.into_snapshot();
    /// std::fs::remove_file(worktree.path().join("a.txt"))?;
    /// worktree.restore(&snapshot).force().in_place()?;
    /// assert!(worktree.path().join("a.txt").exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore<'a>(&'a self, snapshot: &'a Snapshot) -> RestoreRequest<'a> {
        RestoreRequest::new(&self.inner, snapshot, Acting::Acquire)
    }

    /// Returns the snapshot that its files last matched; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the repository cannot be read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// assert!(worktree.latest_snapshot()?.is_none());
    /// let taken = worktree.snapshot().create()?;
    /// assert_eq!(worktree.latest_snapshot()?.expect("it was taken").id(), taken.snapshot().id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn latest_snapshot(&self) -> Result<Option<Snapshot>, Error> {
        let repo = self.inner.repository();
        Ok(match repo.snapshots().catalog()?.named(LATEST, Some(self.inner.name())) {
            Named::Found(listed) => Some(Snapshot::new(repo, *listed)),
            _ => None,
        })
    }
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    const fn is_send<T: Send>() {}
    is_send_and_sync::<Repository>();
    is_send_and_sync::<Worktree>();
    is_send_and_sync::<Leased>();
    is_send_and_sync::<LeaseError>();
    is_send::<Request<'_, Leased>>();
    is_send_and_sync::<Snapshot>();
    is_send_and_sync::<Restored>();
    is_send_and_sync::<RestoreError>();
};
