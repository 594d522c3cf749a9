//! Freezing a name: no request for it is granted.

use std::fmt;
use std::time::Duration;

use lokt_core::decide::Terms;
use lokt_named::Freezing;

use crate::request::{checked, lock_ttl};
use crate::{Denial, LockError};

/// A requested freeze. Made by [`Lokt::freeze`](crate::Lokt::freeze).
///
/// ```
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let lokt = lokt::Lokt::open(dir.path().join("locks"))?;
/// lokt.freeze("deploy").ttl(Duration::from_secs(3600)).reason("incident").apply()?;
/// assert_eq!(lokt.frozen("deploy")?.expect("it is").reason(), Some("incident"));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is frozen before `apply` is called"]
pub struct FreezeRequest<'a> {
    lokt: &'a lokt_named::Lokt,
    name: String,
    ttl: Option<Duration>,
    reason: Option<String>,
}

impl<'a> FreezeRequest<'a> {
    pub(crate) fn new(lokt: &'a lokt_named::Lokt, name: String) -> Self {
        Self { lokt, name, ttl: None, reason: None }
    }

    /// Sets how long the freeze lasts, rounded up to seconds. If it is unset or zero, the freeze
    /// lasts until it is ended explicitly.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the reason that is shown to refused callers.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Freezes the name. If the same owner already froze it, that freeze gets a new end, and keeps
    /// its reason if this one has none.
    ///
    /// # Errors
    ///
    /// [`LockError::Denied`] if another owner froze it.
    pub fn apply(self) -> Result<(), LockError> {
        let name = checked(&self.name)?;
        let terms = Terms { ttl_sec: lock_ttl(self.ttl), reason: self.reason };
        match self.lokt.freezes().freeze(&name, terms).map_err(LockError::failed)?.value {
            Freezing::Frozen(_) => Ok(()),
            Freezing::Denied(refusal) => Err(LockError::Denied(Denial::of(name, refusal))),
        }
    }
}

impl fmt::Debug for FreezeRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FreezeRequest");
        shown.field("name", &self.name).field("ttl", &self.ttl).field("reason", &self.reason);
        shown.finish_non_exhaustive()
    }
}
