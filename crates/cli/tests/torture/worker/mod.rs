//! This program as one of the many processes: what it does with locks, ledgers and leases, each deed written down.
//!
//! A worker may be killed or stopped between any two of its lines. What it is told by commands that somebody killed, delayed or starved is
//! unknown, and then it claims nothing.

mod claims;
mod fenced;
mod leases;
mod ledger;
mod locks;
pub(crate) mod muted;
mod naive;
mod renewals;
mod section;
pub(crate) mod snapshots;
pub(crate) mod trespass;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::scribe::{Scribe, now_ns};
use lokt_testkit::swarm::{now_ms, pause, put};
use lokt_torture::history::Deed;
use serde_json::Value;

use crate::ends::{self, ABORT, Ended, PLANTED, Whose};
use crate::nemesis::troubles::{Clockwork, choose};
use crate::scene::{LOKT, MARK, run_in};

/// One life of one worker, as the traffic describes it on the command line.
pub(crate) struct Life {
    words: HashMap<String, String>,
    /// What stands behind `--`.
    pub(crate) command: Vec<String>,
    /// The directory of its ward.
    pub(crate) base: PathBuf,
    /// The directory of the run.
    pub(crate) dir: PathBuf,
    /// Its number.
    pub(crate) who: u64,
    scribe: Scribe,
    dice: Dice,
    serial: u64,
}

/// Runs one life.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let mut life = Life::read(words);
    match life.word("kind").to_owned().as_str() {
        "section" => section::run(&mut life),
        "held" => locks::hold(&mut life),
        "bound" => locks::bind(&mut life),
        "owner" => locks::own(&mut life),
        "messy" => locks::own_messy(&mut life),
        "append" => ledger::append(&mut life),
        "claim" => claims::claim(&mut life),
        "lease" => leases::lease(&mut life),
        "snapshot" => snapshots::snapshot(&mut life),
        "fenced-lock" => fenced::by_lock(&mut life),
        "fenced-lease" => fenced::by_lease(&mut life),
        PLANTED => planted(&life),
        "naive" => return naive::run(&life),
        "muted" => return muted::run(&life),
        other => panic!("there is no worker {other}"),
    }
    ExitCode::SUCCESS
}

impl Life {
    fn read(given: &[String]) -> Self {
        let (words, command) = match given.iter().position(|word| word == "--") {
            Some(end) => (&given[..end], given[end + 1..].to_vec()),
            None => (given, Vec::new()),
        };
        let pair = |word: &String| {
            let (key, value) = word.split_once('=').expect("a worker's words are pairs");
            (key.to_owned(), value.to_owned())
        };
        let words: HashMap<String, String> = words.iter().map(pair).collect();
        let number = |key: &str| words[key].parse().expect("it is a number");
        let who = number("who");
        Self {
            base: PathBuf::from(&words["base"]),
            dir: PathBuf::from(&words["dir"]),
            who,
            scribe: Scribe::new(&PathBuf::from(&words["history"]), who).expect("a history can be written"),
            dice: Dice::new(number("seed")),
            serial: 0,
            command,
            words,
        }
    }

    fn word(&self, key: &str) -> &str {
        self.words.get(key).map_or("", String::as_str)
    }

    fn number(&self, key: &str) -> u64 {
        self.word(key).parse().unwrap_or(0)
    }

    /// Is the time for new work over?
    fn is_over(&self) -> bool {
        now_ms() >= self.number("ends_ms")
    }

    /// What a lock of this ward is called in the history: names of one counter begin alike.
    fn lock(&self, name: &str) -> String {
        format!("{}/{name}", self.word("ward"))
    }

    fn write(&self, deed: Deed) {
        self.scribe.write(deed);
    }

    fn asked(&self, name: &str) -> u64 {
        let at = now_ns();
        self.scribe.write_at(at, Deed::Asked { name: name.into() });
        at
    }

    fn entered(&self, name: &str, token: Option<u64>, until: Option<u64>) {
        self.write(Deed::Entered { name: name.into(), token, until });
    }

    fn left(&self, name: &str) {
        self.write(Deed::Left { name: name.into() });
    }

    fn gave_up(&self, name: &str) {
        self.write(Deed::GaveUp { name: name.into() });
    }

    /// The owner that this life is.
    fn owner(&self) -> String {
        format!("w{}", self.who)
    }

    /// Runs the command, maybe with trouble.
    fn lokt(&mut self, args: &[&str]) -> Ended {
        self.lokt_as(&self.owner(), args)
    }

    /// The same, as somebody.
    fn lokt_as(&mut self, owner: &str, args: &[&str]) -> Ended {
        self.serial += 1;
        let serial = format!("{}-{}", self.who, self.serial);
        let (dynamic, preload) = (self.word("dynamic").to_owned(), self.word("preload").to_owned());
        let clockwork = Clockwork { dynamic: &dynamic, preload: &preload };
        let wrapped = choose(&mut self.dice, &self.dir, &clockwork, &serial, args);
        let mut words: Vec<&str> = wrapped.words.iter().map(String::as_str).collect();
        words.extend(args);
        let ended = run_in(&self.base, owner, &words, &self.dir);
        wrapped.note(&self.dir);
        self.listen(&args.join(" "), !wrapped.plain, &ended);
        ended
    }

    /// Runs the command without any trouble of its own.
    fn plainly(&self, args: &[&str]) -> Ended {
        let ended = run_in(&self.base, &self.owner(), &[&[LOKT], args].concat(), &self.dir);
        self.listen(&args.join(" "), false, &ended);
        ended
    }

    /// How a command ended is written down, and what none ever says goes where it is noticed.
    fn listen(&self, words: &str, troubled: bool, ended: &Ended) {
        ends::note(&self.dir, Whose::Commands(self.who), self.word("ward"), words, troubled, ended);
        if ended.stderr.contains("panicked at") {
            crate::report::complain(&format!("{} panicked: {}", self.owner(), ended.stderr));
        }
    }

    /// A while below `limit_ms`, most often a short one.
    fn dwell(&mut self, limit_ms: u64) {
        pause(Duration::from_millis(self.some_ms(limit_ms)));
    }

    fn some_ms(&mut self, limit_ms: u64) -> u64 {
        let limit_ms = if self.dice.below(8) == 0 { limit_ms } else { limit_ms / 8 };
        self.dice.below(limit_ms.max(1))
    }

    /// A file of its own, for what commands read.
    fn scratch(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(format!("scratch/{}-{name}", self.who));
        put(&path, text);
        path.display().to_string()
    }
}

/// Commands that end as none may.
fn planted(life: &Life) {
    for (what, script) in [("exits with 1", "exit 1"), ("aborts", ABORT)] {
        let ended = run_in(&life.base, &life.owner(), &["sh", "-c", script], &life.dir);
        life.listen(&format!("{PLANTED}: a command that {what}"), false, &ended);
    }
}

/// The answer of a command that succeeded and could say so.
fn answer(ended: &Ended) -> Option<Value> {
    (ended.code == Some(0)).then(|| serde_json::from_str(&ended.stdout).ok()).flatten()
}

/// A number that every answer has. One that is called otherwise would be a hold about which nothing can be said, so it ends this life loudly.
fn number_in(answer: &Value, pointer: &str) -> u64 {
    let number = answer.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_else(|| panic!("an answer has a number at {pointer}: {answer}"))
}

/// What the environment says.
#[expect(clippy::disallowed_methods, reason = "a guarded command learns its name and token from its environment")]
fn inherited(key: &str) -> Option<String> {
    std::env::var(key).ok()
}

/// Keeps what a command starts apart from what it was started under.
fn detached(command: &mut Command, mark: &std::path::Path) {
    command.env(MARK, mark).env_remove("LOKT_HOLDS");
}
