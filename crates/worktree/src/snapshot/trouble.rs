//! Errors about files, with hints.

use lokt_sys::error::{Error, ErrorKind};
use lokt_tree::TreeError;

/// Maximum number of paths that a message names.
const NAMED: usize = 5;

/// Reports whether the work was told to stop.
pub(super) fn was_halted(error: &TreeError) -> bool {
    matches!(error, TreeError::Halted)
}

pub(super) fn of_tree(error: TreeError) -> Error {
    let is_full = error.is_full_disk();
    match error {
        TreeError::Io { what, path, error } if is_full => Error::io(what, &path, error)
            .hint("nothing was changed, and the space is given back; free some and try again"),
        TreeError::Io { what, path, error } => Error::io(what, &path, error),
        TreeError::NoSpace { path, needed, free } => {
            let message = format!("{needed} bytes are needed in {} and {free} are free", path.display());
            Error::io("copy", &path, std::io::Error::new(std::io::ErrorKind::StorageFull, message))
                .hint("nothing was copied; free some space, e.g. with `lokt snapshot gc run --now`")
        }
        TreeError::Changed { paths } => moving(&paths),
        error @ TreeError::Damaged { .. } => {
            let message = error.to_string();
            Error::new(ErrorKind::PayloadMismatch, message)
                .hint("`lokt snapshot verify --all` says what else is damaged")
        }
        TreeError::Halted => Error::new(ErrorKind::Halted, "it was told to stop"),
    }
}

/// Returns an error for files that changed while they were copied.
pub(super) fn moving(paths: &[Vec<u8>]) -> Error {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("files changed while they were copied: {}{more}", named.join(", "));
    Error::new(ErrorKind::Moving, message)
        .hint("stop what writes there, or say `--consistency best_effort`: then the snapshot says what moved")
}
