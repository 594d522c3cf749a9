//! Snapshots: copies of all files of a worktree.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use lokt_sys::error::ErrorKind;
use lokt_sys::machine::system_time;
use lokt_tree::{Control, Silent};
use lokt_worktree::repo;
use lokt_worktree::snapshot::{self, Consistency, Listed, SnapshotWish, Snapshotting};

use super::LeaseError;
use super::lease_error::{Inner, denied};
use crate::request::sealed;
use crate::{Cancel, Error, Token, Warning};

/// The lease under which an operation runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Acting {
    /// The lease with this token.
    Token(u64),
    /// A lease that is acquired only for the operation.
    Acquire,
}

impl Acting {
    pub(super) fn token(self) -> Option<u64> {
        match self {
            Self::Token(token) => Some(token),
            Self::Acquire => None,
        }
    }

    pub(super) fn inner(self) -> snapshot::Acting<'static> {
        self.token().map_or(snapshot::Acting::Acquire, snapshot::Acting::Token)
    }
}

/// Runs work on files that `cancel` can end. `None` if it was cancelled before the work began.
pub(super) fn work<T>(cancel: Option<&Cancel>, work: impl FnOnce(&Control<'_>) -> T) -> Option<T> {
    let halt = cancel.map_or_else(|| Some(Arc::default()), Cancel::halt)?;
    Some(work(&Control::new(&Silent, &halt)))
}

/// Returns the error for work that was stopped, because it was cancelled or its lease was lost.
pub(super) fn halted<E: From<Error> + sealed::Cancellable>(cancel: Option<&Cancel>) -> E {
    if cancel.is_some_and(Cancel::is_cancelled) {
        return E::cancelled();
    }
    Error::new(ErrorKind::Halted, "the work was stopped").into()
}

/// A requested snapshot. Made by [`Leased::snapshot`](super::Leased::snapshot) and
/// [`Worktree::snapshot`](super::Worktree::snapshot).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// let taken = worktree.snapshot().note("nightly").best_effort().create()?;
/// assert_eq!(taken.snapshot().note(), Some("nightly"));
/// # Ok(())
/// # }
/// ```
#[must_use = "a request does nothing until `create` is called"]
#[derive(Debug, Clone)]
pub struct SnapshotRequest<'a> {
    worktree: &'a Inner,
    acting: Acting,
    note: Option<String>,
    consistency: Consistency,
    with_git: bool,
    cancel: Option<&'a Cancel>,
}

impl<'a> SnapshotRequest<'a> {
    pub(super) fn new(worktree: &'a Inner, acting: Acting) -> Self {
        Self { worktree, acting, note: None, consistency: Consistency::Quiesced, with_git: false, cancel: None }
    }

    /// Sets a note that is shown in lists.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Allows files to change while they are copied. Otherwise a change is an error of the kind
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed).
    pub fn best_effort(mut self) -> Self {
        self.consistency = Consistency::BestEffort;
        self
    }

    /// Includes `.git` if the worktree is the directory that contains `.jvs`. In other worktrees it
    /// is always included.
    pub fn with_git(mut self) -> Self {
        self.with_git = true;
        self
    }

    /// Lets `cancel` end the copying. Then there is no snapshot, unless it was already complete.
    pub fn cancel(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Takes the snapshot. It is durable when this returns, and visible only if the lease was held
    /// to the end.
    ///
    /// # Errors
    ///
    /// A [`LeaseError`] if the lease is not held, and [`LeaseError::Cancelled`] if
    /// [`cancel`](Self::cancel) ended the work; then there is no snapshot.
    pub fn create(self) -> Result<NewSnapshot, LeaseError> {
        let wish = SnapshotWish {
            consistency: self.consistency,
            note: self.note,
            acting: self.acting.inner(),
            with_git: self.with_git,
        };
        let said = work(self.cancel, |control| self.worktree.snapshot(&wish, control));
        let said = said.ok_or(LeaseError::Cancelled)?.map_err(Error::from)?;
        match said.value {
            Snapshotting::Taken(taken) => {
                let listed = Listed {
                    descriptor: taken.descriptor,
                    pinned: false,
                    refs: Vec::new(),
                    head_of: vec![self.worktree.name().clone()],
                };
                Ok(NewSnapshot {
                    snapshot: Snapshot::new(self.worktree.repository(), listed),
                    copied_files: taken.copied_files,
                    reused_files: taken.reused_files,
                    warnings: said.warnings,
                })
            }
            Snapshotting::Denied(refusal) => Err(denied(&refusal, self.acting.token())),
            Snapshotting::Interrupted => Err(halted(self.cancel)),
        }
    }
}

/// A snapshot that was just taken.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// std::fs::write(worktree.path().join("a.txt"), "a")?;
/// let taken = worktree.snapshot().create()?;
/// assert_eq!((taken.copied_files(), taken.reused_files()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    snapshot: Snapshot,
    copied_files: u64,
    reused_files: u64,
    warnings: Vec<Warning>,
}

impl NewSnapshot {
    /// Returns the snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the snapshot and drops the rest.
    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }

    /// Returns the number of copied files.
    pub fn copied_files(&self) -> u64 {
        self.copied_files
    }

    /// Returns the number of files that are unchanged since the previous snapshot and were not
    /// copied.
    pub fn reused_files(&self) -> u64 {
        self.reused_files
    }

    /// Returns the warnings of the successful snapshot.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// A snapshot of a worktree.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// let first = worktree.snapshot().create()?.into_snapshot();
/// let second = worktree.snapshot().create()?.into_snapshot();
/// assert_eq!((second.worktree(), second.parent()), ("main", Some(first.id())));
/// assert!(second.created_at() >= first.created_at() && second.path().is_dir());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    listed: Listed,
    path: PathBuf,
}

impl Snapshot {
    pub(super) fn new(repo: &repo::Repository, listed: Listed) -> Self {
        Self { path: repo.tree_of(&listed.descriptor.id), listed }
    }

    pub(super) fn listed(&self) -> &Listed {
        &self.listed
    }

    /// Returns its id. Ids that are sorted as text are sorted by time.
    pub fn id(&self) -> &str {
        self.listed.descriptor.id.as_str()
    }

    /// Returns the name that its worktree had when it was taken.
    pub fn worktree(&self) -> &str {
        &self.listed.descriptor.worktree
    }

    /// Returns the id of the previous snapshot in the worktree.
    pub fn parent(&self) -> Option<&str> {
        self.listed.descriptor.parent.as_ref().map(snapshot::SnapshotId::as_str)
    }

    /// Returns the time at which it was taken.
    pub fn created_at(&self) -> SystemTime {
        system_time(self.listed.descriptor.created_at)
    }

    /// Returns its note.
    pub fn note(&self) -> Option<&str> {
        self.listed.descriptor.note.as_deref()
    }

    /// Returns the token of the lease under which it was taken; `None` in a shared worktree.
    pub fn token(&self) -> Option<Token> {
        self.listed.descriptor.token.and_then(Token::new)
    }

    /// Returns the number of its files; `None` if another program took it.
    pub fn files(&self) -> Option<u64> {
        self.listed.descriptor.files
    }

    /// Returns the size of its files in bytes; `None` if another program took it.
    pub fn bytes(&self) -> Option<u64> {
        self.listed.descriptor.bytes
    }

    /// Reports whether no file changed while it was taken.
    pub fn is_consistent(&self) -> bool {
        self.listed.descriptor.consistency == Consistency::Quiesced
    }

    /// Reports whether it is kept until it is unpinned.
    pub fn is_pinned(&self) -> bool {
        self.listed.pinned
    }

    /// Returns the directory of its files, which must not be modified.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
