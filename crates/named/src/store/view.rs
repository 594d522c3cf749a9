//! What a store shows of a name.

use lokt_core::denial::Holder;
use lokt_core::hold::Hold;
use lokt_core::line::Ticket;
use lokt_core::name::LockName;
use lokt_core::pulse::Pulse;
use lokt_core::time::Moment;

use super::{Target, WakeOn};
use lokt_sys::error::Error;

/// A name at one moment. What wasn't asked for is free, missing or empty.
#[derive(Debug)]
pub struct View {
    /// When it was taken. For the stamps of records and events only: what has lapsed by then is judged
    /// by the store.
    pub at: Moment,
    /// What is stored under the name.
    pub slot: Slot,
    /// A freeze that counts.
    pub frozen: Option<Frozen>,
    /// Living waiters, first come first: all, or those before the caller.
    pub queue: Vec<Waiter>,
    /// Number of waiters before the caller that make it wait.
    pub ahead: usize,
    /// Number of waiters without the caller, before and behind it.
    pub waiting: usize,
    /// What reports the end of the holder's process.
    pub ends: WakeOn,
}

/// What is stored under a name.
#[derive(Debug)]
#[non_exhaustive]
pub enum Slot {
    /// Nothing.
    Free,
    /// A hold with what the store knows about it, live or not.
    Held(Box<Holder>),
    /// Something that is no record; the text says why.
    Corrupt(String),
    /// Something so young that another program may be writing it.
    BeingWritten,
    /// A record of a later version.
    Newer(i64),
    /// Something that can't be read: held, as far as anyone can tell. Only force removes it.
    Unreadable(Error),
}

impl Slot {
    /// The holder, live or not.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// The hold, live or not.
    pub fn hold(&self) -> Option<&Hold> {
        self.holder().map(|holder| &holder.hold)
    }

    /// The holder, live or not.
    pub fn into_holder(self) -> Option<Box<Holder>> {
        match self {
            Self::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// True if there is a hold whose leases are all over.
    pub fn is_expired(&self) -> bool {
        self.holder().is_some_and(|holder| holder.elapsed.is_expired())
    }
}

impl View {
    /// The view, or an error if the record can't be read: it counts as held for all who don't force.
    pub fn readable(self, name: &LockName, target: Target) -> Result<Self, Error> {
        match self.slot {
            Slot::Unreadable(error) => Err(held_if_unreadable(error, name, target)),
            slot => Ok(Self { slot, ..self }),
        }
    }
}

/// Adds what follows from a record that can't be read.
pub(crate) fn held_if_unreadable(error: Error, name: &LockName, target: Target) -> Error {
    let counts_as = if target == Target::Freeze { "a freeze" } else { "held" };
    error.hint(format!("what can't be read counts as {counts_as}; `lokt doctor` says what is wrong with {name}"))
}

/// A freeze that counts.
#[derive(Debug)]
pub enum Frozen {
    /// One that was read and hasn't ended.
    Known(Box<Holder>),
    /// One that can't be read; the text says why. It counts, because it was meant.
    Unreadable(String),
}

impl Frozen {
    /// Whose it is, or why it can't be read.
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
    /// Who it is.
    pub pulse: Pulse,
    /// Its place, and whether it can take what is offered.
    pub ticket: Ticket,
}

/// How much of a name a caller needs to know. A store may show more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// The record.
    pub record: bool,
    /// What is known about the process behind it.
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
    /// The holder, and how many wait.
    pub const ENTRY: Self = Self { queue: QueueDepth::IfReadable, ..Self::HOLDER };
    /// The freeze alone.
    pub const FREEZE: Self = Self { record: false, freeze: true, ..Self::RECORD };
    /// The queue alone.
    pub const QUEUE: Self = Self { record: false, queue: QueueDepth::Needed, ..Self::RECORD };
    /// All of it.
    pub const ALL: Self = Self { record: true, liveness: true, freeze: true, queue: QueueDepth::Needed };
}

/// How much of a queue a caller needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDepth {
    /// Nothing.
    Nothing,
    /// What can be read of it: nobody is kept from ending a hold by a queue that can't be read.
    IfReadable,
    /// The queue, or an error.
    Needed,
}
