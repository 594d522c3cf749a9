//! Holders that outlive their lease and write all the same: to a register that takes whatever comes, to one that compares tokens, and through
//! lokt's own fenced publication.
//!
//! One worker stops itself between reading and writing; whoever conducts the run continues it when somebody else has written. So its write
//! comes late for certain.
//!
//! They and their commands are killed and stopped, and their commands have trouble, as those of everybody. A write counts as taken if its answer
//! said so, and as refused if that was the answer. Of one without an answer nothing is known: it is neither, and others may see it or not.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lokt_torture::history::Deed;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpid, kill_process};

use super::section::{lease_end, open, set, value};
use super::{Life, answer, number_in};
use crate::ends::Ended;
use crate::fenced::{CAREFUL, CARELESS};

/// The register that compares tokens: `token value`, in digits of a fixed number, changed under a lock of its own.
struct Careful(File);

impl Careful {
    /// Reads, if nobody with a greater token was here. A reader that is let in shuts out those before it: else one of them could still
    /// write what this one has just read.
    fn read(&self, token: u64) -> Option<u64> {
        self.with(token, |value| value)
    }

    /// Writes, if nobody with a greater token was here.
    fn write(&self, token: u64, made: u64) -> bool {
        self.with(token, |_| made).is_some()
    }

    fn with(&self, token: u64, next: impl FnOnce(u64) -> u64) -> Option<u64> {
        flock(&self.0, FlockOperation::LockExclusive).expect("a register can be locked");
        let mut text = [0; 41];
        let length = self.0.read_at(&mut text, 0).expect("a register can be read");
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>().expect("a register has two numbers"));
        let (greatest, value) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let taken = (token >= greatest).then(|| next(value));
        if let Some(next) = taken {
            self.0.write_all_at(format!("{token:020} {next:020}").as_bytes(), 0).expect("a register can be written");
        }
        flock(&self.0, FlockOperation::Unlock).expect("a register can be unlocked");
        taken
    }
}

/// What a publication was told.
fn told(ended: &Ended) -> Option<bool> {
    match ended.code {
        Some(0) => Some(true),
        // Over, or overtaken.
        Some(5 | 6) => Some(false),
        _ => None,
    }
}

/// What is published: a number, and who wrote it.
pub(super) fn published(path: &Path) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().map_or(0, |number| number.parse().expect("what is published begins with a number"))
}

/// Adds one to what is published, by `publish` with source and target behind it, and writes down what came of it.
pub(super) fn count_up(life: &mut Life, owner: &str, publish: &[&str], token: u64, of: &Published<'_>) {
    let text = format!("{} {owner}", of.before + 1);
    let source = life.scratch("source", &text);
    let target = of.target.display().to_string();
    let ended = life.lokt_as(owner, &[publish, &["--token", &token.to_string(), &source, &target]].concat());
    if let Some(taken) = told(&ended) {
        let register = of.register.to_owned();
        life.write(Deed::Wrote { register, token: Some(token), seen: of.before, made: of.before + 1, taken });
        let there = std::fs::read_to_string(of.target).unwrap_or_default();
        assert!(taken || there != text, "what was refused isn't published: {text} in {target}, after {ended:?}");
    }
    let _ = rustix::fs::unlink(&source);
}

/// A published file as a register.
pub(super) struct Published<'a> {
    /// As the history calls it.
    pub(super) register: &'a str,
    pub(super) target: &'a Path,
    /// What was in it after its writer entered.
    pub(super) before: u64,
}

impl Life {
    fn wrote(&self, register: &str, token: Option<u64>, seen: u64, taken: bool) {
        let register = register.to_owned();
        self.write(Deed::Wrote { register, token, seen, made: seen + 1, taken });
    }

    /// One of them stands still here, until it is continued.
    fn linger(&mut self) {
        if self.number("sleeps") == 1 {
            self.write(Deed::Stopped);
            let _ = kill_process(getpid(), Signal::STOP);
        } else {
            self.dwell(200);
        }
    }
}

/// Under a named lock of a second.
pub(super) fn by_lock(life: &mut Life) {
    let plain = open(&life.dir, "fenced/plain");
    let careful = Careful(open(&life.dir, "fenced/careful"));
    let target = life.base.join("published");
    let lock = life.lock("r");
    for time in 0_u64.. {
        if life.is_over() {
            return;
        }
        let owner = format!("w{}-{time}", life.who);
        life.asked(&lock);
        let ended = life.lokt_as(&owner, &["lock", "r", "--ttl", "1s", "--timeout", "8s", "--json"]);
        let Some(token) = answer(&ended).map(|answer| number_in(&answer, "/fencing_token")) else {
            life.gave_up(&lock);
            continue;
        };
        life.entered(&lock, Some(token), Some(lease_end(&life.base, "r", Some(token))));
        let (seen, kept, before) = (value(&plain), careful.read(token), published(&target));
        life.linger();
        set(&plain, seen + 1);
        life.wrote(CARELESS[0], None, seen, true);
        if let Some(kept) = kept {
            let taken = careful.write(token, kept + 1);
            life.wrote(CAREFUL[0], Some(token), kept, taken);
        }
        let of = Published { register: CAREFUL[1], target: &target, before };
        count_up(life, &owner, &["publish", "r"], token, &of);
        life.left(&lock);
        life.lokt_as(&owner, &["unlock", "r"]);
    }
}

/// Under a worktree's lease of less.
pub(super) fn by_lease(life: &mut Life) {
    let plain = open(&life.dir, "fenced/lease-plain");
    let target = life.base.join("main/published");
    let lock = "fenced-main/lease";
    for time in 0_u64.. {
        if life.is_over() {
            return;
        }
        let owner = format!("w{}-{time}", life.who);
        let session = life.dir.join(format!("scratch/{owner}.session")).display().to_string();
        let policy = ["--lease", "700ms", "--renew", "200ms", "--skew", "0s", "--grace", "0s", "--timeout", "8s"];
        life.asked(lock);
        let acquire = ["lease", "acquire", "--worktree", "main", "--session", &session, "--json"];
        let ended = life.lokt_as(&owner, &[&acquire[..], &policy].concat());
        let Some(answer) = answer(&ended) else {
            life.gave_up(lock);
            continue;
        };
        let token = number_in(&answer, "/fencing_token");
        let until_ms = number_in(&answer, "/lock/holder_boottime_ms") + 700;
        life.entered(lock, Some(token), Some(until_ms * 1_000_000));
        let (seen, before) = (value(&plain), published(&target));
        life.linger();
        set(&plain, seen + 1);
        life.wrote(CARELESS[1], None, seen, true);
        let of = Published { register: CAREFUL[2], target: &target, before };
        count_up(life, &owner, &["lease", "fence", "publish", "--worktree", "main"], token, &of);
        life.left(lock);
        life.lokt_as(&owner, &["lease", "release", "--worktree", "main", "--session", &session]);
        let _ = rustix::fs::unlink(&session);
    }
}
