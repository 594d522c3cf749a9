//! A waiter's position, and the events that it sleeps on until it checks again.

use std::time::Duration;

use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Hold, PartKind};
use lokt_core::line::predecessor;
use lokt_core::name::LockName;

use super::freezes::freeze_path;
use super::line::{held_path, ticket_path, tickets};
use super::{FileStore, record_path};
use crate::store::{Place, Queued, Slot, Subscription, View, WakeOn};
use lokt_sys::machine::pidfd;
use lokt_sys::wakeup::Wakeup;

/// Returns the position of ticket `mine`, and whom it waits for.
pub(super) fn queued(view: &View, why: Denial, mine: u64) -> Queued {
    let tickets = tickets(&view.queue);
    let ahead = tickets.iter().filter(|ticket| ticket.number < mine).count();
    let predecessor = predecessor(&tickets, mine, view.at.monotonic_ms).map(|ticket| ticket.number);
    let (wake_on, left_ms) = match (predecessor, &why) {
        // The end of a lease, and its renewal, concern only the head: a waiter with others ahead
        // waits for them.
        (Some(number), _) => (WakeOn::Ahead(Place(number)), None),
        (None, Denial::Held(holder)) => (holder_cue(view, holder), holder.left_ms()),
        (None, Denial::Frozen(freeze)) => (WakeOn::Freeze, freeze.as_ref().and_then(|freeze| freeze.elapsed.left_ms())),
        (None, _) => (WakeOn::Time, None),
    };
    let left = left_ms.map(Duration::from_millis);
    Queued { why, at: view.at, place: Place(mine), ahead, wake_on, left }
}

/// Returns what ends the hold: while an owner part lives, only a change of the record. Otherwise
/// the end of its process does.
fn holder_cue(view: &View, holder: &Holder) -> WakeOn {
    if holder.part_lives(PartKind::Owner) { WakeOn::Holder } else { view.ends }
}

impl FileStore {
    /// Reports whether a waiter must check again, although nothing woke it. Asked once a second,
    /// without the mutex. Every waiter reads the record: the one ahead may be unable to, in ways
    /// that nobody sees, and must be offered the lock before it is passed over.
    pub(super) fn stirs(&self, name: &LockName, queued: &Queued) -> bool {
        let now = self.machine.now();
        // The lock was found free for us. An offer that we leave standing would let others pass us
        // later.
        if self.ticket(name, queued.place.0).is_some_and(|ticket| ticket.offered_ms.is_some()) {
            return true;
        }
        let predecessor = if let WakeOn::Ahead(place) = queued.wake_on { Some(place.0) } else { None };
        let before = predecessor.and_then(|number| self.ticket(name, number));
        if before.is_some_and(|ticket| !ticket.counts(now.monotonic_ms)) {
            return true;
        }
        let slot = self.records().find(&record_path(name), name.as_str(), &now).slot;
        let held = match &slot {
            Slot::Free | Slot::Corrupt(_) => false,
            Slot::Held(holder) => holder.lives(),
            Slot::BeingWritten | Slot::Newer(_) | Slot::Unreadable(_) => true,
        };
        let frozen = || self.records().freeze(name, &now).is_some();
        // The reason for waiting is a different one now, or gone.
        match &queued.why {
            // Only the head sleeps on the holder. If every waiter checked whenever the lock has
            // passed on, a long queue would keep the mutex busy with checks: each of them takes as
            // long as the queue is.
            Denial::Held(holder) => {
                let is_head = predecessor.is_none();
                !held || is_head && slot.hold().is_some_and(|hold| is_another(hold, &holder.hold))
            }
            Denial::Frozen(_) => !frozen(),
            _ => !held && !frozen(),
        }
    }

    /// Asks the kernel to wake a waiter. Returns `None` if what it would wait for has already
    /// happened.
    pub(super) fn subscribe(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription> {
        let stops = |path: &str| match self.disk.watch(path, wakeup) {
            Ok(true) => Some(Subscription::ringing()),
            Ok(false) => None,
            // Perhaps no thread could be started.
            Err(_) => Some(Subscription::none()),
        };
        // inotify is limited per user.
        let changes = |path: &str| self.disk.changes(path).map_or(Subscription::none(), Subscription::of);
        match on {
            WakeOn::Ahead(place) => stops(&ticket_path(name.as_str(), place.0)),
            WakeOn::Pulse(number) => stops(&held_path(number)),
            WakeOn::Process(pid) => match pidfd(pid) {
                Ok(Some(fd)) => Some(Subscription::of(fd)),
                Ok(None) => None,
                Err(_) => Some(Subscription::none()),
            },
            WakeOn::Holder => Some(changes(&record_path(name))),
            WakeOn::Freeze => Some(changes(&freeze_path(name))),
            WakeOn::Time => Some(Subscription::none()),
        }
    }
}

fn is_another(hold: &Hold, known: &Hold) -> bool {
    (&hold.lock_id, hold.token, hold.pulse) != (&known.lock_id, known.token, known.pulse)
}
