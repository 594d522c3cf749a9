//! Is this directory safe for locks? Real processes fight for a few names in it, some of them are killed and stopped, and what they did is
//! judged afterwards.
//!
//! [`Torture::run`] makes a directory of its own with a root in it, and starts processes that call [`work`]. Each writes down what it does
//! ([`lokt_core::history`]) and tells it through a pipe; whoever started them kills, stops and continues them meanwhile. What a hold is for
//! is tried too: inside of it a number in a file is read, and written after a pause. Two who read the same were both inside, whatever the
//! clocks say.
//!
//! It goes in rounds. After each all processes are gone and its history is judged and forgotten, so a day takes no more memory than a
//! minute. Tokens and numbers go on from round to round.
//!
//! *Limitations*: one machine, and what happens to be tried. Where locks are local to a mount or a machine nothing may be seen;
//! [`FileSystem`] knows of that, and half of the processes can be sent another way to the same directory ([`Torture::also`]).

mod counter;
mod dice;
mod nemesis;
mod ordeal;
mod round;
mod worker;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::doctor::FileSystem;
use crate::error::{Error, ErrorKind};
use crate::locks::Lokt;
use crate::sys::arena::{Arena, left_over, root_in};
use crate::sys::machine::{Linux, Machine as _, identity, monotonic_ns};
use crate::wait::Alarm;
use dice::Dice;
use round::{MEND, Round};

pub use ordeal::{Broken, Ordeal, Updates};
pub use worker::{Orders, work};

/// How long a round is at most.
const ROUND: Duration = Duration::from_secs(10);

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
    /// What it is for a [`Doctor`](crate::doctor::Doctor).
    pub rival: &'a dyn Fn(&Path) -> Command,
}

impl Torture<'_> {
    /// Does it. `alarm` ends it early; `tell` hears how long it has lasted.
    pub fn run(&self, alarm: &mut dyn Alarm, tell: &mut dyn FnMut(Duration)) -> Result<Ordeal, Error> {
        let cant = |attempt: &str, error| Error::io(attempt, self.dir, error).hint(NEEDS);
        let dir = std::fs::canonicalize(self.dir).map_err(|error| cant("find", error))?;
        let left_over = left_over(&dir);
        let bits = Linux.random().map_err(|error| cant("get random bits for", error))?;
        let mut arena = Arena::make(&dir, bits, self.keep).map_err(|error| cant("make a directory in", error))?;
        let places = self.places(&arena)?;
        Lokt::create(&root_in(arena.path()), identity("torture".to_owned(), None))?;
        let mut file_system = FileSystem::examine(&dir, self.rival);
        if let Some(also) = self.also {
            file_system = file_system.seen_through(FileSystem::examine(also, self.rival));
        }
        let mut ordeal = Ordeal::new(file_system, left_over, self.keep.then(|| arena.path().to_owned()));
        let began = monotonic_ns();
        let lasted = || Duration::from_nanos(monotonic_ns().saturating_sub(began));
        let mut dice = Dice::new(self.seed);
        let mut born = 0;
        while let Some(left) = self.time.checked_sub(lasted()).filter(|left| !left.is_zero()) {
            let round = Round::new(self, &places, &mut arena, began, left.min(ROUND))?;
            let history = round.fight(&mut dice, &mut born, alarm, &mut || tell(lasted()))?;
            ordeal.judge(&history.entries, history.oddities);
            ordeal.lasted = lasted();
            if history.interrupted {
                ordeal.interrupted = true;
                break;
            }
            // Where nothing is broken, an error is nothing but an error.
            if let (Some(error), 0) = (ordeal.errors.first(), ordeal.broken.count()) {
                return Err(Error::new(ErrorKind::Io, error).hint(MEND));
            }
        }
        if ordeal.figures().holds == 0 && !ordeal.interrupted {
            let message = format!("nobody got a lock in {} in all that time", dir.display());
            return Err(
                Error::new(ErrorKind::Unusable, message).hint("`lokt doctor` examines the place; try a longer time")
            );
        }
        let path = arena.path().to_owned();
        drop(arena);
        if !self.keep && path.exists() {
            ordeal.left_over.push(path);
        }
        Ok(ordeal)
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

const NEEDS: &str =
    "name a directory that you may write to, with --dir; everything is made in a directory of its own there";
const SAME: &str = "--also names another path to the directory: what is made in one of them must be seen in the other";

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd as _, BorrowedFd};

    use super::*;

    /// Goes off after a while.
    struct Late {
        readable: File,
        at: u64,
    }

    impl Alarm for Late {
        fn fd(&self) -> BorrowedFd<'_> {
            self.readable.as_fd()
        }

        fn went_off(&mut self) -> bool {
            monotonic_ns() >= self.at
        }
    }

    #[test]
    fn an_alarm_while_a_round_is_ending_ends_everything() {
        let dir = tempfile::tempdir().expect("temp");
        let sleep = |_: &Path, _: &Orders| {
            let mut command = Command::new("sleep");
            command.arg("60");
            command
        };
        let time = Duration::from_millis(200);
        let torture = Torture {
            dir: dir.path(),
            also: None,
            procs: 2,
            time,
            seed: 1,
            keep: false,
            without_locks: false,
            worker: &sleep,
            rival: &|_| Command::new("true"),
        };
        let readable = File::open("/dev/zero").expect("it is always there");
        let at = std::cell::Cell::new(u64::MAX);
        // Told for the last time, they have a moment left; then the round ends, and waits for those who sleep.
        let mut late = Late { readable, at: monotonic_ns() + 1_500_000_000 };
        let done = torture.run(&mut late, &mut |_| at.set(monotonic_ns()));
        assert!(at.get() < late.at, "it went off after the time of the round was over");
        assert!(done.is_ok_and(|ordeal| ordeal.interrupted), "whoever stops a torture has stopped it");
    }
}
