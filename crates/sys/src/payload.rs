//! The directories with users' files: created, moved and deleted as a whole, without inspecting
//! their contents.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, chmod, fstat, fsync, open, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::look::look;
use super::os_dirs::{make_root, open_dir};

/// The object in place of a directory of users' files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Nothing is there.
    Missing,
    /// An empty directory.
    Empty,
    /// A directory with something in it, or one that can't be read.
    Full,
    /// Not a directory; the text says what.
    Other(&'static str),
}

/// Inspects `path`. A link to a directory counts as full, whether or not anything is in it: its
/// files are elsewhere.
pub fn examine(path: &Path) -> io::Result<Payload> {
    let Some(found) = look(path)? else { return Ok(Payload::Missing) };
    if found.kind == Some("a symbolic link") {
        return Ok(if path.is_dir() { Payload::Full } else { Payload::Other("a symbolic link to nothing") });
    }
    if !found.is_dir {
        return Ok(Payload::Other(found.kind.unwrap_or("a file")));
    }
    let dir = match open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::ACCESS) => return Ok(Payload::Full),
        done => done?,
    };
    Ok(if names_in(dir.as_fd())?.is_empty() { Payload::Empty } else { Payload::Full })
}

/// Creates it and its missing parents, durably. False: it already existed.
pub fn make(path: &Path) -> io::Result<bool> {
    make_root(path, 0o755)
}

/// Moves it, durably, unless something is there (`AlreadyExists`). `NotFound` if it doesn't exist.
pub fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    slip_new(from, to)?;
    sync_parents(from, to)
}

fn sync_parents(one: &Path, other: &Path) -> io::Result<()> {
    for dir in [one.parent(), other.parent()].into_iter().flatten() {
        let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        retry_on_intr(|| fsync(&fd))?;
    }
    Ok(())
}

/// Exchanges two directories atomically and durably. `NotFound` if either is missing, `Unsupported`
/// if the file system can't.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    slip_exchange(one, other)?;
    sync_parents(one, other)
}

/// Moves an entry of any kind as [`move_new`] does, without waiting until the move is durable.
pub fn slip_new(from: &Path, to: &Path) -> io::Result<()> {
    match retry_on_intr(|| renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)) {
        // Network file systems don't support NOREPLACE. Only lokt creates such entries, one at a
        // time.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if look(to)?.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(renameat(CWD, from, CWD, to)?)
        }
        done => Ok(done?),
    }
}

/// Exchanges two entries of any kind as [`exchange`] does, without waiting until that is durable.
pub fn slip_exchange(one: &Path, other: &Path) -> io::Result<()> {
    match retry_on_intr(|| renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
        done => Ok(done?),
    }
}

/// Waits until moves into or out of a directory are durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(retry_on_intr(|| fsync(&fd))?)
}

/// Writes a new file. Its content is durable, its name isn't.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(open(path, flags, Mode::from_raw_mode(0o644))?);
    file.write_all(bytes)?;
    file.sync_all()
}

/// Returns the names of all entries of a directory.
pub fn names(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    names_in(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.as_fd())
}

/// Removes an empty directory (`DirectoryNotEmpty` if it isn't).
pub fn remove_empty(path: &Path) -> io::Result<()> {
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Removes a directory with everything in it. Follows no link and enters no mount point: for such a
/// directory the kernel reports "busy" before "not empty". Trees of any depth need only two open
/// directories, because deeper ones are moved up first.
pub fn destroy(path: &Path) -> io::Result<()> {
    let top = match open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        done => done?,
    };
    let mut moved_up = 0;
    loop {
        let names = names_in(top.as_fd())?;
        if names.is_empty() {
            break;
        }
        let (mut first_error, mut is_smaller) = (None, false);
        for name in &names {
            match clear(top.as_fd(), name, &mut moved_up) {
                Ok(()) => is_smaller = true,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if let (Some(error), false) = (first_error, is_smaller) {
            return Err(error);
        }
    }
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Removes one entry of `top`. Directories two levels below are moved up into it.
fn clear(top: BorrowedFd<'_>, name: &[u8], moved_up: &mut u64) -> io::Result<()> {
    if !is_full_dir(top, name)? {
        return Ok(());
    }
    let dir = open_writable(top, name)?;
    for child in names_in(dir.as_fd())? {
        if is_full_dir(dir.as_fd(), &child)? {
            // Its `..` changes, so it must be writable.
            open_writable(dir.as_fd(), &child)?;
            loop {
                *moved_up += 1;
                match renameat_with(&dir, &*child, top, format!("~{moved_up}"), RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => {}
                    // On network file systems: a name in use belongs to a non-empty entry, which
                    // can't be replaced.
                    Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                        match renameat(&dir, &*child, top, format!("~{moved_up}")) {
                            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                            done => break done?,
                        }
                    }
                    done => break done?,
                }
            }
        }
    }
    Ok(unlinkat(top, name, AtFlags::REMOVEDIR)?)
}

/// Removes a non-directory or an empty directory. True: it is a directory that isn't empty.
fn is_full_dir(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<bool> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(false),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory. If it is ours and not writable, makes it writable: it is about to be removed.
fn open_writable(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = retry_on_intr(|| openat(parent, name, flags, Mode::empty()))?;
    let stat = fstat(&place)?;
    if stat.st_mode & 0o700 != 0o700 && stat.st_uid == rustix::process::geteuid().as_raw() {
        // By descriptor, so that no link can be put in its place.
        chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700))?;
    }
    open_dir(place.as_fd(), ".")
}

/// Makes a directory of ours writable, which is necessary to move it elsewhere: its `..` changes. A
/// missing one needs nothing.
pub fn make_writable(path: &Path) -> io::Result<()> {
    match open_writable(CWD, path.as_os_str().as_encoded_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map(drop),
    }
}

/// Returns the names of all entries of a directory, as bytes: users' file names need not be valid
/// text.
fn names_in(dir: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::new(open_dir(dir, ".")?)? {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_tree_goes_with_everything_in_it_and_nothing_that_it_links_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
        fs::create_dir_all(tree.join("a/b/c/d")).expect("directories");
        fs::create_dir_all(tree.join("~1/~2/~3")).expect("directories");
        fs::create_dir_all(other.join("kept")).expect("directories");
        let odd = tree.join("a/b").join(std::ffi::OsStr::from_bytes(b"no\xfftext"));
        for file in [tree.join("x"), tree.join("a/b/c/d/y"), odd, other.join("kept/z")] {
            fs::File::create(file).expect("a file");
        }
        symlink(&other, tree.join("a/out")).expect("a link");
        symlink(&other, tree.join("out")).expect("a link");
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o500)).expect("a mode");
        destroy(&tree).expect("it can be removed");
        assert!(!tree.exists(), "nothing is left of it");
        assert!(other.join("kept/z").exists(), "what a link leads to is not in the tree");
        destroy(&tree).expect("what is gone is gone");
    }

    #[test]
    fn a_tree_may_be_deeper_than_any_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).expect("a directory");
        let mut at = open(&tree, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it opens");
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).expect("a directory");
            at = open_dir(at.as_fd(), "d").expect("it opens");
        }
        destroy(&tree).expect("it can be removed");
        assert!(!tree.exists(), "nothing is left of it");
    }
}
