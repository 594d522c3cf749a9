//! A directory in which processes are set against each other: made where they are to be tried, gone with everything in it when dropped.
//!
//! Its maker keeps it locked, so that one which was left by a killed process is known by its lock being free.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use lokt_core::history::Entry;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, mkdirat, open};
use rustix::io::retry_on_intr;

use super::payload::destroy;

/// How they are called.
const PREFIX: &str = ".lokt-torture-";
/// Below it: the root, and what is kept of the history.
const ROOT: &str = "root";
const HISTORY: &str = "history.jsonl";
/// Those who write to a directory while it is removed are gone soon, or it isn't removed.
const REMOVALS_MAX: usize = 3;

/// A directory of one's own.
pub(crate) struct Arena {
    path: PathBuf,
    /// Keeps it locked.
    _locked: OwnedFd,
    history: Option<File>,
    keep: bool,
}

impl Arena {
    /// Makes one in `dir`; `bits` are random. With `keep` it stays, with a history.
    pub(crate) fn make(dir: &Path, bits: u128, keep: bool) -> io::Result<Self> {
        let path = dir.join(format!("{PREFIX}{bits:032x}"));
        mkdirat(CWD, &path, Mode::from_raw_mode(0o700))?;
        let made = Self::lock(&path).and_then(|locked| {
            let mut options = OpenOptions::new();
            let history = keep.then(|| options.create_new(true).append(true).mode(0o600).open(path.join(HISTORY)));
            Ok((locked, history.transpose()?))
        });
        match made {
            Ok((locked, history)) => Ok(Self { path, _locked: locked, history, keep }),
            Err(error) => {
                let _ = destroy(&path);
                Err(error)
            }
        }
    }

    fn lock(path: &Path) -> io::Result<OwnedFd> {
        let fd = open_dir(path)?;
        // Where that can't be done, nothing is left to be known by it.
        let _ = flock(&fd, FlockOperation::NonBlockingLockShared);
        Ok(fd)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same directory, as it is seen from `other`: another path to where this was made.
    pub(crate) fn seen_from(&self, other: &Path) -> Option<PathBuf> {
        let there = other.join(self.path.file_name()?);
        there.is_dir().then_some(there)
    }

    /// Adds to the history that is kept.
    pub(crate) fn keep(&mut self, entry: &Entry) -> io::Result<()> {
        self.history.as_mut().map_or(Ok(()), |history| history.write_all(entry.encode().as_bytes()))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut tries = 0..REMOVALS_MAX;
        while !self.keep && tries.next().is_some() && destroy(&self.path).is_err() {}
    }
}

/// A directory that is no link.
fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| open(path, flags, Mode::empty()))?)
}

/// The root in an arena.
pub(crate) fn root_in(arena: &Path) -> PathBuf {
    arena.join(ROOT)
}

/// Those in `dir` that nobody keeps locked: whoever made them was killed, or kept them.
pub(crate) fn left_over(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let free = |path: &PathBuf| {
        let fd = open_dir(path);
        fd.is_ok_and(|fd| flock(fd, FlockOperation::NonBlockingLockExclusive).is_ok()) && !path.join(HISTORY).exists()
    };
    names.map(|entry| entry.path()).filter(free).collect()
}

#[cfg(test)]
mod tests {
    use lokt_core::history::Deed;

    use super::*;

    #[test]
    fn an_arena_goes_with_everything_in_it_and_one_that_was_left_is_known() {
        let dir = tempfile::tempdir().expect("temp");
        let arena = Arena::make(dir.path(), 7, false).expect("a temp directory is writable");
        fs::create_dir_all(root_in(arena.path()).join("locks")).expect("temp");
        fs::create_dir(arena.path().join("more")).expect("temp");
        assert_eq!(left_over(dir.path()), Vec::<PathBuf>::new(), "somebody keeps it");
        let path = arena.path().to_owned();
        drop(arena);
        assert!(!path.exists(), "nothing is left of it");
        fs::create_dir(&path).expect("temp");
        assert_eq!(left_over(dir.path()), [path], "nobody keeps it");
    }

    #[test]
    fn one_that_is_kept_is_not_called_left_over() {
        let dir = tempfile::tempdir().expect("temp");
        let mut arena = Arena::make(dir.path(), 7, true).expect("a temp directory is writable");
        let entry = Entry { at: 7, who: 1, deed: Deed::Killed };
        arena.keep(&entry).expect("there is room");
        let path = arena.path().to_owned();
        drop(arena);
        assert_eq!(fs::read_to_string(path.join(HISTORY)).expect("it is there"), entry.encode());
        assert_eq!(left_over(dir.path()), Vec::<PathBuf>::new(), "somebody wanted it");
    }
}
