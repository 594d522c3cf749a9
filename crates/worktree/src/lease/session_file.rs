//! The session file: every process that can read it is the session, and so the holder of its
//! leases.
//!
//! It is created once, exclusively and atomically, and never replaced or removed. Two commands that
//! create it at the same moment become one session, and a killed command leaves either no file or a
//! complete one. Only a regular file of our own that no other user can read is accepted: with
//! another user's file, that user could renew and release what we hold.

use std::io;
use std::path::Path;

use lokt_core::lease::session::Session;

use lokt_sys::disk::Disk as _;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::look::us;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::plain_file::{NotPlain, PlainFile};

use crate::repo::this_machine;

/// Maximum size of a session file in bytes.
const SESSION_BYTES_MAX: u64 = 4096;
/// Permission bits that give other users access.
const OTHERS: u32 = 0o077;

/// Loads the session in the file at `path`; `None` if there is no such file.
pub fn load(path: &Path) -> Result<Option<Session>, Error> {
    let file = match PlainFile::open(path) {
        Ok(file) => file,
        Err(NotPlain::Missing) => return Ok(None),
        Err(NotPlain::Link) => return Err(refused(path, "is a symbolic link")),
        Err(NotPlain::Other(_)) => return Err(refused(path, "is no regular file")),
        Err(NotPlain::Io(error)) => return Err(cant("read", path, error)),
    };
    if file.uid != us() {
        return Err(refused(path, "belongs to another user"));
    }
    if file.mode & OTHERS != 0 {
        let message = format!("the session file {} can be read or written by others", path.display());
        return Err(Error::new(ErrorKind::NotARecord, message)
            .hint("`chmod 600` keeps them out; whoever may have read it can give your leases away"));
    }
    let bytes = file.read_within(SESSION_BYTES_MAX).map_err(|error| cant("read", path, error))?;
    let bytes = bytes.ok_or_else(|| refused(path, "is too long"))?;
    Session::parse(&bytes).map(Some).map_err(|why| refused(path, &format!("is none: {why}")))
}

/// Loads the session in the file at `path`. If the file is missing, creates it, with the
/// directories above it.
pub fn make(path: &Path) -> Result<Session, Error> {
    if let Some(session) = load(path)? {
        return Ok(session);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(refused(path, "has no name"));
    };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let machine = this_machine();
    let random = || machine.random().map_err(|error| cant("get random bits for", path, error));
    let session = Session::new(random()?, [random()?, random()?]);
    let made = OsDisk::create(dir).and_then(|(disk, _)| {
        let file = disk.unnamed(&session.to_bytes(), 0o600)?;
        file.sync()?;
        let linked = file.link(name);
        drop(file);
        linked?;
        disk.sync_dir("")
    });
    match made {
        Ok(()) => Ok(session),
        // Another process was faster; then both are the same session.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            load(path)?.ok_or_else(|| refused(path, "comes and goes"))
        }
        Err(error) => Err(cant("make", path, error)),
    }
}

fn cant(attempt: &str, path: &Path, error: io::Error) -> Error {
    Error::io(&format!("{attempt} the session file"), path, error).hint(ELSEWHERE)
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::NotARecord, format!("the session file {} {why}", path.display())).hint(ELSEWHERE)
}

/// Hint for every error about the file.
const ELSEWHERE: &str = "`--session FILE` names another one";

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes what a user would")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{load, make};
    use lokt_sys::error::ErrorKind;

    #[test]
    fn a_session_is_made_once_and_only_for_its_owner() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("a/b/main.alice");
        assert!(load(&path).expect("it is only missing").is_none());
        let made = make(&path).expect("it can be made");
        assert_eq!(make(&path).expect("it is there"), made, "the same session");
        assert_eq!(load(&path).expect("it is there"), Some(made), "the same session");
        let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o600, 0o700), "nobody else's business");
        let names = fs::read_dir(dir.path().join("a/b")).expect("it is there").count();
        assert_eq!(names, 1, "nothing else is left");
    }

    #[test]
    fn what_is_no_session_of_ours_is_refused_by_its_path() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("s");
        let says = |what: &str| {
            for error in [load(&path).expect_err(what), make(&path).expect_err(what)] {
                assert_eq!(error.kind(), ErrorKind::NotARecord, "{error}");
                assert!(error.to_string().contains(what) && error.to_string().contains("/s "), "{what}: {error}");
                assert!(error.next_step().is_some(), "{error}");
            }
        };
        fs::create_dir(&path).expect("it can be made");
        says("is no regular file");
        fs::remove_dir(&path).expect("it is ours");
        symlink(dir.path().join("elsewhere"), &path).expect("it can be made");
        says("is a symbolic link");
        fs::remove_file(&path).expect("it is ours");
        make(&path).expect("nothing is in the way");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("it is ours");
        says("can be read or written by others");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        fs::write(&path, "{}").expect("it is ours");
        says("is none");
        fs::write(&path, "x".repeat(5000)).expect("it is ours");
        says("is too long");
    }
}
