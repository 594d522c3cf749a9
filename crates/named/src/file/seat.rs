//! A process's place in a line or in a hold: its pulse. One seat per acquisition, kept from the first look to the release.
//!
//! A seat is taken, moved and given up inside the mutex, so whoever decides sees every living waiter and nobody else's ghost. Its pulse
//! is let go after the mutex: whoever that wakes can take it at once.

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

/// Pulses of the dead that one look removes at most.
const GONE_MAX: usize = 256;

/// What a pulse is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A ticket.
    Line,
    /// A hold's, or about to be.
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
    /// Our own share of the lock; without it only those who inherited it keep it.
    file: Option<Arc<dyn PulseFile>>,
}

/// A pulse that nobody keeps locked and no record names.
pub(crate) struct Orphan {
    /// What it says, if that can be read.
    pub(crate) pulse: Option<Pulse>,
}

impl Seat {
    /// How a record names it.
    pub(crate) fn reference(&self) -> PulseRef {
        let (dev, ino) = self.id;
        PulseRef { number: self.number, dev, ino }
    }

    pub(crate) fn path(&self) -> String {
        self.place.path(&self.name, self.number)
    }

    /// Drops the lock for everyone, who inherited it too. What waits for it wakes.
    pub(crate) fn let_go(&self) {
        self.file.iter().for_each(|file| file.let_go());
    }

    /// Drops only our own share of the lock: who inherited it keeps it. We are named in the command's place: until the hold is given
    /// back, nobody may take it for that of a dead process.
    pub(crate) fn leave_to_heirs(&mut self) {
        self.pulse.command = Some(self.pulse.process);
        // What couldn't be written down is found lost at the release, and said.
        let _ = self.write();
        self.file = None;
    }

    /// A descriptor for a command to inherit.
    pub(crate) fn inheritable(&self) -> Option<std::io::Result<OwnedFd>> {
        self.file.as_ref().map(|file| file.inheritable())
    }

    /// Where a command is to be recorded before it runs. Others then know it by pid too, in case it closes what it inherited.
    pub(crate) fn record(&self) -> Option<CommandRecord> {
        let file = self.file.as_ref()?;
        Some(CommandRecord { file: Arc::clone(file), content: self.pulse.stencil() })
    }

    fn write(&self) -> std::io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.write(&self.pulse.encode()))
    }
}

/// The pulses of holders and waiters in a root: made, moved, offered, cleared away.
pub(crate) struct Seats<'s> {
    pub(super) store: &'s FileStore,
}

impl Seats<'_> {
    /// Takes a seat with `pulse`. The number was drawn from the counter and is nobody else's.
    pub(super) fn sit(&self, _: &Inside, number: u64, place: Place, pulse: Pulse) -> Result<Seat, Error> {
        let name = pulse.name.clone();
        let path = place.path(&name, number);
        let bytes = pulse.encode();
        if bytes.len() > RECORD_BYTES_MAX {
            // Nobody would read it, and whoever isn't seen is overtaken.
            let message = format!("a place in line of {} bytes would be too long", bytes.len());
            return Err(Error::new(ErrorKind::NotARecord, message)
                .hint("shorten LOKT_OWNER, LOKT_AGENT_ID, LOKT_HOLDS or --reason"));
        }
        let file = self.store.disk.create_pulse(&path, &bytes).at("write", &self.store.root, &path)?;
        Ok(Seat { number, place, name, pulse, id: file.id(), file: Some(Arc::from(file)) })
    }

    /// Moves a pulse between the line and the holders. Who is blocked on it stays so.
    pub(super) fn move_to(&self, _: &Inside, seat: &mut Seat, place: Place) -> Result<(), Error> {
        if seat.place == place {
            return Ok(());
        }
        let (from, to) = (seat.path(), place.path(&seat.name, seat.number));
        self.store.disk.rename(&from, &to).at("rename", &self.store.root, &from)?;
        seat.place = place;
        Ok(())
    }

    /// Is the pulse still where it was put? If somebody deleted it, it says nothing to anyone. What can't be looked at isn't gone.
    pub(super) fn stands(&self, seat: &Seat) -> bool {
        match self.store.disk.stamp(&seat.path()) {
            Ok(stamp) => stamp.is_some_and(|stamp| (stamp.dev, stamp.ino) == seat.id),
            Err(_) => true,
        }
    }

    /// Gives a seat up; only inside the mutex, or if no record ever named it. A ticket must be gone before anybody else looks. A
    /// holder's pulse that no record names is looked at by nobody: it is cleared away when its lock has been dropped by [`Seat::let_go`].
    pub(super) fn stand_up(&self, seat: &Seat) {
        if seat.place == Place::Line {
            self.remove_own(seat);
        }
        // Whoever was in line, and whoever holds what others waited for, may be the last to know of the line's directory.
        self.fold_up(&seat.name);
    }

    /// Removes what is left of a seat that was given up.
    pub(super) fn clear_away(&self, seat: &Seat) {
        if seat.place == Place::Held {
            self.remove_own(seat);
        }
    }

    /// Removes a pulse's file, if it is ours: in a root that was deleted and made anew, somebody else may have the same number.
    fn remove_own(&self, seat: &Seat) {
        if self.stands(seat) {
            // What can't be removed is tidied away once its lock is gone.
            let _ = self.store.disk.remove(&seat.path());
        }
    }

    /// Removes the directory of a line that nobody is in.
    pub(crate) fn fold_up(&self, name: &str) {
        let _ = self.store.disk.remove_dir(&line_dir(name));
    }

    /// A waiter that was offered the lock while it was asleep and looks now has shown that it is awake.
    pub(super) fn wake(&self, name: &LockName, seat: &Seat) -> Result<(), Error> {
        let noted = self.store.ticket(name, seat.number).is_some_and(|ticket| ticket.offered_ms.is_some());
        if noted { seat.write().at("write", &self.store.root, &seat.path()) } else { Ok(()) }
    }

    /// Notes that the lock was found free for the waiter `number`.
    pub(super) fn offer(&self, _: &Inside, name: &LockName, queue: &[Waiter], number: u64, now: &Moment) {
        let waiter = queue.iter().find(|waiter| waiter.ticket.number == number);
        if let Some(waiter) = waiter {
            let pulse = Pulse { offered_ms: Some(now.monotonic_ms), ..waiter.pulse.clone() };
            // Whoever can't write it down leaves it to the next one who looks.
            let _ = self.store.disk.overwrite(&ticket_path(name.as_str(), number), &pulse.encode());
        }
    }

    /// Removes the tickets of the dead from a line with this many `living`. Whoever `leaves` the line looks behind itself, too.
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

    /// Does the record of `name` name this pulse, as far as can be told?
    fn is_named(&self, name: &LockName, number: u64, now: &Moment) -> bool {
        match &self.store.records().find(&super::record_path(name), name.as_str(), now).slot {
            Slot::Held(holder) => holder.hold.pulse.is_some_and(|pulse| pulse.number == number),
            Slot::Unreadable(_) => true,
            _ => false,
        }
    }

    /// Gives a seat up unless a record names it, as one may if its hold was published and something failed after that: without
    /// its pulse it would be known by our pid, and live as long as we do. Inside the mutex, if it can be had.
    /// True: it was given up, and is to be cleared away.
    pub(super) fn abandon(&self, seat: &Seat, name: &LockName) -> bool {
        let unnamed = seat.place == Place::Line || !self.is_named(name, seat.number, &self.store.machine.now());
        if unnamed {
            self.stand_up(seat);
        }
        unnamed
    }

    /// Removes the pulses of the dead that no record names: of guards that were killed between their pulse and their record, or whose
    /// record was deleted by hand. Only now and then.
    pub(super) fn tidy_held(&self, _: &Inside, now: &Moment) {
        for entry in self.store.disk.list(HELD_DIR).unwrap_or_default().into_iter().take(GONE_MAX) {
            let Ok(number) = entry.parse() else { continue };
            if self.orphan(number, now).is_some() {
                let _ = self.store.disk.remove(&held_path(number));
            }
        }
    }

    /// Is this holder's pulse one that nobody keeps locked and no record names? Certain only inside the
    /// mutex, and even there it may be that of a process that has just given its hold back and is about to clear it away.
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
