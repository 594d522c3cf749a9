//! A ledger: an append-only log of events that several programs share, and claims on tasks.
//!
//! A [`Ledger`] is a directory with one file for each event. Events are numbered from 1, and are
//! durable when [`append`](Ledger::append) returns. [`transact`](Ledger::transact) appends only if
//! the state that was read is still current. [`claim`](Ledger::claim) gives a task to one program,
//! with a fencing token; [`claims`](Ledger::claims) lists the tasks that are held.
//! [`follow`](Ledger::follow) returns events as they are appended.
//!
//! ```
//! use lokt::ledger::Ledger;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let ledger = Ledger::create(dir)?;
//! ledger.append("task_added", r#"{"task":"1.2"}"#)?;
//! for event in ledger.read(1) {
//!     let event = event?;
//!     assert_eq!((event.seq(), event.kind()), (1, "task_added"));
//!     assert_eq!(event.body(), r#"{"task":"1.2"}"#);
//! }
//!
//! let claimed = ledger.claim("1.2").try_acquire()?;
//! ledger.batch().event("task_done", r#"{"task":"1.2"}"#)?.under(&claimed).append()?;
//! claimed.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Limitations
//!
//! Other programs may write to the same directory using the documented protocol. Conditions and
//! tokens bind only programs that append through lokt.

mod append;
mod claim;
mod claim_error;
mod claims;
mod event;
mod follow;
mod transact;
mod verify;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use lokt_ledger::{InitOptions, LockPatience};
use lokt_sys::error::ErrorKind;
use lokt_sys::machine::{default_owner, identity};

pub use append::{AppendError, Appended, Batch};
pub use claim::Claimed;
pub use claim_error::ClaimError;
pub use claims::Claim;
pub use event::{Event, Events, NewEvent};
pub use follow::Follow;
pub use transact::View;
pub use verify::{Problem, Verification};

use crate::{Error, Request};

/// A ledger in a directory. Clones refer to the same ledger.
#[derive(Clone)]
pub struct Ledger {
    inner: lokt_ledger::Ledger,
}

impl Ledger {
    /// Opens the ledger that belongs to `dir`: its events are in `dir/ledger`.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no ledger.
    ///
    /// ```
    /// use lokt::ErrorKind;
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let missing = Ledger::open(dir).expect_err("there is none yet");
    /// assert_eq!(missing.kind(), ErrorKind::NotFound);
    ///
    /// Ledger::create(dir)?;
    /// assert_eq!(Ledger::open(dir)?.head()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let found = lokt_ledger::Ledger::existing(dir, identity(default_owner(), None))?;
        let inner = found.ok_or_else(|| {
            Error::new(ErrorKind::Missing, format!("there is no ledger in {}", dir.display()))
                .with_hint("`Ledger::create` or `lokt ledger init` makes one")
        })?;
        Ok(Self { inner })
    }

    /// Creates the ledger that belongs to `dir`, as `lokt ledger init` does. If there already is
    /// one, opens it.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be written to or contains something else in place of a ledger.
    ///
    /// ```
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create(dir.path())?;
    /// assert_eq!(ledger.path(), dir.path().join("ledger"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::init(dir.as_ref(), InitOptions::default())
    }

    /// Creates a ledger in which each event carries a digest of all earlier events. An existing
    /// ledger is chained from its next event on.
    ///
    /// # Errors
    ///
    /// Same as [`create`](Self::create).
    ///
    /// ```
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create_chained(dir.path())?;
    /// ledger.append("paid", r#"{"amount":12.50}"#)?;
    /// assert!(ledger.read(1).next().expect("there is one event")?.body().contains("chain"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_chained(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::init(dir.as_ref(), InitOptions { chain: true, ..InitOptions::default() })
    }

    fn init(dir: &Path, options: InitOptions) -> Result<Self, Error> {
        let (inner, _) = lokt_ledger::Ledger::init(dir, options, identity(default_owner(), None))?;
        Ok(Self { inner })
    }

    /// Returns a handle to the same ledger with another owner of claims; the default is the login
    /// name.
    ///
    /// ```
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create(dir.path())?.owner("alice");
    /// let claimed = ledger.claim("1.2").try_acquire()?;
    /// assert_eq!(ledger.holder("1.2")?.expect("it is claimed").owner(), "alice");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { inner: self.inner.acting_as(identity(owner.into(), None)) }
    }

    /// Returns a handle to the same ledger with another limit on the wait for a program that writes
    /// to it; the default is five seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create(dir.path())?.lock_timeout(Duration::from_secs(30));
    /// ledger.append("note", "{}")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock_timeout(self, timeout: Duration) -> Self {
        Self { inner: self.inner.patient(LockPatience { timeout, ..LockPatience::default() }) }
    }

    /// Returns the directory of events.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// assert!(ledger.path().is_dir());
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &Path {
        self.inner.path()
    }

    /// Returns the number of the last event; 0 for an empty ledger.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// ledger.append("note", "{}")?;
    /// assert_eq!(ledger.head()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn head(&self) -> Result<u64, Error> {
        Ok(self.inner.head()?.value)
    }

    /// Returns the events from number `from` up to the head, in order.
    ///
    /// A missing or damaged event is an error of the kind
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged); the iterator continues after it. Events
    /// that are appended during the iteration are also returned.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// ledger.append("opened", "{}")?;
    /// ledger.append("closed", "{}")?;
    /// for event in ledger.read(2) {
    ///     assert_eq!(event?.kind(), "closed");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self, from: u64) -> Events<'_> {
        Events::new(&self.inner, from, u64::MAX)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("path", &self.path()).finish_non_exhaustive()
    }
}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    const fn is_send<T: Send>() {}
    is_send_and_sync::<Ledger>();
    is_send_and_sync::<Event>();
    is_send_and_sync::<NewEvent>();
    is_send_and_sync::<Batch<'_>>();
    is_send_and_sync::<Claimed>();
    is_send_and_sync::<Claim>();
    is_send::<Follow>();
    is_send::<Request<'_, Claimed>>();
    is_send_and_sync::<AppendError>();
    is_send_and_sync::<ClaimError>();
    is_send_and_sync::<Verification>();
};
