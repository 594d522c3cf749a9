//! Finding the lokt repository (`.jvs`) that a directory is in.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::look::{Look, look};

/// What a repository knows about itself is below this directory.
pub const JVS: &str = ".jvs";
/// The file in it that makes it a repository.
pub const FORMAT_FILE: &str = "format_version";

/// A stranger's `.jvs` in a directory like `/tmp`, where anybody can put one, doesn't decide where we take leases.
pub fn is_planted(top: &Path, found: &Look) -> bool {
    let us = rustix::process::geteuid().as_raw();
    fs::metadata(top).is_ok_and(|meta| meta.mode() & 0o002 != 0 && ![us, 0, meta.uid()].contains(&found.uid))
}

/// The lokt repository that `dir` is in, whatever its format; `dir` is a path without links. The same directories count as for
/// `Repository::find`, and mounts don't end the search: a worktree may have a disk of its own.
pub fn lokt_repository(dir: &Path) -> Option<PathBuf> {
    let is_one = |top: &&Path| {
        let found = look(&top.join(JVS)).ok().flatten().filter(|found| found.is_dir && !is_planted(top, found));
        found.is_some() && top.join(JVS).join(FORMAT_FILE).exists()
    };
    dir.ancestors().find(is_one).map(ToOwned::to_owned)
}
