//! A process's position in a queue or under a hold: its pulse. One seat per acquisition, kept from
//! the first check to the release.
//!
//! A seat is taken, moved and given up inside the mutex, so a process that decides sees every
//! living waiter and no dead one's remains. Its pulse is unlocked after leaving the mutex, so that
//! a process woken by that can enter it at once.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lokt_core::hold::{Hold, PulseRef};
use lokt_core::name::LockName;
use lokt_core::pulse::Pulse;
use lokt_core::record::RECORD_BYTES_MAX;
use lokt_core::time::Moment;

use super::FileStore;
use super::line::{HELD_DIR, Rest, held_path, line_dir, ticket_path};
use crate::store::{CommandRecord, Slot, Waiter};
use lokt_sys::disk::{Entry, PulseFile};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::mutex::Inside;

/// Maximum number of dead pulses that are removed at once.
const GONE_MAX: usize = 256;

/// Purpose of a pulse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A ticket.
    Line,
    /// The pulse of a hold, or of one that is about to be granted.
    Held,
}

impl Place {
    fn path(self, name: &str, number: u64) -> String {
        match self {
            Self::Line => ticket_path(name, number),
            Self::Held => held_path(number),
        }
    }
}

/// A seat that is taken.
pub(crate) struct Seat {
    pub(crate) number: u64,
    pub(crate) place: Place,
    name: String,
    pulse: Pulse,
    /// Device and inode of the file.
    id: (u64, u64),
    /// Our own share of the lock; without it only processes that inherited the lock keep it.
    file: Option<Arc<dyn PulseFile>>,
}

/// A pulse that no process keeps locked and no record names.
pub(crate) struct Orphan {
    /// Its contents, if they can be read.
    pub(crate) pulse: Option<Pulse>,
}

impl Seat {
    /// Returns the reference by which a record names it.
    pub(crate) fn reference(&self) -> PulseRef {
        let (dev, ino) = self.id;
        PulseRef { number: self.number, dev, ino }
    }

    pub(crate) fn path(&self) -> String {
        self.place.path(&self.name, self.number)
    }

    /// Drops the lock for all processes, including those that inherited it. Processes that wait for
    /// it wake.
    pub(crate) fn let_go(&self) {
        self.file.iter().for_each(|file| file.let_go());
    }

    /// Drops only our own share of the lock: processes that inherited it keep it. We are named in
    /// the command's place: until the hold is released, nobody may take it for that of a dead
    /// process.
    pub(crate) fn leave_to_heirs(&mut self) {
        self.pulse.command = Some(self.pulse.process);
        // If this can't be written, the release finds the hold lost, and reports it.
        let _ = self.write();
        self.file = None;
    }

    /// Returns a descriptor for a command to inherit.
    pub(crate) fn inheritable(&self) -> Option<std::io::Result<OwnedFd>> {
        self.file.as_ref().map(|file| file.inheritable())
    }

    /// Returns where a command is recorded before it runs. Others then know it by pid too, in case
    /// it closes what it inherited.
    pub(crate) fn record(&self) -> Option<CommandRecord> {
        let file = self.file.as_ref()?;
        Some(CommandRecord { file: Arc::clone(file), content: self.pulse.stencil() })
    }

    fn write(&self) -> std::io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.write(&self.pulse.encode()))
    }
}

/// The pulses of holders and waiters in a root: creates, moves, offers and removes them.
pub(crate) struct Seats<'s> {
    pub(super) store: &'s FileStore,
}

impl Seats<'_> {
    /// Takes a seat with `pulse`. The number was drawn from the counter and is unique.
    pub(super) fn sit(&self, _: &Inside, number: u64, place: Place, pulse: Pulse) -> Result<Seat, Error> {
        let name = pulse.name.clone();
        let path = place.path(&name, number);
        let bytes = pulse.encode();
        if bytes.len() > RECORD_BYTES_MAX {
            // Nobody would read it, and a waiter that isn't seen is overtaken.
            let message = format!("a place in line of {} bytes would be too long", bytes.len());
            return Err(Error::new(ErrorKind::NotARecord, message)
                .hint("shorten LOKT_OWNER, LOKT_AGENT_ID, LOKT_HOLDS or --reason"));
        }
        let file = self.store.disk.create_pulse(&path, &bytes).at("write", &self.store.root, &path)?;
        Ok(Seat { number, place, name, pulse, id: file.id(), file: Some(Arc::from(file)) })
    }

    /// Moves a pulse between the queue and the holders. Processes blocked on it stay blocked.
    pub(super) fn move_to(&self, _: &Inside, seat: &mut Seat, place: Place) -> Result<(), Error> {
        if seat.place == place {
            return Ok(());
        }
        let (from, to) = (seat.path(), place.path(&seat.name, seat.number));
        self.store.disk.rename(&from, &to).at("rename", &self.store.root, &from)?;
        seat.place = place;
        Ok(())
    }

    /// Reports whether the pulse is still where it was put. If it was deleted, nobody sees it. A
    /// pulse that can't be inspected isn't gone.
    pub(super) fn stands(&self, seat: &Seat) -> bool {
        match self.store.disk.stamp(&seat.path()) {
            Ok(stamp) => stamp.is_some_and(|stamp| (stamp.dev, stamp.ino) == seat.id),
            Err(_) => true,
        }
    }

    /// Gives a seat up; only inside the mutex, or if no record ever named it. A ticket must be gone
    /// before another process inspects the queue. A holder's pulse that no record names is
    /// inspected by nobody: it is removed after [`Seat::let_go`] has dropped its lock.
    pub(super) fn stand_up(&self, seat: &Seat) {
        if seat.place == Place::Line {
            self.remove_own(seat);
        }
        // A process that was in the queue, or that holds what others waited for, may be the last to
        // know of the queue's directory.
        self.fold_up(&seat.name);
    }

    /// Removes what is left of a seat that was given up.
    pub(super) fn clear_away(&self, seat: &Seat) {
        if seat.place == Place::Held {
            self.remove_own(seat);
        }
    }

    /// Removes a pulse's file, if it is ours: in a root that was deleted and created again, another
    /// process may have the same number.
    fn remove_own(&self, seat: &Seat) {
        if self.stands(seat) {
            // If it can't be removed, it is cleaned up once its lock is gone.
            let _ = self.store.disk.remove(&seat.path());
        }
    }

    /// Removes the directory of an empty queue.
    pub(crate) fn fold_up(&self, name: &str) {
        let _ = self.store.disk.remove_dir(&line_dir(name));
    }

    /// Clears an offer: a waiter that was offered the lock while it was asleep, and checks now, has
    /// shown that it is awake.
    pub(super) fn wake(&self, name: &LockName, seat: &Seat) -> Result<(), Error> {
        let noted = self.store.ticket(name, seat.number).is_some_and(|ticket| ticket.offered_ms.is_some());
        if noted { seat.write().at("write", &self.store.root, &seat.path()) } else { Ok(()) }
    }

    /// Notes that the lock was found free for the waiter `number`.
    pub(super) fn offer(&self, _: &Inside, name: &LockName, queue: &[Waiter], number: u64, now: &Moment) {
        let waiter = queue.iter().find(|waiter| waiter.ticket.number == number);
        if let Some(waiter) = waiter {
            let pulse = Pulse { offered_ms: Some(now.monotonic_ms), ..waiter.pulse.clone() };
            // If this can't be written, it is left to the next process that checks.
            let _ = self.store.disk.overwrite(&ticket_path(name.as_str(), number), &pulse.encode());
        }
    }

    /// Removes the tickets of dead waiters from a queue with this many `living`. A caller that
    /// `leaves` the queue also checks the tickets behind its own.
    pub(crate) fn clear_line(&self, _: &Inside, name: &LockName, living: usize, rest: &Rest, leaves: bool) {
        let behind = if leaves { self.store.gone_behind(name, &rest.behind) } else { Vec::new() };
        for number in rest.gone.iter().chain(&behind).take(GONE_MAX) {
            let _ = self.store.disk.remove(&ticket_path(name.as_str(), *number));
        }
        let nobody = living == 0 && rest.behind.len() == behind.len();
        if nobody && rest.gone.len() + behind.len() > 0 {
            self.fold_up(name.as_str());
        }
    }

    /// Removes a pulse that no record names any more.
    pub(super) fn forget_pulse(&self, _: &Inside, before: Option<&Hold>, next: Option<&Hold>) {
        let named = next.and_then(|next| next.pulse);
        let Some(before) = before else { return };
        let Some(gone) = before.pulse.filter(|pulse| Some(*pulse) != named) else { return };
        let path = held_path(gone.number);
        // A record that was copied by hand names the pulse of another lock.
        if matches!(self.store.disk.read(&path, RECORD_BYTES_MAX), Ok(Entry::File(content))
            if Pulse::parse(&content.bytes).is_none_or(|pulse| pulse.name == before.name))
        {
            let _ = self.store.disk.remove(&path);
        }
    }

    /// Reports whether the record of `name` names this pulse, as far as can be told.
    fn is_named(&self, name: &LockName, number: u64, now: &Moment) -> bool {
        match &self.store.records().find(&super::record_path(name), name.as_str(), now).slot {
            Slot::Held(holder) => holder.hold.pulse.is_some_and(|pulse| pulse.number == number),
            Slot::Unreadable(_) => true,
            _ => false,
        }
    }

    /// Gives a seat up unless a record names it. One may, if its hold was published and something
    /// failed after that: without its pulse the hold would be known by our pid, and live as long as
    /// we do. Runs inside the mutex, if that can be entered. Returns true if the seat was given up,
    /// and is to be removed.
    pub(super) fn abandon(&self, seat: &Seat, name: &LockName) -> bool {
        let unnamed = seat.place == Place::Line || !self.is_named(name, seat.number, &self.store.machine.now());
        if unnamed {
            self.stand_up(seat);
        }
        unnamed
    }

    /// Removes the pulses of dead processes that no record names: of guards that were killed
    /// between writing their pulse and their record, or whose record was deleted by hand. Runs only
    /// now and then.
    pub(super) fn tidy_held(&self, _: &Inside, now: &Moment) {
        for entry in self.store.disk.list(HELD_DIR).unwrap_or_default().into_iter().take(GONE_MAX) {
            let Ok(number) = entry.parse() else { continue };
            if self.orphan(number, now).is_some() {
                let _ = self.store.disk.remove(&held_path(number));
            }
        }
    }

    /// Returns this holder's pulse if no process keeps it locked and no record names it. Certain
    /// only inside the mutex. Even there, its process may just have released its hold and be about
    /// to remove the pulse.
    pub(crate) fn orphan(&self, number: u64, now: &Moment) -> Option<Orphan> {
        let path = held_path(number);
        if !matches!(self.store.disk.probe(&path), Ok(Some(probe)) if !probe.locked) {
            return None;
        }
        let Ok(Entry::File(content)) = self.store.disk.read(&path, RECORD_BYTES_MAX) else { return None };
        let pulse = Pulse::parse(&content.bytes);
        let name = pulse.as_ref().and_then(|pulse| LockName::new(&pulse.name).ok());
        (!name.is_some_and(|name| self.is_named(&name, number, now))).then_some(Orphan { pulse })
    }
}
