//! Tests the guarantees of a file system that lokt is built on, with two real processes in a
//! directory.

use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lokt_sys::probe_dir::ProbeDir;
use lokt_sys::rival::{Outcome, Rival};

/// Number of races of two processes for one name.
const ROUNDS: usize = 8;
/// Maximum number of checks whether the lock of a killed process has been dropped. Another program
/// may drop it, as with FUSE; longer than this is not at once.
const DROPPED_TRIES: usize = 100;
const DROPPED_PAUSE: Duration = Duration::from_millis(10);

/// Runs the trials. Returns what isn't as it must be, one sentence each.
pub(super) fn hold(probe: &ProbeDir, rival: &dyn Fn(&Path) -> Command) -> io::Result<Vec<String>> {
    let start = || Rival::start(probe.enter(rival(Path::new("."))));
    let mut problems = Vec::new();
    let mut second = start()?;
    probe.make_dir("dir")?;
    second.does("make file")?;
    // The mutex is a locked directory, a pulse is a locked file.
    for what in ["file", "dir"] {
        problems.extend(excludes(start()?, &mut second, what)?);
    }
    let mut first = start()?;
    let mut works = false;
    for how in ["rename", "link"] {
        match race(&mut first, &mut second, how)? {
            Race::OneWinner => works = true,
            Race::Unsupported => {}
            Race::Winners(count) => {
                problems.push(format!("of two processes that {how} to one name, {count} succeeded instead of one"));
            }
        }
    }
    if !works && problems.is_empty() {
        problems.push("a file can't be given a name only if that is free: neither by rename nor by link".into());
    }
    Ok(problems)
}

/// Reports whether a lock that is taken in `probe` excludes a process that sees the same directory
/// as `other`.
pub(super) fn reaches(probe: &ProbeDir, other: &Path, rival: &dyn Fn(&Path) -> Command) -> io::Result<bool> {
    let mut here = Rival::start(probe.enter(rival(Path::new("."))))?;
    let mut there = Rival::start(rival(other))?;
    here.does("make seen-twice")?;
    let locked = here.does("lock seen-twice")? == Outcome::Done;
    Ok(locked && there.does("lock seen-twice")? == Outcome::Refused)
}

/// Lets the first process lock `what`: the second must be refused, and must get it when the first
/// is killed.
fn excludes(mut first: Rival, second: &mut Rival, what: &str) -> io::Result<Option<String>> {
    let shown = if what == "dir" { "a directory" } else { "a file" };
    let order = format!("lock {what}");
    match first.does(&order)? {
        Outcome::Done => {}
        Outcome::Refused | Outcome::Unsupported => return Ok(Some(format!("{shown} can't be locked with flock"))),
    }
    if second.does(&order)? != Outcome::Refused {
        return Ok(Some(format!("two processes had {shown} locked with flock at the same time")));
    }
    first.crash()?;
    for _ in 0..DROPPED_TRIES {
        if second.does(&order)? == Outcome::Done {
            return Ok(None);
        }
        thread::park_timeout(DROPPED_PAUSE);
    }
    Ok(Some(format!("the flock of a killed process on {shown} was not dropped")))
}

enum Race {
    OneWinner,
    Winners(usize),
    Unsupported,
}

fn race(first: &mut Rival, second: &mut Rival, how: &str) -> io::Result<Race> {
    for round in 0..ROUNDS {
        let (one, other, to) = (format!("{how}-{round}-1"), format!("{how}-{round}-2"), format!("{how}-{round}"));
        first.does(&format!("make {one}"))?;
        second.does(&format!("make {other}"))?;
        // Both orders are sent before either outcome is read.
        first.order(&format!("{how} {one} {to}"))?;
        second.order(&format!("{how} {other} {to}"))?;
        let outcomes = [first.outcome()?, second.outcome()?];
        if outcomes.contains(&Outcome::Unsupported) {
            return Ok(Race::Unsupported);
        }
        let winners = outcomes.iter().filter(|outcome| **outcome == Outcome::Done).count();
        if winners != 1 {
            return Ok(Race::Winners(winners));
        }
    }
    Ok(Race::OneWinner)
}
