//! Metadata of a file: its kind, its owner, its mode. Also removes permissions.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, fchmod, fstat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::os_dirs::{PLAIN, kind_of, open_below};

/// A file's metadata, as `ls` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Device and inode: the identity of the file.
    pub id: (u64, u64),
    /// The user who owns it.
    pub uid: u32,
    /// The permission bits, without set-id and sticky ones.
    pub mode: u32,
    /// The kind of object, if it isn't a regular file.
    pub kind: Option<&'static str>,
    /// True for a directory.
    pub is_dir: bool,
    /// Its size in bytes.
    pub size: u64,
    /// The time of the last change of its inode, including renames. Unlike the modification time,
    /// it can't be set.
    pub changed: Timestamp,
}

/// Returns the metadata of `path` itself, without following a link; `None` if nothing is there.
pub fn look(path: &Path) -> io::Result<Option<Look>> {
    look_with(path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the metadata of the object that `path` leads to, following links; `None` if it leads to
/// nothing.
pub fn look_through(path: &Path) -> io::Result<Option<Look>> {
    look_with(path, AtFlags::empty())
}

fn look_with(path: &Path, flags: AtFlags) -> io::Result<Option<Look>> {
    let stat = match retry_on_intr(|| statat(CWD, path, flags)) {
        Err(Errno::NOENT) => return Ok(None),
        done => done?,
    };
    let nanos = i32::try_from(stat.st_ctime_nsec).unwrap_or(0);
    Ok(Some(Look {
        id: (stat.st_dev, stat.st_ino),
        uid: stat.st_uid,
        mode: stat.st_mode & 0o777,
        kind: kind_of(&stat),
        is_dir: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        changed: Timestamp::new(stat.st_ctime, nanos).unwrap_or(Timestamp::MAX),
    }))
}

/// Checks that we may write to it. The kernel decides, because it knows about read-only mounts
/// and access lists.
pub fn may_write(path: &Path) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Removes all permissions that aren't in `keep` from a file of ours below `top`, if it is still
/// the one that was `seen`. Never adds any. False: it is another file, or needs no change.
pub fn tighten(top: &Path, path: &str, seen: &Look, keep: u32) -> io::Result<bool> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let dir = open_below(top, dir)?;
    let fd = match retry_on_intr(|| openat(&dir, name, OFlags::RDONLY | PLAIN, Mode::empty())) {
        // Someone put a link there: its target isn't the file that was inspected.
        Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
        done => done?,
    };
    let stat = fstat(&fd)?;
    if (stat.st_dev, stat.st_ino) != seen.id {
        return Ok(false);
    }
    let kind = FileType::from_raw_mode(stat.st_mode);
    // A file that has another name elsewhere belongs not only to the root.
    let is_file = kind == FileType::RegularFile && stat.st_nlink == 1;
    let ours = stat.st_uid == us() && (is_file || kind == FileType::Directory);
    // Keep the special bits: set-group-id means that new files belong to the group, too.
    let left = stat.st_mode & 0o7777 & (keep | 0o7000);
    if !ours || left == stat.st_mode & 0o7777 {
        return Ok(false);
    }
    fchmod(&fd, Mode::from_raw_mode(left))?;
    Ok(true)
}

/// Sets exactly this mode on a regular file of ours in `dir`, if it is still the one that was
/// `seen` and has at most `names_max` names. False: it is another file, or a user linked a file
/// from elsewhere into the ledger.
pub fn set_mode(dir: &Path, name: &str, seen: &Look, names_max: u64, mode: u32) -> io::Result<bool> {
    let fd = match retry_on_intr(|| openat(CWD, dir.join(name), OFlags::RDONLY | PLAIN, Mode::empty())) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
        done => done?,
    };
    let stat = fstat(&fd)?;
    let is_ours = (stat.st_dev, stat.st_ino) == seen.id && stat.st_uid == us() && kind_of(&stat).is_none();
    if !is_ours || stat.st_nlink > names_max {
        return Ok(false);
    }
    fchmod(&fd, Mode::from_raw_mode(mode))?;
    Ok(true)
}

/// The effective user id, which the file system checks.
pub fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    fn seen(path: &Path) -> Look {
        look(path).expect("it can be looked at").expect("it is there")
    }

    #[test]
    fn permissions_are_only_ever_taken_away() {
        let top = tempfile::tempdir().expect("temp");
        let dir = top.path().join("dir");
        std::fs::create_dir(&dir).expect("temp");
        let mode = |mode| {
            chmod(&dir, mode);
            let changed = tighten(top.path(), "dir", &seen(&dir), 0o700).expect("it is ours");
            (changed, seen(&dir).mode)
        };
        assert_eq!(mode(0o755), (true, 0o700));
        assert_eq!(mode(0o700), (false, 0o700));
        assert_eq!(mode(0o500), (false, 0o500), "nothing is added");
    }

    #[test]
    fn only_what_was_looked_at_is_changed_and_not_through_a_link() {
        let top = tempfile::tempdir().expect("temp");
        let [dir, victim] = ["dir", "victim"].map(|name| top.path().join(name));
        for path in [&dir, &victim, &victim.join("x")] {
            std::fs::create_dir(path).expect("temp");
            chmod(path, 0o755);
        }
        assert!(!tighten(top.path(), "victim", &seen(&dir), 0o700).expect("nothing is done"), "it is another one");
        std::os::unix::fs::symlink("victim", top.path().join("link")).expect("temp");
        assert!(!tighten(top.path(), "link", &seen(&victim), 0o700).expect("nothing is done"), "it is a link");
        assert!(tighten(top.path(), "link/x", &seen(&victim.join("x")), 0o700).is_err(), "a link leads there");
        assert_eq!((seen(&victim).mode, seen(&victim.join("x")).mode), (0o755, 0o755));
    }
}
