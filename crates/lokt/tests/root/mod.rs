//! A root of a test's own.

use std::path::PathBuf;

use lokt::Lokt;

/// A directory of locks that goes when it is dropped.
pub(crate) struct Root(tempfile::TempDir);

impl Root {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for a temp directory"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("root")
    }

    pub(crate) fn lokt(&self, owner: &str) -> Lokt {
        Lokt::open(self.path()).expect("a temp directory is writable").owner(owner)
    }
}
