//! **child-counts**: while the command of a guard runs, nobody else enters, whatever becomes of the guard.

use std::thread;
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::guarding::{CLOSES, Guarding, KEEPS, LEAVES, PATIENCE, Relative};
use lokt_testkit::swarm::{Ended, pause, wait_until};
use serde_json::Value;

use crate::common::LOKT;

/// What the kernel wakes takes a few milliseconds, and a few seconds where a hundred others want the processor. That it is the kernel
/// who wakes them, and not their own look after a second, ten thousand kills show (`guard_killed`).
pub(crate) const AT_ONCE: Duration = Duration::from_secs(10);
/// Long enough for a waiter that would enter wrongly.
const A_WHILE: Duration = Duration::from_millis(300);

/// What a command can make of what it inherits, and the flags of its guard.
const COMMANDS: [(&str, &[&str], &[&str]); 4] = [
    ("a command that keeps the pulse", &[], &KEEPS),
    ("a command that closes the pulse", &[], &CLOSES),
    ("a command that doesn't get the pulse", &["-o"], &KEEPS),
    ("a command that closes the pulse, with a child that doesn't", &[], &LEAVES),
];

fn place() -> Place {
    Place::new(LOKT)
}

/// Checks all cases beside each other: most of their time is waiting.
pub(crate) fn each<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

fn guard(place: &Place, owner: &str, flags: &[&str], command: &[&str]) -> Guarding {
    Guarding::start(place, owner, &[], &[&["x"], flags].concat(), command)
}

/// Somebody in line, asleep.
fn waiter(place: &Place) -> Guarding {
    let mut waiter = guard(place, "waiter", &["--timeout", "60s"], &KEEPS);
    waiter.waits();
    waiter
}

pub(crate) fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[track_caller]
fn is_refused(place: &Place, context: &str) {
    let tried = place.run("thief", &["guard", "x", "--", "true"]);
    assert_eq!(tried.code, Some(2), "child-counts: {context}: {tried:?}");
    let tried = place.run("thief", &["lock", "x"]);
    assert_eq!(tried.code, Some(2), "child-counts: {context}: {tried:?}");
}

#[test]
fn while_the_command_of_a_killed_guard_runs_nobody_enters_and_then_the_first_in_line_does_at_once() {
    each(COMMANDS, |(title, flags, command)| {
        let place = place();
        let mut held = guard(&place, "a", flags, command);
        held.runs();
        let (guard, child) = held.pair(LOKT);
        let heirs = held.children(&child);
        let mut waiter = waiter(&place);
        is_refused(&place, &format!("{title}, guard alive"));

        guard.end();
        is_refused(&place, &format!("{title}, guard killed"));
        let status = json(&place.run("b", &["status", "x", "--json"]));
        assert_eq!(status["liveness"], "orphan", "{title}: status tells: {status}");
        let list = place.run("b", &["status"]);
        assert!(list.stdout.contains("[ORPHAN]"), "{title}: the list marks it: {}", list.stdout);
        let why = place.run("b", &["why", "x"]);
        assert!(why.stdout.contains("its guard is gone, the command still runs"), "{title}: why says so: {why:?}");
        let named = format!("(pid {})", child.pid);
        assert!(why.stdout.contains(&named), "{title}: why names {named:?}, which still holds it: {}", why.stdout);
        let why = json(&place.run("b", &["why", "x", "--json"]));
        let held = &why["reasons"][0];
        assert_eq!(held["liveness"], "orphan", "{title}: in JSON too: {why}");
        let kept = held["kept_by"].as_array().expect("it is a list");
        assert!(kept.iter().any(|one| one["pid"] == child.pid), "{title}: with what keeps it: {why}");
        assert_eq!(waiter.line_within(A_WHILE), None, "child-counts: {title}: who waits doesn't enter either");

        let mut last = child;
        if let [heir] = heirs.as_slice() {
            last.end();
            is_refused(&place, &format!("{title}: the child of the command keeps it"));
            let status = json(&place.run("b", &["status", "x", "--json"]));
            assert_eq!(status["liveness"], "orphan", "{title}: {status}");
            assert_eq!(waiter.line_within(A_WHILE), None, "child-counts: {title}: who waits doesn't enter either");
            last = heir.clone();
        }
        assert!(last.lives(), "{title}: what kept the lock still runs");
        last.kill();
        assert!(waiter.line_within(AT_ONCE).is_some(), "crash-frees: {title}: the first in line enters at once");
        // The kernel closes what a process had before it counts as ended, and may do something else in between.
        let has_ended = wait_until(A_WHILE, || !last.lives());
        assert!(has_ended, "child-counts: {title}: when the next one runs, the last one has ended");
        waiter.tell();
        assert_eq!(waiter.ends().code(), Some(0), "{title}: its command ran");
        assert_eq!(place.stored("x"), None, "{title}: and gave it back");
    });
}

#[test]
fn the_lease_of_a_killed_guard_ends_although_its_command_runs() {
    each(COMMANDS, |(title, flags, command)| {
        let place = place();
        let mut held = guard(&place, "a", &[flags, &["--ttl", "6s"]].concat(), command);
        held.runs();
        let (guard, child) = held.pair(LOKT);
        let mut waiter = waiter(&place);
        guard.end();
        is_refused(&place, &format!("{title}: the lease isn't over"));
        // It was renewed after three seconds at the latest.
        assert_eq!(waiter.line_within(A_WHILE), None, "child-counts: {title}: as long as the lease lasts");
        assert!(waiter.line_within(PATIENCE).is_some(), "{title}: then the next one enters");
        assert!(child.lives(), "{title}: although the command still runs");
        let record = place.stored("x").expect("it is held");
        assert_eq!(record["owner"], "waiter", "{title}: by who waited");
    });
}

#[test]
fn a_living_guard_keeps_its_lease_beyond_its_ttl_and_the_end_of_its_command_gives_it_back() {
    each(COMMANDS, |(title, flags, command)| {
        let place = place();
        let mut held = guard(&place, "a", &[flags, &["--ttl", "4s"]].concat(), command);
        held.runs();
        pause(Duration::from_secs(5));
        is_refused(&place, &format!("{title}: it is renewed"));
        let (_, child) = held.pair(LOKT);
        let heirs = held.children(&child);
        let mut waiter = waiter(&place);
        child.kill();
        assert!(waiter.line_within(AT_ONCE).is_some(), "{title}: when the command has ended the next one enters");
        assert!(heirs.iter().all(Relative::lives), "{title}: a daemon that it leaves behind doesn't keep it");
        assert_eq!(held.ends().code(), Some(137), "{title}: a command killed by signal 9 is 137");
    });
}

// --- pid namespaces: the host name is the same, the pids are not

/// A shell that is the first process of a namespace, so that a guard in it can be killed without all the others. The words after
/// it are run.
const NAMESPACES: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "\"$@\"; read line", "sh"],
    &["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "\"$@\"; read line", "sh"],
];

/// Where the holder and where the others are: one of them in a namespace of its own, or each.
fn rooms() -> Vec<(&'static [&'static str], &'static [&'static str])> {
    let mut rooms = Vec::new();
    for namespace in NAMESPACES {
        rooms.push((namespace, [].as_slice()));
        rooms.push(([].as_slice(), namespace));
        rooms.push((namespace, namespace));
    }
    rooms
}

/// Runs `lokt ARGS` as `owner` in a room.
fn run_in(place: &Place, room: &[&str], owner: &str, args: &[&str]) -> Ended {
    let shell: Vec<&str> = room.iter().map(|word| if word.contains("read line") { "\"$@\"" } else { word }).collect();
    place.run_words(owner, &[shell.as_slice(), place.words(args).as_slice()].concat())
}

fn guard_in(place: &Place, room: &[&str], owner: &str, flags: &[&str], command: &[&str]) -> Guarding {
    Guarding::start(place, owner, room, &[&["x"], flags].concat(), command)
}

#[track_caller]
fn is_refused_in(place: &Place, room: &[&str], context: &str) {
    for args in [["guard", "x", "--", "true"].as_slice(), &["lock", "x"], &["unlock", "--break-stale", "x"]] {
        let tried = run_in(place, room, "thief", args);
        let refused = if args[0] == "unlock" { 1 } else { 2 };
        assert_eq!(tried.code, Some(refused), "one-holder: {context}: {args:?}: {tried:?}");
    }
}

/// A way into the room of a guard that runs in `room`.
fn way_into(room: &[&str], held: &mut Guarding) -> Vec<String> {
    if room.is_empty() {
        return Vec::new();
    }
    let itself = held.itself();
    let first = held.children(&itself).remove(0);
    let mount = room.contains(&"--mount-proc").then_some("--mount".to_owned());
    let words = ["nsenter".to_owned(), "--target".to_owned(), first.pid.to_string(), "--pid".to_owned()];
    words.into_iter().chain(mount).collect()
}

#[test]
fn a_guard_in_another_pid_namespace_is_never_broken_and_its_end_is_noticed_where_it_can_be_seen() {
    lokt_testkit::need!(root);
    each(rooms(), |(here, there)| {
        let context = format!("the holder in {here:?}, the others in {there:?}");
        let place = place();
        let mut held = guard_in(&place, here, "a", &[], &KEEPS);
        held.runs();
        let (guard, child) = held.pair(LOKT);
        let into = way_into(here, &mut held);
        let into: Vec<&str> = into.iter().map(String::as_str).collect();
        let mut beside = guard_in(&place, &into, "beside", &["--timeout", "60s"], &KEEPS);
        beside.waits();
        let mut elsewhere = guard_in(&place, there, "elsewhere", &["--timeout", "60s"], &KEEPS);
        elsewhere.waits();
        is_refused_in(&place, there, &format!("{context}, guard alive"));
        guard.end();
        is_refused_in(&place, there, &format!("{context}, guard killed"));
        assert_eq!(beside.line_within(A_WHILE), None, "child-counts: {context}: the command runs");
        assert_eq!(elsewhere.line_within(Duration::ZERO), None, "child-counts: {context}: the command runs");
        child.kill();
        assert!(beside.line_within(AT_ONCE).is_some(), "crash-frees: {context}: who is beside it enters at once");
        beside.tell();
        assert!(elsewhere.line_within(AT_ONCE).is_some(), "{context}: what is given back is seen from everywhere");
    });
}

/// Are the processes of other namespaces seen from there? On the host they are, and where the host's `/proc` is still mounted.
fn sees_others(room: &[&str]) -> bool {
    !room.contains(&"--mount-proc")
}

#[test]
fn crash_frees_also_for_those_who_wait_in_another_pid_namespace() {
    lokt_testkit::need!(root);
    each(rooms(), |(here, there)| {
        for command in [&KEEPS, &CLOSES] {
            let context = format!("the holder in {here:?}, the others in {there:?}");
            let place = place();
            let mut held = guard_in(&place, here, "a", &[], command);
            held.runs();
            let (guard, child) = held.pair(LOKT);
            let mut waiter = guard_in(&place, there, "waiter", &["--timeout", "60s"], &KEEPS);
            waiter.waits();
            guard.end();
            child.end();
            let entered = waiter.line_within(if sees_others(there) { AT_ONCE } else { A_WHILE }).is_some();
            assert_eq!(entered, sees_others(there), "crash-frees: {context}: who can see that both are gone enters");
            if !entered {
                // What can't be told counts as alive; without a lease only a word from outside helps.
                assert_eq!(run_in(&place, there, "b", &["unlock", "--force", "x"]).code, Some(0), "{context}");
                assert!(waiter.line_within(AT_ONCE).is_some(), "{context}: force is the way out");
            }
        }
    });
}

#[test]
fn a_command_in_another_pid_namespace_that_closed_the_pulse_counts_while_it_runs_or_its_lease_does() {
    lokt_testkit::need!(root);
    each(rooms(), |(here, there)| {
        let context = format!("the holder in {here:?}, the others in {there:?}");
        let place = place();
        let mut held = guard_in(&place, here, "a", &["--ttl", "20s"], &CLOSES);
        held.runs();
        let (guard, child) = held.pair(LOKT);
        guard.end();
        let status = json(&run_in(&place, there, "b", &["status", "x", "--json"]));
        let expected = if sees_others(there) { "orphan" } else { "unknown" };
        assert_eq!(status["liveness"], expected, "{context}: {status}");
        is_refused_in(&place, there, &format!("{context}: it runs, or may"));
        let mut waiter = guard_in(&place, there, "waiter", &["--timeout", "60s"], &KEEPS);
        waiter.waits();
        assert_eq!(waiter.line_within(A_WHILE), None, "child-counts: {context}");
        child.end();
        let limit = if sees_others(there) { AT_ONCE } else { PATIENCE };
        assert!(waiter.line_within(limit).is_some(), "{context}: its end, or that of its lease, frees the lock");
    });
}
