//! **child-counts** at the start of a command: it runs only after its pid was recorded, and not at all if that fails. And the signals that
//! it starts with.

use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::dice::Dice;
use lokt_testkit::guarding::{CLOSES, Guarding, KEEPS, PATIENCE};
use lokt_testkit::swarm::{pause, wait_until};
use serde_json::Value;

use super::common::grove::Grove;
use super::common::{LOKT, Root};

/// How long strace keeps a child from its next step. Others look at the lock meanwhile, so a loaded machine needs a few seconds.
const DELAY: &str = "delay_enter=6000000";
/// Commands that don't keep the pulse, and the flags of their guards.
const WITHOUT_PULSE: [(&[&str], [&str; 3]); 2] = [(&[], CLOSES), (&["-o"], KEEPS)];

fn used() -> Place {
    let place = Place::new(LOKT);
    assert_eq!(place.run("setup", &["guard", "x", "--", "true"]).code, Some(0), "a fresh root can be used");
    place
}

/// What the pulses say.
fn pulses(place: &Place) -> Vec<Value> {
    let files = std::fs::read_dir(place.root().join("state/held")).into_iter().flatten().flatten();
    files.filter_map(|file| serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok()).collect()
}

#[track_caller]
fn is_refused(place: &Place, context: &str) {
    let tried = place.run("b", &["guard", "x", "--", "true"]);
    assert_eq!(tried.code, Some(2), "child-counts: {context}: {tried:?}");
}

#[test]
fn a_guard_killed_while_its_command_is_started_lets_nobody_in_beside_it() {
    lokt_testkit::need!("strace");
    // The child's only `pwrite64`, which records it; and its second `execve`, the first being that of a directory that isn't there.
    for (call, nth) in [("pwrite64", 1), ("execve", 2)] {
        super::child_counts::each(WITHOUT_PULSE, |(flags, command)| {
            let context = format!("{flags:?} {}, killed at {call}", command[0]);
            let place = used();
            let path = std::env::vars().find_map(|(name, path)| (name == "PATH").then_some(path));
            let path = format!("PATH=/nowhere:{}", path.expect("it is set"));
            let inject = format!("inject={call}:{DELAY}:when={nth}");
            let wrap = ["env", &path, "strace", "-f", "--detach-on=execve", "-o", "/dev/null", "-e", &inject];
            let mut held = Guarding::start(&place, "a", &wrap, &[&["x"], flags].concat(), &command);
            let is_recorded = || pulses(&place).iter().any(|pulse| pulse["command"].is_object());
            let guard = || pulses(&place).iter().find_map(|pulse| pulse["process"]["pid"].as_i64());
            assert!(wait_until(PATIENCE, || guard().is_some()), "{context}: it holds the lock");
            let guard = lokt_testkit::guarding::Relative::of(guard().expect("it was there"));
            assert!(wait_until(PATIENCE, || !held.children(&guard).is_empty()), "{context}: there is a child");
            if call == "execve" {
                assert!(wait_until(PATIENCE, is_recorded), "{context}: it is recorded before it is the command");
            }
            let child = held.children(&guard).remove(0);
            guard.end();
            is_refused(&place, &format!("{context}: it isn't the command yet"));
            assert_eq!(is_recorded(), call == "execve", "{context}: so far it has come");
            assert!(child.lives(), "{context}: it goes on");
            held.runs();
            is_refused(&place, &format!("{context}: it is the command"));
            assert!(child.lives(), "{context}: all that time");
            held.tell();
            let is_free = || place.run("b", &["guard", "x", "--", "true"]).code == Some(0);
            assert!(wait_until(PATIENCE, is_free), "crash-frees: {context}: then it is free");
            held.ends();
        });
    }
}

/// Ctrl-Z at that moment would stop a child for which its guard waits, and nothing but a kill would end that.
#[test]
fn a_stop_while_the_command_is_started_does_not_stop_it_for_ever() {
    lokt_testkit::need!("strace");
    let place = used();
    let wrap =
        ["strace", "-f", "--detach-on=execve", "-o", "/dev/null", "-e", "inject=pwrite64:delay_enter=3000000:when=1"];
    let mut held = Guarding::start(&place, "a", &wrap, &["x"], &KEEPS);
    let guard = || pulses(&place).iter().find_map(|pulse| pulse["process"]["pid"].as_i64());
    assert!(wait_until(PATIENCE, || guard().is_some()), "it holds the lock");
    let guard = lokt_testkit::guarding::Relative::of(guard().expect("it was there"));
    assert!(wait_until(PATIENCE, || !held.children(&guard).is_empty()), "there is a child");
    held.children(&guard).remove(0).signal(rustix::process::Signal::TSTP);
    held.runs();
    held.tell();
    held.ends();
}

#[test]
fn guards_killed_at_any_moment_leave_no_command_beside_the_next_one() {
    let place = used();
    let mut dice = Dice::new(16);
    let mut ran = 0;
    for round in 0..150 {
        let script = ["sh", "-c", "echo $$; read line"];
        let mut held = Guarding::start(&place, "a", &[], &["x", "-o"], &script);
        pause(Duration::from_micros(500 + dice.below(5_500)));
        held.itself().kill();
        held.ends();
        // Without a command nobody has the pipe, and it ends.
        let Some(pid) = held.line_within(PATIENCE) else { continue };
        ran += 1;
        is_refused(&place, &format!("round {round}: the command {pid} of a killed guard runs"));
        held.tell();
        let is_free = || place.run("b", &["guard", "x", "--", "true"]).code == Some(0);
        assert!(wait_until(PATIENCE, is_free), "crash-frees: round {round}: then it is free");
    }
    assert!(ran > 0, "some commands outlived their guards");
}

#[test]
fn a_command_whose_pid_cannot_be_recorded_is_not_run() {
    lokt_testkit::need!("strace");
    for (error, flags, nth) in [("ENOSPC", ["x"].as_slice(), 1), ("EIO", &["x", "-o"], 1), ("ENOSPC", &["x", "y"], 2)] {
        let place = used();
        let inject = format!("inject=pwrite64:error={error}:when={nth}");
        let strace = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let guard = [&["guard"], flags, &["--", "touch", "ran"]].concat();
        let ended = place.run_words("a", &[&strace, place.words(&guard).as_slice()].concat());
        assert_eq!(ended.code, Some(1), "{flags:?}: {ended:?}");
        assert!(ended.stderr.contains("error: touch was not run: its pid could not be recorded"), "{ended:?}");
        assert!(ended.stderr.contains("the lock was given back"), "{ended:?}");
        assert!(!place.beside("ran").exists(), "{flags:?}: it was not run");
        assert_eq!(place.run("b", &["guard", "x", "y", "--", "true"]).code, Some(0), "{flags:?}: the locks are free");
    }
}

#[test]
fn a_lease_whose_command_cannot_be_recorded_is_given_back() {
    lokt_testkit::need!("strace");
    let grove = Grove::new();
    let strace = "-f -o /dev/null -e inject=pwrite64:error=ENOSPC:when=1";
    let call = grove.call("strace").args(strace.split(' ')).args([LOKT]).env("LOKT_OWNER", "alice");
    let said = call.args(["lease", "run", "--", "touch", "ran"]).run().exits(1, "its pid can't be recorded");
    said.notes("touch was not run: its pid could not be recorded", "it says so")
        .notes("the lease was given back", "too");
    assert!(!grove.top().join("ran").exists(), "it was not run");
    assert_eq!(grove.state("main"), "free");
}

#[test]
fn a_command_ignores_closed_pipes_if_the_caller_does_and_otherwise_dies_of_them() {
    let grove = Grove::new();
    let root = Root::used();
    let script = "grep SigIgn /proc/self/status | grep -o '[0-9a-f]*$'";
    for (ignore, expected) in [(true, "1000\n"), (false, "0000\n")] {
        let env = if ignore { "--ignore-signal=PIPE" } else { "--default-signal=PIPE" };
        let guarded = root.call("env").args([env, LOKT, "guard", "x", "--", "sh", "-c", script]).env("LOKT_OWNER", "a");
        let leased =
            grove.call("env").args([env, LOKT, "lease", "run", "--", "sh", "-c", script]).env("LOKT_OWNER", "a");
        for call in [guarded, leased] {
            let said = call.run().exits(0, "it runs");
            assert!(said.stdout.ends_with(expected), "ignored by the caller: {ignore}: {said}");
        }
    }
    let text = "yes | head -1; echo ${PIPESTATUS[0]}";
    let call = |env: &str| {
        let words = [env, LOKT, "guard", "x", "--", "bash", "-c", text];
        root.call("env").args(words).env("LOKT_OWNER", "a").run().exits(0, "it runs").stdout
    };
    assert_eq!(call("--default-signal=PIPE"), "y\n141\n", "as without a guard");
    assert_eq!(call("--ignore-signal=PIPE"), "y\n1\n", "as without a guard");
}
