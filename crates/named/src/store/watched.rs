//! A part of a store whose changes the kernel reports.

use std::os::fd::{AsFd, BorrowedFd};

use lokt_sys::changes::Changes;

/// A part of a store whose changes the kernel reports.
#[derive(Debug)]
pub struct WatchedPlace {
    /// Its identity, by device and inode: a place that takes its name later is another one.
    pub(crate) id: (u64, u64),
    pub(crate) changes: Changes,
}

impl AsFd for WatchedPlace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}
