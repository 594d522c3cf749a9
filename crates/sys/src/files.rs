//! Files and directories outside of lokt's own: those that a path leads to, through links, as every program opens them.
//!
//! What lokt writes for itself is behind [`Disk`](crate::disk::Disk). Files that others could prepare are read by
//! [`PlainFile`](crate::plain_file::PlainFile), which follows no link.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The entry's name in its directory.
    pub name: OsString,
    /// The entry is a directory itself; a link to one isn't.
    pub is_dir: bool,
}

/// Reports whether `path` leads to anything. What may not be seen doesn't count.
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

/// The absolute path without links and dots; `None` if it doesn't lead anywhere.
pub fn resolve(path: &Path) -> Option<PathBuf> {
    try_resolve(path).ok()
}

/// The same, with the error of the system.
pub fn try_resolve(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The same, or the path as it is given.
pub fn real_path(path: &Path) -> PathBuf {
    resolve(path).unwrap_or_else(|| path.to_owned())
}

/// The entries of a directory, in any order. A directory that can't be read has none.
pub fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| DirEntry { name: entry.file_name(), is_dir: entry.file_type().is_ok_and(|kind| kind.is_dir()) })
}

/// Opens what the caller of a command named: a file, or a pipe such as `/dev/stdin`.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Makes a directory and those above it, for files that aren't records.
pub fn make_dirs(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Writes a file in place. Only for files that can be made again when a crash damages them.
#[expect(clippy::disallowed_methods, reason = "the one place that writes in place what is no record")]
pub fn overwrite(path: &Path, content: &str) -> io::Result<()> {
    fs::write(path, content)
}
