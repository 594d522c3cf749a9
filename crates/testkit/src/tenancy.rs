//! A repository whose leases many real processes want, and what must be true of them whatever happened to those.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use crate::cmd::Place;
use crate::swarm::{Ended, Over, Swarm, in_parallel};

/// A lease that a test can outlive.
pub const SHORT: &str = "--lease 100ms --renew 50ms --skew 0s --grace 0s";
/// A lease that no test outlives.
pub const LONG: &str = "--lease 1h";
/// Commands that belong to a session.
const OF_A_SESSION: [&str; 6] = ["acquire", "steal", "renew", "release", "run", "status"];

/// A repository with the worktree `main`. It goes away with the test.
pub struct Tenancy {
    /// Commands run here, at the top of the repository.
    pub place: Place,
}

impl Tenancy {
    /// In a directory of its own.
    pub fn new(binary: &str) -> Self {
        Self::at(Place::new(binary))
    }

    /// In a directory of its own in `parent`.
    pub fn within(binary: &str, parent: &Path) -> Self {
        Self::at(Place::within(binary, parent))
    }

    fn at(place: Place) -> Self {
        let tenancy = Self { place };
        let ended = tenancy.run("setup", "worktree init");
        assert_eq!(ended.code, Some(0), "a repository can be made: {ended:?}");
        tenancy
    }

    /// A path in `.jvs`.
    pub fn inside(&self, path: &str) -> PathBuf {
        self.place.beside(".jvs").join(path)
    }

    /// The arguments of a command, whose words are separated by spaces: it answers in JSON, and everybody has a session of their own.
    pub fn args(&self, owner: &str, words: &str) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut given = words.split_whitespace().map(str::to_owned);
        // What stands behind `--` belongs to another command.
        args.extend(given.by_ref().take_while(|word| word != "--"));
        args.push("--json".into());
        if args[0] == "lease" && OF_A_SESSION.contains(&args[1].as_str()) {
            args.extend(["--session".into(), self.session(owner).display().to_string()]);
        }
        let rest: Vec<String> = given.collect();
        if !rest.is_empty() {
            args.push("--".into());
            args.extend(rest);
        }
        args
    }

    /// What makes `owner` the holder.
    pub fn session(&self, owner: &str) -> PathBuf {
        self.place.beside(&format!("session-{owner}"))
    }

    /// Runs a command as `owner`.
    pub fn run(&self, owner: &str, words: &str) -> Ended {
        let args = self.args(owner, words);
        self.place.run(owner, &as_words(&args))
    }

    /// Runs a command, which must end with `code`, and gives its answer.
    #[track_caller]
    pub fn says(&self, owner: &str, words: &str, code: i32) -> Value {
        let ended = self.run(owner, words);
        assert_eq!(ended.code, Some(code), "{owner}: {words}: {ended:?}");
        answer(&ended)
    }

    /// Acquires the lease, and gives its token.
    #[track_caller]
    pub fn acquire(&self, owner: &str, flags: &str) -> u64 {
        token_in(&self.says(owner, &format!("lease acquire {flags}"), 0))
    }

    /// The same of a worktree, for so short a time that it may be over before the command is: then it is tried again.
    #[track_caller]
    pub fn acquire_briefly(&self, owner: &str, flags: &str) -> u64 {
        for _ in 0..100 {
            let ended = self.run(owner, &format!("lease acquire {flags} {SHORT}"));
            match ended.code {
                Some(0) => return token_of(&ended),
                Some(5) => {}
                _ => panic!("{owner}: it was free: {ended:?}"),
            }
        }
        panic!("a lease of 100 ms can be had once in 100 times");
    }

    /// `rivals` run `words` at once, each with a session of their own, each started by `wrap`. One succeeds, and all others are told by whom
    /// the lease is held. Gives the winner and its token.
    #[track_caller]
    pub fn one_wins(&self, rivals: usize, words: &str, wrap: &[&str], context: &str) -> (String, u64) {
        let names: Vec<String> = (0..rivals).map(|rival| format!("r{rival}")).collect();
        let args: Vec<Vec<String>> = names.iter().map(|name| self.args(name, words)).collect();
        let dir = format!("--chdir={}", self.place.dir().display());
        let command = |rival: usize| {
            let words = self.place.words(&as_words(&args[rival]));
            ([&["env", dir.as_str()], wrap, words.as_slice()].concat(), self.place.env(&names[rival]))
        };
        let ended = Swarm::at_gate((0..rivals).map(command)).and_then(Swarm::release).expect("they run");
        let won: Vec<usize> = (0..rivals).filter(|rival| ended[*rival].code == Some(0)).collect();
        let [winner] = won[..] else { panic!("one-holder: {context}: {won:?} won: {ended:#?}") };
        for (rival, ended) in ended.iter().enumerate().filter(|(rival, _)| *rival != winner) {
            assert_eq!(ended.code, Some(2), "{context}: r{rival} is told that it is held: {ended:?}");
            let answer = answer(ended);
            assert_eq!(answer["code"], "E_LOCK_CONFLICT", "{context}: {answer}");
            assert_eq!(answer["holder_owner"], names[winner], "{context}: by whom: {answer}");
        }
        let token = token_of(&ended[winner]);
        assert_eq!(self.shown(), Some(token), "{context}: everybody sees the winner's record");
        (names[winner].clone(), token)
    }

    /// The public record of a worktree, if there is one. What is there but isn't one fails the test: no reader ever sees that.
    #[track_caller]
    pub fn view(&self, worktree: &str) -> Option<Value> {
        let bytes = std::fs::read(self.inside(&format!("locks/{worktree}.lock"))).ok()?;
        let record: Value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|error| panic!("whole-records: {error}: {}", String::from_utf8_lossy(&bytes)));
        assert!(record["fencing_token"].is_u64(), "whole-records: {record}");
        Some(record)
    }

    /// The token that a reader of the public record sees.
    #[track_caller]
    pub fn shown(&self) -> Option<u64> {
        self.view("main").map(|record| token_in(&record))
    }

    /// The audit log.
    pub fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.inside("audit/audit.jsonl")).expect("a repository has a log");
        text.lines().map(|line| serde_json::from_str(line).expect("an audit line is JSON")).collect()
    }

    /// What is in it of one kind.
    pub fn events_of(&self, operation: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["operation"] == operation).collect()
    }

    /// Nothing is wrong with the log.
    #[track_caller]
    pub fn log_is_whole(&self, context: &str) {
        let ended = self.run("reader", "lease audit --verify");
        assert_eq!(ended.code, Some(0), "{context}: the log is whole: {ended:?}");
    }
}

/// Arguments as the helpers want them.
pub fn as_words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// The answer of a command.
#[track_caller]
pub fn answer(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("an answer is JSON: {error}: {ended:?}"))
}

/// The token in an answer.
#[track_caller]
pub fn token_of(ended: &Ended) -> u64 {
    token_in(&answer(ended))
}

/// The token in a record or an answer.
#[track_caller]
pub fn token_in(value: &Value) -> u64 {
    value["fencing_token"].as_u64().unwrap_or_else(|| panic!("it has a token: {value}"))
}

/// Leases come and go in `worktrees` worktrees, `cycles` times in each: acquired, renewed, stolen, released. Somebody looks at the public
/// records all the time, and sees either none or a whole one, whose tokens only grow. Gives how often they looked.
pub fn whole_in_every_look(binary: &str, worktrees: usize, cycles: usize) -> usize {
    let tenancy = Tenancy::new(binary);
    let names: Vec<String> = (0..worktrees).map(|nth| format!("w{nth}")).collect();
    for name in &names {
        tenancy.says("setup", &format!("worktree create {name}"), 0);
    }
    let (done, looks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = vec![0; worktrees];
            while !done.load(Ordering::Relaxed) {
                for (name, last) in names.iter().zip(&mut last) {
                    let Some(record) = tenancy.view(name) else { continue };
                    let token = token_in(&record);
                    assert!(token >= *last, "token-order: {name} showed {last}, and shows {token}");
                    *last = token;
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let _over = Over(&done);
        in_parallel(worktrees, &names, |name| {
            for cycle in 0..cycles {
                let first = tenancy.acquire_briefly("a", &format!("--worktree {name}"));
                // It may be over by now.
                let renewed = tenancy.run("a", &format!("lease renew --worktree {name}"));
                assert!(matches!(renewed.code, Some(0 | 4 | 5)), "{name}, cycle {cycle}: {renewed:?}");
                let stolen = tenancy.acquire("b", &format!("--worktree {name} {LONG} --timeout 60s"));
                assert!(stolen > first, "token-order: {name}, cycle {cycle}: {stolen} after {first}");
                tenancy.says("b", &format!("lease renew --worktree {name}"), 0);
                tenancy.says("b", &format!("lease release --worktree {name}"), 0);
            }
        });
    });
    tenancy.log_is_whole("after all cycles");
    looks.into_inner()
}
