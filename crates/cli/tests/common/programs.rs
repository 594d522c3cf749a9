//! Programs that a test makes and runs.
//!
//! They are written by another process: a descriptor of ours that is open for writing would be inherited by whatever another test
//! starts at that moment, and a program that somebody has open for writing can't be run ("Text file busy").

use std::path::{Path, PathBuf};

use super::{Call, LOKT, put};

/// A copy of the binary under test in `dir`, which every user can run who can enter `dir`.
pub(crate) fn copy_of_lokt(dir: &Path) -> PathBuf {
    let copy = dir.join("lokt");
    install(Path::new(LOKT), &copy);
    copy
}

/// A program at `path` whose file has these bytes; the directories above it are made.
pub(crate) fn program(path: &Path, bytes: impl AsRef<[u8]>) {
    let written = tempfile::tempdir().expect("a temp directory can be made");
    let text = written.path().join("text");
    put(&text, bytes);
    install(&text, path);
}

fn install(from: &Path, to: &Path) {
    Call::new("install").args(["-D", "-m", "755"]).args([from, to]).run().exits(0, "a temp directory is writable");
}
