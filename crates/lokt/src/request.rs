//! Requests: for locks, for claims on tasks, for leases of worktrees.

use std::fmt;
use std::time::Duration;

use lokt_core::decide::Terms;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_named::{Grant, Holding};
use lokt_sys::wait_policy::{Interrupt, Timeout, WaitPolicy, Waiting as Told};

use self::sealed::{Asked, Cancellable as _};
use crate::{Cancel, Denial, Error, Held, Holder, LockError, Locked};

/// A request for something that has one holder at a time: a lock or several, a claim, a lease.
///
/// Made by [`Lokt::guard`](crate::Lokt::guard), [`Lokt::guard_all`](crate::Lokt::guard_all) and
/// [`Lokt::lock`](crate::Lokt::lock), and by `Ledger::claim` and `Worktree::lease`. Nothing happens
/// before one of the `acquire` methods is called.
///
/// ```
/// use std::time::Duration;
/// use lokt::{LockError, Lokt};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let lokt = Lokt::open(dir.path().join("root"))?;
/// let held = lokt.guard("build").ttl(Duration::from_secs(300)).reason("release 1.2").try_acquire()?;
///
/// let refused = lokt.guard("build").acquire_timeout(Duration::from_millis(10));
/// let Err(LockError::Denied(denial)) = refused else { panic!("it is held") };
/// assert_eq!(denial.holder().and_then(|holder| holder.reason().map(str::to_owned)).as_deref(), Some("release 1.2"));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is asked for before one of the `acquire` methods is called"]
pub struct Request<'a, T: Acquire> {
    pub(crate) asked: Asked<'a, T::Source>,
    cancel: Option<&'a Cancel>,
    on_wait: Option<OnWait<'a>>,
}

/// Callback that is invoked while a request waits.
type OnWait<'a> = Box<dyn FnMut(&Waiting<'_>) + Send + 'a>;

impl<'a, T: Acquire> Request<'a, T> {
    pub(crate) fn new(source: &'a T::Source, names: Vec<String>) -> Self {
        Self { asked: Asked { source, names, ttl: None, reason: None }, cancel: None, on_wait: None }
    }

    /// Sets the lease: how long the hold lasts after its last renewal. A thread of this program
    /// renews it, usually after a third of that time. An owner's lock ([`Locked`]) is not renewed.
    ///
    /// - Lock: rounded up to seconds. Zero means no lease, which is the default.
    /// - Claim: rounded up to seconds. The default is that of the ledger, usually five minutes.
    /// - Lease of a worktree: from 100 ms to 24 h. The default is that of the lokt repository,
    ///   usually 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = Some(ttl);
        self
    }

    /// Lets `cancel` end the wait.
    pub fn cancel(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Calls `tell` when a wait begins and about once a second while it lasts.
    pub fn on_wait(mut self, tell: impl FnMut(&Waiting<'_>) + Send + 'a) -> Self {
        self.on_wait = Some(Box::new(tell));
        self
    }

    /// Acquires it at once, without waiting.
    ///
    /// # Errors
    ///
    /// The error names the holder if there is one ([`LockError::Denied`], `ClaimError::Held`,
    /// `LeaseError::Held`). If something went wrong (`Failed`), nothing is held.
    pub fn try_acquire(self) -> Result<T, T::Error> {
        self.obtain(Timeout::Once)
    }

    /// Acquires it, waiting without a time limit. Waiters for a lock are served in the order of
    /// their requests; those for a claim or a lease have no order.
    ///
    /// # Errors
    ///
    /// Same as [`try_acquire`](Self::try_acquire), if waiting cannot help. `Cancelled` if
    /// [`cancel`](Self::cancel) ended the wait.
    pub fn acquire(self) -> Result<T, T::Error> {
        self.obtain(Timeout::Never)
    }

    /// Acquires it, waiting at most `timeout`.
    ///
    /// # Errors
    ///
    /// Same as [`acquire`](Self::acquire); the request is refused when the timeout has elapsed.
    pub fn acquire_timeout(self, timeout: Duration) -> Result<T, T::Error> {
        self.obtain(Timeout::After(timeout))
    }

    /// Acquires it, waiting until `cancel` ends the wait.
    ///
    /// # Errors
    ///
    /// Same as [`acquire`](Self::acquire).
    pub fn acquire_until(self, cancel: &'a Cancel) -> Result<T, T::Error> {
        self.cancel(cancel).acquire()
    }

    fn obtain(self, timeout: Timeout) -> Result<T, T::Error> {
        let Self { asked, cancel, mut on_wait } = self;
        let mut alarm = match cancel {
            None => None,
            Some(cancel) => Some(cancel.alarm()?.ok_or_else(T::Error::cancelled)?),
        };
        let source = asked.source;
        let mut tell = |told: &Told<'_>| {
            if let Some(on_wait) = &mut on_wait {
                on_wait(&Waiting { told, holder: T::holder(source, told), is_queued: T::IS_QUEUED });
            }
        };
        let alarm = alarm.as_mut().map(|alarm| alarm as &mut dyn Interrupt);
        T::obtain(asked, &mut WaitPolicy { timeout, alarm, tell: Some(&mut tell) })
    }
}

impl<T: Acquire<Error = LockError>> Request<'_, T> {
    /// Sets the reason that is shown to refused callers.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.asked.reason = Some(reason.into());
        self
    }
}

impl<T: Acquire> fmt::Debug for Request<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { names, ttl, reason, .. } = &self.asked;
        let mut shown = f.debug_struct("Request");
        shown.field("names", names).field("ttl", ttl).field("reason", reason).finish_non_exhaustive()
    }
}

/// Validates a name before anything is touched.
pub(crate) fn checked(name: &str) -> Result<LockName, LockError> {
    LockName::new(name).map_err(|why| LockError::BadName { name: name.to_owned(), why })
}

/// Rounds up to whole seconds. Zero means no lease.
pub(crate) fn lock_ttl(ttl: Option<Duration>) -> Option<u64> {
    ttl.map(lokt_core::duration::whole_seconds).filter(|ttl_sec| *ttl_sec > 0)
}

/// The state of a wait, as reported to [`Request::on_wait`].
#[derive(Debug)]
pub struct Waiting<'a> {
    told: &'a Told<'a>,
    holder: Option<Holder>,
    is_queued: bool,
}

impl Waiting<'_> {
    /// The name of the lock or worktree, or the task. If several were requested, one that blocks
    /// the request.
    pub fn name(&self) -> &str {
        self.told.name
    }

    /// The holder, if its record can be read.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The number of requests that are ahead in the queue; `None` for a claim or a lease, whose
    /// waiters have no order.
    pub fn ahead(&self) -> Option<usize> {
        self.is_queued.then_some(self.told.ahead)
    }

    /// The time waited so far.
    pub fn waited(&self) -> Duration {
        self.told.waited
    }

    /// The time left until the timeout; `None` if there is no timeout.
    pub fn left(&self) -> Option<Duration> {
        self.told.left
    }
}

/// The result of a [`Request`]: [`Held`], several of them, [`Locked`], `Claimed` or `Leased`. Other
/// types cannot implement this trait.
pub trait Acquire: sealed::Obtain<<Self as Acquire>::Error> {
    /// The reason why it was not acquired.
    type Error: std::error::Error + From<Error> + sealed::Cancellable;
}

pub(crate) mod sealed {
    use std::time::Duration;

    use super::{Holder, Told, WaitPolicy};

    /// The content of a request.
    pub struct Asked<'a, S> {
        pub source: &'a S,
        pub names: Vec<String>,
        pub ttl: Option<Duration>,
        pub reason: Option<String>,
    }

    pub trait Obtain<E>: Sized {
        /// The object from which it is acquired.
        type Source: 'static;
        /// True if waiters are served in the order of their requests.
        const IS_QUEUED: bool;

        fn obtain(asked: Asked<'_, Self::Source>, policy: &mut WaitPolicy<'_>) -> Result<Self, E>;

        /// The holder that blocks the wait, for display.
        fn holder(_source: &Self::Source, told: &Told<'_>) -> Option<Holder> {
            told.denial.holder().cloned().map(Holder::of)
        }
    }

    /// An error that can represent a cancelled wait.
    pub trait Cancellable {
        fn cancelled() -> Self;
    }
}

impl sealed::Cancellable for LockError {
    fn cancelled() -> Self {
        Self::Cancelled
    }
}

impl Asked<'_, lokt_named::Lokt> {
    fn locks(&self) -> Result<Vec<LockName>, LockError> {
        self.names.iter().map(|name| checked(name)).collect()
    }

    fn terms(&self) -> Terms {
        Terms { ttl_sec: lock_ttl(self.ttl), reason: self.reason.clone() }
    }
}

impl Acquire for Vec<Held> {
    type Error = LockError;
}

impl sealed::Obtain<LockError> for Vec<Held> {
    type Source = lokt_named::Lokt;
    const IS_QUEUED: bool = true;

    fn obtain(asked: Asked<'_, Self::Source>, policy: &mut WaitPolicy<'_>) -> Result<Self, LockError> {
        let (lokt, names, terms) = (asked.source, asked.locks()?, asked.terms());
        let ttl = terms.ttl_sec.map(Duration::from_secs);
        let answer = lokt.hold(&names, &terms, policy).map_err(LockError::failed)?;
        let mut warnings = answer.warnings;
        match answer.value {
            Holding::Held(held) => {
                let wrap = |held| Held::of(held, lokt, ttl, std::mem::take(&mut warnings));
                Ok(held.into_iter().map(wrap).collect())
            }
            Holding::Denied { name, refusal } => Err(LockError::Denied(Denial::of(name, refusal))),
            Holding::Interrupted => Err(LockError::Cancelled),
        }
    }
}

impl Acquire for Held {
    type Error = LockError;
}

impl sealed::Obtain<LockError> for Held {
    type Source = lokt_named::Lokt;
    const IS_QUEUED: bool = true;

    fn obtain(asked: Asked<'_, Self::Source>, policy: &mut WaitPolicy<'_>) -> Result<Self, LockError> {
        let held: Vec<Self> = sealed::Obtain::obtain(asked, policy)?;
        Ok(held.into_iter().next().expect("one name was asked for"))
    }
}

impl Acquire for Locked {
    type Error = LockError;
}

impl sealed::Obtain<LockError> for Locked {
    type Source = lokt_named::Lokt;
    const IS_QUEUED: bool = true;

    fn obtain(asked: Asked<'_, Self::Source>, policy: &mut WaitPolicy<'_>) -> Result<Self, LockError> {
        let name = asked.locks()?.into_iter().next().expect("one name was asked for");
        let alone = InheritedHolds::default();
        let answer = asked.source.take_in_line(&name, asked.terms(), &alone, policy);
        let answer = answer.map_err(LockError::failed)?;
        match answer.value {
            Grant::Granted(granted) => Ok(Self::of(name, *granted, answer.warnings)),
            Grant::Denied(refusal) => Err(LockError::Denied(Denial::of(name, refusal))),
            Grant::Interrupted => Err(LockError::Cancelled),
        }
    }
}
