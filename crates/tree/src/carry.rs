//! Keeps files that the user excluded from snapshots in place when a snapshot is restored.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use lokt_core::snapshot::ignore::{IGNORE_BYTES_MAX, IGNORE_FILE, Ignore};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, mkdirat, openat, renameat, renameat_with,
    statat,
};
use rustix::io::{Errno, read, retry_on_intr};

use crate::beneath::{READABLE, open_beneath};
use crate::roots::is_root;

/// Returns the ignore rules of a worktree.
pub fn ignored_in(root: &Path) -> io::Result<Ignore> {
    let root = match open_dir(CWD, root.as_os_str().as_encoded_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ignore::default()),
        done => done?,
    };
    ignored_by(root.as_fd())
}

fn ignored_by(root: BorrowedFd<'_>) -> io::Result<Ignore> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(root, IGNORE_FILE, flags, Mode::empty()) {
        // A link may lead anywhere, also to something that isn't in the snapshot.
        Err(Errno::NOENT | Errno::LOOP) => return Ok(Ignore::default()),
        done => done?,
    };
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(Ignore::default());
    }
    let mut text = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match retry_on_intr(|| read(&file, &mut buffer[..]))? {
            0 => break,
            count => text.extend_from_slice(&buffer[..count]),
        }
        if text.len() > IGNORE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{IGNORE_FILE} is too long")));
        }
    }
    Ok(Ignore::parse(&text))
}

/// Moves ignored entries from `old` to the same path in `new`, unless something is there. Also
/// moves a lock root that was created after the search for roots. Entries that can't be moved stay
/// in `old`; they don't keep anyone from the lease.
pub fn carry_ignored(old: &Path, new: &Path) -> io::Result<()> {
    let old = open_dir(CWD, old.as_os_str().as_encoded_bytes())?;
    // The restore has already read the ignore rules. If they are unreadable now, nothing counts as
    // ignored.
    let ignore = ignored_by(old.as_fd()).unwrap_or_default();
    let new = open_dir(CWD, new.as_os_str().as_encoded_bytes())?;
    // Only a few directories are open at a time, however deep the tree is.
    let mut dirs = vec![Vec::new()];
    while let Some(dir) = dirs.pop() {
        let Ok(from) = open_beneath(old.as_fd(), &dir, READABLE) else { continue };
        for name in names_in(from.as_fd())? {
            let Ok(stat) = statat(&from, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let is_dir = kind == FileType::Directory;
            let path = if dir.is_empty() { name.clone() } else { [&*dir, b"/", &*name].concat() };
            if ignore.is_ignored(&path, is_dir) || is_root(from.as_fd(), &name, kind) {
                // Another process has moved it; or the snapshot has an entry of that name, which
                // takes precedence; or its target directory is unavailable.
                let _ = move_over(old.as_fd(), new.as_fd(), &dir, &name);
            } else if is_dir {
                dirs.push(path);
            }
        }
    }
    Ok(())
}

fn names_in(dir: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::new(open_dir(dir, b".")?)? {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    Ok(names)
}

/// Moves one entry of `dir`, which is created if the snapshot doesn't have it.
fn move_over(old: BorrowedFd<'_>, new: BorrowedFd<'_>, dir: &[u8], name: &[u8]) -> Result<(), Errno> {
    let from = open_beneath(old, dir, READABLE)?;
    let into = match open_beneath(new, dir, READABLE) {
        Err(Errno::NOENT) => make_like(old, new, dir)?,
        done => done?,
    };
    match renameat_with(&from, name, &into, name, RenameFlags::NOREPLACE) {
        // Network file systems don't support `NOREPLACE`.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
            if matches!(statat(&into, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) =>
        {
            renameat(&from, name, &into, name)
        }
        Err(Errno::ACCESS) => move_anyway(from.as_fd(), into.as_fd(), name),
        done => done,
    }
}

/// Like `move_over`, for a read-only directory of ours: it is made writable for a moment.
fn move_anyway(from: BorrowedFd<'_>, into: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    // Moving a directory changes its `..` entry.
    let itself = open_beneath(from, name, READABLE).ok();
    let mut modes = Vec::new();
    for dir in [Some(from), Some(into), itself.as_ref().map(AsFd::as_fd)].into_iter().flatten() {
        let mode = fstat(dir)?.st_mode & 0o7777;
        // Another owner's directory stays as it is; then moving fails again.
        if fchmod(dir, Mode::from_raw_mode(mode | 0o700)).is_ok() {
            modes.push((dir, mode));
        }
    }
    let moved = renameat_with(from, name, into, name, RenameFlags::NOREPLACE);
    for (dir, mode) in modes {
        let _ = fchmod(dir, Mode::from_raw_mode(mode));
    }
    moved
}

/// Creates `dir`, and what is missing above it, with the permissions that it has in `old`.
fn make_like(old: BorrowedFd<'_>, new: BorrowedFd<'_>, dir: &[u8]) -> Result<OwnedFd, Errno> {
    let ends = dir.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([dir.len()]);
    let mut made = None;
    for end in ends {
        let path = &dir[..end];
        let above = path.iter().rposition(|byte| *byte == b'/');
        let (above, name) = above.map_or((&[][..], path), |cut| (&path[..cut], &path[cut + 1..]));
        let mode = fstat(open_beneath(old, path, READABLE)?)?.st_mode & 0o777;
        match mkdirat(open_beneath(new, above, READABLE)?, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        made = Some(open_beneath(new, path, READABLE)?);
    }
    made.ok_or(Errno::NOENT)
}

fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(dir, name, flags, Mode::empty()))?)
}
