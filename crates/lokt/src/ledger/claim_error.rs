//! The reasons why a claim is not held.

use std::error;
use std::fmt;

use lokt_core::denial;
use lokt_core::ledger::claiming::Refused;

use crate::request::sealed;
use crate::{Error, Holder};

/// The reason why a task was not claimed, or why a claim is no longer held.
///
/// ```
/// use lokt::ledger::Ledger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// let claimed = ledger.claim("1.2").try_acquire()?;
/// let refused = ledger.claim("1.2").try_acquire().expect_err("it is held");
/// assert_eq!(refused.holder().and_then(|holder| holder.pid()), Some(std::process::id()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// Another program holds the task.
    #[non_exhaustive]
    Held {
        /// The task.
        task: String,
        /// The holder of the claim.
        holder: Holder,
    },
    /// No program holds the task, but its state in an af ledger does not allow a claim.
    #[non_exhaustive]
    Unavailable {
        /// The task.
        task: String,
        /// Its state.
        state: String,
    },
    /// An af ledger has no such task.
    #[non_exhaustive]
    Missing {
        /// The task.
        task: String,
    },
    /// The claim is no longer held: it expired, or another program ended it.
    #[non_exhaustive]
    Lost {
        /// The task.
        task: String,
        /// The current holder of the task.
        holder: Option<Holder>,
    },
    /// [`Cancel`](crate::Cancel) ended the wait.
    Cancelled,
    /// The operation failed.
    Failed(Error),
}

impl ClaimError {
    /// Returns the holder that blocks the caller, if there is one.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held { holder, .. } => Some(holder),
            Self::Lost { holder, .. } => holder.as_ref(),
            Self::Unavailable { .. } | Self::Missing { .. } | Self::Cancelled | Self::Failed(_) => None,
        }
    }
}

/// Returns the error for a refused request.
pub(super) fn refused(task: String, why: Refused) -> ClaimError {
    match why {
        Refused::NoSuchNode => ClaimError::Missing { task },
        Refused::NotAvailable(state) => ClaimError::Unavailable { task, state },
        Refused::Hold(denial) => match denial.holder().cloned() {
            Some(holder) => ClaimError::Held { task, holder: Holder::of(holder) },
            None => ClaimError::Unavailable { task, state: denial.code().to_owned() },
        },
    }
}

/// Returns the error for a claim that is no longer held.
pub(super) fn lost(task: &str, holder: Option<Box<denial::Holder>>) -> ClaimError {
    let holder = holder.filter(|holder| holder.lives()).map(|holder| Holder::of(*holder));
    ClaimError::Lost { task: task.to_owned(), holder }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { task, holder } => write!(f, "task {task:?} is claimed by {holder}"),
            Self::Unavailable { task, state } => write!(f, "task {task:?} cannot be claimed: it is {state}"),
            Self::Missing { task } => write!(f, "there is no task {task:?}"),
            Self::Lost { task, holder: None } => write!(f, "the claim on task {task:?} was lost"),
            Self::Lost { task, holder: Some(holder) } => {
                write!(f, "the claim on task {task:?} was lost to {holder}")
            }
            Self::Cancelled => f.write_str("the wait for the claim was cancelled"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl error::Error for ClaimError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for ClaimError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl sealed::Cancellable for ClaimError {
    fn cancelled() -> Self {
        Self::Cancelled
    }
}
