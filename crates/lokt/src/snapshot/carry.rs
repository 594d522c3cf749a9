//! Files that no snapshot has, because the user said so, stay where they are when a snapshot comes back.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use lokt_core::snapshot::ignore::Ignore;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, openat, renameat_with, statat};
use rustix::io::{Errno, read, retry_on_intr};

/// The file that says what is ignored, in the root of a worktree.
pub(crate) const IGNORE_FILE: &str = ".lokt-ignore";
/// No such file is longer.
const IGNORE_BYTES_MAX: usize = 1 << 20;

/// What a worktree says is to be ignored.
pub(crate) fn ignored_in(root: &Path) -> io::Result<Ignore> {
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
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
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

/// Moves what is ignored in `old` to where it was, in `new`, unless something is there.
pub(crate) fn carry_ignored(old: &Path, new: &Path) -> io::Result<()> {
    let old = open_dir(CWD, old.as_os_str().as_encoded_bytes())?;
    let ignore = ignored_by(old.as_fd())?;
    if ignore.is_empty() {
        return Ok(());
    }
    let new = open_dir(CWD, new.as_os_str().as_encoded_bytes())?;
    carry(&ignore, old.as_fd(), new.as_fd(), &mut Vec::new())
}

fn carry(ignore: &Ignore, old: BorrowedFd<'_>, new: BorrowedFd<'_>, path: &mut Vec<u8>) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in Dir::new(open_dir(old, b".")?)? {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    for name in names {
        let stat = match statat(old, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            done => done?,
        };
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let length = path.len();
        if length > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        if ignore.is_ignored(path, is_dir) {
            match renameat_with(old, &*name, new, &*name, RenameFlags::NOREPLACE) {
                // Somebody else has moved it; or something of that name is in the snapshot, which counts; or its place can't be had.
                Ok(())
                | Err(Errno::NOENT | Errno::EXIST | Errno::XDEV | Errno::BUSY | Errno::ACCESS | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        } else if is_dir && let (Ok(below), Ok(there)) = (open_dir(old, &name), open_dir(new, &name)) {
            // What was in a directory that isn't in the snapshot goes with it.
            carry(ignore, below.as_fd(), there.as_fd(), path)?;
        }
        path.truncate(length);
    }
    Ok(())
}

fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(dir, name, flags, Mode::empty()))?)
}
