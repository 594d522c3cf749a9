//! A lock that the program holds.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use std::time::{Duration, SystemTime};

use lokt_core::decide::Presented;
use lokt_named::{NotReleased, Publishing};
use lokt_sys::error as sys;
use lokt_sys::machine::system_time;

use crate::{Denial, Error, Holder, LockError, Token, Warning};

/// A lock that this program holds, as `lokt guard` does for a command. It is renewed while this
/// value lives, and released when it is dropped.
///
/// The hold also ends with the process, however that exits. In a forked child it still belongs to
/// the parent: dropping it there does nothing.
///
/// ```
/// use lokt::Lokt;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let lokt = Lokt::open(dir.path().join("root"))?;
/// let held = lokt.guard("deploy").try_acquire()?;
/// assert!(held.check().is_ok());
///
/// // Another login breaks the glass.
/// lokt.clone().owner("bob").force_unlock("deploy")?;
/// assert!(held.check().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Held {
    held: lokt_named::Held,
    lokt: lokt_named::Lokt,
    ttl: Option<Duration>,
    warnings: Vec<Warning>,
}

impl Held {
    pub(crate) fn of(
        held: lokt_named::Held,
        lokt: &lokt_named::Lokt,
        ttl: Option<Duration>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self { held, lokt: lokt.clone(), ttl, warnings }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.held.name().as_str()
    }

    /// The fencing token: pass it to each service that must refuse a stale holder.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("root"))?;
    /// let first = lokt.guard("build").try_acquire()?.token();
    /// let second = lokt.guard("build").try_acquire()?.token();
    /// assert!(first < second);
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> Token {
        Token::of(self.held.token())
    }

    /// The identity of this hold; no two holds share one.
    pub fn lock_id(&self) -> &str {
        self.held.hold().lock_id.as_str()
    }

    /// The time of the acquisition, by the wall clock.
    pub fn since(&self) -> Option<SystemTime> {
        self.held.hold().began().map(system_time)
    }

    /// The lease: how long the hold lasts after its last renewal.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Warnings of the successful acquisition. If several locks were acquired together, the first
    /// one has all warnings.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Checks whether the lock is still held. A record that can't be read is not a loss.
    ///
    /// # Errors
    /// [`Lost`]: its record was removed, or another holder has it.
    pub fn check(&self) -> Result<(), Lost> {
        self.held.check().map_err(Lost::of)
    }

    /// Returns a receiver that reports the loss of the lock within about a second.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("root"))?;
    /// let mut held = lokt.guard("deploy").try_acquire()?;
    /// let losses = held.losses();
    /// lokt.clone().owner("bob").force_unlock("deploy")?;
    /// assert!(losses.recv_timeout(Duration::from_secs(60)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn losses(&mut self) -> Losses {
        Losses(self.held.losses())
    }

    /// Atomically replaces `target` with a copy of `source`, if this hold is still the current one.
    /// The check and the rename happen under the mutex under which locks are granted, so no later
    /// holder can intervene. Returns the number of bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("root"))?;
    /// # let (draft, page) = (dir.path().join("draft"), dir.path().join("page"));
    /// std::fs::write(&draft, "new")?;
    /// let held = lokt.guard("page").try_acquire()?;
    /// held.publish(&draft, &page)?;
    /// assert_eq!(std::fs::read_to_string(&page)?, "new");
    ///
    /// // A holder that was overtaken changes nothing.
    /// lokt.clone().owner("bob").force_unlock("page")?;
    /// std::fs::write(&draft, "late")?;
    /// assert!(held.publish(&draft, &page).is_err());
    /// assert_eq!(std::fs::read_to_string(&page)?, "new");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Denied`]: the hold has ended or a newer one was granted; `target` is unchanged.
    /// [`LockError::Failed`]: a file can't be read or written.
    pub fn publish(&self, source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<u64, LockError> {
        let hold = self.held.hold();
        let presented = Presented { token: self.token().get(), lock_id: Some(hold.lock_id.clone()) };
        let published = self.lokt.publish(self.held.name(), presented, source.as_ref(), target.as_ref());
        match published.map_err(LockError::failed)?.value {
            Publishing::Published { bytes, .. } => Ok(bytes),
            Publishing::Denied(refusal) => Err(LockError::Denied(Denial::of(self.held.name().clone(), refusal))),
        }
    }

    /// Releases the lock, and reports whether it was held to the end. Dropping it also releases it,
    /// but reports nothing.
    ///
    /// # Errors
    /// [`ReleaseError::Lost`]: it was lost before. [`ReleaseError::Failed`]: its record could not
    /// be removed; the hold counts as ended.
    pub fn release(self) -> Result<(), ReleaseError> {
        self.held.release().map_err(|not| match not {
            NotReleased::Lost(lost) => ReleaseError::Lost(Lost::of(lost)),
            NotReleased::Failed(why) => ReleaseError::Failed(Error::new(sys::ErrorKind::Io, why)),
        })
    }
}

/// A receiver for the loss of a lock. Made by [`Held::losses`] and used like a receiver of
/// [`std::sync::mpsc`]. It is disconnected when the lock is released without having been lost.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let lokt = lokt::Lokt::open(dir.path().join("root"))?;
/// let mut held = lokt.guard("deploy").try_acquire()?;
/// let losses = held.losses();
/// assert!(losses.try_recv().is_err(), "it is not lost yet");
/// held.release()?;
/// assert!(losses.recv().is_err(), "and now it can't be any more");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Losses(Receiver<lokt_named::Lost>);

impl Losses {
    /// Waits for the loss.
    ///
    /// # Errors
    /// The lock was released, and was not lost before.
    pub fn recv(&self) -> Result<Lost, RecvError> {
        self.0.recv().map(Lost::of)
    }

    /// Waits for the loss, at most `timeout`.
    ///
    /// # Errors
    /// The timeout has elapsed, or the lock was released.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Lost, RecvTimeoutError> {
        self.0.recv_timeout(timeout).map(Lost::of)
    }

    /// Checks without waiting whether the loss was reported.
    ///
    /// # Errors
    /// No loss was reported yet, or the lock was released.
    pub fn try_recv(&self) -> Result<Lost, TryRecvError> {
        self.0.try_recv().map(Lost::of)
    }
}

/// The loss of a lock: its record was removed, or another holder has it.
#[derive(Debug, Clone)]
pub struct Lost {
    holder: Option<Holder>,
}

impl Lost {
    fn of(lost: lokt_named::Lost) -> Self {
        Self { holder: lost.holder.map(|holder| Holder::of(*holder)) }
    }

    /// The current holder, if there is one.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => write!(f, "the lock was lost to {holder}"),
            None => f.write_str("the lock was lost: its record is gone"),
        }
    }
}

impl StdError for Lost {}

/// The reason why a lock was not released.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock was no longer held.
    Lost(Lost),
    /// The record could not be removed. Without its process, the hold counts as ended.
    Failed(Error),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(_) => f.write_str("the lock was lost before it was released"),
            Self::Failed(_) => f.write_str("the record of the lock could not be removed"),
        }
    }
}

impl StdError for ReleaseError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(lost) => Some(lost),
            Self::Failed(error) => Some(error),
        }
    }
}
