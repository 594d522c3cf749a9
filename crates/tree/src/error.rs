//! Errors of work on a tree of files.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Why a tree couldn't be read, copied or made durable.
#[derive(Debug)]
pub enum TreeError {
    /// The operating system refused an operation.
    Io {
        /// The attempted operation, as in "could not … ".
        what: &'static str,
        /// The file or directory that it failed for.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// A copy wouldn't fit; nothing was copied.
    NoSpace {
        /// The target of the copy.
        path: PathBuf,
        /// Bytes that the copy takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The source changed while it was copied, and the caller wanted that to be refused.
    Changed {
        /// The changed paths, relative to the root.
        paths: Vec<Vec<u8>>,
    },
    /// A stored file doesn't match its manifest.
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// The problem with it.
        why: &'static str,
    },
    /// The caller asked to stop.
    Halted,
}

impl TreeError {
    /// Wraps an operating system error about `relative` below `root`.
    pub(super) fn io(what: &'static str, root: &Path, relative: &[u8], error: impl Into<io::Error>) -> Self {
        Self::Io { what, path: joined(root, relative), error: error.into() }
    }

    /// Reports whether the cause is a full disk or an exhausted quota.
    pub fn is_full_disk(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Io { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// Returns the full path of an entry of a tree, for display.
pub(super) fn joined(root: &Path, relative: &[u8]) -> PathBuf {
    if relative.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(relative)) }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => write!(f, "could not {what} {}: {error}", path.display()),
            Self::NoSpace { path, needed, free } => {
                write!(f, "a copy takes {needed} bytes and {free} are free: {}", path.display())
            }
            Self::Changed { paths } => {
                let first = paths.first().map(|path| String::from_utf8_lossy(path)).unwrap_or_default();
                write!(f, "{} paths changed while they were copied, the first is {first:?}", paths.len())
            }
            Self::Damaged { path, why } => write!(f, "{} is damaged: {why}", path.display()),
            Self::Halted => f.write_str("stopped before the end"),
        }
    }
}

impl std::error::Error for TreeError {}
