//! A second process that executes orders in one directory, to test what two processes can do to
//! each other there.
//!
//! Orders are lines on its standard input, answers are lines on its standard output. It exits at
//! the end of its input, so nothing is left of it if its parent is killed.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, open, openat, renameat_with};
use rustix::io::{Errno, retry_on_intr};

use super::wakeup::sleep_on;

/// Maximum time for one step; after that, the file system counts as not responding.
const ANSWER: Duration = Duration::from_secs(5);

/// The result of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// Another process holds it, or was faster.
    Refused,
    /// The file system doesn't support it.
    Unsupported,
}

const OUTCOMES: [(Outcome, &str); 3] =
    [(Outcome::Done, "done"), (Outcome::Refused, "refused"), (Outcome::Unsupported, "unsupported")];

/// A process that was started as a competitor.
pub struct Rival {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Rival {
    /// Starts `command`, which calls [`serve`].
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let answers = child.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, answers })
    }

    /// Sends an order, without waiting for the result.
    pub fn order(&mut self, order: &str) -> io::Result<()> {
        self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(format!("{order}\n").as_bytes())
    }

    /// Returns the result of the oldest unanswered order.
    pub fn outcome(&mut self) -> io::Result<Outcome> {
        if self.answers.buffer().is_empty() && sleep_on(&[self.answers.get_ref().as_fd()], ANSWER)? != [true] {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let word = line.trim_end();
        let known = OUTCOMES.iter().find(|(_, text)| *text == word).map(|(outcome, _)| *outcome);
        known.ok_or_else(|| io::Error::other(if word.is_empty() { "the helper process ended" } else { word }))
    }

    /// Sends an order and returns its result.
    pub fn does(&mut self, order: &str) -> io::Result<Outcome> {
        self.order(order)?;
        self.outcome()
    }

    /// Ends it like a crash: with SIGKILL.
    pub fn crash(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Executes the lines on standard input, in `dir`, until the input ends.
pub fn serve(dir: &Path) -> io::Result<()> {
    let dir = open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut locked = BTreeMap::new();
    for line in io::stdin().lines() {
        let words: Vec<String> = line?.split(' ').map(ToOwned::to_owned).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = match obey(&dir, &words, &mut locked) {
            Ok(outcome) => OUTCOMES.iter().find(|(known, _)| *known == outcome).map_or("", |(_, text)| text).to_owned(),
            Err(error) => format!("{}: {error}", words.join(" ")),
        };
        io::stdout().write_all(format!("{answer}\n").as_bytes())?;
        io::stdout().flush()?;
    }
    Ok(())
}

fn obey(dir: &OwnedFd, words: &[&str], locked: &mut BTreeMap<String, OwnedFd>) -> io::Result<Outcome> {
    let done = match *words {
        ["make", name] => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            retry_on_intr(|| openat(dir, name, flags, Mode::from_raw_mode(0o600))).map(drop)
        }
        ["lock", name] => {
            let fd = retry_on_intr(|| openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))?;
            let done = retry_on_intr(|| flock(&fd, FlockOperation::NonBlockingLockExclusive));
            locked.insert(name.to_owned(), fd);
            done
        }
        ["link", from, to] => linkat(dir, from, dir, to, AtFlags::empty()),
        ["rename", from, to] => renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    match done {
        Ok(()) => Ok(Outcome::Done),
        Err(Errno::WOULDBLOCK | Errno::EXIST) => Ok(Outcome::Refused),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::NOLCK) => Ok(Outcome::Unsupported),
        Err(error) => Err(error.into()),
    }
}
