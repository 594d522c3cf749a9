//! Finding the lokt repository (`.jvs`) that a directory is in.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::look::{Look, us};
use crate::search::{find, find_through};

/// The directory with a repository's own files.
pub const JVS: &str = ".jvs";
/// The file in it that identifies a repository.
pub const FORMAT_FILE: &str = "format_version";

/// Reports whether a `.jvs` was planted by another user in a directory like `/tmp`, where anyone
/// can put one. Such a directory must not decide where we acquire leases.
pub fn is_planted(top: &Path, found: &Look) -> Result<bool, Error> {
    let around = find_through(top)?;
    Ok(around.is_some_and(|top| top.mode & 0o002 != 0 && ![us(), 0, top.uid].contains(&found.uid)))
}

/// Returns the lokt repository that contains `dir`, regardless of its format; `dir` is a path
/// without links. The same directories count as for `Repository::find`. Mounts don't end the
/// search: a worktree may be on its own disk.
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
