//! A lock in a program: held until it is dropped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::badges::Badges;
use lokt_core::decide::Terms;
use lokt_core::denial::Holder;
use lokt_core::guard::Outcome;
use lokt_core::hold::{Fence, Hold};
use lokt_core::name::{BadName, LockName};

use crate::error::Error;
use crate::grasp::{Grasp, Grasped, Proof};
use crate::locks::{Lokt, Refusal};
use crate::minder::Minder;
use crate::sys::news::News;
use crate::sys::threads::mpsc::Receiver;
use crate::wait::{Patience, Timeout};

/// A lock that is asked for. Made by [`Lokt::lock`].
pub struct Request<'a> {
    lokt: &'a Lokt,
    name: String,
    terms: Terms,
    timeout: Timeout,
}

/// Why a lock wasn't acquired.
#[derive(Debug)]
pub enum NotAcquired {
    /// It was refused: an answer, not an accident.
    Denied(Refusal),
    /// Something went wrong.
    Failed(Error),
    /// There can be no lock of that name.
    BadName(BadName),
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(refusal) => match refusal.denial.holder() {
                Some(holder) => write!(f, "held by {}@{}", holder.hold.owner, holder.hold.host),
                None => write!(f, "refused ({})", refusal.denial.code()),
            },
            Self::Failed(error) => error.fmt(f),
            Self::BadName(bad) => write!(f, "invalid lock name: {bad}"),
        }
    }
}

impl std::error::Error for NotAcquired {}

impl From<Error> for NotAcquired {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Lokt {
    /// Asks for the lock `name`, as `lokt guard` does: for as long as this process, or the [`Held`], lives.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lokt::{Lokt, NotAcquired};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let root = dir.path().join("root");
    /// let lokt = Lokt::open(&root)?;
    /// let held = lokt.lock("build").ttl(Duration::from_secs(300)).wait(Duration::from_secs(60)).acquire()?;
    /// println!("writing with token {}", held.token());
    ///
    /// // Two threads exclude each other, too.
    /// let second = std::thread::spawn({
    ///     let lokt = lokt.clone();
    ///     move || matches!(lokt.lock("build").acquire(), Err(NotAcquired::Denied(_)))
    /// });
    /// assert!(second.join().expect("it doesn't panic"));
    ///
    /// drop(held);
    /// assert!(lokt.lock("build").acquire().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: impl Into<String>) -> Request<'_> {
        Request { lokt: self, name: name.into(), terms: Terms::default(), timeout: Timeout::Once }
    }
}

impl Request<'_> {
    /// A lease: it is renewed by itself while it is held, and ends this long after the process stopped renewing it. Rounded up to
    /// seconds.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl_sec = Some(lokt_core::duration::whole_seconds(ttl)).filter(|ttl_sec| *ttl_sec > 0);
        self
    }

    /// Waits in line for it: a [`Duration`] is at most this long, [`Timeout::Never`] as long as it takes.
    #[must_use]
    pub fn wait(mut self, timeout: impl Into<Timeout>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Says why; shown to everyone who is refused.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.terms.reason = Some(reason.into());
        self
    }

    /// Acquires it.
    pub fn acquire(self) -> Result<Held, NotAcquired> {
        let name = LockName::new(&self.name).map_err(NotAcquired::BadName)?;
        let mut patience = Patience { timeout: self.timeout, ..Patience::none() };
        let grasped = self.lokt.grasp(&[name], &self.terms, &Badges::default(), &mut patience)?;
        match grasped.value {
            Grasped::Denied { refusal, .. } => Err(NotAcquired::Denied(refusal)),
            Grasped::Interrupted => unreachable!("nothing can interrupt it"),
            Grasped::All { mut grasps, .. } => {
                let grasp = grasps.pop().expect("one was asked for, and nothing is inside of another");
                Ok(Held::new(grasp, self.terms.ttl_sec))
            }
        }
    }
}

/// A lock was lost: its record was deleted, or somebody else was granted it.
#[derive(Debug, Clone)]
pub struct Lost {
    /// Who has it now.
    pub holder: Option<Box<Holder>>,
}

/// A lock that is held. It is renewed while it lives and released when it is dropped; dropping it in a forked child does nothing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let lokt = lokt::Lokt::open(dir.path().join("root"))?;
/// let held = lokt.lock("deploy").acquire()?;
/// assert!(held.check().is_ok(), "nobody took it away");
///
/// // Somebody breaks the glass.
/// let deploy = lokt::LockName::new("deploy").map_err(|bad| bad.to_string())?;
/// lokt.unlock(&deploy, lokt::Breaking::Force, lokt::Condition::default())?;
/// assert!(held.check().is_err());
/// # Ok(())
/// # }
/// ```
pub struct Held {
    grasp: Option<Grasp>,
    proof: Proof,
    hold: Hold,
    maker: u32,
    loss: Arc<News<Lost>>,
    minder: Option<Minder>,
    ttl_sec: Option<u64>,
}

impl Held {
    fn new(grasp: Grasp, ttl_sec: Option<u64>) -> Self {
        let (proof, hold) = (grasp.proof(), grasp.hold.clone());
        let mut held = Self {
            grasp: Some(grasp),
            proof,
            hold,
            maker: std::process::id(),
            loss: Arc::default(),
            minder: None,
            ttl_sec,
        };
        if ttl_sec.is_some() {
            held.start_minder();
        }
        held
    }

    /// The fencing token: hand it to whatever must refuse a stale holder.
    pub fn token(&self) -> u64 {
        self.hold.token.map(Fence::get).unwrap_or_default()
    }

    /// The hold as it was granted.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Looks whether it is still held. What can't be looked at is not lost.
    pub fn check(&self) -> Result<(), Lost> {
        if let Some(lost) = self.loss.known() {
            return Err(lost);
        }
        match self.proof.look() {
            Outcome::Lost(holder) => Err(self.loss.tell(Lost { holder })),
            Outcome::Kept { .. } | Outcome::Failed(_) => Ok(()),
        }
    }

    /// Is told when it is lost, within about a second.
    pub fn losses(&mut self) -> Receiver<Lost> {
        if self.minder.is_none() {
            self.start_minder();
        }
        self.loss.listen()
    }

    /// Renews the lease now, as is done by itself half-way through it. For tests that don't wait so long.
    #[doc(hidden)]
    pub fn renew(&self) -> Outcome {
        self.proof.renew().value
    }

    /// Gives it back, and says whether it was held to the end.
    pub fn release(mut self) -> Result<(), NotReleased> {
        self.end()
    }

    fn start_minder(&mut self) {
        let Some(grasp) = &self.grasp else { return };
        let loss = Arc::clone(&self.loss);
        self.minder = Some(Minder::of(grasp, self.ttl_sec, move |holder| drop(loss.tell(Lost { holder }))));
    }

    fn end(&mut self) -> Result<(), NotReleased> {
        let Some(grasp) = self.grasp.take() else { return Ok(()) };
        if self.maker != std::process::id() {
            // A forked child: the lock is its parent's.
            std::mem::forget(grasp);
            if let Some(minder) = self.minder.take() {
                minder.forget();
            }
            return Ok(());
        }
        drop(self.minder.take());
        match grasp.release().value {
            Outcome::Kept { .. } => Ok(()),
            Outcome::Lost(holder) => Err(NotReleased::Lost(Lost { holder })),
            Outcome::Failed(why) => Err(NotReleased::Failed(why)),
        }
    }
}

/// A release that found something else than its own hold, or couldn't be written.
#[derive(Debug)]
pub enum NotReleased {
    /// It was no longer held.
    Lost(Lost),
    /// The record is still there, but without a pulse it counts as dead.
    Failed(String),
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(_) => f.write_str("the lock was lost before it was released"),
            Self::Failed(why) => write!(f, "the lock couldn't be released: {why}"),
        }
    }
}

impl std::error::Error for NotReleased {}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
