//! Flags that several commands share: `--timeout 0` and `never`, `-q`, `-E` and `LOKT_EXIT_CONFLICT`; and how a runner says that it
//! didn't run its command.

use std::fs::{self, File};
use std::path::PathBuf;

use lokt_testkit::swarm::now_ms;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::common::grove::Grove;
use crate::common::guards::Guard;
use crate::common::ledgers::Book;
use crate::common::{Call, Root, Running, Said, eventually, from_now, pid_of, put, remove};

/// Whoever waits by mistake waits for minutes.
const ONE_LOOK_MS: u64 = 30_000;
/// Less than what anybody waits for another program's lock by default.
const ONE_LOOK_AT_A_LEDGER_MS: u64 = 4_000;
/// Every way to write no time at all.
const ZERO: [&str; 3] = ["0", "0s", "0ms"];
/// The last line of a runner that didn't run its command.
const NOT_RUN: &str = "lokt: not run\n";

/// Everything that can be waited for, each in the hand of `a`.
struct Held {
    root: Root,
    book: Book,
    grove: Grove,
}

impl Held {
    fn new() -> Self {
        let (root, book, grove) = (Root::new(), Book::new(), Grove::new());
        root.run("a", "lock x").exits(0, "it is free");
        book.run("a", "claim take 1.2 --ttl 1h").exits(0, "it is free");
        grove.lease("a", "--lease 1h");
        Self { root, book, grove }
    }

    /// `lokt`, as `b`, where the command of these words finds what `a` has.
    fn call(&self, words: &str) -> Call {
        let call = match words.split_whitespace().next() {
            Some("claim") => self.book.lokt("b"),
            Some("lease") => self.grove.lokt("b"),
            _ => self.root.lokt("b"),
        };
        call.args(words.split_whitespace())
    }

    fn run(&self, words: &str) -> Said {
        self.call(words).run()
    }

    fn nothing_ran(&self) {
        for dir in [self.root.outside(), self.book.dir(), &self.grove.top()] {
            assert!(!dir.join("ran").exists(), "no command ran in {}", dir.display());
        }
    }
}

/// The runners, each of which is refused.
const RUNNERS: [&str; 4] = ["guard x", "run x", "claim run 1.2", "lease run"];
/// Whoever waits without running a command.
const TAKERS: [&str; 4] = ["lock x", "claim take 1.2", "lease acquire", "lease steal"];

/// A call that waits; [`Waiter::end`] gives how it ended.
struct Waiter {
    running: Running,
    stderr: PathBuf,
    _dir: TempDir,
}

impl Waiter {
    /// Starts it, and waits until it says that it waits.
    fn start(call: Call) -> Self {
        let dir = tempfile::tempdir().expect("there is room for a temp directory");
        let stderr = dir.path().join("stderr");
        let running = call.says_to(File::create(&stderr).expect("it is ours").into());
        let waiter = Self { running, stderr, _dir: dir };
        eventually("it says that it waits", || waiter.told().contains("waiting for "));
        waiter
    }

    /// What it said so far.
    fn told(&self) -> String {
        fs::read_to_string(&self.stderr).expect("it is there")
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid_of(self.running.pid()), signal).expect("it is ours");
    }

    /// Its exit code, and what it said.
    fn end(self) -> (i32, String) {
        let code = self.running.wait().code;
        (code, fs::read_to_string(&self.stderr).expect("it is there"))
    }
}

fn touches(words: &str, flags: &str) -> String {
    format!("{words} {flags} -- touch ran")
}

// --- how long to wait

#[test]
fn a_timeout_of_nothing_is_one_look() {
    let held = Held::new();
    let two = held.root.run("a", "lock y").exits(0, "it is free");
    drop(two);
    for zero in ZERO {
        let runners = RUNNERS.iter().chain(&["guard x y"]).map(|words| touches(words, &format!("--timeout {zero}")));
        let takers = TAKERS.iter().map(|words| format!("{words} --timeout {zero}"));
        let waits = TAKERS.iter().map(|words| format!("{words} --wait --timeout={zero}"));
        for words in runners.chain(takers).chain(waits) {
            let began_ms = now_ms();
            let said = held.run(&words).exits(2, &words);
            assert!(now_ms() - began_ms < ONE_LOOK_MS, "`{words}` takes one look");
            assert!(!said.stderr.contains("waiting for"), "and doesn't say that it waits{said}");
        }
    }
    held.nothing_ran();
    held.root.run("a", "unlock x").exits(0, "it is a's");
    held.root.run("b", "guard x --timeout 0 -- true").exits(0, "what is free can be had without waiting");
    held.root.run("b", "lock x --timeout 0").exits(0, "what is free can be had without waiting");
}

#[test]
fn a_drain_of_no_time_looks_once() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    for zero in ZERO {
        let began_ms = now_ms();
        root.run("b", &format!("freeze x --drain --timeout {zero}")).exits(2, "a's command still runs");
        assert!(now_ms() - began_ms < ONE_LOOK_MS, "it looks once");
    }
    guard.exit(0).exits(0, "it ends as told");
    root.run("b", "freeze x --drain --timeout 0").exits(0, "nothing runs any more");
}

#[test]
fn no_time_for_another_programs_lock_is_one_look() {
    let book = Book::with(1);
    let lock = || format!("{{\"agent_id\":\"tool\",\"acquired_at\":\"{}\"}}\n", from_now(0));
    let path = book.ledger().join("ledger.lock");
    for words in [
        "ledger append --timeout 0 {\"type\":\"note\"}",
        "claim take 1.2 --timeout 0",
        "claim run 1.2 --timeout 0s -- true",
        "claim take 1.2 --timeout 300ms",
    ] {
        put(&path, lock());
        let began_ms = now_ms();
        book.run("b", words).exits(75, "another program has the ledger");
        let took_ms = now_ms() - began_ms;
        assert!(took_ms < ONE_LOOK_AT_A_LEDGER_MS, "`{words}` took {took_ms} ms");
    }
    remove(&path);
    book.run("b", "ledger append --timeout 0 {\"type\":\"note\"}").exits(0, "nobody has the ledger");
}

#[test]
fn never_waits_without_a_limit() {
    let held = Held::new();
    for words in [
        "guard x --timeout never -- touch ran",
        "lock x --timeout=never",
        "claim run 1.2 --timeout never -- touch ran",
        "claim take 1.2 --timeout never",
        "lease run --timeout never -- touch ran",
        "lease acquire --timeout never",
        "lease steal --timeout never",
    ] {
        let waiter = Waiter::start(held.call(words));
        waiter.signal(Signal::TERM);
        let (code, told) = waiter.end();
        assert_eq!(code, 143, "{words}: only a signal ends it: {told}");
        assert!(told.contains(", no timeout\n"), "{words}: it says that it has no timeout: {told}");
    }
    let waiter = Waiter::start(held.call("guard x --timeout never -- true"));
    held.root.run("a", "unlock x").exits(0, "it is a's");
    let (code, told) = waiter.end();
    assert_eq!(code, 0, "the end of the hold ends the wait: {told}");
    held.nothing_ran();
}

#[test]
fn never_is_understood_by_a_drain_and_by_an_append() {
    let root = Root::new();
    root.run("a", "freeze x --drain --timeout never").exits(0, "nothing runs");
    let book = Book::with(1);
    book.run("a", "ledger append --timeout never {\"type\":\"note\"}").exits(0, "nobody has the ledger");
    root.run("a", "lock y --timeout ever").exits(64, "that is no duration").notes("or `never`", "what can be written");
    root.run("a", "lock y --timeout -1s").exits(64, "there is no time before now").notes("can't be negative", "why");
}

// --- what is said

#[test]
fn a_refusal_that_was_asked_to_be_quiet_says_nothing() {
    let held = Held::new();
    for quiet in ["-q", "--quiet", "-q --timeout 10ms", "-q --wait --timeout 10ms"] {
        for words in RUNNERS {
            let said = held.run(&touches(words, quiet)).exits(2, words);
            assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "it is in the exit code{said}");
        }
        for words in TAKERS {
            let said = held.run(&format!("{words} {quiet}")).exits(2, words);
            assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "it is in the exit code{said}");
        }
    }
    held.root.run("c", "freeze z").exits(0, "nobody has");
    let said = held.run(&touches("guard z", "-q")).exits(2, "it is frozen");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "it is in the exit code{said}");
    held.nothing_ran();
    let json = held.run("lock x -q --json").exits(2, "it is held").json();
    assert_eq!(json["status"], "blocked", "whoever asks for JSON gets it: {json}");
    let json = held.run(&touches("guard x", "-q --json")).exits(2, "it is held").json();
    assert_eq!((&json["status"], &json["run"]), (&json!("blocked"), &json!(false)), "{json}");
}

#[test]
fn what_worked_quietly_says_nothing_either() {
    let root = Root::new();
    for words in [
        "lock x -q",
        "lock x -q --ttl 5m",
        "unlock x -q",
        "freeze x -q",
        "freeze x -q --ttl 5m --drain",
        "unfreeze x -q",
        "unlock --all -q",
    ] {
        let said = root.run("a", words).exits(0, words);
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "it worked{said}");
    }
    let said = root.run("a", "guard -q x -- echo done").exits(0, "it is free");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("done\n", ""), "the command is heard{said}");
}

#[test]
fn errors_and_warnings_are_said_even_quietly() {
    let root = Root::new();
    root.run("a", "guard -q x -- no-such-command").exits(127, "there is none").notes("command not found", "why");
    root.run("a", "guard -q ../x -- true").exits(64, "that is no name").notes("invalid lock name", "why");
    root.run("b", "unlock -q y").exits(3, "there is none").notes("not found", "why");
    root.run("a", "lock y").exits(0, "it is free");
    root.run("b", "unlock -q y").exits(4, "it is a's").notes("error: ", "why");
    let mut guard = Guard::start(&root, "a", "-q z");
    guard.does("rm root/locks/z.json");
    guard.warns("was lost", "a lost lock is said");
    guard.exit(0).exits(79, "it was lost");
}

// --- the exit code of a conflict

#[test]
fn the_exit_code_of_a_conflict_is_chosen_by_a_flag_or_the_environment() {
    let held = Held::new();
    for words in RUNNERS {
        for (flags, code) in [("-E 75", 75), ("-E0", 0), ("--conflict-exit-code=75 --timeout 10ms", 75)] {
            held.run(&touches(words, flags)).exits(code, words);
        }
        let refused =
            |flags: &str, value: &str| held.call(&touches(words, flags)).env("LOKT_EXIT_CONFLICT", value).run();
        refused("", "75").exits(75, words);
        refused("--timeout 10ms", "0").exits(0, words);
        refused("-E 9", "75").exits(9, "the flag wins");
        refused("-E 9", "many").exits(9, "the flag wins, so nobody looks at the variable");
        refused("", "").exits(2, "an empty variable is none");
        for bad in ["256", "-1", "many", "2 "] {
            let said = refused("", bad).exits(64, words);
            let said = said.notes("LOKT_EXIT_CONFLICT is not an exit code", "what is wrong");
            assert!(said.stderr.ends_with(NOT_RUN), "it says that nothing ran{said}");
        }
    }
    held.nothing_ran();
    let free = held.root.lokt("b").args(["guard", "y", "--", "sh", "-c", "exit 2"]).env("LOKT_EXIT_CONFLICT", "75");
    free.run().exits(2, "what the command exits with is its own");
    held.root.run("b", "lock x").exits(2, "the variable is for runners");
    let why = |words: &str| held.root.lokt("b").args(words.split(' ')).env("LOKT_EXIT_CONFLICT", "75").run();
    why("why x").exits(75, "as `guard` would").says("guard: would be refused (exit code 75)", "it says so");
    why("why x --for lock").exits(2, "as `lock` would");
    why("why y").exits(0, "it is free");
    held.root.lokt("b").args(["lock", "x"]).env("LOKT_EXIT_CONFLICT", "75").run().exits(2, "and for nobody else");
}

// --- not run

#[test]
fn a_runner_that_did_not_run_its_command_says_so_last() {
    let held = Held::new();
    for words in RUNNERS {
        for flags in ["", "--timeout 10ms", "-E 9"] {
            let said = held.run(&touches(words, flags));
            assert!(said.stderr.ends_with(&format!("\n{NOT_RUN}")), "{words}: it is the last line{said}");
        }
        let json = held.run(&touches(words, "--json")).exits(2, words);
        assert_eq!(json.json()["run"], false, "in JSON it is a member{json}");
        assert!(!json.stderr.contains(NOT_RUN), "and no line{json}");
        let waiter = Waiter::start(held.call(&touches(words, "--wait")));
        waiter.signal(Signal::INT);
        let (code, told) = waiter.end();
        assert_eq!(code, 130, "{words}: it was interrupted: {told}");
        assert!(told.ends_with(NOT_RUN), "{words}: a wait that was interrupted: {told}");
    }
    held.nothing_ran();
    held.root.run("a", "unlock x").exits(0, "it is a's");
    held.book.run("a", "claim release 1.2").exits(0, "it is a's");
    held.grove.run("a", "lease release").exits(0, "it is a's");
    for words in RUNNERS {
        let said = held.run(&format!("{words} -- ./none")).exits(127, "there is no such command");
        assert!(said.stderr.ends_with(NOT_RUN), "a command that can't be started{said}");
        let json = held.run(&format!("{words} --json -- ./none")).exits(127, "there is no such command");
        assert_eq!(json.json()["run"], false, "{json}");
        let said = held.call(words).args(["--", "sh", "-c", "exit 2"]).run().exits(2, "the command's own 2");
        assert_eq!(said.stderr, "", "can be told from a refusal{said}");
    }
    held.root.run("c", "freeze x").exits(0, "nobody has");
    let said = held.run("guard x -- true").exits(2, "it is frozen");
    assert!(said.stderr.ends_with(NOT_RUN), "a freeze{said}");
    let said = held.run("guard ../x -- true").exits(64, "that is no name");
    assert!(said.stderr.ends_with(NOT_RUN), "a name that is none{said}");
}

#[test]
fn the_line_of_make_and_of_a_refusal_can_be_told_apart() {
    let root = Root::new();
    put(&root.outside().join("Makefile"), "all:\n\texit 1\n");
    if !std::path::Path::new("/usr/bin/make").exists() {
        return;
    }
    let said = root.run("a", "guard x -- make").exits(2, "make's own 2");
    assert!(!said.stderr.contains("lokt: not run"), "it ran{said}");
    root.run("b", "lock x").exits(0, "it is free again");
    root.run("a", "guard x -- make").exits(2, "a refusal").notes("lokt: not run", "it did not");
}

#[test]
fn the_longest_timeout_does_not_overflow() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let waiter = Guard::ask(root.lokt("b"), "x y --timeout 36500d");
    waiter.warns("giving up in 875999h", "so long");
    root.run("a", "unlock x").exits(0, "it is a's");
    waiter.runs();
    waiter.exit(0).exits(0, "it has waited");
}
