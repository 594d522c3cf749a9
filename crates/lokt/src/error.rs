//! Errors and refusals.

use std::error::Error as StdError;
use std::fmt;

use lokt_sys::error as sys;

use crate::{BadName, Denial};

/// A failure, for example of a disk, a file or the machine. A refusal is not such an error; see
/// [`Denial`].
#[derive(Debug)]
pub struct Error(sys::Error);

/// The kinds of errors that a program may treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A system call failed; [`source`](StdError::source) is its error.
    Io,
    /// Another process is using the same files, or was faster. Retry.
    Busy,
    /// The file system or the directory can't be used for this.
    Unusable,
    /// The files were written by a newer version of lokt, which this version must leave alone.
    NewerVersion,
    /// The input is invalid, for example an event or a name.
    BadInput,
    /// The requested object doesn't exist.
    NotFound,
    /// Files are damaged, and the library doesn't guess their contents.
    Damaged,
    /// Files changed that had to stay the same: those being copied, or the events of a ledger.
    Changed,
    /// The worktree has no exclusive lease.
    NotExclusive,
    /// The operation was interrupted.
    Interrupted,
    /// The operation may have taken effect, or may still do so: a remote store has not answered.
    OutcomeUnknown,
}

impl Error {
    pub(crate) fn new(kind: sys::ErrorKind, message: impl Into<String>) -> Self {
        Self(sys::Error::new(kind, message))
    }

    #[cfg(any(feature = "ledger", feature = "worktree"))]
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self(self.0.hint(hint))
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self.0.kind() {
            sys::ErrorKind::Io => ErrorKind::Io,
            sys::ErrorKind::Busy => ErrorKind::Busy,
            sys::ErrorKind::Unusable | sys::ErrorKind::NotARecord => ErrorKind::Unusable,
            sys::ErrorKind::Newer | sys::ErrorKind::Format => ErrorKind::NewerVersion,
            sys::ErrorKind::BadEvent | sys::ErrorKind::BadName => ErrorKind::BadInput,
            sys::ErrorKind::NoProcess | sys::ErrorKind::Missing => ErrorKind::NotFound,
            sys::ErrorKind::Damaged | sys::ErrorKind::PayloadMismatch => ErrorKind::Damaged,
            sys::ErrorKind::Moving => ErrorKind::Changed,
            sys::ErrorKind::Shared => ErrorKind::NotExclusive,
            sys::ErrorKind::Halted => ErrorKind::Interrupted,
            sys::ErrorKind::OutcomeUnknown => ErrorKind::OutcomeUnknown,
        }
    }

    /// The stable code that the command prints in JSON, such as `E_IO`.
    pub fn code(&self) -> &'static str {
        self.0.code()
    }

    /// The suggested next step, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.0.next_step()
    }
}

#[doc(hidden)]
impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// The reason why a lock was not acquired, released, frozen or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// The name is not a valid lock name.
    BadName {
        /// The name.
        name: String,
        /// The reason why it is invalid.
        why: BadName,
    },
    /// The request was refused. This is an expected answer, not a failure.
    Denied(Denial),
    /// [`Cancel`](crate::Cancel) ended the wait.
    Cancelled,
    /// The operation failed.
    Failed(Error),
}

impl LockError {
    pub(crate) fn failed(error: sys::Error) -> Self {
        Self::Failed(error.into())
    }

    /// The refusal, if this is one.
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Denied(denial) => Some(denial),
            _ => None,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { name, why } => write!(f, "invalid lock name {name:?}: {why}"),
            Self::Denied(denial) => denial.fmt(f),
            Self::Cancelled => f.write_str("the wait for the lock was cancelled"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl StdError for LockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::BadName { why, .. } => Some(why),
            Self::Denied(_) | Self::Cancelled => None,
            // `Display` prints the error's own message, so the source is its cause.
            Self::Failed(error) => error.source(),
        }
    }
}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
