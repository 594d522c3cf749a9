//! Looks for the files that decide which root, or which repository, a command uses.
//!
//! Two processes that find different roots don't exclude each other. So a search keeps "nothing is there" apart from "the system
//! did not say": the first leads to the next place, the second is an error.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::Error;
use crate::look::{Look, look, look_through};

/// What to do when a search can't go on.
const HINT: &str = "try again, or name the root with --root or LOKT_ROOT";

/// Looks at what is there, not through a link; `None`: nothing that this user can reach.
pub fn find(path: &Path) -> Result<Option<Look>, Error> {
    found(path, look(path)).map(Option::flatten)
}

/// Looks at what `path` leads to, through links; `None`: nothing that this user can reach.
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

/// Returns the absolute path without links and dots, or the path as it is given if it leads nowhere.
pub fn real_path(path: &Path) -> Result<PathBuf, Error> {
    Ok(found(path, fs::canonicalize(path))?.unwrap_or_else(|| path.to_owned()))
}

/// Reads a regular file of at most `bytes_max` bytes; `None` if `path` leads to no such file that this user can read.
pub fn read_short(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
    match find_through(path)? {
        Some(file) if file.kind.is_none() && file.size <= bytes_max => found(path, fs::read(path)),
        _ => Ok(None),
    }
}

/// `None` for the errors that every look by this user gives until the files change: there is nothing for it at `path`.
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
    const NOWHERE: [Errno; 6] =
        [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::LOOP, Errno::NAMETOOLONG, Errno::INVAL];
    // A path with a NUL byte, which git's files can contain, has no error number.
    Errno::from_io_error(error).map_or(error.kind() == io::ErrorKind::InvalidInput, |errno| NOWHERE.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
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

    #[test]
    fn a_file_is_read_if_it_is_short() {
        let dir = tempfile::tempdir().expect("temp");
        let path = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
        fs::File::create(&path).and_then(|mut file| file.write_all(b"short")).expect("temp");
        assert_eq!(read_short(&path, 5).expect("it can be read"), Some(b"short".to_vec()));
        assert_eq!(read_short(&path, 4).expect("it can be looked at"), None, "it is too long");
        assert_eq!(read_short(dir.path(), 10_000).expect("it can be looked at"), None, "it is no file");
    }
}
