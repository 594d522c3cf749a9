//! The search for the files that determine which root, or which repository, a command uses.
//!
//! Two processes that find different roots don't exclude each other. So a search distinguishes
//! "nothing is there" from "the system did not say": the first continues at the next place, the
//! second is an error.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, readlink};
use rustix::io::{Errno, retry_on_intr};

use crate::error::Error;
use crate::files::DirEntry;
use crate::look::{Look, look, look_through};

/// The kernel's own limit on the links of one path.
const LINKS_MAX: usize = 40;

/// The hint for a search that can't continue.
const HINT: &str = "try again, or name the root with --root or LOKT_ROOT";

/// Returns the metadata of `path` itself, without following a link; `None`: nothing that this user
/// can reach.
pub fn find(path: &Path) -> Result<Option<Look>, Error> {
    found(path, look(path)).map(Option::flatten)
}

/// Returns the metadata of the object that `path` leads to, following links; `None`: nothing that
/// this user can reach.
pub fn find_through(path: &Path) -> Result<Option<Look>, Error> {
    found(path, look_through(path)).map(Option::flatten)
}

/// Reports whether `path` leads to a directory that this user can reach.
pub fn is_dir(path: &Path) -> Result<bool, Error> {
    Ok(find_through(path)?.is_some_and(|found| found.is_dir))
}

/// Reports whether `path` leads to a regular file that this user can reach.
pub fn is_file(path: &Path) -> Result<bool, Error> {
    Ok(find_through(path)?.is_some_and(|found| found.kind.is_none()))
}

/// Returns the absolute path without links and dots; `None` if it leads nowhere that this user can
/// reach.
pub fn resolve(path: &Path) -> Result<Option<PathBuf>, Error> {
    found(path, without_links(path))
}

/// Returns the absolute path without links and dots, or `path` itself if it leads nowhere.
pub fn real_path(path: &Path) -> Result<PathBuf, Error> {
    Ok(resolve(path)?.unwrap_or_else(|| path.to_owned()))
}

/// Reads a regular file of at most `bytes_max` bytes; `None` if `path` leads to no such file that
/// this user can read.
pub fn read_short(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
    match find_through(path)? {
        Some(file) if file.kind.is_none() && file.size <= bytes_max => {}
        _ => return Ok(None),
    }
    let Some(bytes) = found(path, read_at_most(path, bytes_max + 1))? else { return Ok(None) };
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= bytes_max))
}

/// Lists a directory, in any order; a directory that this user can't read has no entries.
pub fn entries(dir: &Path) -> Result<Vec<DirEntry>, Error> {
    let listed = fs::read_dir(dir).and_then(|entries| {
        let entry = |entry: fs::DirEntry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            DirEntry { name: entry.file_name(), is_dir }
        };
        entries.map(|found| found.map(entry)).collect()
    });
    Ok(found(dir, listed)?.unwrap_or_default())
}

/// Reads without ever waiting: the file may have been replaced by something else since it was
/// checked.
fn read_at_most(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(retry_on_intr(|| open(path, flags, Mode::empty()))?);
    let mut content = Vec::new();
    file.take(bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// Works like `realpath` of the C library, except that the latter treats some errors as an answer:
/// a link that it can't read counts there as a directory if the path continues with `..`.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::new();
    let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<_>>();
    let mut left: VecDeque<OsString> = parts(&std::path::absolute(path)?);
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => real = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                if !look(&real)?.is_some_and(|found| found.is_dir) {
                    return Err(Errno::NOTDIR.into());
                }
                real.pop();
            }
            Some(Component::Normal(name)) => {
                real.push(name);
                match retry_on_intr(|| readlink(&real, Vec::new())) {
                    Ok(target) => {
                        links += 1;
                        if links > LINKS_MAX {
                            return Err(Errno::LOOP.into());
                        }
                        real.pop();
                        let target = parts(Path::new(OsStr::from_bytes(target.as_bytes())));
                        target.into_iter().rev().for_each(|part| left.push_front(part));
                    }
                    // It is not a link.
                    Err(Errno::INVAL) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    Ok(real)
}

/// Returns `None` for errors that every attempt by this user gets until the files change: nothing
/// is reachable at `path`.
fn found<T>(path: &Path, looked: io::Result<T>) -> Result<Option<T>, Error> {
    match looked {
        Ok(value) => Ok(Some(value)),
        Err(error) if leads_nowhere(&error) => Ok(None),
        Err(error) => {
            let error = Error::io("look at", path, error);
            Err(if error.next_step().is_some() { error } else { error.hint(HINT) })
        }
    }
}

fn leads_nowhere(error: &io::Error) -> bool {
    const NOWHERE: [Errno; 7] =
        [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::PERM, Errno::LOOP, Errno::NAMETOOLONG, Errno::INVAL];
    // A path with a NUL byte, which git's files can contain, has no error number.
    Errno::from_io_error(error).map_or(error.kind() == io::ErrorKind::InvalidInput, |errno| NOWHERE.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_can_not_be_reached_is_not_there() {
        let dir = tempfile::tempdir().expect("temp");
        let at = |name: &str| dir.path().join(name);
        symlink("loop", at("loop")).expect("temp");
        fs::create_dir(at("dir")).expect("temp");
        let long = "n".repeat(5000);
        for name in ["none", "loop", "dir/none/none", &long, "nul\0byte"] {
            let path = at(name);
            assert_eq!(find_through(&path).expect("the system answers"), None, "{name:?}");
            assert!(!is_dir(&path).expect("the system answers") && !is_file(&path).expect("the system answers"));
            assert_eq!(read_short(&path, 10).expect("the system answers"), None, "{name:?}");
            assert_eq!(real_path(&path).expect("the system answers"), path, "{name:?}");
        }
        assert!(find(&at("loop")).expect("it is there").is_some(), "the link itself");
        assert!(is_dir(&at("dir")).expect("it is there"));
    }

    #[test]
    fn other_errors_of_the_system_are_errors() {
        for errno in [Errno::IO, Errno::NOMEM, Errno::STALE, Errno::MFILE, Errno::NOTCONN, Errno::INTR] {
            let failed = found(Path::new("/p"), Err::<(), _>(errno.into())).expect_err("it could not look");
            assert!(failed.to_string().starts_with("look at /p: ") && failed.next_step().is_some(), "{failed}");
        }
    }

    /// The C library's function is the model wherever the system answers.
    #[test]
    fn a_path_is_resolved_as_by_the_c_library() {
        let dir = tempfile::tempdir().expect("temp");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b/c")).expect("temp");
        File::create(at("file")).expect("temp");
        for (target, name) in
            [("a/b", "link"), ("../a/./b/../b", "a/up"), ("link/c", "chain"), ("x", "dangling"), ("ring", "ring")]
        {
            symlink(target, at(name)).expect("temp");
        }
        symlink(at("a"), at("absolute")).expect("temp");
        for name in [
            "",
            ".",
            "..",
            "a",
            "a/b/",
            "link",
            "link/..",
            "link/../..",
            "chain",
            "chain/../../..",
            "a/up/c/..",
            "absolute/b",
            "absolute/up/..",
            "a//b/./c",
            "dangling",
            "dangling/..",
            "ring",
            "ring/x",
            "file",
            "file/..",
            "file/x",
            "none/..",
        ] {
            let path = at(name);
            let expected = fs::canonicalize(&path).ok();
            assert_eq!(resolve(&path).expect("the system answers"), expected, "{name:?}");
        }
        assert_eq!(resolve(Path::new(".")).expect("it answers"), std::env::current_dir().ok(), "relative");
    }

    #[test]
    fn a_directory_is_listed_or_has_nothing() {
        let dir = tempfile::tempdir().expect("temp");
        fs::create_dir(dir.path().join("sub")).expect("temp");
        File::create(dir.path().join("file")).expect("temp");
        let mut found = entries(dir.path()).expect("it can be read");
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<_> = found.iter().map(|entry| (entry.name.to_str(), entry.is_dir)).collect();
        assert_eq!(names, [(Some("file"), false), (Some("sub"), true)]);
        for name in ["none", "file"] {
            assert_eq!(entries(&dir.path().join(name)).expect("it can be looked at"), [], "{name}");
        }
    }

    #[test]
    fn a_file_is_read_if_it_is_short() {
        let dir = tempfile::tempdir().expect("temp");
        let path = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
        File::create(&path).and_then(|mut file| file.write_all(b"short")).expect("temp");
        assert_eq!(read_short(&path, 5).expect("it can be read"), Some(b"short".to_vec()));
        assert_eq!(read_short(&path, 4).expect("it can be looked at"), None, "it is too long");
        assert_eq!(read_short(dir.path(), 10_000).expect("it can be looked at"), None, "it is no file");
    }
}
