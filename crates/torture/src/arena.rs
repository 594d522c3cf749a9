//! A directory in which processes are set against each other: made where they are to be tried, gone with everything in it when dropped.
//!
//! Its maker keeps it locked, so that one which was left by a killed process is known by its lock being free. Between its making and its
//! locking it is free, too, and through another mount it may look so for ever: one that showed life a minute ago is nobody's left-over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::history::Entry;
use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, flock, fstat, futimens, mkdirat, open,
};
use rustix::io::{Errno, retry_on_intr};

use lokt_sys::payload::destroy;

/// How they are called.
const PREFIX: &str = ".lokt-torture-";
/// Below it: the root, and what is kept of the history.
const ROOT: &str = "root";
const HISTORY: &str = "history.jsonl";
/// Those who write to a directory while it is removed are gone soon, or it isn't removed.
const REMOVALS_MAX: usize = 3;

/// Whoever looks whether it is free keeps it locked for a moment, beside others who look.
const LOCK_TRIES: usize = 100;
const LOCK_AGAIN: Duration = Duration::from_millis(10);
/// Of one that was left, nobody has shown life for so long; its maker does several times as often.
const LEFT_SEC: i64 = 60;

/// A directory of one's own.
pub(crate) struct Arena {
    path: PathBuf,
    /// Keeps it locked.
    locked: OwnedFd,
    history: Option<File>,
    /// Somebody told something that was added to it.
    has_history: bool,
    keep: bool,
}

impl Arena {
    /// Makes one in `dir`; `bits` are random. With `keep` it stays, with a history.
    pub(crate) fn make(dir: &Path, bits: u128, keep: bool) -> io::Result<Self> {
        let path = dir.join(format!("{PREFIX}{bits:032x}"));
        mkdirat(CWD, &path, Mode::from_raw_mode(0o700))?;
        let made = Self::lock(&path, &mut || thread::park_timeout(LOCK_AGAIN)).and_then(|locked| {
            let mut options = OpenOptions::new();
            let history = keep.then(|| options.create_new(true).append(true).mode(0o600).open(path.join(HISTORY)));
            Ok((locked, history.transpose()?))
        });
        match made {
            Ok((locked, history)) => Ok(Self { path, locked, history, has_history: false, keep }),
            Err(error) => {
                let _ = destroy(&path);
                Err(error)
            }
        }
    }

    /// `pause` is what is done between two tries.
    fn lock(path: &Path, pause: &mut dyn FnMut()) -> io::Result<OwnedFd> {
        let fd = open_dir(path)?;
        let mut tries = 0..LOCK_TRIES;
        // Where that can't be done at all, nothing is left to be known by it.
        while flock(&fd, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) && tries.next().is_some() {
            pause();
        }
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
        self.history.as_mut().map_or(Ok(()), |history| {
            self.has_history |= !entry.deed.is_suffered();
            history.write_all(entry.encode().as_bytes())
        })
    }

    /// For those who can't see that it is locked.
    pub(crate) fn show_life(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        // Where that can't be done, what is made in it shows the same.
        let _ = futimens(&self.locked, &Timestamps { last_access: now, last_modification: now });
    }

    /// Done with it. One that was to be kept is, unless what it was made for failed before there was anything to be told. Is it kept?
    pub(crate) fn close(mut self, was_done: bool) -> bool {
        self.keep &= was_done || self.has_history;
        self.keep
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

/// Those in `dir` that nobody keeps locked, beside one's own: whoever made them was killed.
pub(crate) fn left_over(dir: &Path, own: &Arena) -> Vec<PathBuf> {
    // By the clock of the file system, which may be another machine's.
    let Ok(now) = fstat(&own.locked) else { return Vec::new() };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let is_left = |path: &PathBuf| {
        let Ok(fd) = open_dir(path) else { return false };
        let is_old = fstat(&fd).is_ok_and(|stat| now.st_mtime.saturating_sub(stat.st_mtime) >= LEFT_SEC);
        is_old && flock(fd, FlockOperation::NonBlockingLockShared).is_ok() && !path.join(HISTORY).exists()
    };
    names.map(|entry| entry.path()).filter(is_left).collect()
}

#[cfg(test)]
mod tests {
    use crate::history::Deed;

    use super::*;

    fn make(dir: &Path, bits: u128, keep: bool) -> Arena {
        Arena::make(dir, bits, keep).expect("a temp directory is writable")
    }

    /// As if nobody had shown life for so long.
    fn age(path: &Path, sec: i64) {
        let fd = open_dir(path).expect("it is there");
        let then = Timespec { tv_sec: fstat(&fd).expect("it is there").st_mtime - sec, tv_nsec: 0 };
        futimens(&fd, &Timestamps { last_access: then, last_modification: then }).expect("it is ours");
    }

    #[test]
    fn an_arena_goes_with_everything_in_it_and_one_that_was_left_is_known() {
        let dir = tempfile::tempdir().expect("temp");
        let (arena, own) = (make(dir.path(), 7, false), make(dir.path(), 8, false));
        fs::create_dir_all(root_in(arena.path()).join("locks")).expect("temp");
        fs::create_dir(arena.path().join("more")).expect("temp");
        age(arena.path(), 2 * LEFT_SEC);
        assert_eq!(left_over(dir.path(), &own), Vec::<PathBuf>::new(), "somebody keeps it");
        let path = arena.path().to_owned();
        drop(arena);
        assert!(!path.exists(), "nothing is left of it");
        fs::create_dir(&path).expect("temp");
        assert_eq!(left_over(dir.path(), &own), Vec::<PathBuf>::new(), "whoever made it is about to lock it");
        age(&path, 2 * LEFT_SEC);
        assert_eq!(left_over(dir.path(), &own), [path], "nobody keeps it");
    }

    #[test]
    fn one_that_is_kept_is_not_called_left_over() {
        let dir = tempfile::tempdir().expect("temp");
        let (mut arena, own) = (make(dir.path(), 7, true), make(dir.path(), 8, false));
        let entry = Entry { at: 7, who: 1, deed: Deed::Asked { name: "hot".into() } };
        arena.keep(&entry).expect("there is room");
        let path = arena.path().to_owned();
        assert!(arena.close(false), "something was told");
        age(&path, 2 * LEFT_SEC);
        assert_eq!(fs::read_to_string(path.join(HISTORY)).expect("it is there"), entry.encode());
        assert_eq!(left_over(dir.path(), &own), Vec::<PathBuf>::new(), "somebody wanted it");
    }

    #[test]
    fn one_that_is_looked_at_while_it_is_made_is_locked_all_the_same() {
        let dir = tempfile::tempdir().expect("temp");
        let path = dir.path().join("arena");
        fs::create_dir(&path).expect("temp");
        let look = || {
            let fd = open_dir(&path).expect("it is there");
            flock(&fd, FlockOperation::NonBlockingLockShared).map(|()| fd)
        };
        let mut others = vec![look().expect("it is free"), look().expect("whoever looks disturbs nobody who looks")];
        let mut another_leaves = || {
            drop(others.pop());
            // A child that another test starts now has a copy of it until it executes its program.
            thread::park_timeout(LOCK_AGAIN);
        };
        let _locked = Arena::lock(&path, &mut another_leaves).expect("it is there");
        assert_eq!(others.len(), 0, "it was tried until nobody looked");
        assert!(look().is_err(), "whoever looks sees that somebody keeps it");
    }

    #[test]
    fn one_whose_maker_shows_life_looks_young_to_those_who_can_not_see_its_lock() {
        let dir = tempfile::tempdir().expect("temp");
        let (arena, own) = (make(dir.path(), 7, false), make(dir.path(), 8, false));
        age(arena.path(), 2 * LEFT_SEC);
        flock(&arena.locked, FlockOperation::Unlock).expect("it is ours");
        assert_eq!(left_over(dir.path(), &own), [arena.path()], "nothing tells that somebody lives");
        arena.show_life();
        assert_eq!(left_over(dir.path(), &own), Vec::<PathBuf>::new(), "it was used a moment ago");
    }
}
