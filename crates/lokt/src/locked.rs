//! Locks that belong to an owner, not to a process.

use std::time::{Duration, SystemTime};

use lokt_core::hold::{Fence, Hold};
use lokt_core::name::LockName;
use lokt_named::Granted;
use lokt_sys::machine::system_time;

use crate::{Token, Warning};

/// A lock that belongs to the owner, as `lokt lock` acquires it. It outlives this program until it
/// is unlocked or its lease expires.
///
/// ```
/// use std::time::Duration;
/// use lokt::Lokt;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let lokt = Lokt::open(dir.path().join("root"))?;
/// let locked = lokt.lock("release").ttl(Duration::from_secs(3600)).try_acquire()?;
/// assert!(!locked.is_refreshed());
/// assert!(lokt.lock("release").try_acquire()?.is_refreshed(), "the same owner has it already");
/// lokt.unlock("release")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Locked {
    name: LockName,
    granted: Granted,
    warnings: Vec<Warning>,
}

impl Locked {
    pub(crate) fn of(name: LockName, granted: Granted, warnings: Vec<Warning>) -> Self {
        Self { name, granted, warnings }
    }

    fn hold(&self) -> &Hold {
        &self.granted.hold
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        let token: Option<Fence> = self.hold().token;
        Token::of(token.expect("the store draws a token for each hold that is granted"))
    }

    /// The identity of this hold; no two holds share one.
    pub fn lock_id(&self) -> &str {
        self.hold().lock_id.as_str()
    }

    /// Reports whether the owner already held it and its lease was restarted.
    pub fn is_refreshed(&self) -> bool {
        self.granted.refreshed
    }

    /// The lease, if there is one.
    pub fn ttl(&self) -> Option<Duration> {
        u64::try_from(self.hold().ttl_sec).ok().filter(|ttl_sec| *ttl_sec > 0).map(Duration::from_secs)
    }

    /// The time at which it expires by the wall clock, if it has a lease.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.hold().expires_at.map(system_time)
    }

    /// Warnings of the successful acquisition.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}
