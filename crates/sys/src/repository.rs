//! Finding the lokt repository (`.jvs`) that a directory is in.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::look::{Look, us};
use crate::search::{find, find_through};

/// What a repository knows about itself is below this directory.
pub const JVS: &str = ".jvs";
/// The file in it that makes it a repository.
pub const FORMAT_FILE: &str = "format_version";

/// A stranger's `.jvs` in a directory like `/tmp`, where anybody can put one, doesn't decide where we take leases.
pub fn is_planted(top: &Path, found: &Look) -> Result<bool, Error> {
    let around = find_through(top)?;
    Ok(around.is_some_and(|top| top.mode & 0o002 != 0 && ![us(), 0, top.uid].contains(&found.uid)))
}

/// The lokt repository that `dir` is in, whatever its format; `dir` is a path without links. The same directories count as for
/// `Repository::find`, and mounts don't end the search: a worktree may have a disk of its own.
pub fn lokt_repository(dir: &Path) -> Result<Option<PathBuf>, Error> {
    for top in dir.ancestors() {
        let jvs = top.join(JVS);
        let Some(found) = find(&jvs)?.filter(|found| found.is_dir) else { continue };
        if !is_planted(top, &found)? && find_through(&jvs.join(FORMAT_FILE))?.is_some() {
            return Ok(Some(top.to_owned()));
        }
    }
    Ok(None)
}
