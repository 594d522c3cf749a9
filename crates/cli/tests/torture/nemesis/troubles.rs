//! Trouble for single commands: system calls that are slow or that fail, and a wall clock that is wrong and is set meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lokt_testkit::dice::Dice;
use lokt_testkit::moved_clock::by_file;

use crate::scene::LOKT;

/// Calls that may be slow or fail: those that commands make about files, each with how many of it most of them make at most.
const CALLS: [(&str, u64); 20] = [
    ("open", 6),
    ("openat", 14),
    ("read", 14),
    ("pread64", 3),
    ("write", 8),
    ("pwrite64", 4),
    ("lseek", 3),
    ("fsync", 6),
    ("flock", 6),
    ("renameat", 3),
    ("renameat2", 3),
    ("linkat", 4),
    ("unlinkat", 5),
    ("mkdirat", 3),
    ("statx", 8),
    ("fstat", 14),
    ("newfstatat", 14),
    ("fstatfs", 4),
    ("getdents64", 6),
    ("readlink", 6),
];
/// Calls that nobody makes but who takes a snapshot or brings one back.
const SNAPSHOT_CALLS: [(&str, u64); 9] = [
    ("openat2", 5),
    ("syncfs", 2),
    ("symlinkat", 1),
    ("readlinkat", 1),
    ("fchmod", 3),
    ("utimensat", 3),
    ("flistxattr", 3),
    ("llistxattr", 1),
    ("fremovexattr", 2),
];
/// What such a call is noted as, when it was struck.
pub(crate) const OF_SNAPSHOT: &str = "call of a snapshot";
/// The same for a call of another thread than the first one.
pub(crate) const OF_HELPER: &str = "call of a helper thread";
const ERRORS: [&str; 2] = ["ENOSPC", "EIO"];
/// A call is slower than any lease of a second, now and then.
const DELAY_MS_MAX: u64 = 1_300;

/// How a command is run.
pub(crate) struct Wrapped {
    /// The words up to the command itself, that included.
    pub(crate) words: Vec<String>,
    /// It is as it always is.
    pub(crate) plain: bool,
    told: Option<Told>,
}

enum Told {
    /// strace wrote down whether anything came of it.
    Log(PathBuf),
    Clock,
}

/// Commands with a moved clock need these.
pub(crate) struct Clockwork<'a> {
    /// The command with shared libraries.
    pub(crate) dynamic: &'a str,
    /// What moves its clock.
    pub(crate) preload: &'a str,
}

/// One command in three has trouble. `serial` is a number that no other command has.
///
/// A call of each thread of the command is struck, not only of the first one. What a guard runs isn't: strace lets go of it when it becomes
/// another program, since a failed call in there would say nothing about lokt.
pub(crate) fn choose(dice: &mut Dice, dir: &Path, clockwork: &Clockwork<'_>, serial: &str, args: &[&str]) -> Wrapped {
    match dice.below(18) {
        kind @ 0..5 => {
            let is_snapshot = matches!(args, ["snapshot", "create" | "restore" | "verify", ..]);
            let calls: &[(&str, u64)] = if is_snapshot && dice.below(4) > 0 { &SNAPSHOT_CALLS } else { &CALLS };
            let (call, nth_max) = calls[dice.index(calls.len())];
            let what = if kind < 2 {
                format!("delay_enter={}", 1_000 * (1 + dice.below(DELAY_MS_MAX)))
            } else {
                format!("error={}", ERRORS[dice.index(ERRORS.len())])
            };
            let log = dir.join(format!("strace/{serial}.log"));
            let inject = format!("inject={call}:{what}:when={}", 1 + dice.below(nth_max));
            let text = log.display().to_string();
            let follow = ["strace", "-f", "--detach-on=execve", "-qq", "-o", &text];
            let trace = format!("trace={call}");
            let words = follow.into_iter().chain(["-e", &trace, "-e", &inject, LOKT]).map(str::to_owned).collect();
            Wrapped { words, plain: false, told: Some(Told::Log(log)) }
        }
        5 => {
            let mut words = by_file(clockwork.preload, &dir.join("clock"));
            words.push(clockwork.dynamic.to_owned());
            Wrapped { words, plain: false, told: Some(Told::Clock) }
        }
        _ => Wrapped::not(),
    }
}

impl Wrapped {
    /// No trouble.
    pub(crate) fn not() -> Self {
        Self { words: vec![LOKT.to_owned()], plain: true, told: None }
    }

    /// The command has ended; what came of its trouble is noted.
    pub(crate) fn note(&self, dir: &Path) {
        let kinds: Vec<&str> = match &self.told {
            None => return,
            Some(Told::Clock) => vec!["moved clock"],
            Some(Told::Log(log)) => {
                let text = fs::read_to_string(log).unwrap_or_default();
                let _ = rustix::fs::unlink(log);
                struck(&text)
            }
        };
        for kind in kinds {
            note(dir, kind);
        }
    }
}

/// What came true, as strace wrote it down. Each line begins with a thread, the first one with the first thread.
pub(crate) fn struck(log: &str) -> Vec<&'static str> {
    let thread = |line: &str| line.split(' ').next()?.parse::<u32>().ok();
    let first = log.lines().next().and_then(thread);
    let marked: Vec<&str> = log.lines().filter(|line| line.ends_with("ED)")).collect();
    let marks = [("(INJECTED)", "failed call"), ("(DELAYED)", "delayed call")];
    let mut kinds: Vec<&str> = marks.iter().filter(|(mark, _)| log.contains(mark)).map(|(_, kind)| *kind).collect();
    let of_snapshot = |line: &&str| SNAPSHOT_CALLS.iter().any(|(call, _)| line.contains(&format!(" {call}")));
    if marked.iter().any(of_snapshot) {
        kinds.push(OF_SNAPSHOT);
    }
    if marked.iter().any(|line| thread(line).is_some_and(|one| Some(one) != first)) {
        kinds.push(OF_HELPER);
    }
    kinds
}

/// Something of this kind was done.
pub(crate) fn note(dir: &Path, kind: &str) {
    let file = OpenOptions::new().append(true).create(true).open(dir.join("troubles"));
    let mut file = file.expect("a temp directory is writable");
    file.write_all(format!("{kind}\n").as_bytes()).expect("a temp directory is writable");
}

/// How often which kind of trouble came true.
pub(crate) fn counts(dir: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(dir.join("troubles")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for kind in text.lines() {
        *counts.entry(kind.to_owned()).or_default() += 1;
    }
    counts
}
