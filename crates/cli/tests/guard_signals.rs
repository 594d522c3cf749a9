//! Signals that a guard gets: passed on to the command, every time, except where whoever started the guard wants them ignored; and
//! the end of a wait.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lokt_testkit::session::{PATIENCE, Session, Start};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::common::{LOKT, Root, names_in, put};
use std::time::Duration;

/// Notes each signal that arrives, however close to another, and ends with 42 at the n-th SIGTERM. What it finds ignored it ignores.
const COUNTER: &str = "
import os, signal, sys
log = open(sys.argv[1], 'a', buffering=1)
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
for name in ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH']:
    if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
        signal.signal(getattr(signal, name), lambda number, frame: None)
log.write('pid %d\\n' % os.getpid())
terms = 0
while terms < int(sys.argv[2]):
    for number in os.read(read, 64):
        log.write(signal.Signals(number).name + '\\n')
        terms += number == signal.SIGTERM
sys.exit(42)
";

/// A command that notes the signals it gets.
pub(crate) struct Counter {
    script: PathBuf,
    log: PathBuf,
}

impl Counter {
    pub(crate) fn new(root: &Root) -> Self {
        let counter = Self { script: root.outside().join("counter.py"), log: root.outside().join("counted") };
        put(&counter.script, COUNTER);
        counter
    }

    /// The command. It ends at the `terms`-th SIGTERM.
    pub(crate) fn words<'a>(&'a self, terms: &'a str) -> Vec<&'a str> {
        let (script, log) = (self.script.to_str(), self.log.to_str());
        vec!["python3", script.expect("a plain path"), log.expect("a plain path"), terms]
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Its pid, once it counts.
    #[track_caller]
    pub(crate) fn ready(&self) -> Pid {
        let pid = || self.lines().first().and_then(|line| line.strip_prefix("pid ")?.parse().ok());
        assert!(wait_until(PATIENCE, || pid().is_some()), "the command starts");
        pid().and_then(Pid::from_raw).expect("a pid is a positive number")
    }

    /// How often it got that signal.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.lines().iter().filter(|line| *line == name).count()
    }

    /// Waits until it has got that signal so often.
    #[track_caller]
    pub(crate) fn gets(&self, name: &str, times: usize) {
        assert!(wait_until(PATIENCE, || self.count(name) >= times), "{name} arrives {times} times: {:?}", self.lines());
    }
}

/// Starts `words` as `owner`.
fn start(root: &Root, owner: &str, words: &[&str]) -> Session {
    started(root, owner, words).session()
}

pub(crate) fn started<'a>(root: &'a Root, owner: &str, words: &[&'a str]) -> Start<'a> {
    let env = vec![("LOKT_ROOT", root.path().display().to_string()), ("LOKT_OWNER", owner.to_owned())];
    Start { words: words.to_vec(), env, dir: root.outside() }
}

/// All that is forwarded, with the code of a command that dies of it.
const FORWARDED: [(&str, Signal, i32); 6] = [
    ("SIGINT", Signal::INT, 130),
    ("SIGTERM", Signal::TERM, 143),
    ("SIGHUP", Signal::HUP, 129),
    ("SIGQUIT", Signal::QUIT, 131),
    ("SIGUSR1", Signal::USR1, 138),
    ("SIGUSR2", Signal::USR2, 140),
];

#[test]
fn every_signal_that_is_sent_to_a_guard_reaches_the_command_every_time() {
    for on_lost in ["fail", "stop"] {
        let root = Root::new();
        let counter = Counter::new(&root);
        let guard = [LOKT, "guard", "x", "--on-lost", on_lost, "--"];
        let mut session = start(&root, "alice", &[&guard, counter.words("4").as_slice()].concat());
        counter.ready();
        for round in 1..=3 {
            for (name, signal, _) in FORWARDED.into_iter().chain([("SIGWINCH", Signal::WINCH, 0)]) {
                session.signal(signal);
                counter.gets(name, round);
            }
            pause(Duration::from_millis(50));
        }
        for (name, ..) in FORWARDED {
            assert_eq!(counter.count(name), 3, "{name} arrives as often as it was sent (--on-lost {on_lost})");
        }
        assert_eq!(counter.count("SIGWINCH"), 3, "a change of the window's size is passed on too");
        session.signal(Signal::TERM);
        assert_eq!(session.ends(), 42, "the exit code is the command's: {}", session.err());
        assert!(!root.has_record("x"), "and the lock is released");
    }
}

#[test]
fn whoever_started_a_guard_sees_the_signal_that_ended_it_and_its_command_and_no_core() {
    for (name, signal, code) in FORWARDED {
        let root = Root::new();
        let script = "ulimit -c unlimited; exec \"$0\" guard x -- sh -c 'ulimit -c 0; echo ready; exec sleep 600'";
        let mut guard = Command::new("sh")
            .args(["-c", script, LOKT])
            .env("LOKT_ROOT", root.path())
            .current_dir(root.outside())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let mut ready = [0; 6];
        guard.stdout.as_mut().expect("it is a pipe").read_exact(&mut ready).expect("the command starts");
        let pid = Pid::from_raw(i32::try_from(guard.id()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it runs");
        let status = guard.wait().expect("it is ours");
        assert_eq!(status.signal(), Some(code - 128), "{name} ended it: {status:?}");
        assert!(!status.core_dumped(), "{name}: nothing went wrong, so there is no core");
        assert!(!root.has_record("x"), "the lock is released first");
    }
}

#[test]
fn a_signal_that_only_the_command_died_of_is_an_exit_code() {
    for (name, _, code) in FORWARDED {
        let root = Root::new();
        let script = format!("ulimit -c 0; kill -{} $$", &name[3..]);
        let status = Command::new(LOKT)
            .args(["guard", "x", "--", "sh", "-c", &script])
            .env("LOKT_ROOT", root.path())
            .status()
            .expect("it runs");
        assert_eq!(status.code(), Some(code), "{name} was not for the guard: {status:?}");
    }
}

#[test]
fn a_command_that_dies_of_a_forwarded_signal_makes_the_exit_code() {
    for (name, signal, code) in FORWARDED {
        let root = Root::new();
        let guard = [LOKT, "guard", "x", "--", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 600"];
        let mut session = start(&root, "alice", &guard);
        assert!(wait_until(PATIENCE, || session.out() == "ready\n"), "the command starts");
        session.signal(Signal::WINCH);
        session.signal(signal);
        assert_eq!(session.ends(), code, "{name} ends the command, and nothing else of what was sent does");
        assert!(!root.has_record("x"), "the lock of a command that died is released");
        assert_eq!(root.events_of("x"), ["acquire", "release"], "and that is what the log says");
    }
}

#[test]
fn a_command_that_takes_a_signal_for_a_request_decides_on_the_exit_code() {
    let root = Root::new();
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut session = start(&root, "alice", &[LOKT, "guard", "x", "--", "sh", "-c", script]);
    assert!(wait_until(PATIENCE, || session.out() == "ready\n"), "the command starts");
    session.signal(Signal::TERM);
    assert_eq!(session.ends(), 0, "a command that ends well after SIGTERM ended well");
}

#[test]
fn what_whoever_started_the_guard_ignores_stays_ignored_for_guard_and_command() {
    // What is no text in the name of a process is no reason to misread what the kernel says about it.
    let odd = "trap '' HUP INT; odd=\"${LOKT_ROOT%/*}/$(printf 'l\\377')\"; ln -s \"$1\" \"$odd\"; shift; exec \"$odd\" \"$@\"";
    for shell in ["trap '' HUP INT; exec \"$@\"", "exec nohup env --ignore-signal=INT \"$@\"", odd] {
        let root = Root::new();
        let counter = Counter::new(&root);
        let guard = ["sh", "-c", shell, "sh", LOKT, "guard", "x", "--"];
        let mut session = start(&root, "alice", &[&guard, counter.words("2").as_slice()].concat());
        let command = counter.ready();
        let status = fs::read_to_string(format!("/proc/{}/status", command.as_raw_nonzero())).expect("it runs");
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a process has one");
        let ignored = u64::from_str_radix(ignored, 16).expect("it is a mask");
        assert_eq!(ignored & 0b11, 0b11, "the command ignores what the guard was told to ignore");
        for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
            session.signal(signal);
        }
        counter.gets("SIGTERM", 1);
        session.signal(Signal::TERM);
        assert_eq!(session.ends(), 42, "neither was ended by what they ignore");
        assert_eq!(counter.lines().len(), 3, "nothing that is ignored is passed on: {:?}", counter.lines());
    }
}

#[test]
fn a_guard_in_line_ignores_what_whoever_started_it_ignores() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let mut session = start(&root, "alice", &["nohup", LOKT, "guard", "x", "--wait", "--", "true"]);
    waits(&root, &session);
    session.signal(Signal::HUP);
    pause(Duration::from_millis(300));
    assert_eq!(session.code(), None, "nohup means the wait too");
    root.run("bob", "unlock x").exits(0, "it is bob's");
    assert_eq!(session.ends(), 0, "and it goes on: {}", session.err());
}

#[test]
fn the_exit_code_is_known_even_if_whoever_started_the_guard_ignores_the_end_of_children() {
    let root = Root::new();
    let ignoring = ["env", "--ignore-signal=CHLD"];
    let mut mask = start(&root, "alice", &[&ignoring[..], &["grep", "SigIgn", "/proc/self/status"]].concat());
    assert_eq!(mask.ends(), 0);
    assert!(mask.out().ends_with("10000\n"), "SIGCHLD is ignored, so that there is something to see: {}", mask.out());
    for (script, code) in [("exit 7", 7), ("exit 0", 0), ("kill -KILL $$", 137), ("sleep 0.3; exit 9", 9)] {
        let guard = [LOKT, "guard", "x", "--ttl", "1s", "--", "sh", "-c", script];
        let mut session = start(&root, "alice", &[&ignoring[..], &guard].concat());
        assert_eq!(session.ends(), code, "`{script}` gives {code}: {}", session.err());
        assert!(!root.has_record("x"), "the lock is released");
    }
}

/// Waits until the guard is in line.
#[track_caller]
fn waits(root: &Root, session: &Session) {
    let line = root.path().join("state/line/x");
    assert!(wait_until(PATIENCE, || names_in(&line).len() == 1), "the guard gets in line: {}", session.err());
    // It tells how it stands when it has begun to sleep.
    assert!(wait_until(PATIENCE, || session.err().contains("waiting for lock")), "the guard waits");
}

#[test]
fn a_signal_ends_the_wait_and_leaves_the_line_clean() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let commands: [&[&str]; 2] = [&["guard", "x", "--wait", "--", "touch", "ran"], &["lock", "x", "--wait"]];
    for words in commands {
        for (name, signal, code) in FORWARDED {
            let mut session = start(&root, "alice", &[&[LOKT], words].concat());
            waits(&root, &session);
            session.signal(Signal::WINCH);
            session.signal(signal);
            assert_eq!(session.ends(), code, "{name} ends a wait: {}", session.err());
            let err = session.err();
            assert!(err.contains("interrupted while waiting for lock \"x\""), "it says why it ended: {err}");
            assert_eq!(names_in(&root.path().join("state/line")), [] as [PathBuf; 0], "no ticket is left");
            let last = root.audit_of("x").pop().expect("something happened");
            assert_eq!((&last["event"], &last["owner"]), (&"deny".into(), &"alice".into()), "the log says so: {last}");
            assert_eq!(last["extra"]["reason"], "interrupted", "and why: {last}");
        }
    }
    assert!(!root.outside().join("ran").exists(), "nothing was run");
    assert_eq!(root.events_of("x").iter().filter(|event| *event == "deny").count(), 12, "one event per attempt");
    root.run("bob", "unlock x").exits(0, "it is still bob's");
}

#[test]
fn an_interrupted_wait_is_an_object_with_json() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let mut session = start(&root, "alice", &[LOKT, "guard", "x", "--wait", "--json", "--", "true"]);
    waits(&root, &session);
    session.signal(Signal::TERM);
    assert_eq!(session.ends(), 143);
    let said: Value = serde_json::from_str(&session.out()).expect("stdout is one JSON value");
    assert_eq!((&said["code"], &said["signal"]), (&"E_INTERRUPTED".into(), &15.into()), "{said}");
}

#[test]
fn a_guard_that_is_stopped_during_a_renewal_finishes_that_first() {
    lokt_testkit::need!("strace");
    let root = Root::used();
    // Each thread's first rename takes two seconds: that of the grant, and that of the renewal, both inside the mutex.
    let slow = "inject=renameat2:delay_enter=2000000:when=1";
    // A job of a shell: what has no shell above it can't be stopped by a terminal.
    let job = format!(
        "set -m; strace -f -o /dev/null -e {slow} {LOKT} guard x --ttl 12s -- sh -c 'echo $PPID > guard; exec sleep 600' & wait"
    );
    let _session = start(&root, "alice", &["bash", "-c", &job]);
    let noted = || fs::read_to_string(root.outside().join("guard")).ok().and_then(|pid| pid.trim().parse().ok());
    assert!(wait_until(PATIENCE, || noted().is_some()), "the command starts");
    let guard = noted().and_then(Pid::from_raw).expect("a pid is a positive number");
    let mutex = fs::File::open(root.path()).expect("the root is there");
    let is_free = || {
        let taken = flock(&mutex, FlockOperation::NonBlockingLockShared).is_ok();
        taken && flock(&mutex, FlockOperation::Unlock).is_ok()
    };
    assert!(wait_until(PATIENCE, || !is_free()), "a renewal begins");
    pause(Duration::from_millis(100));
    assert!(!is_free(), "and is inside the mutex");
    kill_process(guard, Signal::TSTP).expect("it is ours and runs");
    assert!(wait_until(PATIENCE, is_free), "the mutex isn't stopped with the guard");
    root.run("bob", "lock y").exits(0, "everyone else goes on");
    let renewed = || root.events_of("x").iter().filter(|event| *event == "renew").count();
    let before = renewed();
    assert_eq!(before, 1, "the renewal that was under way came to its end");
    pause(Duration::from_secs(8));
    assert_eq!(renewed(), before, "and then the guard stopped");
    kill_process(guard, Signal::CONT).expect("it is ours");
    assert!(wait_until(PATIENCE, || renewed() > before), "until it is continued");
}
