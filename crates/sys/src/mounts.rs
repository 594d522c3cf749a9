//! Which file system a directory is on, as `statfs` and the table of mounts tell.

use std::fs;
use std::path::{Path, PathBuf};

use lokt_core::proc::{Mount, mount_in};
use rustix::fs::{AtFlags, CWD, StatxFlags, statfs, statx};

/// The file system under a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountedOn {
    /// Its magic number.
    pub magic: Option<u64>,
    /// What the table of mounts calls it, as `ext4` or `fuse.sshfs`; empty if it can't be found there.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// Where.
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

/// The table of mounts; empty if it can't be read. Anybody may mount something under a name that is no text, and must not hide the rest by
/// that.
pub(super) fn table() -> String {
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap_or_default()).into_owned()
}

impl MountedOn {
    /// The same directory on the other side: in the directory that is mounted here a second time, if it is one and can be seen.
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
