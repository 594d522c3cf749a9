//! The steps of a command, each with one effect on disk.

use super::disk::{Base, Disk, Kind, Record, Slot, Staged};
use super::flaw::Flaw;
use super::look::{ask, look};
use super::state::{Aim, Command, Known, Op, Phase, State};
use super::truth::Offence;
use super::{LEASE, Leases};

/// What a step leads to.
pub(super) enum Then {
    /// The next step.
    Go(Phase),
    /// Everything again, with a new look.
    Again,
    /// The end, whatever was answered.
    End,
}

/// A client begins.
pub(super) fn start(model: Leases, state: &mut State, client: u8, op: Op) {
    let session = &mut state.sessions[model.session(client)];
    let token = if matches!(op, Op::Acquire | Op::Prune) { 0 } else { session.token };
    if op == Op::Release {
        session.until = None;
    }
    let phase = if op == Op::Publish { Phase::Staging } else { first(model, &state.disk, op) };
    // Which file a slot is matters only where its name can be used again.
    let serial = if model.bounds.ops.contains(&Op::Prune) || model.bounds.cuts > 0 { state.ops + 1 } else { 0 };
    state.clients[usize::from(client)] = Some(Command { serial, op, token, time: state.now, phase });
    state.come = state.come.max(client + 1);
    state.ops += 1;
}

/// How a look begins.
fn first(model: Leases, disk: &Disk, op: Op) -> Phase {
    match model.flaw {
        Flaw::NoteFirst => Phase::ReadingBase(disk.granted.last().copied()),
        Flaw::CeilingBeforeBase => Phase::ReadingBase(Some(disk.fence())),
        Flaw::EmptyFirst if op == Op::Acquire => Phase::EmptyingFirst,
        _ => Phase::ReadingBase(None),
    }
}

/// The next step of a client.
pub(super) fn step(model: Leases, state: &mut State, client: u8) -> Option<()> {
    let command = state.clients[usize::from(client)]?;
    let end = state.disk.base.map(|base| look(model, &state.disk, base));
    let then = advance(model, state, client, command);
    let lost =
        end.is_some_and(|end| state.disk.base == Some(end.base) && look(model, &state.disk, end.base).last < end.last);
    state.truth.note(Offence::EndLost, lost);
    let again = first(model, &state.disk, command.op);
    let place = &mut state.clients[usize::from(client)];
    match then {
        Then::Go(phase) => place.as_mut()?.phase = phase,
        Then::Again => place.as_mut()?.phase = again,
        Then::End => *place = None,
    }
    Some(())
}

fn advance(model: Leases, state: &mut State, client: u8, command: Command) -> Then {
    let work = Work { model, client, command };
    match command.phase {
        Phase::Staging => {
            state.disk.staging.push(Staged { token: command.token, client });
            state.disk.staging.sort_unstable();
            state.disk.staging.dedup();
            Then::Go(first(model, &state.disk, command.op))
        }
        Phase::EmptyingFirst => {
            state.disk.staging.clear();
            Then::Go(Phase::ReadingBase(None))
        }
        Phase::ReadingBase(ceiling) => {
            if let Some(command) = &mut state.clients[usize::from(client)] {
                command.time = state.now;
            }
            match state.disk.base {
                Some(base) => Then::Go(Phase::Listing(base, ceiling)),
                None if command.op == Op::Acquire => Then::Go(Phase::Conceiving),
                None => Then::End,
            }
        }
        Phase::Listing(base, ceiling) => {
            let known = look(model, &state.disk, base);
            match model.flaw {
                Flaw::TailUnnoticed => work.judge(state, &known, ceiling),
                // Here it is the noted grant that it knows already.
                Flaw::NoteFirst => match ceiling {
                    Some(noted) if known.last.is_none_or(|last| last.number < noted) => Then::Go(mend(&known, noted)),
                    _ => work.judge(state, &known, None),
                },
                _ if model.bounds.cuts > 0 => Then::Go(Phase::Comparing(known)),
                _ => work.judge(state, &known, ceiling),
            }
        }
        Phase::Comparing(known) => match state.disk.granted.last() {
            Some(&noted) if noted >= known.base.first && known.last.is_none_or(|last| last.number < noted) => {
                Then::Go(Phase::Suspecting(known.base, noted))
            }
            _ => work.judge(state, &known, None),
        },
        Phase::Suspecting(base, noted) => {
            let known = look(model, &state.disk, base);
            if known.last.is_some_and(|last| last.number >= noted) {
                return Then::Again;
            }
            Then::Go(mend(&known, noted))
        }
        Phase::Timing(known) => {
            let mut work = work;
            work.command.time = state.now;
            work.consider(state, &known)
        }
        Phase::Doubting(known) => work.doubt(state, &known, state.disk.fence()),
        Phase::Conceiving => {
            let highest = if model.flaw == Flaw::LastToken { state.truth.last } else { state.disk.fence() };
            match model.flaw {
                Flaw::CeilingByRename => Then::Go(Phase::Fencing(highest)),
                _ => work.fence(state, highest),
            }
        }
        Phase::Fencing(above) => work.fence(state, above),
        Phase::Bearing(above) => {
            state.disk.dir = true;
            if state.disk.base.is_none() {
                let block = above + model.bounds.block;
                state.disk.base = Some(Base { chain: state.births, first: above + 1, block });
                state.births += 1;
            }
            Then::Again
        }
        Phase::Measuring(known) => {
            let above =
                if model.flaw == Flaw::SharedBlock { known.ceiling } else { state.disk.fence().max(known.ceiling) };
            match model.flaw {
                Flaw::RaiseLate => Then::Go(work.jump(&known, above)),
                Flaw::CeilingByRename => Then::Go(Phase::Raising(known, above)),
                _ => work.reserve(state, &known, above),
            }
        }
        Phase::Raising(known, above) => work.reserve(state, &known, above),
        Phase::RaisingLate(ceiling) => {
            work.raise(state, ceiling);
            Then::Again
        }
        _ => work.finish(state),
    }
}

/// The end of the chain is missing, up to the grant that was noted: the numbers go on elsewhere.
fn mend(known: &Known, noted: u8) -> Phase {
    Phase::Measuring(Known { next: known.next.max(noted + 1), record: None, ..*known })
}

/// A command that takes a step.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) model: Leases,
    pub(super) client: u8,
    pub(super) command: Command,
}

impl Work {
    pub(super) fn session(self) -> usize {
        self.model.session(self.client)
    }

    /// Makes a ceiling, if it isn't there already.
    pub(super) fn raise(self, state: &mut State, ceiling: u8) {
        let fences = &mut state.disk.fences;
        if self.model.flaw == Flaw::CeilingByRename {
            *fences = vec![ceiling];
        } else if !fences.contains(&ceiling) {
            fences.push(ceiling);
            // Only the highest is ever asked for; a block that two chains could take for theirs is looked for among all.
            if self.model.flaw != Flaw::SharedBlock {
                fences.retain(|fence| *fence >= ceiling);
            }
            fences.sort_unstable();
        }
    }

    /// Gets a block for a new chain. Looking for the highest and making the next one are one step where each is made exclusively: whoever
    /// is late finds that it is there, and looks again.
    fn fence(self, state: &mut State, above: u8) -> Then {
        state.disk.dir = true;
        self.raise(state, above + self.model.bounds.block);
        Then::Go(Phase::Bearing(above))
    }

    /// Gets a block for the chain, likewise.
    fn reserve(self, state: &mut State, known: &Known, above: u8) -> Then {
        self.raise(state, above + self.model.bounds.block);
        let higher = Known { ceiling: above + self.model.bounds.block, ..*known };
        match self.model.flaw {
            Flaw::SharedBlock => self.commit(&higher),
            Flaw::JumpWithoutSlot => self.commit(&Known { next: above + 1, ..higher }),
            _ => Then::Go(self.jump(known, above)),
        }
    }

    /// The chain was read, and it is whole.
    fn judge(self, state: &mut State, known: &Known, ceiling: Option<u8>) -> Then {
        match (known.last, ceiling) {
            (None, Some(ceiling)) => self.doubt(state, known, ceiling),
            (None, None) if self.command.op == Op::Acquire && self.model.flaw != Flaw::StaleBase => {
                Then::Go(Phase::Doubting(*known))
            }
            _ if self.model.flaw.times_last() => Then::Go(Phase::Timing(*known)),
            _ => self.consider(state, known),
        }
    }

    /// The chain has no slot: was its base made by somebody who was stopped, while others lived and died?
    fn doubt(self, state: &mut State, known: &Known, ceiling: u8) -> Then {
        if ceiling == known.base.block || self.model.flaw == Flaw::StaleBase {
            return self.consider(state, known);
        }
        Then::Go(Phase::Measuring(*known))
    }

    /// The chain was read: what does the product say, and is there a number for it?
    fn consider(mut self, state: &mut State, known: &Known) -> Then {
        let Command { op, token, time, .. } = self.command;
        let session = u8::try_from(self.session()).expect("sessions are few");
        if !ask(self.model, known, op, session, token, time) {
            return Then::End;
        }
        // A record is stamped with a clock that was read after the one before it: it never goes back.
        if self.model.flaw != Flaw::StampedBefore {
            self.command.time = state.now;
            state.clients[usize::from(self.client)] = Some(self.command);
        }
        let is_full = match self.model.flaw {
            Flaw::SharedBlock => known.next > known.ceiling,
            _ => known.next >= known.ceiling,
        };
        let needs_number = !(op == Op::Prune || (op == Op::Renew && self.model.flaw.renews_beside()));
        if is_full && needs_number {
            return Then::Go(Phase::Measuring(*known));
        }
        self.commit(known)
    }

    /// There is a number for it.
    fn commit(self, known: &Known) -> Then {
        let flaw = self.model.flaw;
        let publishes = self.model.bounds.ops.contains(&Op::Publish);
        Then::Go(match self.command.op {
            Op::Acquire if publishes && flaw.empties_before() => Phase::Emptying(*known),
            Op::Release if publishes && flaw != Flaw::ReleaseKeepsStaging => Phase::Emptying(*known),
            Op::Renew if flaw.renews_beside() => {
                Phase::Writing(*known, known.record.map_or(0, |record| record.since + LEASE))
            }
            Op::Publish if flaw == Flaw::ValidateThenPublish => Phase::Renaming,
            Op::Prune if flaw == Flaw::PruneUnnoted => Phase::Sweeping(known.old),
            Op::Prune => Phase::Noting(*known),
            _ => self.link(known),
        })
    }

    /// The slot of this command.
    pub(super) fn link(self, known: &Known) -> Phase {
        let Command { op, time, .. } = self.command;
        let session = u8::try_from(self.session()).expect("sessions are few");
        let (kind, record) = match op {
            Op::Acquire => (Kind::Grant, Some(Record { token: known.next, session, since: time })),
            Op::Renew => (Kind::Renew, known.record.map(|record| Record { since: time, ..record })),
            Op::Publish => (Kind::Publish, known.record),
            Op::Release | Op::Prune => (Kind::Release, None),
        };
        let ends = known.record.filter(|_| op == Op::Renew).map_or(0, |record| record.since + LEASE);
        let slot = Slot {
            number: known.next,
            chain: known.base.chain,
            by: self.command.serial,
            kind,
            record,
            next: known.next + 1,
            ceiling: known.ceiling,
        };
        Phase::Linking(Aim { slot, after: known.last, ends, is_old: false })
    }

    /// The slot after which the numbers go on above `above`.
    fn jump(self, known: &Known, above: u8) -> Phase {
        let slot = Slot {
            number: known.next,
            chain: known.base.chain,
            by: self.command.serial,
            kind: Kind::Rebase,
            record: known.record,
            next: above + 1,
            ceiling: above + self.model.bounds.block,
        };
        Phase::Linking(Aim { slot, after: known.last, ends: 0, is_old: false })
    }
}
