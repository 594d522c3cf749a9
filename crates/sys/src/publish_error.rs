//! Errors of publishing a file, with what the target needs.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The error of a target that nothing can be published to, with what it needs.
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

/// The error of an attempt on a file that is not a record of lokt.
pub fn file_error(attempt: &str, path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
            Error::new(ErrorKind::NotARecord, format!("can't {attempt} {}: {error}", path.display()))
        }
        _ => Error::io(attempt, path, error),
    }
}
