//! Counts what the tests did to lokt: the figures of the table in docs/guarantees.md.
//!
//! Each thread counts for itself. When it ends, it adds a line for each kind to the file that `LOKT_TALLY` names; without that variable nothing
//! is counted. A test's thread has the test's name, so `scripts/evidence` can tell which promise a figure belongs to: the tables of that
//! page say which tests defend which promise. This file stands alone, because the tests of the core include it.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file.
const FILE: &str = "LOKT_TALLY";

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// A random case of a property was run.
    Case,
    /// A state of a model was looked at.
    State,
    /// A call to the disk failed, was torn or was the last one, or somebody else did something right before it.
    Fault,
    /// A process was killed with `SIGKILL`.
    Kill,
    /// A process was stopped, or delayed before a system call.
    Stop,
    /// The power of a disk in memory was cut: what wasn't synced is gone.
    Cut,
    /// A real file system was stopped without its log.
    Outage,
    /// An order of threads was run.
    Schedule,
}

impl Trial {
    const fn word(self) -> &'static str {
        match self {
            Self::Case => "case",
            Self::State => "state",
            Self::Fault => "fault",
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::Outage => "outage",
            Self::Schedule => "schedule",
        }
    }
}

/// It was done once more.
pub fn count(trial: Trial) {
    add(trial, 1);
}

/// It was done `more` times.
pub fn add(trial: Trial, more: usize) {
    // A thread that is ending counts no more.
    let _ = TALLY.try_with(|tally| tally.borrow_mut().add(trial.word(), more));
}

/// Writes down what this thread has counted. A thread that ends does so by itself; the first thread of a program doesn't end, but exits.
pub fn write_down() {
    let _ = TALLY.try_with(|tally| tally.borrow_mut().write_down());
}

thread_local! {
    static TALLY: RefCell<Tally> = RefCell::new(Tally::default());
}

#[derive(Default)]
struct Tally {
    counts: Vec<(&'static str, usize)>,
    /// The test, as the harness names its thread. A thread that is ending can't be asked any more.
    test: String,
}

impl Tally {
    fn add(&mut self, word: &'static str, more: usize) {
        if self.counts.is_empty() {
            std::thread::current().name().unwrap_or_default().clone_into(&mut self.test);
        }
        match self.counts.iter_mut().find(|(there, _)| *there == word) {
            Some((_, count)) => *count += more,
            None => self.counts.push((word, more)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the tests' own variable, which no command reads")]
    fn write_down(&mut self) {
        let Some(path) = std::env::var_os(FILE) else { return };
        let program = std::env::current_exe().unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        // One write each: lines of several programs don't mix.
        let line = |(word, count)| format!("{program}\t{}\t{word}\t{count}\n", self.test);
        let lines: String = self.counts.iter().map(|(word, count)| line((*word, *count))).collect();
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(lines.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.counts.clear();
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.write_down();
    }
}
