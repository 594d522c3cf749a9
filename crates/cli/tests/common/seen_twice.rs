//! A directory and the same one through bindfs, where `flock` is silently local to each. It needs root and /dev/fuse.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A directory that is seen a second time through bindfs, until this is dropped.
pub(crate) struct SeenTwice {
    dir: TempDir,
}

impl SeenTwice {
    pub(crate) fn new() -> Self {
        let seen = Self { dir: tempfile::tempdir().expect("temp") };
        for name in ["real", "bound"] {
            std::fs::create_dir(seen.dir.path().join(name)).expect("temp");
        }
        let mounted = Command::new("bindfs").arg(seen.real()).arg(seen.bound()).output();
        let mounted =
            mounted.expect("bindfs is installed (Debian: apt-get install bindfs fuse3), as scripts/test sees to");
        let why = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success(), "bindfs can mount here; it needs root and /dev/fuse: {why}");
        seen
    }

    pub(crate) fn real(&self) -> PathBuf {
        self.dir.path().join("real")
    }

    pub(crate) fn bound(&self) -> PathBuf {
        self.dir.path().join("bound")
    }
}

impl Drop for SeenTwice {
    fn drop(&mut self) {
        // Lazily: whatever a failed test left in there must not keep it.
        let _ = Command::new("umount").arg("--lazy").arg(self.bound()).status();
    }
}
