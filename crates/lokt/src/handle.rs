//! A root directory of locks and the operations on it.

use std::fmt;
use std::path::Path;

use lokt_core::decide::{Breaking, Condition};
use lokt_core::denial::Denial as Why;
use lokt_core::name::LockName;
use lokt_named::{End, EntryState, Fenced, Refusal, Surroundings};

use lokt_sys::error as sys;
use lokt_sys::files::try_resolve;

use crate::request::checked;
use crate::{Denial, Error, FreezeRequest, Held, Holder, LockError, LockStatus, Locked, Request, Token};

/// A directory of locks, and the owner that uses it. Clones share the directory and the owner.
///
/// The methods match the commands: [`guard`](Self::guard) holds a lock for this program,
/// [`lock`](Self::lock) for its owner.
///
/// ```
/// use lokt::Lokt;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let lokt = Lokt::open(dir.path().join("locks"))?;
/// let held = lokt.guard("build").try_acquire()?;
/// lokt.lock("release").try_acquire()?;
/// lokt.freeze("deploy").reason("incident").apply()?;
/// assert!(lokt.frozen("deploy")?.is_some());
/// lokt.unfreeze("deploy")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lokt(lokt_named::Lokt);

impl Lokt {
    /// Opens the directory of locks at `root`, creating it if it is missing. The owner is the login
    /// name of this process.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// assert!(lokt.status()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The directory can't be created or read, is not a directory, or its file system can't keep
    /// locks.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        lokt_named::Lokt::open(root).map(Self).map_err(Error::from)
    }

    /// Opens the directory of locks that the command uses in `dir`: that of the enclosing git
    /// repository, or a `.lokt` directory. It is created if it is missing. The environment is not
    /// read; to use `LOKT_ROOT`, read it and call [`open`](Self::open).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let lokt = lokt::Lokt::discover(dir.path())?;
    /// assert!(lokt.root().ends_with(".lokt"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn discover(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let real = try_resolve(dir).map_err(|source| Error::from(sys::Error::io("open", dir, source)))?;
        let found = Surroundings { cwd: real, ..Surroundings::default() }.find_root().map_err(Error::from)?;
        Self::open(found.path)
    }

    /// Returns a handle to the same directory for another owner. Owners are compared as text. Equal
    /// owners share [`lock`](Self::lock)s; guards exclude each other even if they have the same
    /// owner.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let root = dir.path().join("locks");
    /// let lokt = lokt::Lokt::open(root)?.owner("ci");
    /// lokt.lock("release").try_acquire()?;
    /// assert_eq!(lokt.holder("release")?.expect("it is held").owner(), "ci");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self(self.0.owner(owner))
    }

    /// The root directory of the locks.
    pub fn root(&self) -> &Path {
        self.0.root()
    }

    /// Requests the lock `name` as `lokt guard` does: it is held until the [`Held`] is dropped or
    /// the process ends. Two requests exclude each other, even in two threads of one program.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// let held = lokt.guard("build").ttl(Duration::from_secs(300)).acquire()?;
    /// println!("building with token {}", held.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn guard(&self, name: impl AsRef<str>) -> Request<'_, Held> {
        Request::new(&self.0, vec![name.as_ref().to_owned()])
    }

    /// Requests the locks `names`, all or nothing. They are returned in byte order, without
    /// duplicates. All programs acquire in that order, so two programs never wait for each other.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// let held = lokt.guard_all(["search", "database"]).try_acquire()?;
    /// assert_eq!(held[0].name(), "database");
    /// # Ok(())
    /// # }
    /// ```
    pub fn guard_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Request<'_, Vec<Held>> {
        Request::new(&self.0, names.into_iter().map(|name| name.as_ref().to_owned()).collect())
    }

    /// Acquires all of `names`, waiting as long as necessary: short for
    /// [`guard_all`](Self::guard_all) and [`acquire`](Request::acquire).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// let held = lokt.acquire_all(["database", "search"])?;
    /// assert_eq!(held.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Request::acquire`].
    pub fn acquire_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<Held>, LockError> {
        self.guard_all(names).acquire()
    }

    /// Requests the lock `name` as `lokt lock` does: the owner holds it until
    /// [`unlock`](Self::unlock) or until its lease expires, even after this program has exited. An
    /// owner that already holds it acquires it again, with a new lease.
    pub fn lock(&self, name: impl AsRef<str>) -> Request<'_, Locked> {
        Request::new(&self.0, vec![name.as_ref().to_owned()])
    }

    /// Releases the owner's lock `name`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// lokt.lock("release").try_acquire()?;
    /// lokt.unlock("release")?;
    /// assert!(lokt.unlock("release").is_err(), "there is nothing to unlock any more");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Denied`]: it isn't held, or it belongs to another owner or a running guard.
    pub fn unlock(&self, name: impl AsRef<str>) -> Result<(), LockError> {
        self.end(name.as_ref(), Breaking::No, Condition::default())
    }

    /// Releases the owner's lock `name` only if its token is `token`, so that a late unlock can't
    /// release a newer hold.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// let token = lokt.lock("release").try_acquire()?.token();
    /// lokt.unlock_token("release", token)?;
    /// lokt.lock("release").try_acquire()?;
    /// assert!(lokt.unlock_token("release", token).is_err(), "that is another hold");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`unlock`](Self::unlock); also if the hold has another token.
    pub fn unlock_token(&self, name: impl AsRef<str>, token: Token) -> Result<(), LockError> {
        self.end(name.as_ref(), Breaking::No, Condition { token: Some(token.get()), ..Condition::default() })
    }

    /// Removes the hold of `name`, of any owner, if its lease has expired or its process is gone.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// lokt.lock("release").try_acquire()?;
    /// assert!(lokt.break_stale("release").is_err(), "it is live");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Denied`]: the hold is live, or there is none.
    pub fn break_stale(&self, name: impl AsRef<str>) -> Result<(), LockError> {
        self.end(name.as_ref(), Breaking::Stale, Condition::default())
    }

    /// Removes the hold of `name`, of any owner, live or not. Its holder notices: see
    /// [`Held::losses`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// lokt.clone().owner("bob").lock("release").try_acquire()?;
    /// lokt.force_unlock("release")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Denied`]: it isn't held.
    pub fn force_unlock(&self, name: impl AsRef<str>) -> Result<(), LockError> {
        self.end(name.as_ref(), Breaking::Force, Condition::default())
    }

    fn end(&self, name: &str, breaking: Breaking, condition: Condition) -> Result<(), LockError> {
        let name = checked(name)?;
        let ended = self.0.unlock(&name, breaking, condition).map_err(LockError::failed)?;
        ended_of(name, ended.value)
    }

    /// Returns the current holder of `name`; `None` if it is free.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// assert!(lokt.holder("build")?.is_none());
    /// let held = lokt.guard("build").try_acquire()?;
    /// assert_eq!(lokt.holder("build")?.and_then(|holder| holder.pid()), Some(std::process::id()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The name is not a valid lock name, or its record can't be read.
    pub fn holder(&self, name: impl AsRef<str>) -> Result<Option<Holder>, LockError> {
        let name = checked(name.as_ref())?;
        let entry = self.0.inspect().entry(&name).map_err(LockError::failed)?;
        match entry.map(|entry| entry.state) {
            None => Ok(None),
            Some(EntryState::Held(holder)) => Ok(Some(Holder::of(*holder)).filter(Holder::is_live)),
            Some(EntryState::Corrupt(why)) => Err(denied(name, Why::Corrupt { why })),
            Some(EntryState::BeingWritten) => Err(denied(name, Why::BeingWritten)),
            Some(EntryState::Newer(version)) => Err(denied(name, Why::Newer { version })),
            Some(EntryState::Unreadable(error)) => Err(LockError::failed(error)),
        }
    }

    /// Returns all stored locks and freezes, live or not, as `lokt status` lists them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// let held = lokt.guard("build").try_acquire()?;
    /// for lock in lokt.status()? {
    ///     println!("{}: {:?}, {} waiting", lock.name(), lock.state(), lock.waiters());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The directory can't be listed.
    pub fn status(&self) -> Result<Vec<LockStatus>, Error> {
        self.0.inspect().map_entries(LockStatus::of).map_err(Error::from)
    }

    /// Requests a freeze of `name`: no request for it is granted until
    /// [`unfreeze`](Self::unfreeze), or until the freeze expires. An existing hold continues. The
    /// owner of a freeze can change its end by freezing the name again.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// lokt.freeze("deploy").ttl(Duration::from_secs(3600)).reason("incident").apply()?;
    /// assert!(lokt.guard("deploy").try_acquire().is_err());
    /// lokt.unfreeze("deploy")?;
    /// assert!(lokt.guard("deploy").try_acquire().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn freeze(&self, name: impl AsRef<str>) -> FreezeRequest<'_> {
        FreezeRequest::new(&self.0, name.as_ref().to_owned())
    }

    /// Ends the owner's freeze of `name`.
    ///
    /// # Errors
    /// [`LockError::Denied`]: it isn't frozen, or another owner froze it.
    pub fn unfreeze(&self, name: impl AsRef<str>) -> Result<(), LockError> {
        let name = checked(name.as_ref())?;
        let ended = self.0.freezes().unfreeze(&name, false).map_err(LockError::failed)?;
        ended_of(name, ended.value)
    }

    /// Returns the holder of the freeze of `name`; `None` if it isn't frozen.
    ///
    /// # Errors
    /// [`LockError::Denied`]: it is frozen, but the freeze can't be read.
    pub fn frozen(&self, name: impl AsRef<str>) -> Result<Option<Holder>, LockError> {
        let name = checked(name.as_ref())?;
        match self.0.freezes().frozen(&name) {
            None => Ok(None),
            Some(Ok(holder)) => Ok(Some(Holder::of(*holder))),
            Some(Err(why)) => Err(denied(name, Why::Corrupt { why })),
        }
    }

    /// Checks that `token` belongs to the live hold of `name`, as `lokt fence check` does. Returns
    /// the holder.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
    /// let held = lokt.guard("build").try_acquire()?;
    /// assert_eq!(lokt.check_token("build", held.token())?.lock_id(), held.lock_id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Denied`]: the hold has ended, or a newer one was granted.
    pub fn check_token(&self, name: impl AsRef<str>, token: Token) -> Result<Holder, LockError> {
        let name = checked(name.as_ref())?;
        match self.0.check_token(&name, token.get()).map_err(LockError::failed)? {
            Fenced::Current(holder) => Ok(Holder::of(*holder)),
            Fenced::Denied(refusal) => Err(LockError::Denied(Denial::of(name, refusal))),
        }
    }
}

fn ended_of(name: LockName, end: End) -> Result<(), LockError> {
    match end {
        End::Ended(_) => Ok(()),
        End::Denied(refusal) => Err(LockError::Denied(Denial::of(name, refusal))),
    }
}

fn denied(name: LockName, denial: Why) -> LockError {
    LockError::Denied(Denial::of(name, Refusal { denial, waiters: 0, waited: None }))
}

impl fmt::Debug for Lokt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lokt").field("root", &self.root()).field("owner", &self.0.me().owner).finish_non_exhaustive()
    }
}
