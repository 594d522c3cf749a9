//! Repeated inspection of a root: what happened last, and what wakes the watcher.
//!
//! Nothing here takes the mutex. What the kernel reports is a hint to check sooner. What it can't
//! report (processes that end, leases that expire, files on another machine) is found by checking
//! once in a while.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::locks::Lokt;
use crate::store::WatchedPlace;
use lokt_sys::wakeup::sleep_or_closed;

/// Wakes a caller that watches a root.
#[derive(Debug, Default)]
pub struct Watch {
    places: Vec<WatchedPlace>,
}

/// Reason why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something changed below the root.
    Changed,
    /// The input with this index can be read.
    Input(usize),
    /// Nobody reads the output any more.
    Closed,
    /// The time is up.
    Time,
}

impl Watch {
    /// Subscribes to changes in what exists by now. A caller does this before it reads, so that no
    /// change is missed.
    pub fn aim(&mut self, lokt: Option<&Lokt>) {
        let before = std::mem::take(&mut self.places);
        self.places = lokt.map_or_else(Vec::new, |lokt| lokt.store().watch(before));
    }

    /// Sleeps until something changes, one of `inputs` can be read, or `output` is closed by its
    /// reader; at most `patience`.
    pub fn sleep(&self, inputs: &[BorrowedFd<'_>], output: impl AsFd, patience: Duration) -> io::Result<Woken> {
        let changes = self.places.iter().map(AsFd::as_fd);
        let fds: Vec<BorrowedFd<'_>> = inputs.iter().copied().chain(changes).collect();
        let (ready, closed) = sleep_or_closed(&fds, output.as_fd(), patience)?;
        Ok(match ready.iter().position(|ready| *ready) {
            Some(at) if at < inputs.len() => Woken::Input(at),
            _ if closed => Woken::Closed,
            Some(_) => Woken::Changed,
            None => Woken::Time,
        })
    }
}
