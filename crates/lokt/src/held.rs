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

/// A lock that this program holds, as `lokt guard` does for a command. It is renewed while it lives and released when it is dropped.
///
/// It ends with the process too, however that ends. In a forked child it is the parent's: dropping it there does nothing.
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

    /// The fencing token: hand it to each service that must refuse a stale holder.
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

    /// When it was acquired, by the wall clock.
    pub fn since(&self) -> Option<SystemTime> {
        self.held.hold().began().map(system_time)
    }

    /// Its lease: how long it outlives the last renewal.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// What the caller should know although it worked. Of several locks that were acquired together, the first has all warnings.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Looks whether it is still held. What can't be looked at is not lost.
    ///
    /// # Errors
    /// [`Lost`]: its record was removed, or another holder has it.
    pub fn check(&self) -> Result<(), Lost> {
        self.held.check().map_err(Lost::of)
    }

    /// Tells when it is lost, within about a second.
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

    /// Puts a copy of `source` in the place of `target` in one step, if this hold is still the current one. The check and the rename
    /// happen where locks are granted, so no later holder can come between. Returns the number of bytes.
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
    /// [`LockError::Denied`]: the hold is over or was overtaken, and `target` is as it was. [`LockError::Failed`]: a file can't be
    /// read or written.
    pub fn publish(&self, source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<u64, LockError> {
        let hold = self.held.hold();
        let presented = Presented { token: self.token().get(), lock_id: Some(hold.lock_id.clone()) };
        let published = self.lokt.publish(self.held.name(), presented, source.as_ref(), target.as_ref());
        match published.map_err(LockError::failed)?.value {
            Publishing::Published { bytes, .. } => Ok(bytes),
            Publishing::Denied(refusal) => Err(LockError::Denied(Denial::of(self.held.name().clone(), refusal))),
        }
    }

    /// Releases it, and says whether it was held to the end. Dropping it releases it too, and says nothing.
    ///
    /// # Errors
    /// [`ReleaseError::Lost`]: it was lost before. [`ReleaseError::Failed`]: its record could not be removed; it counts as over.
    pub fn release(self) -> Result<(), ReleaseError> {
        self.held.release().map_err(|not| match not {
            NotReleased::Lost(lost) => ReleaseError::Lost(Lost::of(lost)),
            NotReleased::Failed(why) => ReleaseError::Failed(Error::new(sys::ErrorKind::Io, why)),
        })
    }
}

/// Tells the loss of a lock: made by [`Held::losses`], used like a receiver of [`std::sync::mpsc`]. It is disconnected when the lock
/// was released without having been lost.
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

    /// Waits for the loss, for a while.
    ///
    /// # Errors
    /// The time is over, or the lock was released.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Lost, RecvTimeoutError> {
        self.0.recv_timeout(timeout).map(Lost::of)
    }

    /// Looks whether the loss was told.
    ///
    /// # Errors
    /// Nothing was told yet, or the lock was released.
    pub fn try_recv(&self) -> Result<Lost, TryRecvError> {
        self.0.try_recv().map(Lost::of)
    }
}

/// A lock was lost: its record was removed, or another holder has it.
#[derive(Debug, Clone)]
pub struct Lost {
    holder: Option<Holder>,
}

impl Lost {
    fn of(lost: lokt_named::Lost) -> Self {
        Self { holder: lost.holder.map(|holder| Holder::of(*holder)) }
    }

    /// Who has it now, if anyone has.
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

/// Why a lock was not released.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReleaseError {
    /// It was no longer held.
    Lost(Lost),
    /// Its record could not be removed. Without its process it counts as over.
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
