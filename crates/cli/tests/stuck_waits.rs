//! Waits that don't end by themselves: what a waiter and whoever is refused are told about a deadlock, about an orphan's lock, and about
//! too many names.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::common::{LOKT, Root, eventually, pid_of};

/// `lokt` in the background. It, and all that it started, ends with the test at the latest.
struct Job {
    child: Child,
    stderr: PathBuf,
}

impl Job {
    /// `lokt` with `words`, as `owner`; in a `sh -c` script `$LOKT` is the binary.
    fn start(root: &Root, owner: &str, words: &[&str]) -> Self {
        let stderr = root.outside().join(format!("{owner}.stderr"));
        let mut command = Command::new(LOKT);
        command.args(words).env("LOKT_ROOT", root.path()).env("LOKT_OWNER", owner).env("LOKT", LOKT);
        command.env_remove("LOKT_HOLDS").env_remove("LOKT_EXIT_CONFLICT");
        command.current_dir(root.outside()).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&stderr).expect("a temp directory is writable"));
        Self { child: command.spawn().expect("lokt can be started"), stderr }
    }

    /// Holds `first`, and asks for `second` when there is a file `go`. Ends with `flags`' timeout at the latest.
    fn nested(root: &Root, owner: &str, first: &str, second: &str, flags: &str) -> Self {
        let script = format!(
            ": > {owner}.holds; while ! [ -e go ]; do sleep 0.02; done; exec $LOKT guard {second} {flags} -- true"
        );
        let job = Self::start(root, owner, &["guard", first, "--", "sh", "-c", &script]);
        eventually("it holds the first one", || root.outside().join(format!("{owner}.holds")).exists());
        job
    }

    /// What it and its command said.
    fn told(&self) -> String {
        fs::read_to_string(&self.stderr).expect("it is there")
    }

    /// The warnings about deadlocks.
    fn deadlocks(&self) -> Vec<String> {
        let told = self.told();
        told.lines().filter(|line| line.starts_with("warning: deadlock: ")).map(ToOwned::to_owned).collect()
    }

    /// Its exit code, when it has ended.
    #[track_caller]
    fn ends(&mut self, sentence: &str) -> Option<i32> {
        let child = std::cell::RefCell::new(&mut self.child);
        eventually(sentence, || child.borrow_mut().try_wait().expect("it is our child").is_some());
        self.child.wait().expect("it is our child").code()
    }

    /// Kills the guard, and nothing else.
    fn kill_guard(&mut self) {
        kill_process(pid_of(self.child.id()), Signal::KILL).expect("it is our child and not waited for");
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // While it isn't waited for, or anything of the group runs, the group's number is nobody else's.
        let _ = kill_process_group(pid_of(self.child.id()), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn go(root: &Root) {
    File::create(root.outside().join("go")).expect("a temp directory is writable");
}

/// The pid behind `key` in what `text` says: `bob (pid 42)`.
fn pid_after(text: &str, key: &str) -> Pid {
    let rest = text.split_once(&format!("{key} (pid ")).unwrap_or_else(|| panic!("{key} is in {text}")).1;
    let pid = rest.split(')').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    pid.unwrap_or_else(|| panic!("a pid follows {key} in {text}"))
}

// --- deadlocks

#[test]
fn a_waiter_in_a_circle_is_told_as_soon_as_there_is_one() {
    let root = Root::new();
    let mut alice = Job::nested(&root, "alice", "a", "b", "--timeout never");
    let mut bob = Job::nested(&root, "bob", "b", "a", "-q --timeout never");
    go(&root);
    eventually("both are told, the quiet one too", || alice.deadlocks().len() + bob.deadlocks().len() == 2);
    let told = alice.told();
    let warning = &alice.deadlocks()[0];
    let pid = pid_after(warning, "bob");
    assert_eq!(
        *warning,
        format!(
            "warning: deadlock: you hold \"a\" and wait for \"b\"; bob (pid {}) holds \"b\" and waits for \"a\"",
            pid.as_raw_nonzero()
        ),
        "who waits for whom: {told}"
    );
    let hint = told.lines().skip_while(|line| line != warning).nth(1).unwrap_or_default();
    assert!(hint.starts_with("hint: ending one of these waits is enough: `kill "), "what to do: {told}");
    assert!(hint.contains(&format!("`kill {}`", pid.as_raw_nonzero())), "what to do: {told}");
    assert!(hint.ends_with("`lokt guard a b -- COMMAND` takes them together"), "and next time: {told}");
    let mirrored = "warning: deadlock: you hold \"b\" and wait for \"a\"; alice (pid ";
    assert!(bob.deadlocks()[0].starts_with(mirrored), "each is told of itself first: {}", bob.told());
    assert!(!bob.told().contains("waiting for"), "quiet is quiet about the rest: {}", bob.told());

    kill_process(pid, Signal::TERM).expect("what was suggested can be done");
    assert_eq!(bob.ends("bob's wait is ended"), Some(143), "{}", bob.told());
    assert_eq!(alice.ends("alice gets it"), Some(0), "{}", alice.told());
    assert_eq!(alice.deadlocks().len(), 1, "it was said once: {}", alice.told());
}

#[test]
fn a_circle_of_three_is_told_too() {
    let root = Root::new();
    let jobs = [("alice", "a", "b"), ("bob", "b", "c"), ("carol", "c", "a")]
        .map(|(owner, first, second)| Job::nested(&root, owner, first, second, "--timeout never"));
    go(&root);
    for job in &jobs {
        eventually("each of them is told", || job.deadlocks().len() == 1);
    }
    let told = &jobs[1].deadlocks()[0];
    let order = ["you hold \"b\" and wait for \"c\"", "carol (pid ", "holds \"c\" and waits for \"a\"", "alice (pid "];
    let places: Vec<Option<usize>> = order.iter().map(|text| told.find(text)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "all three, in their order: {told}");
    assert!(jobs[1].told().contains("`lokt guard a b c -- COMMAND`"), "{}", jobs[1].told());
}

#[test]
fn a_circle_with_somebody_who_takes_several_names_is_told() {
    let root = Root::new();
    let bob = Job::nested(&root, "bob", "b", "a", "--timeout never");
    let alice = Job::start(&root, "alice", &["guard", "a", "b", "--timeout", "never", "--", "true"]);
    eventually("alice has a, and waits for b", || {
        root.has_record("a") && alice.told().contains("waiting for lock \"b\"")
    });
    go(&root);
    for job in [&alice, &bob] {
        eventually("each of them is told", || job.deadlocks().len() == 1);
    }
}

#[test]
fn a_circle_that_has_dissolved_is_not_told_again_and_a_new_one_is() {
    let root = Root::new();
    let mut alice = Job::nested(&root, "alice", "a", "b", "--timeout never");
    // The first of bob's waits ends by itself, the second makes a new circle.
    let script = ": > bob.holds; while ! [ -e go ]; do sleep 0.02; done; $LOKT guard a --timeout 7s -- true; \
                  while ! [ -e again ]; do sleep 0.02; done; exec $LOKT guard a --timeout never -- true";
    let bob = Job::start(&root, "bob", &["guard", "b", "--", "sh", "-c", script]);
    eventually("bob holds b", || root.outside().join("bob.holds").exists());
    go(&root);
    eventually("both are told", || alice.deadlocks().len() == 1 && bob.deadlocks().len() == 1);
    eventually("bob gives up", || bob.told().contains("lokt: not run"));
    assert_eq!(alice.deadlocks().len(), 1, "there is none any more: {}", alice.told());
    File::create(root.outside().join("again")).expect("a temp directory is writable");
    eventually("a new one is told", || alice.deadlocks().len() == 2 && bob.deadlocks().len() == 2);
    drop(bob);
    assert_eq!(alice.ends("alice gets it"), Some(0), "{}", alice.told());
}

#[test]
fn who_waits_for_somebody_that_will_end_is_told_of_no_deadlock() {
    let root = Root::new();
    let mut alice = Job::nested(&root, "alice", "a", "b", "--timeout never");
    let script = "while ! [ -e end ]; do sleep 0.02; done";
    let bob = Job::start(&root, "bob", &["guard", "b", "--", "sh", "-c", script]);
    eventually("bob holds b", || root.has_record("b"));
    go(&root);
    eventually("alice waits", || alice.told().contains("waiting for lock \"b\""));
    lokt_testkit::swarm::pause(std::time::Duration::from_millis(1500));
    File::create(root.outside().join("end")).expect("a temp directory is writable");
    assert_eq!(alice.ends("alice gets it"), Some(0), "{}", alice.told());
    assert_eq!(alice.deadlocks(), [""; 0], "{}", alice.told());
    drop(bob);
}

// --- leftovers

#[test]
fn a_leftover_that_keeps_an_orphans_lock_is_named_with_what_ends_it() {
    let root = Root::new();
    let script = "sleep 600 & echo $! > daemon.tmp; mv daemon.tmp daemon; wait";
    let mut guard = Job::start(&root, "a", &["guard", "build", "--", "sh", "-c", script]);
    eventually("the daemon runs", || root.outside().join("daemon").exists());
    let daemon: i64 =
        fs::read_to_string(root.outside().join("daemon")).expect("it is there").trim().parse().expect("a pid");
    let mut early = Job::start(&root, "early", &["guard", "build", "--timeout", "never", "--", "true"]);
    eventually("it waits for a guard that lives", || early.told().contains("held by a@"));
    assert!(!early.told().contains("kill"), "nothing is wrong yet: {}", early.told());

    let shell = guard_command(&root);
    guard.kill_guard();
    kill_process(shell, Signal::KILL).expect("the command runs");
    let named = format!("kept by sleep (pid {daemon}): `kill {daemon}` ends it");
    eventually("whoever waits already is told", || early.told().contains(&named));
    assert!(early.told().contains("its guard is gone, kept by "), "{}", early.told());
    let told = early.told().matches(&named).count();
    assert_eq!(told, 1, "once: {}", early.told());

    let late = Job::start(&root, "late", &["lock", "build", "--timeout", "never"]);
    eventually("whoever begins to wait is told", || late.told().contains(&named));
    for words in ["guard build -- true", "lock build", "guard build --timeout 50ms -- true"] {
        root.run("b", words).exits(2, "it is held").notes(&format!("  guard:   gone; {named}\n"), "a refusal says it");
    }
    let json: Value = root.run("b", "lock build --json").exits(2, "it is held").json();
    assert_eq!(json["kept_by"][0]["pid"], daemon, "in JSON: {json}");
    assert_eq!(json["kept_by"][0]["command"], "sleep", "in JSON: {json}");
    drop(late);

    let typed = i32::try_from(daemon).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(typed, Signal::TERM).expect("what was suggested can be done");
    assert_eq!(early.ends("the wait ends"), Some(0), "{}", early.told());
}

/// The pid of the command that the one guard wrote down.
fn guard_command(root: &Root) -> Pid {
    let mut found = None;
    eventually("the guard has written down its command", || {
        let pulses = crate::common::names_in(&root.path().join("state/held"));
        let pulse = pulses.first().and_then(|path| fs::read(path).ok());
        let pulse: Option<Value> = pulse.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        pulse.and_then(|pulse| pulse["command"]["pid"].as_i64()).is_some()
    });
    for path in crate::common::names_in(&root.path().join("state/held")) {
        let pulse: Value = serde_json::from_slice(&fs::read(path).expect("it is there")).expect("a pulse is JSON");
        found = found.or_else(|| pulse["command"]["pid"].as_i64());
    }
    found.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("a pid")
}

// --- too many names

#[test]
fn more_names_than_descriptors_say_which_limit_to_raise_and_hold_nothing() {
    let root = Root::used();
    let names: Vec<String> = (0..200).map(|n| format!("n{n}")).collect();
    for (limit, flags) in [(100, ""), (100, "--timeout 5s"), (250, "")] {
        // With 250, all of them are had, and there is no room to hand them down.
        let script = format!("ulimit -n {limit}; exec {LOKT} guard {} {flags} -- touch ran", names.join(" "));
        let said = root.call("sh").args(["-c", &script]).run();
        assert!(said.code == 1 || said.code == 126, "it can't be done{said}");
        let said = said.notes("Too many open files", "what is wrong").notes("`ulimit -n`", "what to do");
        let said = said.notes(&format!("now it is {limit}"), "and what the limit is");
        assert!(said.stderr.ends_with("lokt: not run\n"), "{said}");
        let held = root.run("a", "status --json").exits(0, "it can be asked");
        assert!(!held.stdout.contains("\"n1"), "nothing is held{held}");
        assert!(!root.outside().join("ran").exists(), "and nothing ran{said}");
    }
    let script = format!("ulimit -n 1024; exec {LOKT} guard {} -- touch ran", names.join(" "));
    root.call("sh").args(["-c", &script]).run().exits(0, "with more of them it can be done");
}
