//! `--on-lost`: a guard that stood still beyond its lease while another entered.

use std::time::Duration;

use lokt_testkit::swarm::pause;
use rustix::process::Signal;

use crate::common::guards::{Guard, leftovers};
use crate::common::{Root, eventually, now};

/// Starts a guard with these words, stops it beyond its lease, lets `other` enter and continues it.
fn overtaken(root: &Root, words: &str, traps: &str) -> (Guard, Guard) {
    let mut guard = Guard::start(root, "a", &format!("x --ttl 1s {words}"));
    guard.does(traps);
    guard.stop();
    let other = Guard::ask(root.lokt("other"), "x --wait");
    // It enters when the lease is over, although the command still runs.
    other.runs();
    guard.signal(Signal::CONT);
    (guard, other)
}

/// The other's hold is its own to the end.
fn untouched(root: &Root, other: Guard) {
    assert_eq!(root.record("x")["pid"], other.pid(), "the other has it");
    let record = root.record_text("x");
    root.run("c", "lock x").exits(2, "it is held");
    assert_eq!(root.record_text("x"), record, "and untouched");
    let said = other.exit(0).exits(0, "the other never noticed");
    assert!(!said.stderr.contains("warning"), "the other never noticed{said}");
    assert_eq!(leftovers(root), Vec::<String>::new(), "nothing is left of either");
    let events = root.events_of("x");
    assert_eq!(events.iter().filter(|event| *event == "release").count(), 1, "only the other released it: {events:?}");
    assert!(events.contains(&"auto-prune".to_owned()), "the lease that ran out is audited: {events:?}");
}

#[test]
fn on_lost_fail_is_the_default_and_turns_success_into_79() {
    for words in ["", "--on-lost fail", "--on-lost=fail"] {
        let root = Root::new();
        let (mut guard, other) = overtaken(&root, words, "true");
        guard.warns("warning: lock \"x\" was lost: now held by other (agent: ", "it names the new holder");
        guard.warns("; the command goes on, and its success will be exit code 79\n", "and says what follows");
        guard.does("echo 'still here'");
        guard.exit(0).exits(79, "a success under a lost lock is none");
        untouched(&root, other);
    }
}

#[test]
fn on_lost_fail_passes_on_a_code_of_the_commands_own() {
    let root = Root::new();
    let (guard, other) = overtaken(&root, "--on-lost fail", "true");
    guard.warns("was lost: now held by other", "it is noticed");
    guard.exit(7).exits(7, "it failed for a reason of its own");
    untouched(&root, other);
}

#[test]
fn on_lost_fail_passes_on_the_signal_that_ended_the_command() {
    let root = Root::new();
    let (mut guard, other) = overtaken(&root, "", "true");
    guard.warns("was lost: now held by other", "it is noticed");
    guard.tell("kill -KILL $$");
    guard.wait().exits(137, "it died of a signal");
    untouched(&root, other);
}

#[test]
fn on_lost_warn_passes_on_whatever_the_command_says() {
    for code in [0, 7] {
        let root = Root::new();
        let (guard, other) = overtaken(&root, "--on-lost warn", "true");
        guard.warns("warning: lock \"x\" was lost: now held by other", "it is said all the same");
        let said = guard.exit(code).exits(code.into(), "the command's code");
        assert!(said.stderr.contains("; the command goes on\n"), "it says what follows{said}");
        untouched(&root, other);
    }
}

#[test]
fn on_lost_stop_ends_the_command_with_term() {
    let root = Root::new();
    let (guard, other) = overtaken(&root, "--on-lost stop", "trap 'echo TERM arrived; exit 0' TERM");
    let said = guard.wait_for_end().exits(79, "whatever the command made of it");
    assert!(said.stdout.contains("TERM arrived\n"), "the command could tidy up{said}");
    assert!(said.stderr.contains("; the command is being stopped\n"), "it says what follows{said}");
    untouched(&root, other);
}

#[test]
fn on_lost_stop_ends_what_the_command_started_too() {
    // Also who doesn't listen, when the command itself does.
    for starts in ["sleep 60 &", "(trap '' TERM; exec sleep 60) &"] {
        let root = Root::new();
        let (guard, other) = overtaken(&root, "--on-lost stop", &format!("{starts} echo \"started $!.\""));
        let pid = guard.stdout().split("started ").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        let started = pid.expect("a pid");
        guard.wait_for_end().exits(79, "it was lost");
        eventually("the whole group is ended", || {
            let stat = std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
            !stat.contains("(sleep)") || stat.contains(") Z")
        });
        untouched(&root, other);
    }
}

#[test]
fn on_lost_stop_kills_after_five_seconds_who_does_not_listen() {
    let root = Root::new();
    let (guard, other) = overtaken(&root, "--on-lost stop", "trap '' TERM");
    guard.warns("; the command is being stopped\n", "it is told to end");
    let began = now();
    guard.wait_for_end().exits(79, "and is killed");
    let lasted = now().duration_since(began).as_secs_f64();
    assert!((2.0..50.0).contains(&lasted), "after five seconds, not {lasted}");
    untouched(&root, other);
}

#[test]
fn on_lost_stop_that_loses_nothing_passes_on_the_commands_code() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s --on-lost stop");
    pause(Duration::from_millis(1_200));
    let said = guard.exit(7).exits(7, "the command's code");
    assert!(!said.stderr.contains("lost"), "nothing was lost{said}");
}

#[test]
fn a_loss_is_noticed_at_the_release_at_the_latest() {
    for (words, code) in [("", 79), ("--on-lost warn", 0), ("--on-lost stop", 79)] {
        let root = Root::new();
        let mut guard = Guard::start(&root, "a", &format!("x {words}"));
        // While it stands still, so that no look comes before the command's end.
        guard.stop();
        root.run("b", "unlock --force x").exits(0, "force takes everything");
        root.run("b", "lock x").exits(0, "it is free");
        let command = guard.command();
        guard.tell("exit 0");
        eventually("the command ends", || std::fs::read_link(format!("/proc/{command}/exe")).is_err());
        guard.signal(Signal::CONT);
        let said = guard.wait().exits(code, words);
        assert!(said.stderr.contains("warning: lock \"x\" was lost: now held by b "), "it is said{said}");
        assert_eq!(root.record("x")["owner"], "b", "the other's hold is untouched");
    }
}

#[test]
fn a_waiter_enters_at_once_when_the_lease_of_a_stopped_guard_is_over() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 2s");
    guard.stop();
    let began = now();
    let other = Guard::ask(root.lokt("other"), "x --wait");
    other.runs();
    let waited = now().duration_since(began).as_secs_f64();
    assert!(waited < 20.0, "the lease of two seconds was over after {waited} s");
    guard.signal(Signal::CONT);
    guard.warns("was lost: now held by other", "it is noticed");
    let holder = root.record("x");
    assert_eq!(holder["pid"], other.pid(), "the other has it");
    guard.exit(0).exits(79, "it was lost");
    other.exit(0).exits(0, "the other never noticed");
}
