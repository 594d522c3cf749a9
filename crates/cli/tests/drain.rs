//! `freeze --drain`: frozen first, then it is waited until no process runs under the lock.

use std::time::Duration;

use lokt_testkit::swarm::{pause, wait_until};
use rustix::process::{Signal, kill_process};

use crate::common::guards::Guard;
use crate::common::{Root, Running, eventually, pid_of};

/// Starts `lokt freeze WORDS` and waits until the name is frozen.
fn draining(root: &Root, words: &str) -> Running {
    let running = root.lokt("ops").args(["freeze"]).args(words.split_whitespace()).start();
    let name = words.split_whitespace().next().expect("a name comes first");
    let path = root.path().join(format!("freezes/{name}.json"));
    eventually("it is frozen before anything is waited for", || path.exists());
    running
}

/// It is still waited for, after a while in which it would have noticed.
fn still_waits(running: &Running) {
    pause(Duration::from_millis(1200));
    assert!(!running.has_ended(), "it waits for what runs");
}

#[test]
fn a_drain_ends_when_the_running_guard_does() {
    for words in ["x --drain", "x --drain --json"] {
        let root = Root::new();
        let guard = Guard::start(&root, "a", "x");
        let drain = draining(&root, words);
        still_waits(&drain);
        root.run("b", "guard x -- true").exits(2, "nobody new gets in meanwhile");
        guard.exit(0).exits(0, "what runs goes on to its end");
        let said = drain.wait().exits(0, "then it is empty");
        if words.contains("json") {
            let json = said.json();
            assert_eq!((&json["drained"], &json["held"]), (&true.into(), &false.into()), "{json}");
        } else {
            said.says("frozen \"x\"\n", "the answer")
                .notes("frozen; waiting for a", "whom it waits for")
                .notes("drained: no process runs under \"x\"", "and that it is over");
        }
        root.run("b", "guard x -- true").exits(2, "it is frozen still");
    }
}

#[test]
fn a_drain_of_what_nobody_runs_under_ends_at_once() {
    let root = Root::new();
    let said = root.run("ops", "freeze x --drain").exits(0, "nothing is there to wait for");
    said.notes("drained: no process runs under \"x\"", "it says so");
    root.run("ops", "unfreeze x").exits(0, "it is ours");
    root.run("a", "lock x").exits(0, "it is free");
    let said = root.run("ops", "freeze x --drain").exits(0, "a lock has no process to wait for");
    said.notes("note: the lock is still held by a", "but it is told");
    root.run("a", "unlock x").exits(0, "which goes on under a freeze");
}

#[test]
fn a_drain_waits_for_an_expired_guard_whose_process_runs_on() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s");
    guard.stop();
    eventually("its lease is over", || root.run("b", "exists x").code == 3);
    let drain = draining(&root, "x --drain");
    still_waits(&drain);
    guard.signal(Signal::CONT);
    guard.exit(0);
    drain.wait().exits(0, "then it is empty");
}

#[test]
fn child_counts_a_drain_waits_for_the_command_of_a_guard_that_was_killed() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let command = guard.command();
    guard.signal(Signal::KILL);
    eventually("its guard is gone", || root.run("b", "why x").stdout.contains("guard"));
    let drain = draining(&root, "x --drain");
    still_waits(&drain);
    kill_process(pid_of(command), Signal::KILL).expect("it runs");
    drain.wait().exits(0, "then it is empty");
}

#[test]
fn a_drain_that_takes_too_long_is_a_two_and_it_stays_frozen() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let said = root.run("ops", "freeze x --drain --timeout 300ms").exits(2, "it still runs");
    said.says("frozen \"x\"\n", "it is frozen all the same")
        .notes("error: timeout: still running: a", "what runs")
        .notes("\"x\" stays frozen", "and that it is");
    let json = root.run("ops", "freeze x --drain --timeout 300ms --json").exits(2, "it still runs").json();
    assert_eq!((&json["drained"], &json["held"]), (&false.into(), &true.into()), "{json}");
    assert_eq!(json["holder_owner"], "a", "who: {json}");
    root.run("b", "guard x -- true").exits(2, "it is frozen");
    guard.exit(0).exits(0, "it ends");
    root.run("b", "guard x -- true").exits(2, "it is frozen still");
}

#[test]
fn a_drain_that_is_interrupted_leaves_it_frozen() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let root = Root::new();
        let guard = Guard::start(&root, "a", "x");
        let drain = draining(&root, "x --drain");
        // Until it has said that it waits, nobody is there who would turn a signal into an answer.
        assert!(wait_until(Duration::from_secs(10), || drain.sleeps()), "it sleeps");
        kill_process(pid_of(drain.pid()), signal).expect("it waits");
        let said = drain.wait().exits(code, "128 and the signal");
        said.notes("interrupted: still running: a", "what runs").notes("\"x\" stays frozen", "and that it is frozen");
        root.run("b", "guard x -- true").exits(2, "it is frozen");
        guard.exit(0).exits(0, "what runs was not touched");
    }
}

/// frozen-means-frozen: "nobody runs" is worth nothing when everybody may come in again.
#[test]
fn a_freeze_that_ends_before_what_runs_under_it_is_not_called_drained() {
    for json in [false, true] {
        let root = Root::new();
        let guard = Guard::start(&root, "a", "x");
        let words = if json { "freeze x --ttl 1s --drain --json" } else { "freeze x --ttl 1s --drain" };
        let said = root.run("ops", words).exits(5, "the freeze is over, and something still runs");
        if json {
            assert_eq!(said.failure(), "E_LOCK_EXPIRED");
        } else {
            said.notes("error: the freeze of \"x\" ended before what runs under it did", "it says so")
                .notes("hint: `lokt freeze x --drain` with a longer --ttl", "and what to do");
        }
        guard.exit(0).exits(0, "it ends");
        root.run("b", "guard x -- true").exits(0, "it is not frozen any more");
    }
}

#[test]
fn a_drain_ends_when_somebody_ends_the_freeze() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let drain = draining(&root, "x --drain");
    root.run("boss", "unfreeze x --force").exits(0, "force ends it");
    drain.wait().exits(5, "nothing keeps others from coming any more");
    guard.exit(0).exits(0, "it ends");
}

#[test]
fn a_drain_counts_nothing_but_the_lock_itself() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "y");
    root.run("ops", "freeze x --drain").exits(0, "another lock is another lock");
    guard.exit(0).exits(0, "it ends");
}
