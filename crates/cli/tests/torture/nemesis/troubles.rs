//! Trouble for single commands: system calls that are slow or that fail, and a wall clock that is wrong and is set meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lokt_testkit::dice::Dice;
use lokt_testkit::moved_clock::by_file;

use crate::scene::LOKT;

/// Calls that may be slow or fail: every one that the command makes about files.
const CALLS: [&str; 15] = [
    "openat",
    "read",
    "write",
    "pwrite64",
    "fsync",
    "flock",
    "renameat2",
    "linkat",
    "unlinkat",
    "mkdirat",
    "statx",
    "fstat",
    "newfstatat",
    "getdents64",
    "ftruncate",
];
const ERRORS: [&str; 2] = ["ENOSPC", "EIO"];
/// Which call of a name it is: most commands make fewer than this of each.
const NTH_MAX: u64 = 14;
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
pub(crate) fn choose(dice: &mut Dice, dir: &Path, clockwork: &Clockwork<'_>, serial: &str) -> Wrapped {
    match dice.below(18) {
        kind @ 0..5 => {
            let call = CALLS[dice.index(CALLS.len())];
            let what = if kind < 2 {
                format!("delay_enter={}", 1_000 * (1 + dice.below(DELAY_MS_MAX)))
            } else {
                format!("error={}", ERRORS[dice.index(ERRORS.len())])
            };
            let log = dir.join(format!("strace/{serial}.log"));
            let inject = format!("inject={call}:{what}:when={}", 1 + dice.below(NTH_MAX));
            let text = log.display().to_string();
            let words = ["strace", "-o", &text, "-e", &format!("trace={call}"), "-e", &inject, LOKT];
            Wrapped { words: words.map(str::to_owned).to_vec(), plain: false, told: Some(Told::Log(log)) }
        }
        5 => {
            let mut words = by_file(clockwork.preload, &dir.join("clock"));
            words.push(clockwork.dynamic.to_owned());
            Wrapped { words, plain: false, told: Some(Told::Clock) }
        }
        _ => Wrapped { words: vec![LOKT.to_owned()], plain: true, told: None },
    }
}

impl Wrapped {
    /// The command has ended; what came of its trouble is noted.
    pub(crate) fn note(&self, dir: &Path) {
        let kinds: Vec<&str> = match &self.told {
            None => return,
            Some(Told::Clock) => vec!["moved clock"],
            Some(Told::Log(log)) => {
                let text = fs::read_to_string(log).unwrap_or_default();
                let _ = rustix::fs::unlink(log);
                let marks = [("(INJECTED)", "failed call"), ("(DELAYED)", "delayed call")];
                marks.iter().filter(|(mark, _)| text.contains(mark)).map(|(_, kind)| *kind).collect()
            }
        };
        for kind in kinds {
            note(dir, kind);
        }
    }
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
