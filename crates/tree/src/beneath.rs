//! A directory and everything below it, opened without following a symbolic link or crossing a
//! mount, however long the path is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstatfs, open, openat, openat2, syncfs};
use rustix::io::{Errno, retry_on_intr};

use super::roots::is_root;
use super::stat::look;
use super::trust::keeps_promises;

/// Maximum bytes of a path in one call: the kernel accepts up to 4096.
const AT_ONCE: usize = 4000;

const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags for a directory that is only passed through: it needn't be readable.
pub(super) const PASSAGE: OFlags = OFlags::PATH.union(DIR);
/// Flags for a directory whose entries, attributes and data on disk matter.
pub const READABLE: OFlags = OFlags::RDONLY.union(DIR);

/// A directory with everything in it.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    path: PathBuf,
    pub(super) mount: Option<u64>,
    trusted: bool,
    left_out: LeftOut,
}

/// Entries that are not part of a tree although nothing ignores them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeftOut {
    /// Lock roots, wherever they are.
    pub roots: bool,
    /// Entries of the tree's own directory.
    pub top: &'static [&'static str],
}

impl Tree {
    /// Opens a tree. The directory itself may be reached through links; nothing in it is.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
    }

    /// Like `open`, but the directory must not be a link either.
    pub fn open_plain(path: &Path) -> io::Result<Self> {
        Self::open_with(path, READABLE)
    }

    fn open_with(path: &Path, flags: OFlags) -> io::Result<Self> {
        let root = retry_on_intr(|| open(path, flags, Mode::empty()))?;
        let mount = look(root.as_fd(), b"")?.mount;
        let magic = fstatfs(&root).ok().and_then(|found| u64::try_from(found.f_type).ok());
        let trusted = keeps_promises(path, magic);
        Ok(Self { root, path: path.to_owned(), mount, trusted, left_out: LeftOut::default() })
    }

    /// Returns the same tree without some of the entries in its directory.
    #[must_use]
    pub fn leaving(self, left_out: LeftOut) -> Self {
        Self { left_out, ..self }
    }

    /// Reports whether `name` in the directory `dir`, which is open as `fd`, is not part of the
    /// tree.
    pub(super) fn leaves_out(&self, fd: BorrowedFd<'_>, dir: &[u8], name: &[u8], kind: FileType) -> bool {
        (dir.is_empty() && self.left_out.top.iter().any(|top| top.as_bytes() == name))
            || (self.left_out.roots && is_root(fd, name, kind))
    }

    /// The path that it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reports whether its file system updates the ctime with every change and honours `syncfs`.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Writes back everything that is dirty on its file system. After that, a write through a
    /// memory map updates the file's ctime.
    pub fn flush(&self) -> io::Result<()> {
        match retry_on_intr(|| syncfs(&self.root)) {
            // Where times prove nothing, flushing proves nothing either.
            Err(_) if !self.trusted => Ok(()),
            done => Ok(done?),
        }
    }

    /// The top directory.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// Opens `path` below `root`. The path may be longer than the kernel accepts.
pub fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (mut rest, mut at) = (path, None);
    while rest.len() > AT_ONCE {
        let Some(cut) = rest[..AT_ONCE].iter().rposition(|byte| *byte == b'/') else { return Err(Errno::NAMETOOLONG) };
        at = Some(open_part(from(at.as_ref(), root), &rest[..cut], PASSAGE)?);
        rest = &rest[cut + 1..];
    }
    open_part(from(at.as_ref(), root), rest, flags)
}

fn from<'a>(at: Option<&'a OwnedFd>, root: BorrowedFd<'a>) -> BorrowedFd<'a> {
    at.map_or(root, AsFd::as_fd)
}

fn open_part(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match retry_on_intr(|| openat2(dir, path, flags, Mode::empty(), resolve)) {
        // Old kernels, and sandboxes that refuse unknown system calls.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(dir, path, flags),
        done => done,
    }
}

fn step_by_step(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let last = names.pop().unwrap_or(b".");
    let mut at = None;
    for name in names {
        at = Some(retry_on_intr(|| openat(from(at.as_ref(), dir), name, PASSAGE, Mode::empty()))?);
    }
    retry_on_intr(|| openat(from(at.as_ref(), dir), last, flags | OFlags::NOFOLLOW, Mode::empty()))
}

/// Returns the parent directory and the name in it.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.iter().rposition(|byte| *byte == b'/').map_or((&[], path), |cut| (&path[..cut], &path[cut + 1..]))
}

/// Opens directories below one root and keeps the last one open: neighbours are processed one after
/// the other.
pub(super) struct Cursor<'a> {
    root: BorrowedFd<'a>,
    at: Vec<u8>,
    dir: Option<OwnedFd>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, at: Vec::new(), dir: None }
    }

    /// Returns the directory `path`, for use with a name in it.
    pub(super) fn at(&mut self, path: &[u8]) -> Result<BorrowedFd<'_>, Errno> {
        if path.is_empty() {
            return Ok(self.root);
        }
        if self.dir.is_none() || self.at != path {
            self.dir = None;
            self.dir = Some(open_beneath(self.root, path, PASSAGE)?);
            path.clone_into(&mut self.at);
        }
        Ok(self.dir.as_ref().expect("it was just opened").as_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn links_are_not_followed_at_any_step() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("a/b")).expect("directories");
        symlink("a", dir.path().join("l")).expect("a link");
        let tree = Tree::open(dir.path()).expect("it opens");
        for open in [open_part, step_by_step] {
            open(tree.root(), b"a/b", READABLE).expect("no link is in the way");
            for path in ["l", "l/b"] {
                open(tree.root(), path.as_bytes(), READABLE).expect_err("a link is in the way");
            }
        }
    }

    #[test]
    fn the_way_may_be_longer_than_the_kernel_takes() {
        let dir = tempfile::tempdir().expect("a directory");
        let tree = Tree::open(dir.path()).expect("it opens");
        let name = "n".repeat(200);
        let (mut at, mut path) = (tree.root().try_clone_to_owned().expect("a descriptor"), Vec::new());
        for _ in 0..100 {
            mkdirat(&at, &*name, Mode::from_raw_mode(0o755)).expect("a directory");
            at = openat(&at, &*name, READABLE, Mode::empty()).expect("it opens");
            path.extend_from_slice(if path.is_empty() { b"" } else { b"/" });
            path.extend_from_slice(name.as_bytes());
        }
        let found = open_beneath(tree.root(), &path, READABLE).expect("it opens");
        assert_eq!(look(found.as_fd(), b"").map(|seen| seen.stat), look(at.as_fd(), b"").map(|seen| seen.stat));
        lokt_sys::payload::destroy(&dir.path().join(&name)).expect("it goes");
    }
}
