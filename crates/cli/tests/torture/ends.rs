//! How commands end, and whether they may end so. A command that nobody disturbed has few ways to end, whatever is done to others; one that was
//! disturbed may fail in any way but by a fault of its own.
//!
//! Everybody who runs a command writes down how it ended (`ends`), and the nemesis whom it is about to strike (`struck`). The two are put
//! together when everybody is gone: who strikes can't be sure that it came in time, and whoever was struck doesn't know.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::report;
use crate::validate::Check;

/// What a guard says when it doesn't get its lock; no command that it runs ends with it.
pub(crate) const REFUSED: i32 = 42;
/// What planted commands are called: they end as nothing may.
pub(crate) const PLANTED: &str = "planted";
/// A script that dies as a program does that is at fault, and leaves no core.
pub(crate) const ABORT: &str = "ulimit -c 0; kill -ABRT $$";
/// Of a command line, and of what was said, so many bytes are written down: a line is one write.
const WORDS_MAX: usize = 400;
const SAID_MAX: usize = 800;
/// Signals that a program brings upon itself: ILL, TRAP, ABRT, BUS, FPE, SEGV and SYS.
const FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
/// What a shell, and so a guard, adds to the signal that a command died of.
const SIGNAL_BASE: i32 = 128;
const KILL: i32 = 9;
/// What the kernel says when a disk is full.
const FULL: &str = "No space left on device";

/// What is said where it took too long to start a command.
const SLOW: &str = "timed out";
/// What it says when somebody deleted a directory that was just there.
const GONE: &str = "No such file or directory";

/// Each command of the load, and how it may end undisturbed; docs/exit-codes.md says what each of these means. Not here is what would be a
/// fault in this load: 1 (an error), 64 (usage), 65 (damage), 69 (can't be used).
const ENDS: [(&str, &[i32]); 21] = [
    // 79: its lock was lost, as that of a second is if renewing comes too late on a machine with so much to do.
    ("guard", &[0, REFUSED, 75, 79]),
    ("lock", &[0, 2, 75]),
    ("unlock", &[0, 2, 3, 4, 6, 75]),
    ("publish", &[0, 5, 6, 75]),
    ("freeze", &[0, 2, 75]),
    ("unfreeze", &[0, 2, 3, 75]),
    ("ledger append", &[0, 5, 6, 75]),
    ("claim take", &[0, 2, 75]),
    ("claim release", &[0, 3, 4, 5, 6, 75]),
    ("claim run", &[0, 2, 75, 79]),
    ("lease acquire", &[0, 2, 5, 7, 75]),
    ("lease renew", &[0, 4, 5, 75]),
    ("lease release", &[0, 4, 75]),
    ("lease run", &[0, 2, 5, 7, 75, 79]),
    ("lease fence check", &[0, 5, 6]),
    ("lease fence publish", &[0, 5, 6]),
    ("snapshot create", &[0, 4, 5, 6, 8, 75]),
    ("snapshot restore", &[0, 4, 5, 6, 75]),
    ("snapshot verify", &[0]),
    ("snapshot gc run", &[0, 75]),
    ("snapshot history", &[0]),
];
/// This program as a worker: whatever becomes of its commands, it ends well.
const WORKER: (&str, &[i32]) = ("worker", &[0]);

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its process, or that of whoever traced it.
    pub(crate) pid: u32,
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Which.
    pub(crate) signal: Option<i32>,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it said beside that.
    pub(crate) stderr: String,
}

/// Who ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    /// A life of the traffic: whatever strikes one of its processes disturbs it.
    Life(u64),
    /// A command that this life ran.
    Commands(u64),
}

/// A line of `ends`.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    who: u64,
    pid: u32,
    /// It is a life, not a command of one.
    life: bool,
    ward: String,
    words: String,
    code: Option<i32>,
    signal: Option<i32>,
    /// It had trouble of its own.
    troubled: bool,
    said: String,
}

/// Writes down how something ended. `words` are those behind the program's name, `troubled` says whether it had trouble of its own.
pub(crate) fn note(dir: &Path, whose: Whose, ward: &str, words: &str, troubled: bool, ended: &Ended) {
    let (who, life) = match whose {
        Whose::Life(who) => (who, true),
        Whose::Commands(who) => (who, false),
    };
    // What it answered is of interest if it failed.
    let mut said = ended.stderr.clone();
    if ended.code != Some(0) {
        said.push_str(&ended.stdout);
    }
    let cut = |text: &str, max: usize| text.chars().take(max).collect::<String>();
    let Ended { pid, code, signal, .. } = *ended;
    let (words, said) = (cut(words, WORDS_MAX), cut(&said, SAID_MAX));
    let end = End { who, pid, life, ward: ward.to_owned(), words, code, signal, troubled, said };
    let line = serde_json::to_string(&end).expect("it has no maps");
    // On a line of its own, also after somebody who was killed in the middle of one.
    report::file(&dir.join("ends"), &format!("\n{line}"));
}

/// Somebody is about to do something to a process of a life.
pub(crate) fn strike(dir: &Path, who: u64, pid: i64) {
    report::file(&dir.join("struck"), &format!("{who} {pid}"));
}

/// Everything that ended as it may not, and that the planted ones were noticed.
pub(crate) fn check(dir: &Path) -> Vec<Check> {
    let ends = read(dir);
    let struck = Struck::read(dir);
    let (planted, others): (Vec<_>, Vec<_>) = ends.iter().partition(|end| end.words.starts_with(PLANTED));
    let wrong = |ends: &[&End]| ends.iter().filter_map(|end| end.wrong(&struck)).collect::<Vec<_>>();
    let told = wrong(&planted);
    let expected = planted.iter().filter(|end| !end.words.ends_with("struck")).count();
    let judged = |row: &str| others.iter().any(|end| end.row() == Some(row) && !end.was_disturbed(&struck));
    let rows = ENDS.iter().chain([&WORKER]).map(|(row, _)| *row);
    let disturbed = |start: &str| {
        others.iter().any(|end| end.ward == "fenced" && end.words.starts_with(start) && end.was_disturbed(&struck))
    };
    let late_writers = ["worker fenced-lock", "worker fenced-lease", "publish", "lease fence publish"];
    vec![
        Check::new("whatever nobody disturbed ended as it may, and nothing by a fault of its own", wrong(&others)),
        Check::holds(
            "commands that end as none may are told: with 1, by a signal, with nobody's trouble or with some",
            told.len() == expected && expected == PLANTED_TO_TELL,
            format!("of {planted:?} these were told: {told:?}"),
        ),
        Check::new("every command was seen to end undisturbed", rows.filter(|row| !judged(row))).about_the_run(),
        Check::new(
            "late writers and what they publish by were disturbed, too",
            late_writers.into_iter().filter(|start| !disturbed(start)),
        )
        .about_the_run(),
    ]
}

/// How often whatever nobody disturbed ended in which way, and how many were disturbed.
pub(crate) fn table(dir: &Path) -> String {
    let struck = Struck::read(dir);
    let mut rows: BTreeMap<&str, (u64, BTreeMap<i32, u64>)> = BTreeMap::new();
    let ends = read(dir);
    for end in ends.iter().filter(|end| !end.words.starts_with(PLANTED)) {
        let row = rows.entry(end.row().unwrap_or("others")).or_default();
        match end.code {
            Some(code) if !end.was_disturbed(&struck) => *row.1.entry(code).or_default() += 1,
            _ => row.0 += 1,
        }
    }
    let mut text = String::from("\ncommand | disturbed | exit codes of the others\n--- | --- | ---\n");
    for (row, (disturbed, codes)) in rows {
        let codes: Vec<String> = codes.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        let _ = writeln!(text, "{row} | {disturbed} | {}", codes.join(", "));
    }
    text
}

/// So many planted ones must be told.
const PLANTED_TO_TELL: usize = 6;

fn read(dir: &Path) -> Vec<End> {
    let text = fs::read(dir.join("ends")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // Whoever was killed in the middle of a line was struck, or its command was.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Whom the nemesis struck.
struct Struck {
    lives: HashSet<u64>,
    /// Of which life, since a pid comes again.
    processes: HashSet<(u64, u32)>,
}

impl Struck {
    fn read(dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join("struck")).unwrap_or_default();
        let pair = |line: &str| {
            let (who, pid) = line.split_once(' ')?;
            Some((who.parse().ok()?, pid.parse().ok()?))
        };
        let processes: HashSet<(u64, u32)> = text.lines().filter_map(pair).collect();
        Self { lives: processes.iter().map(|(who, _)| *who).collect(), processes }
    }
}

impl End {
    /// What it is in the table.
    fn row(&self) -> Option<&'static str> {
        let is = |row: &str| self.words.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        ENDS.iter().chain([&WORKER]).map(|(row, _)| *row).find(|row| is(row))
    }

    fn was_disturbed(&self, struck: &Struck) -> bool {
        let was_struck =
            if self.life { struck.lives.contains(&self.who) } else { struck.processes.contains(&(self.who, self.pid)) };
        self.troubled || was_struck
    }

    /// Why it may not end so, if it may not.
    fn wrong(&self, struck: &Struck) -> Option<String> {
        let by_fault =
            self.signal.or(self.code.map(|code| code - SIGNAL_BASE)).filter(|number| FAULTS.contains(number));
        let why = if let Some(number) = by_fault {
            format!("by signal {number}, a fault of its own")
        } else if self.was_disturbed(struck) {
            return None;
        } else {
            match (self.code, self.signal) {
                (None, Some(KILL)) => return None,
                (None, signal) => format!("by signal {signal:?}, and nobody sent one"),
                (Some(code), _) if self.may(code) => return None,
                (Some(code), _) => format!("with {code}, though nobody disturbed it"),
            }
        };
        let Self { who, words, ward, said, .. } = self;
        let said = said.replace('\n', " / ");
        Some(format!("process {who}: `{words}` in {ward} ended {why}; it said: {said}"))
    }

    fn may(&self, code: i32) -> bool {
        let row = self.row();
        let mut rows = ENDS.iter().chain([&WORKER]);
        let documented = rows.find(|(name, _)| Some(*name) == row).is_some_and(|(_, codes)| codes.contains(&code));
        // Where a disk is filled, its being full is an answer; and where files are damaged or deleted, that one of them is.
        let full = self.ward == "disk" && code == 1 && self.said.contains(FULL);
        let damaged = self.ward == "mess" && code == 65 && row == Some("unlock");
        // What goes with `state/` while somebody writes there is missed under the name that it should have got, too.
        let gone = self.ward == "mess" && code == 1 && self.said.contains(GONE);
        // Where it took most of the lease to start the command, that is not run.
        let slow = row == Some("lease run") && code == 126 && self.said.contains(SLOW);
        documented || full || damaged || gone || slow
    }
}
