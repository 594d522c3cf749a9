//! Messages that nobody reads: a full pipe, a closed one, a stopped terminal. They never delay renewing, stopping the command or exiting.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use lokt_testkit::session::{PATIENCE, Terminal};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::json;

use super::common::grove::Grove;
use super::common::ledgers::Book;
use super::common::{Call, LOKT, Root, Running, eventually, put};
use super::guard_signals::started;

/// A command that writes down its pid and doesn't end.
const FOR_EVER: [&str; 3] = ["sh", "-c", "echo $$ > pid.new; mv pid.new pid; exec sleep 600"];
const CTRL_S: &str = "\x13";

/// A pipe that is full: its reader, who reads nothing, and its other end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).expect("there are pipes");
    fcntl_setpipe_size(&writes, 4096).expect("a pipe can be small");
    assert_eq!(rustix::io::write(&writes, &[b'x'; 4096]), Ok(4096), "it is empty");
    (reads, writes)
}

/// Starts the call, with [`FOR_EVER`] after its words, with a full stderr or with one that was closed. Gives it and its command.
fn runs_unheard(call: Call, dir: &Path, is_closed: bool) -> (Running, Option<OwnedFd>, u32) {
    let (reads, writes) = full_pipe();
    let reads = (!is_closed).then_some(reads);
    let running = call.args(["--"]).args(FOR_EVER).says_to(writes);
    let pid = dir.join("pid");
    eventually("the command runs", || pid.exists());
    let command = fs::read_to_string(pid).expect("it is there").trim().parse().expect("a pid");
    (running, reads, command)
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.starts_with(" Z"))
}

#[test]
fn a_lost_guard_that_nobody_hears_stops_its_command_and_ends() {
    for is_closed in [false, true] {
        let root = Root::used();
        let call = root.lokt("alice").args("guard x --ttl 2s --on-lost stop".split(' '));
        let (running, _reads, command) = runs_unheard(call, root.outside(), is_closed);
        root.run("bob", "unlock --force x").exits(0, "he may");
        let said = running.wait().exits(79, "it says that the lock was lost, and nobody reads it");
        assert!(!lives(command), "its command was stopped before that{said}");
        root.run("bob", "guard x -- true").exits(0, "the next one is alone");
    }
}

#[test]
fn a_lost_claim_that_nobody_hears_of_ends_its_command() {
    for is_closed in [false, true] {
        let book = Book::new();
        let call = book.lokt("alice").args("claim run 1 --ttl 2s --on-lost stop".split(' '));
        let (running, _reads, command) = runs_unheard(call, book.dir(), is_closed);
        let next = book.numbers().last().expect("there is the claim") + 1;
        let released =
            json!({"type": "lock_released", "timestamp": "2026-01-01T00:00:00Z", "node_id": "1", "owner": "alice"});
        book.put(next, &released);
        running.wait().exits(79, "it says that the claim was lost, and nobody reads it");
        assert!(!lives(command), "its command was stopped before that");
    }
}

#[test]
fn a_lost_lease_that_nobody_hears_of_ends_its_command() {
    for is_closed in [false, true] {
        let grove = Grove::new();
        let call = grove.lokt("alice").args("lease run --lease 1h".split(' '));
        let (running, _reads, command) = runs_unheard(call, &grove.top(), is_closed);
        grove.run("carol", "lease break --force --reason enough").exits(0, "she may");
        running.wait().exits(79, "it says that the lease was lost, and nobody reads it");
        assert!(!lives(command), "its command was stopped before that");
    }
}

#[test]
fn a_waiter_that_nobody_hears_gets_the_lock_renews_it_and_passes_it_on() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let (reads, writes) = full_pipe();
    let script = "touch ran; while ! [ -e stop ]; do sleep 0.05; done";
    let words = ["guard", "x", "--ttl", "4s", "--wait", "--", "sh", "-c", script];
    let first = root.lokt("alice").args(words).says_to(writes);
    let line = root.path().join("state/line/x");
    let in_line = || fs::read_dir(&line).map_or(0, Iterator::count);
    eventually("alice is in line", || in_line() == 1);
    let second = root.lokt("carol").args("guard x --wait -- touch passed".split(' ')).start();
    eventually("carol is behind her", || in_line() == 2);
    root.run("bob", "unlock x").exits(0, "it is his");
    eventually("alice's command runs", || root.outside().join("ran").exists());
    // Longer than two leases.
    pause(Duration::from_secs(9));
    assert!(!root.outside().join("passed").exists(), "her lease is renewed");
    root.run("bob", "guard x -- true").exits(2, "her lease is renewed");
    put(&root.outside().join("stop"), "");
    first.wait().exits(0, "her lock was never lost");
    second.wait().exits(0, "and is passed on");
    assert!(root.outside().join("passed").exists(), "to who was behind her");
    drop(reads);
}

#[test]
fn what_is_said_stands_before_what_the_command_says_next() {
    let root = Root::used();
    let (mut rounds, mut in_order) = (0, 0);
    for _ in 0..20 {
        root.run("bob", "lock x").exits(0, "it is free");
        let waiter = root.lokt("alice").args("guard x --wait -- sh -c".split(' ')).args(["echo said >&2"]).start();
        eventually("it waits", || fs::read_dir(root.path().join("state/line/x")).is_ok_and(|line| line.count() == 1));
        root.run("bob", "unlock x").exits(0, "it is his");
        let said = waiter.wait().exits(0, "it gets it");
        let lines: Vec<&str> = said.stderr.lines().collect();
        let got = lines.iter().position(|line| line.starts_with("got lock \"x\""));
        let command = lines.iter().position(|line| *line == "said");
        // It may get the lock in the moment in which it begins to wait: then it says nothing.
        if lines == ["said"] {
            continue;
        }
        assert!(lines.len() == 3 && got.is_some() && command.is_some(), "nothing is lost{said}");
        rounds += 1;
        in_order += usize::from(got < command);
    }
    // The guard waits a fifth of a second for its own words, and a busy machine may keep them longer.
    assert!(rounds > 5 && in_order + 3 > rounds, "{in_order} of {rounds} are in order");
}

#[test]
fn a_stopped_terminal_keeps_neither_a_lost_guard_nor_its_command() {
    let root = Root::used();
    let guard = [&[LOKT, "guard", "x", "--ttl", "2s", "--on-lost", "stop", "--"], &FOR_EVER[..]].concat();
    let mut terminal = started(&root, "alice", &guard).terminal(200);
    eventually("the command runs", || root.outside().join("pid").exists());
    terminal.types(CTRL_S);
    root.run("bob", "unlock --force x").exits(0, "he may");
    assert_eq!(terminal.ends(), 79, "{}", terminal.screen());
}

#[test]
fn a_stopped_terminal_keeps_no_waiter_from_its_turn() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let guard = [&[LOKT, "guard", "x", "--wait", "--"], &FOR_EVER[..]].concat();
    let mut terminal: Terminal = started(&root, "alice", &guard).terminal(200);
    terminal.shows_after(0, "waiting for lock");
    terminal.types(CTRL_S);
    // It shows every second how its wait stands.
    pause(Duration::from_secs(3));
    root.run("bob", "unlock x").exits(0, "it is his");
    eventually("the command runs", || root.outside().join("pid").exists());
    terminal.types("\x03");
    assert_eq!(terminal.ends(), 130, "{}", terminal.screen());
}

#[test]
fn a_guard_in_the_background_is_not_suspended_by_its_own_warning() {
    let root = Root::used();
    let script = "stty tostop; set -m; \"$@\" & wait $!; echo code $?";
    let guard = ["sh", "-c", script, "sh", LOKT, "guard", "x", "--ttl", "2s", "--on-lost", "stop", "--"];
    let mut terminal = started(&root, "alice", &[&guard, &FOR_EVER[..]].concat()).terminal(200);
    eventually("the command runs", || root.outside().join("pid").exists());
    root.run("bob", "unlock --force x").exits(0, "he may");
    assert!(wait_until(PATIENCE, || terminal.screen().contains("code 79")), "{}", terminal.screen());
    assert!(terminal.screen().contains("was lost"), "it says why: {}", terminal.screen());
}

/// An answer waits for its reader, as that of any command does; but a signal must end that.
#[test]
fn a_command_whose_answer_nobody_reads_is_ended_by_a_signal() {
    let root = Root::used();
    root.run("bob", "lock held").exits(0, "it is free");
    for words in ["lock free --wait --json", "lock held --timeout 10ms --json", "guard held --json -- true"] {
        let (_reads, writes) = full_pipe();
        let running = root.lokt("alice").args(words.split(' ')).answers_to(writes);
        // Time to come to its answer. Where that is too little, this shows nothing, and is told again.
        pause(Duration::from_secs(1));
        let process = lokt_testkit::guarding::Relative::of(i64::from(running.pid()));
        let ended = wait_until(PATIENCE, || {
            process.signal(rustix::process::Signal::TERM);
            pause(Duration::from_millis(100));
            !process.lives()
        });
        assert!(ended, "{words}: SIGTERM ends it");
    }
}
