//! The steps by which a command changes something, and its answer.

use super::LEASE;
use super::disk::{Kind, Record, Renewal, Slot, Staged};
use super::flaw::Flaw;
use super::look::look;
use super::state::{Aim, Command, Known, Phase, Session, State};
use super::step::{Then, Work};
use super::truth::Offence;

impl Work {
    /// Takes a step after the decision.
    pub(super) fn finish(self, state: &mut State) -> Then {
        match self.command.phase {
            Phase::Emptying(known) => {
                let below = if self.model.flaw == Flaw::EmptyAll { u8::MAX } else { known.next };
                state.disk.staging.retain(|staged| staged.token >= below);
                Then::Go(self.link(&known))
            }
            Phase::Linking(aim) => self.create(state, aim),
            Phase::Writing(known, ends) => self.write(state, &known, ends),
            Phase::Recording(aim) => {
                let number = aim.slot.number;
                // Somebody has had this number or a higher one, and its slot was deleted since.
                if state.disk.granted.last().is_some_and(|last| *last >= number)
                    && self.model.flaw != Flaw::NoteReplaced
                {
                    return Then::Again;
                }
                state.disk.grant(number);
                Then::Go(Phase::Checking(aim))
            }
            Phase::Checking(aim) => self.check(state, aim),
            Phase::Confirming(record, ends) => self.confirm(state, record, ends),
            Phase::Vanishing(number) => {
                state.disk.unlink(number);
                Then::Again
            }
            Phase::EmptyingLate(slot, answers) => {
                state.disk.staging.retain(|staged| staged.token >= slot.number);
                if answers {
                    self.answer(state, slot);
                }
                Then::End
            }
            Phase::Renaming => {
                self.rename(state);
                Then::End
            }
            Phase::Noting(known) => {
                if !state.disk.dir {
                    return Then::End;
                }
                state.disk.pruned.push(known.base.chain);
                state.disk.pruned.sort_unstable();
                state.disk.pruned.dedup();
                Then::Go(Phase::Sweeping(known.old))
            }
            Phase::Sweeping(through) => {
                let kept =
                    if self.model.flaw == Flaw::FirstKept { state.disk.base.map(|base| base.first) } else { None };
                match state.disk.slots.iter().map(|slot| slot.number).find(|number| Some(*number) != kept) {
                    Some(lowest) if lowest <= through => {
                        state.disk.unlink(lowest);
                        Then::Go(Phase::Sweeping(through))
                    }
                    _ => Then::End,
                }
            }
            Phase::Returning(slot) => {
                self.give_back(state, slot);
                Then::End
            }
            _ => Then::End,
        }
    }

    /// Creates a slot, if its number is free.
    fn create(self, state: &mut State, mut aim: Aim) -> Then {
        let slot = aim.slot;
        aim.is_old = slot.kind == Kind::Grant && slot.number <= state.truth.last;
        if !state.disk.dir {
            return Then::Again;
        }
        match (self.model.flaw, slot.kind) {
            (Flaw::ReleaseDeletes, Kind::Release) => {
                state.disk.slots.pop();
                self.answer(state, slot);
                return Then::End;
            }
            (Flaw::TokenRestarts, Kind::Release) => {
                state.disk.remove_dir();
                state.disk.fences.clear();
                self.answer(state, slot);
                return Then::End;
            }
            (Flaw::GrantReplaces, Kind::Grant) | (Flaw::RenewReplaces, Kind::Renew) => {}
            _ if state.disk.at(slot.number).is_some() => return Then::Again,
            _ => {}
        }
        let is_last = state.disk.base.is_some_and(|base| base.chain == slot.chain);
        let is_own = matches!(slot.kind, Kind::Renew | Kind::Release | Kind::Publish);
        state.truth.note(Offence::Overtaken, is_own && is_last && state.truth.last > self.command.token);
        state.disk.put(slot);
        let records = slot.kind == Kind::Grant && self.model.bounds.cuts > 0 && self.model.flaw != Flaw::NoteLast;
        Then::Go(if records { Phase::Recording(aim) } else { Phase::Checking(aim) })
    }

    /// Is what the slot follows still there? Otherwise the chain is no more, or it went on and this number was free only because its slot
    /// had been removed. If it is, this is the answer.
    fn check(self, state: &mut State, aim: Aim) -> Then {
        let flaw = self.model.flaw;
        let slot = aim.slot;
        let is_other = match state.disk.base {
            None => true,
            Some(base) if flaw == Flaw::NoChainId => slot.number < base.first,
            Some(base) => base.chain != slot.chain,
        };
        let is_hole = match aim.after {
            Some(after) if flaw == Flaw::FollowsAnyFile => state.disk.at(after.number).is_none(),
            Some(after) => !state.disk.has(after),
            None => state.disk.pruned.contains(&slot.chain) && flaw != Flaw::FirstKept,
        };
        if (is_other || is_hole) && flaw != Flaw::NoGhostCheck {
            // It stays where it is: nobody reads it, and whoever is so late that it errs here mustn't remove what others have gone on from.
            return if flaw == Flaw::GhostRemoved { Then::Go(Phase::Vanishing(slot.number)) } else { Then::Again };
        }
        let is_late = match slot.kind {
            Kind::Grant => state.now > self.command.time + LEASE && flaw != Flaw::CountedFromAnswer,
            Kind::Renew => state.now > aim.ends && flaw != Flaw::LateRenewal,
            _ => false,
        };
        state.truth.note(Offence::OldToken, aim.is_old && !is_late);
        match slot.kind {
            _ if is_late => Then::Go(Phase::Returning(slot)),
            Kind::Rebase if flaw == Flaw::RaiseLate => Then::Go(Phase::RaisingLate(slot.ceiling)),
            Kind::Rebase => Then::Again,
            Kind::Publish => Then::Go(Phase::Renaming),
            Kind::Grant if flaw == Flaw::EmptyAfterGrant => Then::Go(Phase::EmptyingLate(slot, true)),
            Kind::Grant if flaw == Flaw::EmptyAfterAnswer => {
                self.answer(state, slot);
                Then::Go(Phase::EmptyingLate(slot, false))
            }
            _ => {
                self.answer(state, slot);
                Then::End
            }
        }
    }

    /// Ends the lease that this slot gave or renewed, if nobody has gone on after it.
    fn give_back(self, state: &mut State, slot: Slot) {
        let disk = &mut state.disk;
        let Some(known) = disk.base.map(|base| look(self.model, disk, base)) else { return };
        let is_last = known.last == Some(slot.file()) && known.base.chain == slot.chain;
        let is_lease = known.record.map(|record| record.token) == slot.record.map(|record| record.token);
        let may = if self.model.flaw == Flaw::GivesBackAny { is_lease } else { is_last };
        if may && known.next < known.ceiling && disk.at(known.next).is_none() {
            let by = self.command.serial;
            let (number, next) = (known.next, known.next + 1);
            disk.put(Slot { number, by, kind: Kind::Release, record: None, next, ..slot });
        }
    }

    /// The caller is told: yes.
    fn answer(self, state: &mut State, slot: Slot) {
        let Command { token, time, .. } = self.command;
        let time = if self.model.flaw == Flaw::CountedFromAnswer { state.now } else { time };
        let session = self.session();
        match slot.kind {
            Kind::Grant => {
                if self.model.flaw == Flaw::NoteLast {
                    state.disk.grant(slot.number);
                }
                state.truth.note(Offence::OldToken, slot.number == state.truth.last);
                state.truth.last = state.truth.last.max(slot.number);
                state.sessions[session] = Session { token: slot.number, until: Some(time + LEASE) };
            }
            Kind::Renew => {
                if state.sessions[session].token == token {
                    state.sessions[session].until = Some(time + LEASE);
                }
            }
            Kind::Release => {
                if state.sessions[session].token == token {
                    state.sessions[session].token = 0;
                }
            }
            Kind::Publish | Kind::Rebase => {}
        }
    }

    /// A renewal beside the chain.
    fn write(self, state: &mut State, known: &Known, ends: u8) -> Then {
        let Some(record) = known.record.filter(|_| state.disk.dir) else { return Then::Again };
        let count = known.renewed + 1;
        let renewals = &mut state.disk.renewals;
        if renewals.iter().any(|renewal| renewal.token == record.token && renewal.count == count) {
            return Then::Again;
        }
        renewals.push(Renewal { token: record.token, count, since: self.command.time });
        renewals.sort_unstable();
        Then::Go(Phase::Confirming(record, ends))
    }

    fn confirm(self, state: &mut State, record: Record, ends: u8) -> Then {
        let known = state.disk.base.map(|base| look(self.model, &state.disk, base));
        let is_current = known.and_then(|known| known.record).is_some_and(|now| now.token == record.token);
        if is_current && (state.now <= ends || self.model.flaw == Flaw::LateBeside) {
            let session = &mut state.sessions[self.model.session(self.client)];
            if session.token == record.token {
                session.until = Some(self.command.time + LEASE);
            }
        }
        Then::End
    }

    /// The staged file gets into its place, if it is still there.
    fn rename(self, state: &mut State) {
        let staged = Staged { token: self.command.token, client: self.client };
        let Some(place) = state.disk.staging.iter().position(|other| *other == staged) else {
            let session = state.sessions[self.session()];
            let is_holder = session.token == staged.token && state.believes(&session);
            state.truth.note(Offence::Disturbed, is_holder && state.keeps_grant(self.model));
            return;
        };
        state.disk.staging.remove(place);
        state.truth.note(Offence::StaleFile, state.truth.last > staged.token);
    }
}
