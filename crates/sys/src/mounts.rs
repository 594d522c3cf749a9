//! The file system of a directory, according to `statfs` and the mount table.

use std::fs;
use std::path::{Path, PathBuf};

use lokt_core::proc::{Mount, mount_in};
use rustix::fs::{AtFlags, CWD, StatxFlags, statfs, statx};

/// The file system under a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountedOn {
    /// Its magic number.
    pub magic: Option<u64>,
    /// Its type in the mount table, such as `ext4` or `fuse.sshfs`; empty if it isn't found there.
    pub kind: String,
    /// The mount source.
    pub source: String,
    /// The mount point.
    pub point: String,
    /// The options of the file system.
    pub options: String,
}

/// The file system under `dir`.
pub fn mounted_on(dir: &Path) -> MountedOn {
    let magic = statfs(dir).ok().and_then(|found| u64::try_from(found.f_type).ok());
    let id = statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID).ok();
    let id = id.filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0).map(|found| found.stx_mnt_id);
    let Mount { kind, source, point, options } = id.and_then(|id| mount_in(&table(), id)).unwrap_or_default();
    MountedOn { magic, kind, source, point, options }
}

/// Returns the mount table; empty if it can't be read. A mount whose name isn't valid text must not
/// hide the others.
pub(super) fn table() -> String {
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap_or_default()).into_owned()
}

impl MountedOn {
    /// Returns the same directory below the mount source, if a directory is mounted here a second
    /// time and is visible.
    pub fn underneath(&self, dir: &Path) -> Option<PathBuf> {
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
    fn the_directory_that_we_are_in_is_on_something() {
        let found = mounted_on(Path::new("."));
        assert!(found.magic.is_some() && !found.kind.is_empty(), "{found:?}");
    }
}
