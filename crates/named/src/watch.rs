//! Looking at a root again and again: what happened last, and what wakes whoever looks.
//!
//! Nothing here takes the mutex. What the kernel tells of is a hint to look sooner; what it can't tell (processes that end, leases that
//! run out, files on another machine) is found by looking once in a while.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::locks::Lokt;
use crate::store::WatchedPlace;
use lokt_sys::wakeup::sleep_or_closed;

/// What wakes whoever looks at a root.
#[derive(Debug, Default)]
pub struct Watch {
    places: Vec<WatchedPlace>,
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something changed below the root.
    Changed,
    /// This one of the inputs can be read.
    Input(usize),
    /// Nobody reads the output any more.
    Closed,
    /// It is time.
    Time,
}

impl Watch {
    /// Has the kernel tell of changes in what is there by now. Whoever looks calls this before, so that no change is missed.
    pub fn aim(&mut self, lokt: Option<&Lokt>) {
        let before = std::mem::take(&mut self.places);
        self.places = lokt.map_or_else(Vec::new, |lokt| lokt.store().watch(before));
    }

    /// Sleeps until something changes, one of `inputs` can be read, or `output` is closed by whoever reads it; at most `patience`.
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
