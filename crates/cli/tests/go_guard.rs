//! A running guard of the Go program (`peers/go_guard.py`), beside lokt's commands of the same owner and of others.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use lokt_testkit::tally::{self, Trial};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt as _;

use crate::common::{Root, eventually};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/go_guard.py");

/// A guard of the other program. Its command runs until it is told to end.
struct GoGuard {
    child: Child,
    command: Option<ChildStdin>,
}

impl GoGuard {
    fn start(root: &Root, owner: &str, ttl_sec: u64) -> Self {
        let mut command = Command::new("python3");
        command.args(["-B", "-E", "-s", PEER]).arg(root.path()).args(["x", owner, &ttl_sec.to_string()]);
        command.args(["sh", "-c", "echo runs; read -r line"]).process_group(0);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut said).expect("its command runs");
        assert_eq!(said, "runs\n");
        let command = child.stdin.take();
        Self { child, command }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets its command end, and gives what it warned of.
    fn end(mut self) -> String {
        drop(self.command.take());
        let mut said = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
        self.child.wait().expect("it is our child");
        said
    }
}

impl Drop for GoGuard {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            tally::count(Trial::Kill);
            let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a pid");
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[test]
fn one_holder_its_own_owners_lock_and_unlock_do_not_let_others_in_beside_its_command() {
    for ttl_sec in [0, 30] {
        let root = Root::used();
        let guard = GoGuard::start(&root, "a", ttl_sec);
        let pid = guard.pid();
        let why = root.run("a", "why x");
        assert!(!why.stdout.contains("then it lasts until") && !why.stdout.contains("lokt unlock x"), "{why}");
        let said = root.run("a", "lock x --ttl 5s").exits(0, "the owner is the identity");
        let said = said.notes("another program's process of the same owner (a)", "what it joined");
        said.notes("your part of it is lost", "and that this doesn't last");
        let record = root.record("x");
        assert_eq!((&record["pid"], &record["owner"]), (&pid.into(), &"a".into()), "it is still its record: {record}");
        assert_eq!(root.run("b", "lock x").code, 2, "one-holder: beside its command");
        let said = root.run("a", "unlock x").exits(0, "the owner's part");
        said.notes(&format!("another program's guard (pid {pid}) still holds it"), "it says what remains");
        root.run("b", "guard x -- true").exits(2, "one-holder: beside its command");
        let said = root.run("a", "unlock x").exits(4, "a guard's hold is not ended by unlock");
        said.notes(&format!("a running guard (pid {pid})"), "why not");
        root.run("a", "guard x -- true").exits(2, "not even a guard of the same owner");
        root.run("b", "unlock --break-stale x").exits(1, "it is not stale");
        assert!(!guard.end().contains("failed"), "its heartbeat goes on");
        assert!(!root.has_record("x"), "it released what it held");
        root.run("b", "guard x -- true").exits(0, "now it is free");
    }
}

#[test]
fn unlock_alone_does_not_end_its_hold() {
    let root = Root::used();
    let guard = GoGuard::start(&root, "a", 0);
    let before = root.record_text("x");
    for words in ["unlock x", "unlock --all"] {
        root.run("a", words);
        assert_eq!(root.record_text("x"), before, "one-holder: {words} took it away from its command");
    }
    assert_eq!(root.run("a", "unlock x").code, 4, "not the caller's to end");
    root.run("a", "unlock --force x").exits(0, "who is certain can");
    drop(guard);
}

#[test]
fn its_heartbeat_goes_on_after_any_number_of_joins_and_its_lease_does_not_shrink() {
    let root = Root::used();
    let guard = GoGuard::start(&root, "a", 4);
    // Its heart beats every two seconds, and takes the next end from what is in the file.
    eventually("its heart beats", || {
        root.run("a", "lock x --ttl 1s").exits(0, "it is joined");
        let record = root.record("x");
        let ttl = record["ttl_sec"].as_i64().unwrap_or(0);
        assert!(ttl >= 4, "one-holder: a renewal by {ttl} s would come too late: {record}");
        assert_eq!(root.run("b", "lock x").code, 2, "one-holder: while its command runs");
        root.run("a", "unlock x");
        let record = root.record("x");
        assert!(record["ttl_sec"].as_i64().unwrap_or(0) >= 4, "nor after an unlock: {record}");
        // What has no parts is its own again; it was joined a moment ago.
        record.get("parts").is_none()
    });
    let said = guard.end();
    assert!(said.contains("renewed") && !said.contains("failed"), "it was never told that its lock was stolen: {said}");
}

#[test]
fn a_killed_guard_of_the_other_program_frees_what_was_joined_when_the_owners_part_is_over() {
    let root = Root::used();
    let guard = GoGuard::start(&root, "a", 0);
    root.run("a", "lock x --ttl 1h").exits(0, "it is joined");
    drop(guard);
    root.run("b", "lock x").exits(2, "the owner's part holds it");
    root.run("a", "unlock x").exits(0, "and ends");
    root.run("b", "lock x").exits(0, "nobody is left");
}
