//! Which file system a directory is on, as `statfs` and the table of mounts tell.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statfs, statx};

/// The file system under a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MountedOn {
    /// Its magic number.
    pub(crate) magic: Option<u64>,
    /// What the table of mounts calls it, as `ext4` or `fuse.sshfs`; empty if it can't be found there.
    pub(crate) kind: String,
    /// What is mounted.
    pub(crate) source: String,
    /// Where.
    pub(crate) point: String,
    /// The options of the file system.
    pub(crate) options: String,
}

/// The file system under `dir`.
pub(crate) fn mounted_on(dir: &Path) -> MountedOn {
    let magic = statfs(dir).ok().and_then(|found| u64::try_from(found.f_type).ok());
    let id = statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID).ok();
    let id = id.filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0).map(|found| found.stx_mnt_id);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let found = id.and_then(|id| table.lines().find_map(|line| entry(line, id)));
    MountedOn { magic, ..found.unwrap_or_default() }
}

/// What a line like `43 27 0:39 / /mnt rw shared:1 - fuse.sshfs host:/dir rw,user_id=0` says, if it is about mount `id`.
fn entry(line: &str, id: u64) -> Option<MountedOn> {
    let (mount, system) = line.split_once(" - ")?;
    if mount.split(' ').next()?.parse() != Ok(id) {
        return None;
    }
    let point = unescaped(mount.split(' ').nth(4)?);
    let mut words = system.split(' ').map(unescaped);
    let (kind, source, options) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    Some(MountedOn { magic: None, kind, source, point, options })
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescaped(word: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(word.to_owned(), |word, (code, plain)| word.replace(code, plain))
}

impl MountedOn {
    /// The same directory on the other side: in the directory that is mounted here a second time, if it is one and can be seen.
    pub(crate) fn underneath(&self, dir: &Path) -> Option<PathBuf> {
        let below = fs::canonicalize(dir).ok()?.strip_prefix(&self.point).ok()?.to_owned();
        let source = Path::new(&self.source);
        let there = source.join(below);
        (source.is_absolute() && self.source != self.point && there.is_dir()).then_some(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_read_after_its_optional_fields() {
        let line = "43 27 0:39 / /mnt rw,nosuid shared:1 master:2 - fuse.sshfs host:/dir rw,user_id=0";
        let found = entry(line, 43).expect("it is about that mount");
        assert_eq!((found.kind.as_str(), found.source.as_str()), ("fuse.sshfs", "host:/dir"));
        assert_eq!((found.point.as_str(), found.options.as_str()), ("/mnt", "rw,user_id=0"));
        let blanks = entry("43 27 0:39 / /my\\040disk rw - ext4 /dev/a\\134b rw", 43).expect("it is about that mount");
        assert_eq!((blanks.point.as_str(), blanks.source.as_str()), ("/my disk", "/dev/a\\b"));
        assert_eq!(entry(line, 4), None, "that is another one");
        assert_eq!(entry("", 43), None);
    }

    #[test]
    fn the_directory_that_we_are_in_is_on_something() {
        let found = mounted_on(Path::new("."));
        assert!(found.magic.is_some() && !found.kind.is_empty(), "{found:?}");
    }
}
