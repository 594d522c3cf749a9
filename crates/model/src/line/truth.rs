//! What is true, whatever the files say: who holds, who came first, who could take the lock now.

use super::Queue;
use super::bounds::Stops;
use super::state::{Age, Phase, Place, Process, State};

/// The promises that are broken by a step rather than by a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offences {
    /// The lock was granted although somebody who could have taken it came earlier.
    pub overtaken: bool,
    /// The first who could take the free lock looked and was told to wait.
    pub displaced: bool,
}

impl Process {
    /// May its command, or itself, act as if it had the lock?
    fn claims(&self) -> bool {
        matches!(self.phase, Phase::Holding(_) | Phase::Ended { .. } | Phase::Orphaned(_))
    }

    /// Will it do something by itself, without anybody waking it? Everybody inside the mutex comes out of it by himself.
    pub(super) fn is_busy(&self, model: Queue, state: &State) -> bool {
        match self.phase {
            _ if self.stopped => false,
            Phase::Asleep(target) => model.is_woken(state, target),
            Phase::Holding(_) | Phase::Lost | Phase::Orphaned(_) | Phase::Left(_) => false,
            _ => true,
        }
    }

    /// Is it a waiter that is not to blame for its waiting?
    pub(super) fn is_ready(&self) -> bool {
        self.waits() && !self.stopped
    }
}

impl State {
    /// At most one process may act as if it had the lock.
    pub fn has_one_holder(&self) -> bool {
        self.processes.iter().filter(|process| process.claims()).count() <= 1
    }

    /// Does nobody have the lock? What a dead guard's command left behind has it as long as it keeps the pulse.
    pub fn is_free(&self) -> bool {
        let has = |process: &Process| match process.phase {
            Phase::Granting => true,
            Phase::Left(Place::Held) => self.record == Some(process.number),
            _ => process.claims(),
        };
        !self.processes.iter().any(has)
    }

    /// Is the lock free and somebody waits who could take it?
    pub fn is_left_alone(&self) -> bool {
        self.is_free() && self.processes.iter().any(Process::is_ready)
    }

    /// Does nothing happen any more, unless from outside or by the look each second?
    pub(super) fn is_quiet(&self, model: Queue) -> bool {
        !self.processes.iter().any(|process| process.is_busy(model, self))
    }

    /// The waiters that came before the process in that place; all of them if it has none.
    fn waiters_before(&self, place: Option<usize>) -> impl Iterator<Item = &Process> {
        self.processes[..place.unwrap_or(self.processes.len())].iter().filter(|process| process.waits())
    }

    /// The lock is being granted to the process in that place, or to one that has none.
    pub(super) fn note_grant(&mut self, place: Option<usize>) {
        let overtaken = self.waiters_before(place).any(|waiter| waiter.is_ready() && waiter.ignores != Some(Age::Old));
        self.offences.overtaken |= overtaken;
    }

    /// The waiter in that place was told that others are ahead of it.
    pub(super) fn note_queued(&mut self, model: Queue, place: usize) {
        let space = self.processes[place].space;
        let ahead =
            |waiter: &Process| (!(waiter.stopped && model.sees(waiter, space))) && waiter.ignores != Some(Age::Old);
        let displaced = !self.waiters_before(Some(place)).any(ahead);
        self.offences.displaced |= displaced;
    }

    /// How many rounds the lock may be left alone at rest: one for each stopped waiter that may not be seen to be.
    pub(super) fn rounds_max(&self, model: Queue) -> u8 {
        let stopped = |process: &&Process| process.waits() && process.stopped;
        let stopped = self.processes.iter().filter(stopped).count();
        if model.bounds.stops == Stops::Seen { 0 } else { u8::try_from(stopped).expect("processes are few") }
    }
}
