//! One state for all that have the same future: clients are interchangeable, and what nobody reads any more is forgotten.

use super::Leases;
use super::bounds::Clocks;
use super::disk::{Kind, Record, Slot};
use super::state::{Command, Op, Phase, State};

impl State {
    /// Forgets what makes no difference any more.
    pub(super) fn forget(&mut self, model: Leases) {
        let Leases { bounds, flaw, .. } = model;
        let uses_tokens = bounds.ops.iter().any(|op| !matches!(op, Op::Acquire | Op::Prune));
        let is_wrong = bounds.clocks == Clocks::Wrong;
        for session in &mut self.sessions {
            session.until = session.until.filter(|until| self.now <= *until && !is_wrong);
            session.token = if uses_tokens || !is_wrong { session.token } else { 0 };
        }
        for command in self.clients.iter_mut().flatten() {
            command.forget();
            if is_wrong && !uses_tokens {
                command.rename(|_| 0);
            }
        }
        if is_wrong && !uses_tokens {
            for record in self.disk.slots.iter_mut().filter_map(|slot| slot.record.as_mut()) {
                record.session = 0;
            }
        }
        // A slot is read only until the next one of its chain is there; after that only its number counts, and which file it is.
        if !flaw.brings_old_slots_back() && bounds.cuts == 0 {
            let last = |chain| self.disk.slots.iter().rev().find(|slot| slot.chain == chain).map(|slot| slot.number);
            let lasts: Vec<_> = self.disk.slots.iter().map(|slot| last(slot.chain)).collect();
            for (slot, last) in self.disk.slots.iter_mut().zip(lasts) {
                if Some(slot.number) != last {
                    *slot = Slot { kind: Kind::Release, record: None, next: 0, ceiling: 0, ..*slot };
                }
            }
        }
    }

    /// The clients in an order that doesn't depend on who they are.
    pub(super) fn sorted(mut self, model: Leases) -> Self {
        let first = usize::from(model.bounds.shared) * 2;
        let session = |client: usize| client - first / 2;
        let mut order: Vec<usize> = (first..self.clients.len()).collect();
        let key = |client: &usize| {
            let mut command = self.clients[*client];
            if let Some(command) = &mut command {
                command.rename(|_| 0);
            }
            (std::cmp::Reverse(self.clients[*client].is_some()), command, self.sessions[session(*client)])
        };
        order.sort_by_key(key);
        if order.is_sorted() {
            return self;
        }
        let clients = self.clients.clone();
        let sessions = self.sessions.clone();
        let mut names: Vec<u8> = (0u8..).take(sessions.len()).collect();
        let mut hands: Vec<u8> = (0u8..).take(clients.len()).collect();
        for (place, from) in (first..).zip(order) {
            self.clients[place] = clients[from];
            self.sessions[session(place)] = sessions[session(from)];
            names[session(from)] = u8::try_from(session(place)).expect("sessions are few");
            hands[from] = u8::try_from(place).expect("clients are few");
        }
        for command in self.clients.iter_mut().flatten() {
            command.rename(|session| names[usize::from(session)]);
        }
        for record in self.disk.slots.iter_mut().filter_map(|slot| slot.record.as_mut()) {
            record.session = names[usize::from(record.session)];
        }
        for staged in &mut self.disk.staging {
            staged.client = hands[usize::from(staged.client)];
        }
        self.disk.staging.sort_unstable();
        self
    }
}

impl Command {
    /// After the decision its time is only for those who wait for an answer about time.
    fn forget(&mut self) {
        let is_decided = !matches!(self.phase, Phase::Listing(..) | Phase::Comparing(_) | Phase::Doubting(_));
        if is_decided && !matches!(self.op, Op::Acquire | Op::Renew) {
            self.time = 0;
        }
    }

    /// Calls the sessions otherwise.
    fn rename(&mut self, name: impl Fn(u8) -> u8) {
        let record: Option<&mut Record> = match &mut self.phase {
            Phase::Timing(known)
            | Phase::Comparing(known)
            | Phase::Doubting(known)
            | Phase::Measuring(known)
            | Phase::Raising(known, _)
            | Phase::Emptying(known)
            | Phase::Writing(known, _)
            | Phase::Noting(known) => known.record.as_mut(),
            Phase::Linking(aim) | Phase::Checking(aim) | Phase::Recording(aim) => aim.slot.record.as_mut(),
            Phase::EmptyingLate(slot, _) | Phase::Returning(slot) => slot.record.as_mut(),
            Phase::Confirming(record, _) => Some(record),
            Phase::Staging
            | Phase::EmptyingFirst
            | Phase::ReadingBase(_)
            | Phase::Listing(..)
            | Phase::Suspecting(..)
            | Phase::Conceiving
            | Phase::Fencing(_)
            | Phase::Bearing(_)
            | Phase::RaisingLate(_)
            | Phase::Vanishing(_)
            | Phase::Renaming
            | Phase::Sweeping(_) => None,
        };
        if let Some(record) = record {
            record.session = name(record.session);
        }
    }
}
