//! The view of a name that a store shows.

use lokt_core::denial::Holder;
use lokt_core::hold::Hold;
use lokt_core::line::Ticket;
use lokt_core::name::LockName;
use lokt_core::pulse::Pulse;
use lokt_core::time::Moment;

use super::{Target, WakeOn};
use lokt_sys::error::Error;

/// A name at one moment. Parts that weren't asked for are free, missing or empty.
#[derive(Debug)]
pub struct View {
    /// Time of the view. Only for the timestamps of records and events: the store judges what has
    /// expired by then.
    pub at: Moment,
    /// The state that is stored under the name.
    pub slot: Slot,
    /// A freeze that counts.
    pub frozen: Option<Frozen>,
    /// Living waiters, first come first: all, or those before the caller.
    pub queue: Vec<Waiter>,
    /// Number of waiters before the caller that make it wait.
    pub ahead: usize,
    /// Number of waiters without the caller, before and behind it.
    pub waiting: usize,
    /// The event that reports the end of the holder's process.
    pub ends: WakeOn,
}

/// State that is stored under a name.
#[derive(Debug)]
#[non_exhaustive]
pub enum Slot {
    /// Nothing.
    Free,
    /// A hold with what the store knows about it, live or not.
    Held(Box<Holder>),
    /// Something that is not a valid record; the text says why.
    Corrupt(String),
    /// Something so young that another program may be writing it.
    BeingWritten,
    /// A record of a later version.
    Newer(i64),
    /// Something that can't be read: held, as far as anyone can tell. Only force removes it.
    Unreadable(Error),
}

impl Slot {
    /// Returns the holder, live or not.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// Returns the hold, live or not.
    pub fn hold(&self) -> Option<&Hold> {
        self.holder().map(|holder| &holder.hold)
    }

    /// Returns the holder, live or not.
    pub fn into_holder(self) -> Option<Box<Holder>> {
        match self {
            Self::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// Reports whether there is a hold whose leases have all expired.
    pub fn is_expired(&self) -> bool {
        self.holder().is_some_and(|holder| holder.elapsed.is_expired())
    }
}

impl View {
    /// Returns the view, or an error if the record can't be read: it counts as held for all callers
    /// that don't force.
    pub fn readable(self, name: &LockName, target: Target) -> Result<Self, Error> {
        match self.slot {
            Slot::Unreadable(error) => Err(held_if_unreadable(error, name, target)),
            slot => Ok(Self { slot, ..self }),
        }
    }
}

/// Adds what follows from an unreadable record.
pub(crate) fn held_if_unreadable(error: Error, name: &LockName, target: Target) -> Error {
    let counts_as = if target == Target::Freeze { "a freeze" } else { "held" };
    error.hint(format!("what can't be read counts as {counts_as}; `lokt doctor` says what is wrong with {name}"))
}

/// A freeze that counts.
#[derive(Debug)]
pub enum Frozen {
    /// A freeze that was read and hasn't ended.
    Known(Box<Holder>),
    /// An unreadable freeze; the text says why. It counts, because it was meant.
    Unreadable(String),
}

impl Frozen {
    /// Returns its holder, or why it can't be read.
    pub fn known(self) -> Result<Box<Holder>, String> {
        match self {
            Self::Known(holder) => Ok(holder),
            Self::Unreadable(why) => Err(why),
        }
    }
}

/// A living process in the queue.
#[derive(Debug, Clone)]
pub struct Waiter {
    /// Its identity.
    pub pulse: Pulse,
    /// Its position, and whether it can take what is offered.
    pub ticket: Ticket,
}

/// The parts of a name that a caller needs to know. A store may show more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// The record.
    pub record: bool,
    /// The liveness of the process behind it.
    pub liveness: bool,
    /// A freeze over the name.
    pub freeze: bool,
    /// The queue.
    pub queue: QueueDepth,
}

impl Depth {
    /// The record alone: is it still the caller's hold?
    pub const RECORD: Self = Self { record: true, liveness: false, freeze: false, queue: QueueDepth::Nothing };
    /// The holder: does it live?
    pub const HOLDER: Self = Self { liveness: true, ..Self::RECORD };
    /// The holder, and the number of waiters.
    pub const ENTRY: Self = Self { queue: QueueDepth::IfReadable, ..Self::HOLDER };
    /// The freeze alone.
    pub const FREEZE: Self = Self { record: false, freeze: true, ..Self::RECORD };
    /// The queue alone.
    pub const QUEUE: Self = Self { record: false, queue: QueueDepth::Needed, ..Self::RECORD };
    /// All of it.
    pub const ALL: Self = Self { record: true, liveness: true, freeze: true, queue: QueueDepth::Needed };
}

/// The part of a queue that a caller needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDepth {
    /// Nothing.
    Nothing,
    /// The queue, if it can be read: an unreadable one must not keep a caller from ending a hold.
    IfReadable,
    /// The queue, or an error.
    Needed,
}
