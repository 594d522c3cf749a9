//! The reasons why a lease is not held.

use std::error;
use std::fmt;
use std::time::Duration;

use lokt_core::denial;
use lokt_core::lease::record::{HolderId, Record};
use lokt_worktree::lease::LeaseRefusal;

use crate::request::sealed;
use crate::{Error, Holder};

/// The worktree that the modules of this folder work on.
pub(super) type Inner = lokt_worktree::lease::Worktree;

/// The reason why a lease was not granted, or why it is no longer held.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let worktree = lokt::worktree::Repository::create(dir.path())?.worktree("main")?;
/// let leased = worktree.lease().try_acquire()?;
/// let refused = worktree.lease().try_acquire().expect_err("it is held");
/// assert_eq!(refused.holder().and_then(|holder| holder.token()), Some(leased.token()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another program holds the lease.
    #[non_exhaustive]
    Held {
        /// The holder, if its record can be read.
        holder: Option<Holder>,
        /// The time after which the lease expires if the holder does not renew it.
        retry_after: Option<Duration>,
    },
    /// The lease is no longer held: it expired, or another program ended it.
    #[non_exhaustive]
    Lost {
        /// The current holder of the lease.
        holder: Option<Holder>,
    },
    /// [`Cancel`](crate::Cancel) ended the wait or the work.
    Cancelled,
    /// The operation failed. The kind is
    /// [`ErrorKind::NotExclusive`](crate::ErrorKind::NotExclusive) if the worktree has no lease.
    Failed(Error),
}

impl LeaseError {
    /// Returns the holder that blocks the caller, if there is one.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held { holder, .. } | Self::Lost { holder } => holder.as_ref(),
            Self::Cancelled | Self::Failed(_) => None,
        }
    }
}

/// A holder for display. Where leases are decided, a digest of the session is in place of the
/// owner.
fn shown_holder(holder: &denial::Holder, record: Option<&Record>) -> Holder {
    let mut holder = holder.clone();
    if let Some(record) = record {
        holder.hold.owner = HolderId::parse(&record.holder_id).user;
    }
    Holder::of(holder)
}

/// The holder of the lease, if it is held.
pub(super) fn live_holder(worktree: &Inner) -> Result<Option<Holder>, Error> {
    let status = worktree.status(None)?;
    let holder = status.holder.filter(|_| status.lives);
    Ok(holder.map(|holder| shown_holder(&holder, status.record.as_ref())))
}

/// Returns the error for a refused request.
pub(super) fn refused(refusal: &LeaseRefusal) -> LeaseError {
    LeaseError::Held {
        holder: refusal.denial.holder().map(|holder| shown_holder(holder, refusal.record.as_ref())),
        retry_after: refusal.retry_after_ms.map(Duration::from_millis),
    }
}

/// Returns the error for a lease that is no longer held.
pub(super) fn lost(holder: Option<Box<denial::Holder>>) -> LeaseError {
    LeaseError::Lost { holder: holder.filter(|holder| holder.lives()).map(|holder| Holder::of(*holder)) }
}

/// Returns the error for an operation that was refused under a lease: the one with `token`, or one
/// acquired for the operation.
pub(super) fn denied(refusal: &LeaseRefusal, token: Option<u64>) -> LeaseError {
    if token.is_none() {
        return refused(refusal);
    }
    let holder = refusal.denial.holder().filter(|holder| holder.lives());
    LeaseError::Lost { holder: holder.map(|holder| shown_holder(holder, refusal.record.as_ref())) }
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { holder: Some(holder), .. } => write!(f, "the lease is held by {holder}"),
            Self::Held { holder: None, .. } => f.write_str("the lease is held"),
            Self::Lost { holder: Some(holder) } => write!(f, "the lease was lost to {holder}"),
            Self::Lost { holder: None } => f.write_str("the lease was lost"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl error::Error for LeaseError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Held { .. } | Self::Lost { .. } | Self::Cancelled => None,
        }
    }
}

impl From<Error> for LeaseError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl sealed::Cancellable for LeaseError {
    fn cancelled() -> Self {
        Self::Cancelled
    }
}
