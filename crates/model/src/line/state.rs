//! One moment of the world: the processes with their pulses, the record, and what went wrong.
//!
//! A process and its pulse are one thing here: where the file lies and whether it is locked follow from what the process does. What is
//! left of a process that was killed (its command, or something that this one started) stays in its place until it has ended too.
//!
//! Only the order of numbers matters. They are given anew after every step, so that states are finite although runs are not.

use super::truth::Offences;

/// Stands for the number of a pulse that nobody keeps and nothing reads any more.
pub(super) const GONE: u8 = 0;

/// Where a pulse lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In the line: a ticket.
    Line,
    /// Among the holders'.
    Held,
    /// Nowhere: it is unlinked.
    Nowhere,
}

/// What a command does with the pulse that it inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Keeps it, as most do.
    Keeps,
    /// Closes it, as some languages do.
    Closes,
}

/// A pid namespace. Where there is only one, it is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// One.
    First,
    /// Another one.
    Second,
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The pulse of a waiter before it.
    Ticket(u8),
    /// The pulse of the holder.
    Holder(u8),
    /// No pulse: only the look each second is left.
    Nothing,
}

impl Target {
    /// The number of its pulse.
    pub fn number(self) -> Option<u8> {
        match self {
            Self::Ticket(number) | Self::Holder(number) => Some(number),
            Self::Nothing => None,
        }
    }

    fn number_mut(&mut self) -> Option<&mut u8> {
        match self {
            Self::Ticket(number) | Self::Holder(number) => Some(number),
            Self::Nothing => None,
        }
    }
}

/// How long ago something was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Age {
    /// Just now.
    Young,
    /// Longer ago than an offer lasts.
    Old,
}

/// Where a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A waiter, awake: it is going to look inside the mutex.
    Awake,
    /// A waiter that has left the mutex and is about to open the pulse it chose.
    Choosing(Target),
    /// A waiter, blocked.
    Asleep(Target),
    /// A waiter that gave up: its ticket is unlinked, its pulse still locked.
    Leaving,
    /// Has the mutex; its pulse is among the holders', its record isn't published yet.
    Granting,
    /// A guard whose command runs.
    Holding(Command),
    /// A guard that has lost its lock by force; its command runs on and keeps the pulse.
    Lost,
    /// A guard whose command has ended. `leaves` is true if something still keeps the pulse.
    Ended {
        /// Something keeps the pulse.
        leaves: bool,
    },
    /// Has the mutex and has removed the record.
    Removing {
        /// Something keeps the pulse.
        leaves: bool,
    },
    /// Has unlinked its pulse and left the mutex; the pulse is still locked.
    Unlinked {
        /// Something keeps the pulse.
        leaves: bool,
    },
    /// A guard that was killed while its command runs on.
    Orphaned(Command),
    /// Guard and command have ended; something else keeps the pulse, which lies there.
    Left(Place),
    /// Has dropped its pulse and will remove the record: only where a release drops the pulse first.
    Dropped,
    /// Ended, its pulse not yet dropped: only where waiters are woken before that.
    Dying(Place),
}

/// A process, its pulse, and what was written there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Where it is.
    pub phase: Phase,
    /// Is it stopped by a signal?
    pub stopped: bool,
    /// When the lock was found free for it, as its pulse says.
    pub offered: Option<Age>,
    /// The same in truth: since when it lets the free lock alone, without having looked inside the mutex or found no reason to.
    pub ignores: Option<Age>,
    /// At rest: has it looked around in this round?
    pub looked: bool,
    /// The number of its pulse.
    pub number: u8,
    /// Where it runs.
    pub space: Space,
}

impl Process {
    pub(super) fn new(phase: Phase, number: u8, space: Space) -> Self {
        Self { phase, stopped: false, offered: None, ignores: None, looked: false, number, space }
    }

    /// Where its pulse lies.
    pub fn place(&self) -> Place {
        match self.phase {
            Phase::Awake | Phase::Choosing(_) | Phase::Asleep(_) => Place::Line,
            Phase::Granting
            | Phase::Holding(_)
            | Phase::Lost
            | Phase::Ended { .. }
            | Phase::Removing { .. }
            | Phase::Orphaned(_) => Place::Held,
            Phase::Leaving | Phase::Unlinked { .. } | Phase::Dropped => Place::Nowhere,
            Phase::Left(place) | Phase::Dying(place) => place,
        }
    }

    /// Does anybody keep its pulse locked?
    pub fn is_locked(&self) -> bool {
        !matches!(self.phase, Phase::Orphaned(Command::Closes) | Phase::Dropped)
    }

    /// Does it want the lock?
    pub fn waits(&self) -> bool {
        matches!(self.phase, Phase::Awake | Phase::Choosing(_) | Phase::Asleep(_))
    }

    /// Does it keep the mutex?
    fn has_mutex(&self) -> bool {
        matches!(self.phase, Phase::Granting | Phase::Removing { .. })
    }

    /// What it chose to wait for.
    pub fn target(&self) -> Option<Target> {
        match self.phase {
            Phase::Choosing(target) | Phase::Asleep(target) => Some(target),
            _ => None,
        }
    }

    fn target_mut(&mut self) -> Option<&mut Target> {
        match &mut self.phase {
            Phase::Choosing(target) | Phase::Asleep(target) => Some(target),
            _ => None,
        }
    }
}

/// The world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The processes: first those that hold or are about to leave, then the waiters in the order in which they came. This order is the
    /// truth; the numbers of the tickets are what the files say.
    pub processes: Vec<Process>,
    /// The record: the number of the pulse that it names.
    pub record: Option<u8>,
    /// At rest: how often all was quiet, everybody had looked around, and the lock was free for somebody all the same.
    pub rounds: Option<u8>,
    /// What went wrong.
    pub offences: Offences,
}

impl State {
    /// Nobody there.
    pub(super) fn new() -> Self {
        Self { processes: Vec::new(), record: None, rounds: None, offences: Offences::default() }
    }

    /// The process with that pulse.
    pub fn with(&self, number: u8) -> Option<&Process> {
        self.processes.iter().find(|process| process.number == number)
    }

    /// The number of the next pulse.
    pub(super) fn next_number(&self) -> u8 {
        self.processes.iter().map(|process| process.number).max().unwrap_or(GONE) + 1
    }

    /// Could somebody take the mutex? The kernel gives it back when its process dies.
    pub fn is_mutex_free(&self) -> bool {
        !self.processes.iter().any(Process::has_mutex)
    }

    /// Is that pulse to be found there, and locked?
    pub(super) fn is_there(&self, number: u8, place: Place) -> bool {
        self.with(number).is_some_and(|process| process.is_locked() && process.place() == place)
    }

    /// Would a helper that blocks on this come back?
    pub(super) fn is_dropped(&self, target: Target) -> bool {
        target.number().is_some_and(|number| !self.with(number).is_some_and(Process::is_locked))
    }

    /// More than two seconds pass.
    pub(super) fn age(&mut self) {
        for age in self.processes.iter_mut().flat_map(|process| [&mut process.offered, &mut process.ignores]).flatten()
        {
            *age = Age::Old;
        }
    }

    /// Gives the processes their order and the pulses their numbers. Among those that don't wait neither means anything.
    pub(super) fn settle(mut self) -> Self {
        self.processes.sort_by_key(|process| {
            let in_line = process.place() == Place::Line;
            // Sorting is stable, so waiters stay as they came.
            (in_line, (!in_line).then_some((process.phase, process.stopped)))
        });
        // Only waiters are looked at for being stopped.
        for process in self.processes.iter_mut().filter(|process| process.place() != Place::Line) {
            process.space = Space::First;
        }
        let mut numbers: Vec<_> =
            self.processes.iter().map(|process| (process.place() == Place::Line, process.number)).collect();
        let lined = numbers.iter().filter(|(in_line, _)| *in_line).count();
        let others = numbers.len() - lined;
        numbers[others..].sort_unstable();
        let renumbered = |number: u8| {
            let place = numbers.iter().position(|(_, old)| *old == number);
            place.map_or(GONE, |place| u8::try_from(place + 1).expect("processes are few"))
        };
        self.record = self.record.map(renumbered);
        for process in &mut self.processes {
            process.number = renumbered(process.number);
            if let Some(number) = process.target_mut().and_then(Target::number_mut) {
                *number = renumbered(*number);
            }
        }
        self
    }
}
