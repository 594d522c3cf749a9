//! The seats of one request, a pulse for each name.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lokt_core::decide::HoldKey;
use lokt_core::name::LockName;

use super::seat::Seat;
use crate::store::{Call, CommandRecord, Kept, Presence};
use lokt_sys::disk::Disk;
use lokt_sys::error::Error;
use lokt_sys::threads::{Mutex, locked};
use lokt_sys::wakeup::Wakeup;

/// The pulses of one request.
pub(super) struct FilePresence {
    disk: Arc<dyn Disk>,
    seats: Mutex<BTreeMap<LockName, Seat>>,
}

impl FilePresence {
    /// Returns a presence without a seat.
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, seats: Mutex::new(BTreeMap::new()) }
    }

    /// Returns the presence of a request, which this store has created.
    pub(super) fn of(presence: Option<&Arc<dyn Presence>>) -> Option<&Self> {
        let presence: &dyn Any = &**presence?;
        presence.downcast_ref()
    }

    /// Removes a seat, to move it or to give it up.
    pub(super) fn take(&self, name: &LockName) -> Option<Seat> {
        locked(&self.seats).remove(name)
    }

    pub(super) fn put(&self, name: LockName, seat: Seat) {
        locked(&self.seats).insert(name, seat);
    }

    pub(super) fn ticket(&self, name: &LockName) -> Option<u64> {
        locked(&self.seats).get(name).map(|seat| seat.number)
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.seats).is_empty()
    }
}

impl Presence for FilePresence {
    /// A pulse lives as long as its process: there is nothing to renew. Records are renewed by a
    /// transaction.
    fn keep(&self, holds: &[(LockName, HoldKey)], _call: &Call<'_>) -> Result<Kept, Error> {
        Ok(Kept { lasts: None, each: holds.iter().map(|_| Ok(())).collect() })
    }

    fn record(&self, name: &LockName) -> Option<CommandRecord> {
        locked(&self.seats).get(name).and_then(Seat::record)
    }

    fn inheritable(&self, name: &LockName) -> Option<io::Result<OwnedFd>> {
        locked(&self.seats).get(name).and_then(Seat::inheritable)
    }

    fn leave_to_heirs(&self, name: &LockName) {
        if let Some(seat) = locked(&self.seats).get_mut(name) {
            seat.leave_to_heirs();
        }
    }

    fn has_heirs(&self, name: &LockName, wakeup: &Wakeup) -> bool {
        let path = locked(&self.seats).get(name).map(Seat::path);
        path.is_some_and(|path| self.disk.watch(&path, wakeup).unwrap_or(false))
    }

    fn abandon(&self, name: &LockName) {
        // The record still names the pulse; without its lock it is the pulse of a dead process.
        self.take(name).as_ref().inspect(|seat| seat.let_go());
    }
}
