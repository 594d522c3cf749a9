//! Holders of locks.

use std::fmt;
use std::time::{Duration, SystemTime};

use lokt_core::denial::Holder as Stored;
use lokt_core::hold::PartKind;
use lokt_sys::machine::system_time;

use crate::Token;

/// The holder of a lock, as of the moment when its record was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder(Box<Stored>);

impl Holder {
    pub(crate) fn of(stored: Stored) -> Self {
        Self(Box::new(stored))
    }

    /// The owner: a login name, unless the holder chose another one.
    pub fn owner(&self) -> &str {
        &self.0.hold.owner
    }

    /// The owner's agent that requested the lock.
    pub fn agent(&self) -> &str {
        &self.0.hold.agent_id
    }

    /// The host where it was acquired.
    pub fn host(&self) -> &str {
        &self.0.hold.host
    }

    /// The process that acquired it. It may have exited long ago: see
    /// [`ends_with_process`](Self::ends_with_process).
    pub fn pid(&self) -> Option<u32> {
        u32::try_from(self.0.hold.pid).ok().filter(|pid| *pid > 0)
    }

    /// Reports whether the hold ends with its process, as a guard's does. A hold of `lokt lock`
    /// outlives the process that acquired it.
    pub fn ends_with_process(&self) -> bool {
        self.0.hold.has(PartKind::Process)
    }

    /// The time of the acquisition, by the wall clock of its host.
    pub fn since(&self) -> Option<SystemTime> {
        self.0.hold.began().map(system_time)
    }

    /// The time until it expires without a renewal; `None` if it has no lease or has ended.
    pub fn expires_in(&self) -> Option<Duration> {
        self.0.left_ms().map(Duration::from_millis)
    }

    /// The time at which it expires without a renewal, by the wall clock of its host; `None`
    /// without a lease.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.hold.expires_at.map(system_time)
    }

    /// Reports whether the hold still counts: its lease has not expired, and its process is not
    /// known to be gone.
    pub fn is_live(&self) -> bool {
        self.0.lives()
    }

    /// The reason for the acquisition, in the holder's words.
    pub fn reason(&self) -> Option<&str> {
        self.0.hold.reason.as_deref()
    }

    /// Its fencing token; holds of other programs may have none.
    pub fn token(&self) -> Option<Token> {
        self.0.hold.token.map(Token::of)
    }

    /// The identity of this hold; no two holds share one.
    pub fn lock_id(&self) -> &str {
        self.0.hold.lock_id.as_str()
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("owner", &self.owner())
            .field("host", &self.host())
            .field("pid", &self.pid())
            .field("token", &self.token())
            .field("is_live", &self.is_live())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Holder {
    /// `owner@host`, with the pid if the hold ends with its process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.owner())?;
        if !self.host().is_empty() {
            write!(f, "@{}", self.host())?;
        }
        match self.pid() {
            Some(pid) if self.ends_with_process() => write!(f, " (pid {pid})"),
            _ => Ok(()),
        }
    }
}
