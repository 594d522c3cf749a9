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

pub use ordeal::{Blows, Broken, Ordeal, Updates};
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
        alarm: &mut dyn Alarm,
        tell: &mut dyn FnMut(Duration),
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
        if let Err(trouble) = self.rounds(&places, arena, &mut ordeal, alarm, tell) {
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
        alarm: &mut dyn Alarm,
        tell: &mut dyn FnMut(Duration),
    ) -> Result<(), Error> {
        let began = monotonic_ns();
        let lasted = || Duration::from_nanos(monotonic_ns().saturating_sub(began));
        let mut dice = Dice::new(self.seed);
        let mut born = 0;
        while let Some(left) = self.time.checked_sub(lasted()).filter(|left| !left.is_zero()) {
            arena.show_life();
            let round = Round::new(self, places, arena, began, left.min(ROUND))?;
            let history = round.fight(&mut dice, &mut born, alarm, &mut || tell(lasted()));
            ordeal.judge(&history.entries, history.oddities);
            ordeal.count(history.blows);
            ordeal.lasted = lasted();
            ordeal.interrupted = history.interrupted;
            history.trouble.map_or(Ok(()), Err)?;
            if ordeal.interrupted {
                break;
            }
            if let (Some(error), 0) = (ordeal.errors.first(), ordeal.broken.count()) {
                return Err(Error::new(ErrorKind::Io, error).hint(MEND));
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
mod tests {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::fd::{AsFd as _, BorrowedFd};

    use lokt_core::history::{Deed, Entry};

    use super::*;

    /// Goes off at a moment.
    struct Late<'a> {
        readable: File,
        at: &'a Cell<u64>,
    }

    impl Alarm for Late<'_> {
        fn fd(&self) -> BorrowedFd<'_> {
            self.readable.as_fd()
        }

        fn went_off(&mut self) -> bool {
            monotonic_ns() >= self.at.get()
        }
    }

    /// A torture with such processes, in a directory of its own, with an alarm at this moment.
    fn tortured(
        time: Duration,
        worker: &dyn Fn(&Path, &Orders) -> Command,
        alarm_at: &Cell<u64>,
    ) -> Result<Ordeal, Error> {
        let dir = tempfile::tempdir().expect("temp");
        tortured_in(dir.path(), false, time, worker, alarm_at)
    }

    fn tortured_in(
        dir: &Path,
        keep: bool,
        time: Duration,
        worker: &dyn Fn(&Path, &Orders) -> Command,
        alarm_at: &Cell<u64>,
    ) -> Result<Ordeal, Error> {
        let rival = &|_: &Path| Command::new("true");
        let torture = Torture { dir, also: None, procs: 3, time, seed: 1, keep, without_locks: false, worker, rival };
        let readable = File::open("/dev/zero").expect("it is always there");
        torture.run(&mut Late { readable, at: alarm_at }, &mut |_| {})
    }

    /// A process of the shell.
    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    /// For the shell: tells of two who were inside at once, shortly before the end of the round.
    fn overlap(orders: &Orders) -> String {
        let tell = |before: u64, who: u64, deed: Deed| {
            format!("echo '{}'\n", Entry { at: orders.until - before, who, deed }.encode().trim_end())
        };
        let (entered, left) =
            (|| Deed::Entered { name: "hot".into(), token: None, until: None }, || Deed::Left { name: "hot".into() });
        tell(9, 101, entered()) + &tell(8, 102, entered()) + &tell(7, 101, left()) + &tell(6, 102, left())
    }

    const NEVER: u64 = u64::MAX;
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_alarm_while_a_round_is_ending_ends_everything() {
        let at = Cell::new(NEVER);
        let worker = |_: &Path, orders: &Orders| {
            // Its time is over by then, and it waits for those who sleep.
            at.set(orders.until + 100_000_000);
            shell("exec sleep 60")
        };
        let done = tortured(Duration::from_millis(200), &worker, &at);
        assert!(done.is_ok_and(|ordeal| ordeal.interrupted), "whoever stops a torture has stopped it");
    }

    #[test]
    fn what_was_broken_before_an_error_is_not_forgotten() {
        for (what_else, why) in [
            ("echo '!write count: No space left on device'; exec sleep 60", "write count: No space left on device"),
            ("exit 3", "ended by itself: exit status: 3"),
            ("echo nonsense; exec sleep 60", "a process told something else"),
        ] {
            let broken = |_: &Path, orders: &Orders| shell(&(overlap(orders) + what_else));
            let ordeal = tortured(MINUTE, &broken, &Cell::new(NEVER)).expect("a promise was broken");
            assert!(ordeal.broken.overlaps > 0, "two were inside at once: {ordeal:?}");
            assert!(ordeal.errors.first().is_some_and(|error| error.contains(why)), "and {why:?} is told: {ordeal:?}");
            let innocent = |_: &Path, _: &Orders| shell(what_else);
            let error = tortured(MINUTE, &innocent, &Cell::new(NEVER)).expect_err("nothing can be said about locks");
            assert!(error.to_string().contains(why) && error.next_step() == Some(MEND), "{error}");
        }
    }

    #[test]
    fn what_was_broken_before_a_process_could_not_be_started_is_not_forgotten() {
        let said = tempfile::tempdir().expect("temp");
        let said = said.path().join("said");
        let worker = |_: &Path, orders: &Orders| {
            if orders.who <= 3 {
                return shell(&format!("{} : >'{}'; exec sleep 60", overlap(orders), said.display()));
            }
            // One of the three was killed; the others have something to tell.
            while !said.exists() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            Command::new("/missing/program")
        };
        let ordeal = tortured(MINUTE, &worker, &Cell::new(NEVER)).expect("a promise was broken");
        assert!(ordeal.broken.overlaps > 0, "two were inside at once: {ordeal:?}");
        assert!(ordeal.errors.first().is_some_and(|error| error.contains("start a process in")), "{ordeal:?}");
    }

    #[test]
    fn processes_that_do_nothing_but_err_end_it() {
        let worker = |_: &Path, _: &Orders| shell("while :; do echo '?open hot.json: Stale file handle' || exit; done");
        let error = tortured(60 * MINUTE, &worker, &Cell::new(NEVER)).expect_err("nothing can be said about locks");
        assert_eq!(error.to_string(), "nobody gets on any more: open hot.json: Stale file handle");
        // Those who get on now and then are let go on, here until three of them have been replaced.
        let at = Cell::new(NEVER);
        let worker = |_: &Path, orders: &Orders| {
            if orders.who == 6 {
                at.set(0);
            }
            let gave_up = Entry { at: orders.until, who: orders.who, deed: Deed::GaveUp { name: "hot".into() } };
            shell(&format!("while :; do echo '?a mistake' && echo '{}' || exit; done", gave_up.encode().trim_end()))
        };
        let ordeal = tortured(60 * MINUTE, &worker, &at).expect("it was interrupted");
        assert!(ordeal.interrupted && ordeal.figures().gave_up > 150, "it went on: {:?}", ordeal.figures());
        assert_eq!(ordeal.errors, ["a mistake"; 5], "the first few are enough");
    }

    #[test]
    fn whoever_keeps_everything_is_told_where_it_is_also_in_an_error() {
        let dir = tempfile::tempdir().expect("temp");
        let arenas = || names_in(dir.path());
        let silent = |_: &Path, _: &Orders| shell("echo '!write: No space left on device'; exec sleep 60");
        let error = tortured_in(dir.path(), true, MINUTE, &silent, &Cell::new(NEVER)).expect_err("the disk is full");
        assert_eq!((error.next_step(), arenas()), (Some(MEND), Vec::new()), "there is nothing to keep: {error}");
        let told = |_: &Path, orders: &Orders| {
            let asked = Entry { at: orders.until, who: orders.who, deed: Deed::Asked { name: "hot".into() } };
            shell(&format!(
                "echo '{}'; echo '!write: No space left on device'; exec sleep 60",
                asked.encode().trim_end()
            ))
        };
        let error = tortured_in(dir.path(), true, MINUTE, &told, &Cell::new(NEVER)).expect_err("the disk is full");
        let kept = arenas().pop().expect("it was kept");
        let hint = format!("{MEND}; what was told by then is kept in {}", kept.display());
        assert_eq!(error.next_step(), Some(hint.as_str()), "{error}");
    }

    fn names_in(dir: &Path) -> Vec<PathBuf> {
        let dir = std::fs::canonicalize(dir).expect("temp");
        std::fs::read_dir(dir).expect("temp").map(|entry| entry.expect("temp").path()).collect()
    }

    #[test]
    fn only_blows_of_the_nemesis_are_counted() {
        // All three of each round are put down at its end, and none of them by a blow.
        let at = Cell::new(NEVER);
        let worker = |_: &Path, _: &Orders| {
            at.set(0);
            shell("exec sleep 60")
        };
        let ordeal = tortured(MINUTE, &worker, &at).expect("it was interrupted");
        assert_eq!(ordeal.figures().killed, 3, "they are put down: {:?}", ordeal.figures());
        assert_eq!((ordeal.blows.killed, ordeal.blows.stopped), (0, 0), "that is no blow");
        let at = Cell::new(NEVER);
        let worker = |_: &Path, orders: &Orders| {
            if orders.who == 6 {
                at.set(0);
            }
            shell("exec sleep 60")
        };
        let ordeal = tortured(MINUTE, &worker, &at).expect("it was interrupted");
        assert_eq!((ordeal.blows.killed, ordeal.figures().killed), (3, 6), "three were replaced");
        assert!(ordeal.blows.stopped <= ordeal.figures().stopped, "{:?} {:?}", ordeal.blows, ordeal.figures());
    }
}
