//! The state of a name.

use lokt_named::{Entry, EntryState};

use crate::{Error, Holder};

/// One entry of [`Lokt::status`](crate::Lokt::status).
#[derive(Debug)]
pub struct LockStatus {
    name: String,
    is_freeze: bool,
    waiters: usize,
    state: LockState,
}

/// The record that is stored under a name.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockState {
    /// A hold or a freeze, which may have ended: see [`Holder::is_live`].
    Held(Holder),
    /// An invalid record; the text says why.
    Corrupt(String),
    /// A record that another program is writing at this moment.
    BeingWritten,
    /// A record of a newer version of lokt.
    NewerVersion,
    /// A record that can't be read.
    Unreadable(Error),
}

impl LockStatus {
    pub(crate) fn of(entry: Entry) -> Self {
        let Entry { name, is_freeze, state, waiters } = entry;
        let state = match state {
            EntryState::Held(holder) => LockState::Held(Holder::of(*holder)),
            EntryState::Corrupt(why) => LockState::Corrupt(why),
            EntryState::BeingWritten => LockState::BeingWritten,
            EntryState::Newer(_) => LockState::NewerVersion,
            EntryState::Unreadable(error) => LockState::Unreadable(Error::from(error)),
        };
        Self { name, is_freeze, waiters, state }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether it is a freeze rather than a lock.
    pub fn is_freeze(&self) -> bool {
        self.is_freeze
    }

    /// The number of requests that wait for it.
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    /// The stored record.
    pub fn state(&self) -> &LockState {
        &self.state
    }

    /// The holder, live or not, if the record can be read.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.state {
            LockState::Held(holder) => Some(holder),
            _ => None,
        }
    }
}
