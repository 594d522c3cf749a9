//! Is this directory safe for locks? Real processes fight for a few names in it, some of them are killed and stopped, and what they did is
//! judged afterwards.
//!
//! [`Torture::run`] makes a directory of its own with a root in it, and starts processes that call [`work`]. Each writes down what it does
//! ([`crate::history`]) and tells it through a pipe; whoever started them kills, stops and continues them meanwhile. What a hold is for
//! is tried too: inside of it a number in a file is read, and written after a pause. Two who read the same were both inside, whatever the
//! clocks say.
//!
//! It goes in rounds. After each all processes are gone and its history is judged and forgotten, so a day takes no more memory than a
//! minute. Tokens and numbers go on from round to round. When all are gone, every lock must be had again; in the end every number is read.
//!
//! *Limitations*: one machine, and what happens to be tried. Where locks are local to a mount or a machine nothing may be seen;
//! [`FileSystem`] knows of that, and half of the processes can be sent another way to the same directory ([`Torture::also`]).

mod aftermath;
mod arena;
mod counter;
mod dice;
mod ending;
mod herd;
pub mod history;
mod nemesis;
mod ordeal;
mod round;
mod worker;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::arena::{Arena, left_over, root_in};
use dice::Dice;
use lokt_named::Lokt;
use lokt_named::doctor::FileSystem;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{Linux, Machine as _, identity, monotonic_ns};
use lokt_sys::wait_policy::Interrupt;
use round::{MEND, Round};

pub use ordeal::{Afterwards, Blows, Broken, Ordeal, Updates};
pub use worker::{Orders, work};

/// How long a round is at most.
const ROUND: Duration = Duration::from_secs(10);

/// What is told while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tidings {
    /// So long it has lasted.
    Lasted(Duration),
    /// So many processes were killed some seconds ago, and have not ended. They are waited for; an alarm ends that, too.
    Dying(usize),
}

/// What is to be tried, where, and for how long.
pub struct Torture<'a> {
    /// A directory on the file system in question.
    pub dir: &'a Path,
    /// Another path to the same directory: half of the processes go that way.
    pub also: Option<&'a Path>,
    /// How many processes, at least two.
    pub procs: usize,
    /// For how long.
    pub time: Duration,
    /// Chooses who is killed and stopped when, and what the processes do.
    pub seed: u64,
    /// Leaves the root and the history where they are.
    pub keep: bool,
    /// Takes no locks, to see what the judges say.
    pub without_locks: bool,
    /// Starts this program once more, to call [`work`] in a directory with these orders.
    pub worker: &'a dyn Fn(&Path, &Orders) -> Command,
    /// What it is for a [`Doctor`](lokt_named::doctor::Doctor).
    pub rival: &'a dyn Fn(&Path) -> Command,
}

impl Torture<'_> {
    /// Does it. `alarm` ends it early; `tell` hears how it goes on.
    pub fn run(&self, alarm: &mut dyn Interrupt, tell: &mut dyn FnMut(Tidings)) -> Result<Ordeal, Error> {
        let cant = |attempt: &str, error| Error::io(attempt, self.dir, error).hint(NEEDS);
        if self.procs < 2 {
            return Err(Error::new(ErrorKind::BadName, format!("{} processes fight with nobody", self.procs)));
        }
        let dir = std::fs::canonicalize(self.dir).map_err(|error| cant("find", error))?;
        let bits = Linux.random().map_err(|error| cant("get random bits for", error))?;
        let mut arena = Arena::make(&dir, bits, self.keep).map_err(|error| cant("make a directory in", error))?;
        let done = self.fight(&dir, &mut arena, alarm, tell);
        let path = arena.path().to_owned();
        let is_kept = arena.close(done.is_ok());
        let mut ordeal = done.map_err(|error| if is_kept { kept_in(&path, error) } else { error })?;
        if !is_kept && path.exists() {
            ordeal.left_over.push(path);
        }
        Ok(ordeal)
    }

    /// Everything, in an arena that was made in `dir`.
    fn fight(
        &self,
        dir: &Path,
        arena: &mut Arena,
        alarm: &mut dyn Interrupt,
        tell: &mut dyn FnMut(Tidings),
    ) -> Result<Ordeal, Error> {
        let places = self.places(arena)?;
        Lokt::create(&root_in(arena.path()), identity("torture".to_owned(), None))?;
        let mut file_system = FileSystem::examine(dir, self.rival);
        if let Some(also) = self.also {
            file_system = file_system.seen_through(FileSystem::examine(also, self.rival));
        }
        // Where locks can't be trusted, one of somebody who lives may look as if it were free.
        let left_over = if file_system.is_trusted() { left_over(dir, arena) } else { Vec::new() };
        let mut ordeal = Ordeal::new(file_system, left_over, self.keep.then(|| arena.path().to_owned()));
        let fought = self.rounds(&places, arena, &mut ordeal, alarm, tell);
        let compared = ordeal.compare(&places);
        if let Err(trouble) = fought.and(compared) {
            // Where nothing was broken by then, an error is nothing but an error.
            if ordeal.broken.count() == 0 && !ordeal.interrupted {
                return Err(trouble);
            }
            ordeal.ended_by(&trouble);
        }
        if ordeal.figures().holds == 0 && !ordeal.interrupted {
            let message = format!("nobody got a lock in {} in all that time", dir.display());
            return Err(
                Error::new(ErrorKind::Unusable, message).hint("`lokt doctor` examines the place; try a longer time")
            );
        }
        Ok(ordeal)
    }

    /// Round after round, until the time is over. What ends it early, alarms aside, is an error; what was told before that is judged.
    fn rounds(
        &self,
        places: &[PathBuf],
        arena: &mut Arena,
        ordeal: &mut Ordeal,
        alarm: &mut dyn Interrupt,
        tell: &mut dyn FnMut(Tidings),
    ) -> Result<(), Error> {
        let began = monotonic_ns();
        let lasted = || Duration::from_nanos(monotonic_ns().saturating_sub(began));
        let mut dice = Dice::new(self.seed);
        let mut born = 0;
        while let Some(left) = self.time.checked_sub(lasted()).filter(|left| !left.is_zero()) {
            arena.show_life();
            let round = Round::new(self, places, arena, began, left.min(ROUND))?;
            let history = round.fight(&mut dice, &mut born, alarm, tell);
            ordeal.judge(&history.entries, history.oddities);
            ordeal.count(history.blows);
            ordeal.lasted = lasted();
            ordeal.interrupted = history.interrupted;
            ordeal.all_are_gone = history.all_are_gone;
            history.trouble.map_or(Ok(()), Err)?;
            if ordeal.interrupted {
                break;
            }
            if let (Some(error), 0) = (ordeal.errors.first(), ordeal.broken.count()) {
                return Err(Error::new(ErrorKind::Io, error).hint(MEND));
            }
            if !self.without_locks && ordeal.ask(places, alarm)? {
                break;
            }
        }
        Ok(())
    }

    /// The ways to the arena.
    fn places(&self, arena: &Arena) -> Result<Vec<PathBuf>, Error> {
        let mut places = vec![arena.path().to_owned()];
        if let Some(also) = self.also {
            let there = std::fs::canonicalize(also).map_err(|error| Error::io("find", also, error).hint(SAME))?;
            places.push(arena.seen_from(&there).ok_or_else(|| {
                let message = format!("{} is not another path to {}", also.display(), self.dir.display());
                Error::new(ErrorKind::BadName, message).hint(SAME)
            })?);
        }
        Ok(places)
    }
}

/// The same error; whoever wanted to keep everything is told where it is.
fn kept_in(path: &Path, error: Error) -> Error {
    let hint = error.next_step().map_or_else(String::new, |hint| format!("{hint}; "));
    error.hint(format!("{hint}what was told by then is kept in {}", path.display()))
}

const NEEDS: &str =
    "name a directory that you may write to, with --dir; everything is made in a directory of its own there";
const SAME: &str = "--also names another path to the directory: what is made in one of them must be seen in the other";

#[cfg(test)]
mod tests;
