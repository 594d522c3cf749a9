//! One round: processes are started, hit, and heard, until their time is over and all of them are gone.

use std::mem;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::history::{Deed, Entry, Told};

use super::dice::Dice;
use super::nemesis::{self, Blow};
use super::ordeal::Blows;
use super::worker::Orders;
use super::{Tidings, Torture};
use crate::arena::Arena;
use crate::herd::{Beast, Herd};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::monotonic_ns;
use lokt_sys::wait_policy::Interrupt;
use lokt_sys::wakeup::sleep_on;

/// How often it is looked whether all of them live.
const LOOK_NS: u64 = 100_000_000;

/// So many errors of a round are remembered.
const ODDITIES_MAX: usize = 5;
/// After so many errors of each process in a row, nobody gets on any more: their directory or its mount is gone, or the disk is broken. A
/// process pauses after each, so that this takes a second.
const ERRORS_MAX: usize = 50;

/// What to do about an error that says nothing about locks.
pub(super) const MEND: &str =
    "nothing can be said about locks there until that is mended; `lokt doctor` examines the place";

/// A round.
pub(super) struct Round<'a> {
    torture: &'a Torture<'a>,
    places: &'a [PathBuf],
    /// Where the clock of the history begins.
    began: u64,
    pub(super) until: u64,
    herd: Herd,
    /// Who comes too late on purpose. Until it has done so it isn't hit.
    late: Option<u64>,
    /// Those that were killed and have not ended.
    pub(super) dying: Vec<Worker>,
    arena: &'a mut Arena,
    entries: Vec<Entry>,
    /// What nobody can go on after.
    pub(super) trouble: Option<Error>,
    oddities: Vec<String>,
    /// Errors since somebody was answered.
    errors_in_a_row: usize,
    blows: Blows,
}

/// What was told in a round.
pub(super) struct History {
    pub(super) entries: Vec<Entry>,
    /// Errors that don't happen where locks work.
    pub(super) oddities: Vec<String>,
    pub(super) interrupted: bool,
    /// No process is left.
    pub(super) all_are_gone: bool,
    /// What ended it early. What was told before that is as true as ever.
    pub(super) trouble: Option<Error>,
    pub(super) blows: Blows,
}

/// One of the processes, in its present life.
pub(super) struct Worker {
    pub(super) who: u64,
    place: PathBuf,
    pub(super) beast: Beast,
    /// It is stopped until then.
    stopped_until: Option<u64>,
    /// It was killed, and at this moment before that it had not ended.
    pub(super) seen_alive: Option<u64>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        torture: &'a Torture<'a>,
        places: &'a [PathBuf],
        arena: &'a mut Arena,
        began: u64,
        time: Duration,
    ) -> Result<Self, Error> {
        let herd = Herd::new().map_err(|error| Error::io("set processes against each other in", torture.dir, error))?;
        let until = monotonic_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            torture,
            places,
            began,
            until,
            herd,
            late: None,
            dying: Vec::new(),
            arena,
            entries: Vec::new(),
            trouble: None,
            oddities: Vec::new(),
            errors_in_a_row: 0,
            blows: Blows::default(),
        })
    }

    /// Fights it. `born` counts lives.
    pub(super) fn fight(
        mut self,
        dice: &mut Dice,
        born: &mut u64,
        alarm: &mut dyn Interrupt,
        tell: &mut dyn FnMut(Tidings),
    ) -> History {
        let mut workers = Vec::new();
        let fought = self.set_on(&mut workers, dice, born, alarm, tell);
        let mut interrupted = self.or_trouble(fought);
        // Whatever happened, nobody is left, and what they told is heard.
        let ended = self.end(workers, interrupted, alarm, tell);
        let all_are_gone = ended.is_ok() && self.dying.is_empty();
        interrupted |= self.or_trouble(ended);
        let Self { entries, oddities, trouble, blows, .. } = self;
        History { entries, oddities, interrupted, all_are_gone, trouble, blows }
    }

    /// Sets them on each other, and strikes them, until the time is over. True: the alarm went off.
    fn set_on(
        &mut self,
        workers: &mut Vec<Worker>,
        dice: &mut Dice,
        born: &mut u64,
        alarm: &mut dyn Interrupt,
        tell: &mut dyn FnMut(Tidings),
    ) -> Result<bool, Error> {
        self.late = (!self.torture.without_locks).then_some(*born + 1);
        for index in 0..self.torture.procs {
            workers.push(self.start(self.places[index % self.places.len()].clone(), dice, born)?);
        }
        let mut next_blow = monotonic_ns() + nemesis::pause(dice);
        let mut next_look = 0;
        let mut interrupted = false;
        while monotonic_ns() < self.until && self.trouble.is_none() && !interrupted {
            let next_end = workers.iter().filter_map(|worker| worker.stopped_until).min().unwrap_or(u64::MAX);
            interrupted = self.listen(next_blow.min(next_end).min(self.until), alarm)?;
            self.go_on(workers, monotonic_ns())?;
            if !interrupted && monotonic_ns() >= next_blow {
                let (victim, blow) = nemesis::choose(dice, workers.len());
                let is_late = Some(workers[victim].who) == self.late;
                let victim = (victim + usize::from(is_late)) % workers.len();
                self.strike(&mut workers[victim], blow, dice, born)?;
                next_blow = monotonic_ns() + nemesis::pause(dice);
            }
            // Every line that is told wakes us: it would cost more than what is tried to look after each.
            if monotonic_ns() >= next_look {
                self.look(workers)?;
                self.bury()?;
                next_look = monotonic_ns() + LOOK_NS;
                tell(Tidings::Lasted(Duration::from_nanos(monotonic_ns().saturating_sub(self.began))));
            }
        }
        Ok(interrupted)
    }

    /// Did the alarm go off?
    fn or_trouble(&mut self, is_raised: Result<bool, Error>) -> bool {
        is_raised.unwrap_or_else(|error| {
            self.give_up(error);
            false
        })
    }

    /// Nobody can go on after this. The first of them is the reason.
    pub(super) fn give_up(&mut self, why: Error) {
        self.trouble.get_or_insert(why);
    }

    fn start(&self, place: PathBuf, dice: &mut Dice, born: &mut u64) -> Result<Worker, Error> {
        *born += 1;
        let without_locks = self.torture.without_locks;
        let oversleeps = self.late == Some(*born);
        let orders = Orders { who: *born, seed: dice.any(), until: self.until, without_locks, oversleeps };
        let started = self.herd.start((self.torture.worker)(&place, &orders));
        let beast = started.map_err(|error| {
            Error::io("start a process in", &place, error)
                .hint("try fewer processes: --procs; `ulimit -u` and `ulimit -n` are limits")
        })?;
        Ok(Worker { who: *born, place, beast, stopped_until: None, seen_alive: None })
    }

    /// Writes down what was done to somebody.
    pub(super) fn note(&mut self, who: u64, deed: Deed) {
        self.add(Entry { at: monotonic_ns(), who, deed });
    }

    /// Adds it to the history, and leaves it to whoever asked for that, with the times that a verdict speaks of.
    pub(super) fn add(&mut self, entry: Entry) {
        let entry = since(self.began, entry);
        if let Err(error) = self.arena.keep(&entry) {
            self.give_up(self.cant("keep what was told by", error));
        }
        self.entries.push(entry);
    }

    fn strike(&mut self, worker: &mut Worker, blow: Blow, dice: &mut Dice, born: &mut u64) -> Result<(), Error> {
        match blow {
            // Where they take so long to die, there would be more and more of them.
            Blow::Kill if self.dying.len() >= self.torture.procs => {}
            Blow::Kill => {
                self.kill(worker)?;
                let next = self.start(worker.place.clone(), dice, born)?;
                self.dying.push(mem::replace(worker, next));
                self.blows.killed += 1;
            }
            Blow::Stop(_) if worker.stopped_until.is_some() => {}
            Blow::Stop(ns) => {
                self.note(worker.who, Deed::Stopped);
                worker.beast.stop().map_err(|error| self.cant("stop", error))?;
                worker.stopped_until = Some(monotonic_ns() + ns);
            }
        }
        Ok(())
    }

    /// Continues those whose time has come.
    pub(super) fn go_on(&mut self, workers: &mut [Worker], now: u64) -> Result<(), Error> {
        for worker in workers {
            if worker.stopped_until.is_some_and(|until| until <= now) {
                worker.stopped_until = None;
                worker.beast.go_on().map_err(|error| self.cant("continue", error))?;
                self.note(worker.who, Deed::Continued);
                self.blows.stopped += 1;
            }
        }
        Ok(())
    }

    pub(super) fn cant(&self, what: &str, error: std::io::Error) -> Error {
        Error::io(&format!("{what} a process in"), self.torture.dir, error).hint("`lokt doctor` examines the place")
    }

    /// Nobody ends before its time.
    fn look(&mut self, workers: &mut [Worker]) -> Result<(), Error> {
        for worker in workers {
            if let Some(how) = worker.beast.ended().map_err(|error| self.cant("look after", error))?
                && monotonic_ns() < self.until
            {
                // It may have said why.
                self.hear()?;
                let why = format!("process {} ended by itself: {how}", worker.who);
                self.give_up(Error::new(ErrorKind::Io, why).hint(MEND));
            }
        }
        Ok(())
    }

    /// Hears what is told until `until`, or for a moment. True: the alarm went off.
    pub(super) fn listen(&mut self, until: u64, alarm: &mut dyn Interrupt) -> Result<bool, Error> {
        let nap = until.saturating_sub(monotonic_ns()).min(LOOK_NS);
        let ready = sleep_on(&[self.herd.as_fd(), alarm.fd()], Duration::from_nanos(nap));
        let ready = ready.map_err(|error| self.cant("listen to", error))?;
        self.hear()?;
        Ok(ready.get(1) == Some(&true) && alarm.is_raised())
    }

    pub(super) fn hear(&mut self) -> Result<(), Error> {
        let lines = self.herd.lines().map_err(|error| self.cant("listen to", error))?;
        for line in String::from_utf8_lossy(&lines).lines() {
            match Told::parse(line) {
                Told::Odd(why) => self.err(why),
                Told::Trouble(why) => self.give_up(Error::new(ErrorKind::Io, why).hint(MEND)),
                Told::Did(entry) => {
                    if matches!(entry.deed, Deed::Wrote { .. } | Deed::GaveUp { .. }) {
                        self.errors_in_a_row = 0;
                    }
                    if matches!(entry.deed, Deed::Wrote { .. }) && self.late == Some(entry.who) {
                        self.late = None;
                    }
                    self.add(entry);
                }
                Told::Nothing(error) => {
                    let why = format!("a process told something else: {error}: {line}");
                    self.give_up(Error::new(ErrorKind::Io, why).hint(MEND));
                }
            }
        }
        Ok(())
    }

    /// Somebody told of an error and goes on.
    fn err(&mut self, why: &str) {
        if self.oddities.len() < ODDITIES_MAX {
            self.oddities.push(why.to_owned());
        }
        self.errors_in_a_row += 1;
        if self.errors_in_a_row >= ERRORS_MAX * self.torture.procs {
            self.give_up(Error::new(ErrorKind::Io, format!("nobody gets on any more: {why}")).hint(MEND));
        }
    }
}

/// The same on a clock that begins with the torture.
fn since(began: u64, mut entry: Entry) -> Entry {
    entry.at = entry.at.saturating_sub(began);
    if let Deed::Entered { until: Some(until), .. } | Deed::OutOfTime { until, .. } = &mut entry.deed {
        *until = until.saturating_sub(began);
    }
    entry
}
