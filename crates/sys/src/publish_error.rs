//! Errors of publishing a file, with the requirements on the target.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The error for a target that can't be published to, with what it requires.
pub fn bad_target(target: &Path, error: io::Error) -> Error {
    let needs = match error.kind() {
        io::ErrorKind::InvalidInput => "it must be a regular file, or nothing yet, and never a symbolic link",
        io::ErrorKind::IsADirectory => "name the file in it, too",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "its directory must be there first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "its directory must be writable: the file is made there before it takes its place"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the whole file must fit beside the one that it replaces"
        }
        _ => return file_error("publish to", target, error).hint("nothing was published"),
    };
    file_error("publish to", target, error).hint(format!("nothing was published; {needs}"))
}

/// The error for an operation on a file that is not a record of lokt.
pub fn file_error(attempt: &str, path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
            Error::new(ErrorKind::NotARecord, format!("can't {attempt} {}: {error}", path.display()))
        }
        _ => Error::io(attempt, path, error),
    }
}
