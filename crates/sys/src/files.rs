//! Files and directories outside lokt's own, opened as any program opens them: symbolic links are
//! followed.
//!
//! lokt's own files are accessed through [`Disk`](crate::disk::Disk). Files that other users could
//! prepare are read by [`PlainFile`](crate::plain_file::PlainFile), which follows no link.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The entry's name in its directory.
    pub name: OsString,
    /// True for a directory itself; false for a link to one.
    pub is_dir: bool,
}

/// Reports whether `path` leads to anything. An object that this process may not see doesn't count.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// Reports whether `path` leads to a directory.
pub fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// Reports whether `path` leads to a regular file.
pub fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Reports whether `path` itself is a symbolic link.
pub fn is_link(path: &Path) -> bool {
    path.is_symlink()
}

/// Returns the absolute path without links and dots; `None` if it doesn't lead anywhere.
pub fn resolve(path: &Path) -> Option<PathBuf> {
    try_resolve(path).ok()
}

/// The same, with the system's error.
pub fn try_resolve(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The same, or `path` itself if it leads nowhere.
pub fn real_path(path: &Path) -> PathBuf {
    resolve(path).unwrap_or_else(|| path.to_owned())
}

/// Returns the entries of a directory, in any order. An unreadable directory has none.
pub fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| DirEntry { name: entry.file_name(), is_dir: entry.file_type().is_ok_and(|kind| kind.is_dir()) })
}

/// Opens a path that the user of a command named: a file, or a pipe such as `/dev/stdin`.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Creates a directory and its missing parents, for files that aren't records.
pub fn make_dirs(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Writes a file in place. Only for files that can be recreated if a crash damages them.
#[expect(clippy::disallowed_methods, reason = "the one place that writes in place what is no record")]
pub fn overwrite(path: &Path, content: &str) -> io::Result<()> {
    fs::write(path, content)
}
