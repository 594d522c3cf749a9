//! Errors, as opposed to refusals: a refusal is a [`lokt_core::denial::Denial`], an answer of its
//! own.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::disk::NoMutex;

/// Reports whether a path has too many links, or a link where none may be.
pub fn is_link_loop(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// The kinds of errors. Two errors are of different kinds if callers handle them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A system call failed.
    Io,
    /// Something other than a regular file of sensible size is in place of a record.
    NotARecord,
    /// The record has a version that this program must leave alone.
    Newer,
    /// Another process is busy or was faster; retry.
    Busy,
    /// The file system or the root can't be used for this.
    Unusable,
    /// The process that a lock should be bound to doesn't exist.
    NoProcess,
    /// The input is not a valid event.
    BadEvent,
    /// A ledger has gaps or unreadable events, and the command doesn't guess their contents.
    Damaged,
    /// A repository has a format that this program must leave alone.
    Format,
    /// Files changed while they were copied.
    Moving,
    /// The worktree is shared, so it has no lease.
    Shared,
    /// The input is not a valid worktree name.
    BadName,
    /// The requested object no longer exists.
    Missing,
    /// The files of a snapshot have changed.
    PayloadMismatch,
    /// The operation was interrupted.
    Halted,
    /// The operation may have taken effect, or may still do so: a remote store has not answered.
    OutcomeUnknown,
}

/// An error with a hint for the user.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<io::Error>,
}

impl Error {
    /// An error without a cause in the system.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// An I/O error, with the attempted operation and its path.
    pub fn io(attempt: &str, path: &Path, source: io::Error) -> Self {
        let message = format!("{attempt} {}", path.display());
        let hint = too_many_open(&source);
        Self { kind: ErrorKind::Io, message, hint, source: Some(source) }
    }

    /// The error for a root whose mutex could not be acquired.
    pub fn mutex(root: &Path, failure: NoMutex) -> Self {
        match failure {
            NoMutex::Io(source) => Self::io("lock", root, source),
            NoMutex::Busy(who) => {
                Self::new(ErrorKind::Busy, format!("{} is busy: its mutex is held by {who}", root.display()))
                    .hint("try again; lokt's own commands hold it for a moment only, unless they were stopped")
            }
        }
    }

    /// Adds a hint on what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code for JSON output.
    pub fn code(&self) -> &'static str {
        match self.kind {
            ErrorKind::Io => "E_IO",
            ErrorKind::NotARecord => "E_NOT_A_RECORD",
            ErrorKind::Newer => "E_UNSUPPORTED_VERSION",
            ErrorKind::Busy => "E_BUSY",
            ErrorKind::Unusable => "E_UNUSABLE",
            ErrorKind::NoProcess => "E_NO_PROCESS",
            ErrorKind::BadEvent => "E_BAD_EVENT",
            ErrorKind::Damaged => "E_CORRUPT",
            ErrorKind::Format => "E_FORMAT_UNSUPPORTED",
            ErrorKind::Moving => "E_CONSISTENCY_UNAVAILABLE",
            ErrorKind::Shared => "E_NOT_EXCLUSIVE",
            ErrorKind::BadName => "E_NAME_INVALID",
            ErrorKind::Missing => "E_NOT_FOUND",
            ErrorKind::PayloadMismatch => "E_PAYLOAD_HASH_MISMATCH",
            ErrorKind::Halted => "E_INTERRUPTED",
            ErrorKind::OutcomeUnknown => "E_OUTCOME_UNKNOWN",
        }
    }

    /// The kind of the underlying system error, if there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(io::Error::kind)
    }

    /// The hint on what to do next.
    pub fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Returns a hint if this error says that the process has too many open files.
pub fn too_many_open(error: &io::Error) -> Option<String> {
    if error.raw_os_error() != Some(Errno::MFILE.raw_os_error()) {
        return None;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map(|limit| format!("; now it is {limit}")).unwrap_or_default();
    Some(format!("raise the limit of open files with `ulimit -n`, each lock of a guard takes one or two{limit}"))
}

/// Adds the attempt and the path to I/O errors.
pub trait At<T> {
    /// Names the attempt and the path below `root`.
    fn at(self, attempt: &str, root: &Path, path: &str) -> Result<T, Error>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, attempt: &str, root: &Path, path: &str) -> Result<T, Error> {
        self.map_err(|source| Error::io(attempt, &joined(root, path), source))
    }
}

/// Returns `path` below `root`; the empty path is the root itself.
pub fn joined(root: &Path, path: &str) -> PathBuf {
    if path.is_empty() { root.to_owned() } else { root.join(path) }
}
