//! Opens the windows between system calls: `strace` delays or kills a real process at each of them in turn.

use std::collections::HashMap;
use std::path::Path;

use crate::cmd::Place;
use crate::guarding::Guarding;
use crate::swarm::Ended;

/// Calls of start-up and exit, at which nothing of ours has begun or everything is over.
const UNINTERESTING: [&str; 12] = [
    "execve",
    "brk",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "mprotect",
    "mmap",
    "munmap",
    "sigaltstack",
    "exit_group",
];

/// The n-th call of one name, counted from 1 as strace counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The system call.
    pub name: String,
    /// Which one of that name.
    pub nth: usize,
}

/// The system calls that `args` makes as `owner`, in order. Runs the command for real.
pub fn calls(place: &Place, owner: &str, args: &[&str]) -> Vec<Call> {
    let log = place.beside("strace.log");
    let log_text = log.to_str().expect("a plain path");
    let words = [&["strace", "-o", log_text], place.words(args).as_slice()].concat();
    let ended = place.run_words(owner, &words);
    assert!(ended.code.is_some(), "strace works here: {}", ended.stderr);
    read_log(&log)
}

/// The system calls in a log that strace wrote.
pub fn read_log(log: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(log).expect("strace wrote its log");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((name, _)) = line.split_once('(') else { continue };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let nth = seen.entry(name).or_default();
        *nth += 1;
        if !UNINTERESTING.contains(&name) {
            calls.push(Call { name: name.to_owned(), nth: *nth });
        }
    }
    assert!(!calls.is_empty(), "strace saw calls");
    calls
}

/// Runs `args` as `owner` and kills it at that call.
pub fn killed_at(place: &Place, owner: &str, args: &[&str], call: &Call) -> Ended {
    inject(place, owner, args, call, "signal=KILL")
}

/// Runs `args` as `owner` and delays it before that call.
pub fn delayed_at(place: &Place, owner: &str, args: &[&str], call: &Call, delay_ms: u64) -> Ended {
    inject(place, owner, args, call, &format!("delay_enter={}", delay_ms * 1000))
}

fn inject(place: &Place, owner: &str, args: &[&str], call: &Call, what: &str) -> Ended {
    let inject = injection(call, what);
    let words = [&["strace", "-o", "/dev/null", "-e", &inject], place.words(args).as_slice()].concat();
    place.run_words(owner, &words)
}

/// Starts `lokt guard ARGS -- COMMAND` as `owner` and kills the guard at that call, which then doesn't happen. Its command isn't touched.
pub fn guard_killed_at(place: &Place, owner: &str, args: &[&str], command: &[&str], call: &Call) -> Guarding {
    let inject = injection(call, "signal=KILL");
    Guarding::start(place, owner, &["strace", "-o", "/dev/null", "-e", &inject], args, command)
}

fn injection(call: &Call, what: &str) -> String {
    format!("inject={}:{what}:when={}", call.name, call.nth)
}
