//! Claims on tasks: a program holds a task until it releases the claim or the claim expires.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::denial;
use lokt_core::duration::whole_seconds;
use lokt_core::guard::Outcome;
use lokt_guard::Renewer;
use lokt_ledger::{ClaimGuard, ClaimTerms, Claiming, How, Releasing};
use lokt_sys::one_shot::OneShot;
use lokt_sys::wait_policy::WaitPolicy;

use super::append::numbered;
use super::claim_error::{lost, refused};
use super::{ClaimError, Ledger};
use crate::request::sealed::{self, Asked};
use crate::{Acquire, Error, Request, Token, Warning};

impl Ledger {
    /// Requests a claim on `task`. A live claim of the same owner also refuses the request, so two
    /// threads exclude each other.
    ///
    /// A cancelled wait ends at once. If another program is writing to the ledger at that moment,
    /// it ends after at most [`lock_timeout`](Self::lock_timeout).
    ///
    /// ```
    /// use std::time::Duration;
    /// use lokt::ledger::{ClaimError, Ledger};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let alice = Ledger::create(dir.path())?.owner("alice");
    /// let bob = alice.clone().owner("bob");
    ///
    /// let claimed = alice.claim("1.2").ttl(Duration::from_secs(60)).try_acquire()?;
    /// match bob.claim("1.2").try_acquire() {
    ///     Err(ClaimError::Held { holder, .. }) => assert_eq!(holder.owner(), "alice"),
    ///     other => panic!("{other:?}"),
    /// }
    /// drop(claimed);
    /// assert!(bob.claim("1.2").acquire_timeout(Duration::from_secs(5)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim(&self, task: impl Into<String>) -> Request<'_, Claimed> {
        self.claim_any([task])
    }

    /// Requests a claim on the first free task of `tasks`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let first = ledger.claim_any(["1.1", "1.2"]).try_acquire()?;
    /// let second = ledger.claim_any(["1.1", "1.2"]).try_acquire()?;
    /// assert_eq!((first.task(), second.task()), ("1.1", "1.2"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim_any<T: Into<String>>(&self, tasks: impl IntoIterator<Item = T>) -> Request<'_, Claimed> {
        Request::new(self, tasks.into_iter().map(Into::into).collect())
    }
}

impl Acquire for Claimed {
    type Error = ClaimError;
}

impl sealed::Obtain<ClaimError> for Claimed {
    type Source = Ledger;
    const IS_QUEUED: bool = false;

    fn obtain(asked: Asked<'_, Ledger>, policy: &mut WaitPolicy<'_>) -> Result<Self, ClaimError> {
        let Asked { source: ledger, names: tasks, ttl, .. } = asked;
        let ttl_sec = ttl.map(whole_seconds);
        let terms = ClaimTerms { ttl_sec, only_new: true, ..ClaimTerms::default() };
        let said = ledger.inner.take(&tasks, &terms, policy).map_err(Error::from)?;
        match said.value {
            Claiming::Claimed(claimed) => Ok(Self::new(ledger, claimed, said.warnings)),
            Claiming::Denied { node, refused: why } => Err(refused(node, why)),
            Claiming::Interrupted => Err(ClaimError::Cancelled),
        }
    }
}

/// A held claim. A thread renews it while this value lives; dropping it releases the claim.
///
/// If this process is killed, the claim expires when its time has elapsed. A forked child may drop
/// its copy: the claim stays with the parent.
///
/// ```
/// use lokt::ledger::Ledger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// let claimed = ledger.claim("1.2").try_acquire()?;
/// assert_eq!((claimed.task(), claimed.token().get()), ("1.2", 1));
/// assert!(claimed.taken_over_from().is_none());
/// // A long piece of work checks now and then whether it still has the task.
/// claimed.check()?;
/// drop(claimed);
/// # Ok(())
/// # }
/// ```
pub struct Claimed {
    /// Dropped before the guard, so that no renewal comes after the release.
    renewer: Option<Renewer>,
    /// `None` once it is released.
    guard: Option<ClaimGuard>,
    /// The process that holds it.
    pid: u32,
    task: String,
    token: Token,
    ttl: Duration,
    from: Option<String>,
    warnings: Vec<Warning>,
    /// The holder after a loss.
    loss: Arc<OneShot<Option<Box<denial::Holder>>>>,
}

impl Claimed {
    fn new(ledger: &Ledger, claimed: lokt_ledger::Claimed, warnings: Vec<Warning>) -> Self {
        let guard = ClaimGuard::new(ledger.inner.clone(), &claimed, false);
        let loss = Arc::new(OneShot::default());
        let told = Arc::clone(&loss);
        Self {
            renewer: Some(guard.renewer(move |holder| drop(told.tell(holder)))),
            guard: Some(guard),
            pid: std::process::id(),
            task: claimed.node,
            token: numbered(claimed.token),
            ttl: Duration::from_secs(claimed.ttl_sec),
            from: match claimed.how {
                How::TookOver { from } => Some(from),
                How::New | How::Refreshed => None,
            },
            warnings,
            loss,
        }
    }

    /// Returns the task.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the fencing token: the number of the event that made the claim.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns how long the claim lasts after its last renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the owner of the expired claim that was taken over.
    pub fn taken_over_from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// Returns the warnings of the successful claim.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Checks whether the claim is still held. A ledger that cannot be read is not a loss.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Lost`] with the new holder, if there is one.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let claimed = ledger.claim("1.2").try_acquire()?;
    /// assert!(claimed.check().is_ok());
    ///
    /// // An operator ends the claim.
    /// ledger.append("lock_released", r#"{"node_id":"1.2"}"#)?;
    /// assert!(claimed.check().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), ClaimError> {
        if let Some(holder) = self.loss.known() {
            return Err(lost(&self.task, holder));
        }
        match self.guard.as_ref().map(ClaimGuard::look) {
            Some(Outcome::Lost(holder)) => Err(lost(&self.task, self.loss.tell(holder))),
            _ => Ok(()),
        }
    }

    /// Renews the claim now, in addition to the renewals by its thread.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Lost`] if it is no longer held.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let claimed = ledger.claim("1.2").try_acquire()?;
    /// claimed.renew()?;
    /// assert_eq!(ledger.read(2).next().expect("it is an event")?.kind(), "lock_acquired");
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(&self) -> Result<(), ClaimError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        match guard.extend().map_err(Error::from)?.value {
            Claiming::Claimed(_) | Claiming::Interrupted => Ok(()),
            Claiming::Denied { .. } => match guard.look() {
                Outcome::Lost(holder) => Err(lost(&self.task, self.loss.tell(holder))),
                Outcome::Kept { .. } | Outcome::Failed(_) => Err(lost(&self.task, self.loss.tell(None))),
            },
        }
    }

    /// Releases the claim, and reports whether it was held to the end. Dropping it does the same
    /// silently.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Lost`] if it was lost before; [`ClaimError::Failed`] if it could not be
    /// released, in which case it expires.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let claimed = ledger.claim("1.2").try_acquire()?;
    /// claimed.release()?;
    /// assert!(ledger.holder("1.2")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(mut self) -> Result<(), ClaimError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ClaimError> {
        if self.pid != std::process::id() {
            // A forked child: the thread and the claim belong to its parent.
            if let Some(renewer) = self.renewer.take() {
                renewer.forget();
            }
            mem::forget(self.guard.take());
            return Ok(());
        }
        drop(self.renewer.take());
        let Some(guard) = self.guard.take() else { return Ok(()) };
        match guard.release().map_err(Error::from)?.value {
            Releasing::Released { .. } => Ok(()),
            Releasing::Denied(_) => Err(lost(&self.task, self.loss.known().flatten())),
        }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Claimed");
        shown.field("task", &self.task).field("token", &self.token).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
