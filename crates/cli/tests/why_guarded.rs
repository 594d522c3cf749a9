//! `lokt why` about guards and those who wait for them: who keeps an orphan's lock, who waits, and who waits for whom in a circle.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::common::{LOKT, Root, eventually, pid_of};

/// A guard in the background. It, and all that it started, ends with the test at the latest.
struct Job(Child);

impl Job {
    /// `lokt` with `words`, as `owner`; in a `sh -c` script `$LOKT` is the binary.
    fn start(root: &Root, owner: &str, words: &[&str]) -> Self {
        let mut command = Command::new(LOKT);
        command.args(words).env("LOKT_ROOT", root.path()).env("LOKT_OWNER", owner).env("LOKT", LOKT);
        command.env_remove("LOKT_HOLDS").env("LOKT_AGENT_ID", format!("{owner}-agent"));
        command.current_dir(root.outside()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("lokt can be started"))
    }

    /// A guard that holds `name` while `sleep` runs.
    fn holding(root: &Root, owner: &str, name: &str) -> Self {
        let job = Self::start(root, owner, &["guard", name, "--", "sleep", "600"]);
        // Its pid is noted down before it is the command.
        let comm = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        eventually("the guard's command runs", || command_of(root, name).is_some_and(|pid| comm(pid) == "sleep\n"));
        job
    }

    /// A guard that waits for `name`.
    fn waiting(root: &Root, owner: &str, name: &str) -> Self {
        let before = waiters(root, name);
        let job = Self::start(root, owner, &["guard", name, "--wait", "--reason", "nightly", "--", "true"]);
        eventually("the guard is in line", || waiters(root, name) > before);
        job
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid_of(self.0.id()), signal).expect("it is our child and not waited for");
    }

    /// Kills the guard, and nothing else.
    fn kill_guard(&mut self) {
        self.signal(Signal::KILL);
        self.0.wait().expect("it is our child");
    }

    /// Its exit code, when it has ended.
    #[track_caller]
    fn ends(&mut self, sentence: &str) -> Option<i32> {
        let child = std::cell::RefCell::new(&mut self.0);
        let ended = || child.borrow_mut().try_wait().expect("it is our child").is_some();
        eventually(sentence, ended);
        self.0.wait().expect("it is our child").code()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // While it isn't waited for, or anything of the group runs, the group's number is nobody else's.
        let _ = kill_process_group(pid_of(self.0.id()), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn why(root: &Root, name: &str) -> Value {
    root.run("observer", &format!("why {name} --json")).json()
}

fn waiters(root: &Root, name: &str) -> usize {
    let waiters = root.run("observer", &format!("queue {name} --json")).json();
    waiters["waiters"].as_array().expect("it is a list").len()
}

/// The pid that the guard of `name` wrote into its pulse.
fn command_of(root: &Root, name: &str) -> Option<i64> {
    let record: Value = serde_json::from_slice(&std::fs::read(root.record_path(name)).ok()?).ok()?;
    let number = &record["pulse"]["n"];
    let pulse: PathBuf = root.path().join(format!("state/held/{number}"));
    let pulse: Value = serde_json::from_slice(&std::fs::read(pulse).ok()?).ok()?;
    pulse["command"]["pid"].as_i64()
}

fn reason_of<'a>(why: &'a Value, kind: &str) -> Option<&'a Value> {
    why["reasons"].as_array().expect("it is a list").iter().find(|reason| reason["type"] == kind)
}

fn suggestions(why: &Value) -> Vec<&str> {
    why["suggestions"].as_array().expect("it is a list").iter().filter_map(Value::as_str).collect()
}

#[test]
fn an_orphan_is_explained_by_the_process_that_keeps_it() {
    let root = Root::new();
    let mut guard = Job::holding(&root, "a", "build");
    let pid = command_of(&root, "build").expect("the command runs");
    assert!(reason_of(&why(&root, "build"), "held").expect("it is held")["kept_by"].is_null(), "no orphan yet");
    let mut next = Job::waiting(&root, "b", "build");
    guard.kill_guard();
    eventually("it is an orphan", || why(&root, "build")["reasons"][0]["liveness"] == "orphan");

    let json = why(&root, "build");
    let held = reason_of(&json, "held").expect("it is still held");
    assert_eq!(held["kept_by"], json!([{"pid": pid, "command": "sleep"}]), "the command, and not who waits for it");
    let kill = format!("kill {pid}  (ends the process that still keeps it)");
    assert!(suggestions(&json).contains(&kill.as_str()), "what ends it: {json}");

    let said = root.run("c", "why build").exits(2, "lock would be refused");
    said.says("its guard is gone, the command still runs", "what has happened")
        .says(&format!("    Kept by: sleep (pid {pid})\n"), "who keeps it")
        .says("    Until: what its guard left running ends\n", "until when")
        .says(&format!("  - {kill}\n"), "what to do");
    root.run("c", "status build").exits(0, "it is held").says(&format!("kept by:  sleep (pid {pid})\n"), "status too");

    let typed = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    kill_process(typed, Signal::TERM).expect("what was suggested can be done");
    assert_eq!(next.ends("the next one gets it"), Some(0), "and runs");
}

#[test]
fn a_command_that_closed_what_it_inherited_is_named_too() {
    let root = Root::new();
    let script = "import os, time; os.closerange(3, 4096); open('ready', 'w').close(); time.sleep(600)";
    let mut guard = Job::start(&root, "a", &["guard", "build", "--", "python3", "-c", script]);
    eventually("it has closed them", || root.outside().join("ready").exists() && command_of(&root, "build").is_some());
    let pid = command_of(&root, "build").expect("the command runs");
    guard.kill_guard();
    eventually("it is an orphan", || why(&root, "build")["reasons"][0]["liveness"] == "orphan");
    let kept_by = &why(&root, "build")["reasons"][0]["kept_by"];
    assert_eq!(kept_by[0]["pid"], pid, "the one that the guard wrote down: {kept_by}");
    assert_eq!(kept_by.as_array().map(Vec::len), Some(1), "and nobody else: {kept_by}");
}

#[test]
fn every_process_that_keeps_an_orphan_is_named() {
    let root = Root::new();
    let script = "sleep 601 & : > ready; wait";
    let mut guard = Job::start(&root, "a", &["guard", "build", "--", "sh", "-c", script]);
    eventually("both run", || root.outside().join("ready").exists() && command_of(&root, "build").is_some());
    guard.kill_guard();
    eventually("it is an orphan", || why(&root, "build")["reasons"][0]["liveness"] == "orphan");
    let named = |json: &Value, name: &str| {
        let kept_by = json["reasons"][0]["kept_by"].as_array().expect("it is a list");
        kept_by.iter().any(|keeper| keeper["command"] == name)
    };
    eventually("the command is named, and what it started", || {
        let json = why(&root, "build");
        named(&json, "sh") && named(&json, "sleep")
    });
    let json = why(&root, "build");
    let kept_by = json["reasons"][0]["kept_by"].as_array().expect("it is a list");
    let pids: Vec<String> = kept_by.iter().map(|keeper| keeper["pid"].to_string()).collect();
    let kill = format!("kill {}  (ends the processes that still keep it)", pids.join(" "));
    assert!(suggestions(&json).contains(&kill.as_str()), "one command ends them: {json}");
}

#[test]
fn ones_own_orphan_is_not_said_to_end_with_a_dead_process() {
    let root = Root::new();
    let mut guard = Job::holding(&root, "a", "build");
    let own = root.run("a", "why build --for lock").exits(0, "lock would join it");
    own.says(&format!("until process {} ends and you unlock it)", guard.0.id()), "its guard lives")
        .says("  - lokt guard build --wait -- COMMAND  (waits until that process ends", "a second guard must wait");
    root.run("a", "unlock build").exits(4, "it is refused indeed");
    guard.kill_guard();
    eventually("it is an orphan", || why(&root, "build")["reasons"][0]["liveness"] == "orphan");
    let own = root.run("a", "why build --for lock").exits(0, "lock would join it");
    own.says("until its command ends and you unlock it)", "its guard is gone")
        .says("    Kept by: sleep (pid ", "by what");
    root.run("a", "status build").exits(0, "it is held").says("when what its guard left running ends (no TTL)", "end");
}

#[test]
fn who_waits_is_shown_with_agent_reason_and_who_is_passed_over() {
    let root = Root::new();
    let _holder = Job::holding(&root, "a", "build");
    let first = Job::waiting(&root, "b", "build");
    let second = Job::waiting(&root, "c", "build");
    first.signal(Signal::STOP);
    eventually("a stopped one is passed over", || {
        reason_of(&why(&root, "build"), "queued").is_some_and(|queued| queued["line"][0]["passed_over"] == true)
    });
    let json = why(&root, "build");
    let line = &reason_of(&json, "queued").expect("two wait")["line"];
    assert_eq!(line.as_array().map(Vec::len), Some(2), "both: {line}");
    for (place, (job, owner)) in [(&first, "b"), (&second, "c")].into_iter().enumerate() {
        let waiter = &line[place];
        assert_eq!(waiter["position"], json!(place + 1), "in order: {line}");
        assert_eq!((&waiter["owner"], &waiter["pid"]), (&json!(owner), &json!(job.0.id())), "who");
        assert_eq!(waiter["agent_id"], json!(format!("{owner}-agent")), "which agent");
        assert_eq!(waiter["reason"], "nightly", "why");
        assert_eq!(waiter["passed_over"], json!(owner == "b"), "only the stopped one is passed over");
    }
    let said = root.run("d", "why build").exits(2, "lock would be refused");
    let (b, c) = (first.0.id(), second.0.id());
    let waits = |owner: &str, pid| format!("    {owner} (agent: {owner}-agent) (pid {pid})  waiting ");
    said.says("  2 WAITING\n", "how many").says(&waits("b", b), "the first").says(&waits("c", c), "the second");
    let said = root.run("d", "why build");
    let line =
        |pid: u32| said.stdout.lines().find(|line| line.contains(&format!("(pid {pid})  waiting"))).map(str::to_owned);
    assert!(line(b).is_some_and(|line| line.ends_with(" [PASSED OVER]  nightly")), "with its reason{said}");
    assert!(line(c).is_some_and(|line| !line.contains("PASSED") && line.ends_with("  nightly")), "it isn't{said}");
}

/// `owner` holds `first`, and when `other` is held too, waits for `second` inside.
fn nested(root: &Root, owner: &str, first: &str, second: &str) -> Job {
    let script = format!(
        ": > {first}.held; until [ -e {second}.held ]; do sleep 0.02; done; exec $LOKT guard {second} --wait -- true"
    );
    Job::start(root, owner, &["guard", first, "--", "sh", "-c", &script])
}

#[test]
fn two_nested_guards_in_opposite_order_are_named_as_a_cycle() {
    let root = Root::new();
    let mut alice = nested(&root, "alice", "a", "b");
    let mut bob = nested(&root, "bob", "b", "a");
    eventually("both wait", || waiters(&root, "a") == 1 && waiters(&root, "b") == 1);
    // Somebody who holds something else and waits for one of them is not a part of it.
    let _carol = nested(&root, "carol", "c", "a");
    eventually("carol waits", || waiters(&root, "a") == 2);
    let waiter = |name: &str| root.run("x", &format!("queue {name} --json")).json()["waiters"][0]["pid"].clone();
    let (alices, bobs) = (waiter("b"), waiter("a"));

    for name in ["a", "b", "c"] {
        let json = why(&root, name);
        assert_eq!((&json["status"], &json["would"]), (&json!("blocked"), &json!("deny")), "nobody gets {name}");
        let found = reason_of(&json, "deadlock").unwrap_or_else(|| panic!("why {name} names the cycle: {json}"));
        let cycle = found["cycle"].as_array().expect("it is a list");
        assert_eq!(cycle.len(), 2, "two are in it: {json}");
        for member in cycle {
            let (holds, waits_for, pid) =
                if member["owner"] == "alice" { ("a", "b", &alices) } else { ("b", "a", &bobs) };
            let agent = format!("{}-agent", member["owner"].as_str().expect("it is a text"));
            let owner = &member["owner"];
            let expected =
                json!({"holds": holds, "waits_for": waits_for, "owner": owner, "agent_id": agent, "pid": pid});
            assert_eq!(member, &expected, "who holds what and waits for what");
        }
        assert_ne!(cycle[0]["owner"], cycle[1]["owner"], "each is named once: {json}");
        let suggestions = suggestions(&json);
        let kill = format!("kill {alices}  (ends alice's wait for b; ending one wait is enough)");
        assert!(suggestions.contains(&kill.as_str()), "what ends it: {suggestions:?}");
        let together = suggestions.iter().any(|line| line.starts_with("lokt guard a b --wait -- COMMAND  (next time"));
        assert!(together, "and how it doesn't happen again: {suggestions:?}");
        assert!(!suggestions.iter().any(|line| line.contains("waits in line")), "waiting is no way: {suggestions:?}");

        let said = root.run("observer", &format!("why {name}")).exits(2, "lock would be refused");
        said.says("  DEADLOCK", "it has a name")
            .says(&format!("    alice (pid {alices}) holds a and waits for b\n"), "a line for one")
            .says(&format!("    bob (pid {bobs}) holds b and waits for a\n"), "a line for the other")
            .says(&format!("  - {kill}\n"), "what ends it");
    }
    // Those in it are told, too.
    let own = root.run("alice", "why a --json --for lock").exits(0, "lock would join it").json();
    assert!(reason_of(&own, "deadlock").is_some(), "it is alice's, and she should know: {own}");

    let pid = alices.as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    kill_process(pid.expect("a pid"), Signal::TERM).expect("what was suggested can be done");
    assert_eq!(alice.ends("alice's wait is over"), Some(143), "its command was told to end");
    assert_eq!(bob.ends("then bob gets a"), Some(0), "and its command runs");
    eventually("nobody waits for anybody", || reason_of(&why(&root, "a"), "deadlock").is_none());
}

#[test]
fn a_chain_that_ends_is_not_called_a_deadlock() {
    let root = Root::new();
    let _last = Job::holding(&root, "carol", "c");
    put_held(&root, "c");
    let _middle = nested(&root, "bob", "b", "c");
    let _first = nested(&root, "alice", "a", "b");
    eventually("both wait", || waiters(&root, "c") == 1 && waiters(&root, "b") == 1);
    for name in ["a", "b", "c"] {
        let json = why(&root, name);
        assert!(reason_of(&json, "deadlock").is_none(), "carol will end: {json}");
        assert!(suggestions(&json).iter().any(|line| line.contains("waits in line")), "waiting helps: {json}");
        let said = root.run("observer", &format!("why {name}")).exits(2, "it is held");
        assert!(!said.stdout.contains("DEADLOCK"), "carol will end{said}");
    }
}

fn put_held(root: &Root, name: &str) {
    crate::common::put(&root.outside().join(format!("{name}.held")), "");
}

#[test]
fn whoever_waits_for_what_it_runs_under_is_a_cycle_of_one() {
    let root = Root::new();
    let script = "LOKT_OWNER=other exec $LOKT lock a --wait";
    let _job = Job::start(&root, "alice", &["guard", "a", "--", "sh", "-c", script]);
    eventually("it waits for itself", || waiters(&root, "a") == 1);
    let json = why(&root, "a");
    let cycle = &reason_of(&json, "deadlock").unwrap_or_else(|| panic!("nobody ever ends: {json}"))["cycle"];
    assert_eq!((&cycle[0]["holds"], &cycle[0]["waits_for"]), (&json!("a"), &json!("a")), "it holds what it waits for");
    assert_eq!(cycle.as_array().map(Vec::len), Some(1), "there is one: {cycle}");
    assert!(!suggestions(&json).iter().any(|line| line.contains("next time")), "another order is no help: {json}");
}

#[test]
fn a_refusal_says_that_one_can_wait() {
    let root = Root::new();
    let guard = Job::holding(&root, "a", "build");
    for words in ["lock build", "guard build -- true", "guard build other -- true"] {
        let said = root.run("b", words).exits(2, "it is held");
        said.notes("hint: `--wait` waits in line for it, `lokt why build` shows the evidence", "how to go on");
    }
    let said = root.run("a", "guard build -- true").exits(2, "two guards of one user exclude each other");
    said.notes("hint: held by another process of the same owner (a); `--wait` waits in line for it, ", "whose");
    let said = root.run("b", "guard build --timeout 50ms -- true").exits(2, "it is held");
    assert!(!said.stderr.contains("--wait"), "whoever waited isn't told to{said}");
    let json = root.run("b", "lock build --json").exits(2, "it is held").json();
    assert!(json["hint"].as_str().is_some_and(|hint| hint.contains("`--wait`")), "in JSON too: {json}");
    let _waiter = Job::waiting(&root, "c", "build");
    drop(guard);
}
