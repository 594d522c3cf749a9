//! What can go wrong with a tree of files.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Why a tree couldn't be read, copied or made durable.
#[derive(Debug)]
pub enum TreeError {
    /// The system refused something.
    Io {
        /// What was tried, as in "could not … ".
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// A copy wouldn't fit; nothing was copied.
    NoSpace {
        /// Where it should go.
        path: PathBuf,
        /// How many bytes it takes.
        needed: u64,
        /// How many there are.
        free: u64,
    },
    /// The source changed while it was copied, and that was to be refused.
    Changed {
        /// What changed, relative to the root.
        paths: Vec<Vec<u8>>,
    },
    /// A stored file isn't what its manifest says.
    Damaged {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Somebody asked to stop.
    Halted,
}

impl TreeError {
    /// Wraps an error of the system about `relative` below `root`.
    pub(super) fn io(what: &'static str, root: &Path, relative: &[u8], error: impl Into<io::Error>) -> Self {
        Self::Io { what, path: joined(root, relative), error: error.into() }
    }

    /// Is a full disk, or a used up quota, the reason?
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

/// The whole path of something in a tree, for people.
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
