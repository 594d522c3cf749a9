//! The lease of a worktree: its one writer.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::denial;
use lokt_core::guard::Outcome;
use lokt_core::lease::policy::{LeasePolicy, PolicyWish};
use lokt_guard::Renewer;
use lokt_sys::error::ErrorKind;
use lokt_sys::one_shot::OneShot;
use lokt_sys::wait_policy::{WaitPolicy, Waiting};
use lokt_worktree::lease::{Keeping, LeaseGuard, LeaseGuarding, Releasing};
use lokt_worktree::repo::new_session;

use super::lease_error::{Inner, live_holder, lost, refused};
use super::snapshot::Acting;
use super::{LeaseError, RestoreRequest, Snapshot, SnapshotRequest};
use crate::request::sealed::{self, Asked};
use crate::{Acquire, Error, Holder, Request, Token, Warning};

impl Request<'_, Leased> {
    /// Sets the reason that is shown to other programs.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.asked.reason = Some(reason.into());
        self
    }
}

impl Acquire for Leased {
    type Error = LeaseError;
}

impl sealed::Obtain<LeaseError> for Leased {
    type Source = Inner;
    const IS_QUEUED: bool = false;

    fn obtain(asked: Asked<'_, Inner>, policy: &mut WaitPolicy<'_>) -> Result<Self, LeaseError> {
        let Asked { source: worktree, ttl, reason, .. } = asked;
        let numbers = lease_policy(worktree, ttl)?;
        // A session for this lease alone, so that two threads exclude each other.
        let session = new_session().map_err(Error::from)?;
        let said = LeaseGuard::acquire(worktree, session, numbers, reason, policy).map_err(Error::from)?;
        match said.value {
            LeaseGuarding::Granted(guard) => Ok(Self::new(worktree.clone(), *guard, said.warnings)),
            LeaseGuarding::Denied(refusal) => Err(refused(&refusal)),
            LeaseGuarding::Interrupted => Err(LeaseError::Cancelled),
        }
    }

    /// Reads the holder again: a refusal has a digest of the session in place of the owner.
    fn holder(worktree: &Inner, _told: &Waiting<'_>) -> Option<Holder> {
        live_holder(worktree).ok().flatten()
    }
}

/// The timing of the lease: as requested, else as configured in the repository.
fn lease_policy(worktree: &Inner, ttl: Option<Duration>) -> Result<LeasePolicy, Error> {
    let mut config = worktree.repository().policy()?;
    let lease_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    if lease_ms.is_some_and(|lease| config.renew_ms.is_some_and(|renew| renew >= lease)) {
        config.renew_ms = None;
    }
    let wish = PolicyWish { lease_ms, ..PolicyWish::default() }.or(config);
    wish.policy().map_err(|bad| Error::new(ErrorKind::Unusable, bad.to_string()))
}

/// A held lease. A thread renews it while this value lives; dropping it releases the lease.
///
/// The lease ends with this process: if the process is killed, the lease is free at once. A forked
/// child may drop its copy: the lease stays with the parent.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// let first = worktree.lease().try_acquire()?.token();
/// let leased = worktree.lease().try_acquire()?;
/// assert!(leased.token() > first);
/// for warning in leased.warnings() {
///     eprintln!("warning: {warning}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Leased {
    /// Dropped before the guard, so that no renewal comes after the release.
    renewer: Option<Renewer>,
    /// `None` once it is released.
    guard: Option<LeaseGuard>,
    worktree: Inner,
    /// The process that holds it.
    pid: u32,
    token: Token,
    ttl: Duration,
    warnings: Vec<Warning>,
    /// The holder after a loss.
    loss: Arc<OneShot<Option<Box<denial::Holder>>>>,
}

impl Leased {
    fn new(worktree: Inner, guard: LeaseGuard, warnings: Vec<Warning>) -> Self {
        let loss = Arc::new(OneShot::default());
        let told = Arc::clone(&loss);
        let lease = guard.lease();
        Self {
            token: Token::of(lease.token),
            ttl: Duration::from_millis(lease.record.policy.lease_ms),
            renewer: Some(guard.renewer(move |holder| drop(told.tell(holder)))),
            guard: Some(guard),
            worktree,
            pid: std::process::id(),
            warnings,
            loss,
        }
    }

    /// Returns the fencing token. It is greater than all earlier ones of the worktree.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns how long the lease lasts after its last renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the warnings of the successful acquisition.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Checks whether the lease is still held. A repository that cannot be read is not a loss.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] with the new holder, if there is one.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// let leased = worktree.lease().try_acquire()?;
    /// assert!(leased.check().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LeaseError> {
        if let Some(holder) = self.loss.known() {
            return Err(lost(holder));
        }
        match self.guard.as_ref().map(LeaseGuard::look) {
            Some(Outcome::Lost(holder)) => Err(lost(self.loss.tell(holder))),
            _ => Ok(()),
        }
    }

    /// Renews the lease now, in addition to the renewals by its thread.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if it is no longer held.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// let leased = worktree.lease().try_acquire()?;
    /// leased.renew()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(&self) -> Result<(), LeaseError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        match guard.renew().map_err(Error::from)?.value {
            Keeping::Renewed(_) => Ok(()),
            Keeping::Denied(_) => match guard.look() {
                Outcome::Lost(holder) => Err(lost(self.loss.tell(holder))),
                Outcome::Kept { .. } | Outcome::Failed(_) => Err(lost(self.loss.tell(None))),
            },
        }
    }

    /// Requests a snapshot under this lease.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// let leased = worktree.lease().try_acquire()?;
    /// let taken = leased.snapshot().note("a draft").create()?;
    /// assert_eq!(taken.snapshot().token(), Some(leased.token()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> SnapshotRequest<'_> {
        SnapshotRequest::new(&self.worktree, Acting::Token(self.token.get()))
    }

    /// Requests a restore of the files of a snapshot under this lease.
    ///
    /// ```
    /// use lokt::worktree::RestoreError;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// let leased = worktree.lease().try_acquire()?;
    /// let empty = leased.snapshot().create()?.into_snapshot();
    /// std::fs::write(worktree.path().join("a.txt"), "a")?;
    ///
    /// // The new file is in no snapshot.
    /// let refused = leased.restore(&empty).in_place();
    /// assert!(matches!(refused, Err(RestoreError::Unsaved { .. })));
    /// leased.restore(&empty).force().in_place()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore<'a>(&'a self, snapshot: &'a Snapshot) -> RestoreRequest<'a> {
        RestoreRequest::new(&self.worktree, snapshot, Acting::Token(self.token.get()))
    }

    /// Releases the lease, and reports whether it was held to the end. Dropping it does the same
    /// silently.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if it was lost before; [`LeaseError::Failed`] if it could not be
    /// released, in which case it counts as the lease of a dead process.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
    /// let leased = worktree.lease().try_acquire()?;
    /// leased.release()?;
    /// assert!(worktree.holder()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(mut self) -> Result<(), LeaseError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LeaseError> {
        if self.pid != std::process::id() {
            // A forked child: the thread and the lease belong to its parent.
            if let Some(renewer) = self.renewer.take() {
                renewer.forget();
            }
            mem::forget(self.guard.take());
            return Ok(());
        }
        drop(self.renewer.take());
        let Some(guard) = self.guard.take() else { return Ok(()) };
        match guard.release().map_err(Error::from)?.value {
            Releasing::Released(_) => Ok(()),
            Releasing::Denied(_) => Err(lost(self.loss.known().flatten())),
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Leased");
        shown.field("worktree", &self.worktree.name().as_str()).field("token", &self.token).field("ttl", &self.ttl);
        shown.finish_non_exhaustive()
    }
}
