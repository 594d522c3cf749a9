//! The caller's own position in queues and under holds.

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lokt_core::decide::HoldKey;
use lokt_core::denial::Holder;
use lokt_core::name::LockName;
use lokt_core::pulse::Stencil;

use super::{Call, Lasts};
use lokt_sys::disk::PulseFile;
use lokt_sys::error::Error;
use lokt_sys::spawn::Record;
use lokt_sys::wakeup::Wakeup;

/// The caller's presence in a store: pulses (files) or a session (engines). One per request,
/// whatever the number of names; the holds of a request share it. It ends when it is dropped.
pub trait Presence: Any + Send + Sync {
    /// Renews the presence if that is due, and verifies each of `holds`. From any thread.
    fn keep(&self, holds: &[(LockName, HoldKey)], call: &Call<'_>) -> Result<Kept, Error>;

    /// Returns where a command that is about to run under `name` is recorded; `None`: nowhere.
    /// Files only, like the methods below.
    fn record(&self, _name: &LockName) -> Option<CommandRecord> {
        None
    }

    /// Returns a descriptor that keeps the hold of `name` alive, for a command to inherit.
    fn inheritable(&self, _name: &LockName) -> Option<io::Result<OwnedFd>> {
        None
    }

    /// Leaves the hold of `name` to the processes that inherited such a descriptor.
    fn leave_to_heirs(&self, _name: &LockName) {}

    /// Reports whether a process keeps such a descriptor. If so, the wakeup rings when none does
    /// any more.
    fn has_heirs(&self, _name: &LockName, _wakeup: &Wakeup) -> bool {
        false
    }

    /// Abandons the hold of `name`, which couldn't be released: it is now that of a dead process.
    fn abandon(&self, _name: &LockName) {}
}

/// Result of [`Presence::keep`].
#[derive(Debug)]
pub struct Kept {
    /// Lifetime of the presence from now on; `None`: it has no end.
    pub lasts: Option<Lasts>,
    /// For each hold: still there, or lost, with the current holder.
    pub each: Vec<Result<(), Option<Box<Holder>>>>,
}

/// A file in which a command is recorded before it runs.
pub struct CommandRecord {
    /// The file.
    pub file: Arc<dyn PulseFile>,
    /// Its content, with room for pid and start.
    pub content: Stencil,
}

impl CommandRecord {
    /// Returns the record for [`lokt_sys::spawn::spawn`].
    pub fn as_record(&self) -> io::Result<Record<'_>> {
        Ok(Record { pulse: self.file.descriptor()?, content: self.content.clone() })
    }
}
