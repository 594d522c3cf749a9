//! The audit log of a store.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::Path;

use lokt_core::audit::{Event, Line};
use lokt_core::name::LockName;

use super::{Call, Store};
use lokt_sys::error::Error;

/// An entry that was found in a log.
#[derive(Debug)]
pub enum Found<'a> {
    /// An event.
    Event(Line<'a>),
    /// A line that is not an event.
    NoEvent,
    /// A line that is longer than any event.
    TooLong {
        /// The file, by the name under which it was opened.
        path: &'a Path,
        /// The offset at which it begins.
        offset: u64,
    },
}

/// Receives everything found in an audit log, and returns whether to continue.
pub type Show<'s> = dyn FnMut(Found<'_>) -> ControlFlow<()> + 's;

/// The audit log of a store.
pub trait AuditLog: Send + Sync {
    /// Shows all events, oldest first.
    fn read(&self, show: &mut Show<'_>, call: &Call<'_>) -> Result<(), Error>;

    /// Returns the last events, newest first: at most `limit`, of one name or of all. Best effort.
    fn last(&self, name: Option<&LockName>, limit: usize, call: &Call<'_>) -> Vec<Event>;

    /// Returns a follower that shows the events that are added from now on.
    fn follow(&self) -> Box<dyn Follow>;
}

/// Follows an audit log.
pub trait Follow: Send {
    /// Shows what was added since the last call. The first call only finds the end. `store` is
    /// `None` while there is no store.
    fn look(&mut self, store: Option<&dyn Store>, show: &mut Show<'_>) -> Result<ControlFlow<()>, Error>;

    /// Returns a descriptor that is readable when something was added; `None`: nothing reports that
    /// now.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}
