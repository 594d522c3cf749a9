//! What went wrong, as opposed to what was refused: a refusal is a [`lokt_core::denial::Denial`], an answer of its own.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::disk::NoMutex;

/// Reports whether a path has too many links, or a link where none may be.
pub fn is_link_loop(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Would the caller act differently? Then it is another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The system said no.
    Io,
    /// There is something else than a regular file of sensible size where a record should be.
    NotARecord,
    /// The record has a version that this program must leave alone.
    Newer,
    /// Somebody is busy or was faster; try again.
    Busy,
    /// The file system or the root can't be used for this.
    Unusable,
    /// The process that a lock should be bound to doesn't exist.
    NoProcess,
    /// What should become an event can't be one.
    BadEvent,
    /// A ledger has gaps or events that can't be read, and the command won't guess what they were.
    Damaged,
    /// A repository has a format that this program must leave alone.
    Format,
    /// What was to be copied changed meanwhile.
    Moving,
    /// There is no lease: the worktree is everybody's.
    Shared,
    /// What should become a worktree's name can't be one.
    BadName,
    /// What is asked about isn't there any more.
    Missing,
    /// A snapshot's files aren't what they were.
    PayloadMismatch,
    /// It was told to stop.
    Halted,
    /// It may have happened, or may still happen: the answer of a remote store is missing.
    OutcomeUnknown,
}

/// An error with what to do about it.
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

    /// An I/O error, with what was attempted and on which path.
    pub fn io(attempt: &str, path: &Path, source: io::Error) -> Self {
        let message = format!("{attempt} {}", path.display());
        let hint = too_many_open(&source);
        Self { kind: ErrorKind::Io, message, hint, source: Some(source) }
    }

    /// A root whose mutex could not be entered.
    pub fn mutex(root: &Path, failure: NoMutex) -> Self {
        match failure {
            NoMutex::Io(source) => Self::io("lock", root, source),
            NoMutex::Busy(who) => {
                Self::new(ErrorKind::Busy, format!("{} is busy: its mutex is held by {who}", root.display()))
                    .hint("try again; lokt's own commands hold it for a moment only, unless they were stopped")
            }
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code of the JSON.
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

    /// What kind of error the system reported, if it did.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(io::Error::kind)
    }

    /// What to do next.
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

/// What to do about this error if it says that the process has too many files open.
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
