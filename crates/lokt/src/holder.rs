//! Who holds a lock.

use std::fmt;
use std::time::{Duration, SystemTime};

use lokt_core::denial::Holder as Stored;
use lokt_core::hold::PartKind;
use lokt_sys::machine::system_time;

use crate::Token;

/// Who holds a lock, as it was when it was looked at.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder(Box<Stored>);

impl Holder {
    pub(crate) fn of(stored: Stored) -> Self {
        Self(Box::new(stored))
    }

    /// The owner: a login name, unless the holder said otherwise.
    pub fn owner(&self) -> &str {
        &self.0.hold.owner
    }

    /// The agent of the owner that asked for it.
    pub fn agent(&self) -> &str {
        &self.0.hold.agent_id
    }

    /// The host where it was acquired.
    pub fn host(&self) -> &str {
        &self.0.hold.host
    }

    /// The process that acquired it. It may have ended long ago: see [`ends_with_process`](Self::ends_with_process).
    pub fn pid(&self) -> Option<u32> {
        u32::try_from(self.0.hold.pid).ok().filter(|pid| *pid > 0)
    }

    /// Whether the hold ends with its process, as a guard's does. One of `lokt lock` outlives the process that acquired it.
    pub fn ends_with_process(&self) -> bool {
        self.0.hold.has(PartKind::Process)
    }

    /// When it was acquired, by the wall clock of its host.
    pub fn since(&self) -> Option<SystemTime> {
        self.0.hold.began().map(system_time)
    }

    /// How long it lasts without a renewal. `None`: it has no lease, or is over.
    pub fn expires_in(&self) -> Option<Duration> {
        self.0.left_ms().map(Duration::from_millis)
    }

    /// When it ends by the wall clock of its host, if it isn't renewed; `None` without a lease.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.hold.expires_at.map(system_time)
    }

    /// Whether the hold still counts: its lease is not over and its process is not known to be gone.
    pub fn is_live(&self) -> bool {
        self.0.lives()
    }

    /// Why it was acquired, in the holder's words.
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
    /// `owner@host`, with the process if it ends with one.
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
