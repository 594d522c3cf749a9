//! **frozen-means-frozen**: nothing is granted under a freeze, also not to those who waited before it came; what holds a lock goes on.
//! Real processes, delayed and killed at each of their system calls.

use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::line::{Process, in_line, served};
use lokt_testkit::strace::{Call, calls, delayed_at, killed_at};
use lokt_testkit::swarm::{Ended, in_parallel, pause};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::common::guards::{Guard, leftovers};
use crate::common::{LOKT, Root, eventually, go_lease, remove};

/// Long enough for a waiter to do what it must not do: it looks once a second.
const A_WHILE: Duration = Duration::from_millis(1500);
/// How long a process is held up. The other one needs about 10 ms.
const DELAY_MS: u64 = 300;
/// How many windows are open at a time; most of that time is sleep.
const AT_ONCE: usize = 8;

const WAITER: [&str; 6] = [LOKT, "guard", "x", "--wait", "--", "true"];

/// Three in line behind a guard, in the order of their names.
fn guard_and_line(root: &Root) -> (Guard, Vec<Process>) {
    let guard = Guard::start(root, "holder", "x");
    let waiters = ["w1", "w2", "w3"].map(|owner| in_line(&root.path(), "x", owner, &WAITER));
    (guard, waiters.into())
}

fn nobody_runs(root: &Root, waiters: &mut [Process]) {
    pause(A_WHILE);
    assert_eq!(served(&root.path(), "x"), ["holder"], "frozen-means-frozen: nobody was let in");
    assert!(waiters.iter_mut().all(|waiter| !waiter.is_over()), "and those in line wait on");
}

fn all_run_in_order(root: &Root, waiters: Vec<Process>) {
    for waiter in waiters {
        assert_eq!(waiter.end().code, Some(0), "on unfreeze they go on");
    }
    assert_eq!(served(&root.path(), "x"), ["holder", "w1", "w2", "w3"], "in-order: as they came");
    let denied = root.events_of("x").into_iter().filter(|event| event.contains("deny")).count();
    assert_eq!(denied, 0, "whoever is granted in the end was not denied");
}

#[test]
fn waiters_stay_in_line_under_a_freeze_and_go_on_in_order_when_it_is_lifted() {
    let root = Root::new();
    let (guard, mut waiters) = guard_and_line(&root);
    root.run("ops", "freeze x --ttl 10m").exits(0, "it may be frozen while it is held");
    guard.exit(0).exits(0, "what holds it goes on to its end");
    nobody_runs(&root, &mut waiters);
    root.run("late", "guard x -- true").exits(2, "whoever comes is refused");
    root.run("ops", "unfreeze x").exits(0, "it is ours");
    for waiter in waiters {
        assert_eq!(waiter.end().code, Some(0), "on unfreeze they go on");
    }
    assert_eq!(served(&root.path(), "x"), ["holder", "w1", "w2", "w3"], "in-order: as they came");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn waiters_go_on_in_order_when_a_freeze_expires() {
    let root = Root::new();
    let (guard, waiters) = guard_and_line(&root);
    root.run("ops", "freeze x --ttl 2s").exits(0, "it may be frozen while it is held");
    guard.exit(0).exits(0, "it ends");
    all_run_in_order(&root, waiters);
}

#[test]
fn an_extension_keeps_those_in_line_who_knew_of_an_earlier_end() {
    let root = Root::new();
    let (guard, mut waiters) = guard_and_line(&root);
    root.run("ops", "freeze x --ttl 1s").exits(0, "it is free of freezes");
    guard.exit(0).exits(0, "it ends");
    root.run("ops", "freeze x --ttl 10m").exits(0, "its owner extends it, or freezes again");
    if served(&root.path(), "x") == ["holder"] {
        nobody_runs(&root, &mut waiters);
        root.run("ops", "unfreeze x").exits(0, "it is ours");
        all_run_in_order(&root, waiters);
    }
}

/// Something that stands where a freeze should be, and how it is put there.
type Odd = (&'static str, fn(&Root));

#[test]
fn what_cannot_be_read_counts_as_a_freeze_for_waiters_too() {
    let odd: [Odd; 4] = [
        ("garbage", |root| root.put("freezes/x.json", "garbage")),
        ("a newer record", |root| root.put("freezes/x.json", r#"{"version": 7}"#)),
        ("a directory", |root| fs::create_dir_all(root.path().join("freezes/x.json")).expect("it is new")),
        ("a FIFO", |root| {
            fs::create_dir_all(root.path().join("freezes")).expect("it is ours");
            mkfifoat(CWD, root.path().join("freezes/x.json"), Mode::RUSR).expect("it is new");
        }),
    ];
    for (what, make) in odd {
        let root = Root::new();
        let guard = Guard::start(&root, "holder", "x");
        let mut waiter = [in_line(&root.path(), "x", "w1", &WAITER)];
        make(&root);
        guard.exit(0).exits(0, "it ends");
        nobody_runs(&root, &mut waiter);
        root.run("ops", "unfreeze x --force").exits(0, &format!("{what}: force moves it aside"));
        let [waiter] = waiter;
        assert_eq!(waiter.end().code, Some(0), "{what}: then they go on");
    }
}

#[test]
fn a_freeze_of_an_old_program_keeps_waiters_too_and_its_end_is_noticed() {
    for by_hand in [false, true] {
        let root = Root::new();
        let guard = Guard::start(&root, "holder", "x");
        let mut waiter = [in_line(&root.path(), "x", "w1", &WAITER)];
        root.put_record("freeze-x", &go_lease("freeze-x", "ops", 600, 600));
        guard.exit(0).exits(0, "it ends");
        nobody_runs(&root, &mut waiter);
        if by_hand {
            remove(&root.record_path("freeze-x"));
        } else {
            root.run("ops", "unfreeze x").exits(0, "it is ours");
        }
        let [waiter] = waiter;
        assert_eq!(waiter.end().code, Some(0), "by hand {by_hand}: then they go on");
    }
}

#[test]
fn what_lives_goes_on_under_a_freeze() {
    let root = Root::new();
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    root.run("ops", "freeze x").exits(0, "it may be frozen while it is held");
    let first = root.record("x");
    root.run("a", "lock x --ttl 9m").exits(0, "a live hold is refreshed");
    assert_eq!(root.record("x")["lock_id"], first["lock_id"], "it is the same hold");
    root.run("a", "guard x -- true").exits(2, "but no command is started, also not under one's own lock");
    root.run("a", "run x -- true").exits(2, "whatever the command is called");
    root.run("a", "unlock x").exits(0, "whoever leaves is let go");
    root.run("a", "lock x").exits(2, "and doesn't come back");
}

#[test]
fn a_guard_renews_and_what_is_nested_in_it_runs_under_a_freeze() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "x --ttl 4s");
    root.run("ops", "freeze x").exits(0, "it may be frozen while it is held");
    let acquired = root.record("x")["acquired_ts"].clone();
    eventually("its lease is renewed", || root.record("x")["acquired_ts"] != acquired);
    guard.does(&format!("{LOKT} guard x -- echo nested-ran"));
    guard.heard("nested-ran");
    guard.does(&format!("env -u LOKT_HOLDS {LOKT} guard x -- echo outside-ran; echo code-$?"));
    guard.heard("code-2");
    assert!(!guard.stdout().contains("outside-ran"), "frozen-means-frozen: without its inherited hold it is anybody");
    guard.exit(7).exits(7, "the command's own code");
    assert!(!root.has_record("x"), "its lock was given back");
}

#[test]
fn several_names_of_which_one_is_frozen_run_nothing_and_keep_nothing() {
    let root = Root::new();
    root.run("ops", "freeze b").exits(0, "it is free");
    for names in ["a b c", "b a", "c b"] {
        let said = root.run("g", &format!("guard {names} -- echo ran")).exits(2, "one of them is frozen");
        assert!(!said.stdout.contains("ran"), "{names}: nothing ran");
        for name in ["a", "b", "c"] {
            assert!(!root.has_record(name), "{names}: {name} is not kept");
        }
    }
    let waiter = Process::start(&root.path(), "w", &[LOKT, "guard", "a", "b", "--wait", "--", "true"]);
    pause(A_WHILE);
    assert_eq!(served(&root.path(), "b"), Vec::<String>::new(), "frozen-means-frozen: it waits");
    root.run("ops", "unfreeze b").exits(0, "it is ours");
    assert_eq!(waiter.end().code, Some(0), "then it runs");
}

#[test]
fn no_timeout_of_a_waiter_ends_a_freeze() {
    let root = Root::new();
    root.run("ops", "freeze x").exits(0, "it is free");
    let said = root.run("w", "guard x --timeout 300ms -- echo ran").exits(2, "it was waited for in vain");
    assert!(!said.stdout.contains("ran"), "nothing ran");
    let json = root.run("w", "lock x --timeout 300ms --json").exits(2, "it was waited for in vain").json();
    assert_eq!(json["code"], "E_FROZEN", "by a freeze: {json}");
    assert_eq!(root.events_of("x"), ["freeze", "freeze-deny", "freeze-deny"], "audited: one event per attempt");
}

// With real processes, at each of their system calls.

fn place() -> Place {
    let place = Place::new(LOKT);
    // What a first command makes is made.
    assert_eq!(place.run("setup", &["guard", "setup", "--", "true"]).code, Some(0), "a fresh root can be used");
    place
}

/// A guard whose command leaves a mark when it starts.
const GUARD: [&str; 6] = ["guard", "x", "--", "sh", "-c", "echo > started"];

/// Every system call of the guard or of the freeze that it makes in a root without a freeze.
fn every_call(args: &[&str]) -> Vec<Call> {
    let place = place();
    let all = calls(&place, "a", args);
    assert!(all.iter().any(|call| call.name == "flock"), "strace sees the mutex");
    all
}

fn events(place: &Place) -> Vec<String> {
    let text = fs::read_to_string(place.root().join("audit.log")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let of_x = events.filter(|event| event["name"] == "x");
    of_x.map(|event| event["event"].as_str().unwrap_or_default().to_owned()).collect()
}

fn is_granted_after_the_freeze(events: &[String]) -> bool {
    let frozen = events.iter().position(|event| event == "freeze");
    frozen.is_some_and(|at| events[at..].iter().any(|event| event == "acquire"))
}

#[test]
fn no_command_starts_after_a_freeze_was_answered_wherever_its_guard_is_held_up() {
    lokt_testkit::need!("strace");
    let (refused, held) = (Mutex::new(0), Mutex::new(0));
    in_parallel(AT_ONCE, every_call(&GUARD), |call| {
        let context = format!("a guard delayed at {}#{}", call.name, call.nth);
        let place = place();
        let started = || place.beside("started").exists();
        let (frozen, before, guard) = std::thread::scope(|scope| {
            let guard = scope.spawn(|| delayed_at(&place, "a", &GUARD, &call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 2));
            let frozen = place.run("ops", &["freeze", "x", "--json"]);
            let before = started();
            (frozen, before, guard.join().expect("it ran"))
        });
        assert_eq!(frozen.code, Some(0), "{context}: {frozen:?}");
        let answer: Value = serde_json::from_str(&frozen.stdout).expect("an answer is JSON");
        let events = events(&place);
        assert!(!is_granted_after_the_freeze(&events), "frozen-means-frozen: {context}: {events:?}");
        if answer["held"] == false && !before {
            assert!(!started(), "frozen-means-frozen: {context}: frozen and empty, then a command started");
            assert_eq!(guard.code, Some(2), "{context}: the guard is refused: {guard:?}");
            *refused.lock().expect("no thread panicked with it") += 1;
        } else {
            assert_eq!(guard.code, Some(0), "{context}: a guard that was first runs: {guard:?}");
            assert!(started(), "{context}: and so does its command");
            *held.lock().expect("no thread panicked with it") += 1;
        }
    });
    let (refused, held) = (refused.into_inner().expect("nobody panicked"), held.into_inner().expect("nobody panicked"));
    assert!(refused > 0 && held > 0, "both orders were seen: {refused} refused, {held} held");
}

#[test]
fn no_command_starts_after_a_freeze_was_answered_wherever_the_freeze_is_held_up() {
    lokt_testkit::need!("strace");
    let order = Mutex::new((0, 0));
    in_parallel(AT_ONCE, every_call(&["freeze", "x", "--json"]), |call| {
        let context = format!("a freeze delayed at {}#{}", call.name, call.nth);
        let place = place();
        let (frozen, meanwhile) = std::thread::scope(|scope| {
            let frozen = scope.spawn(|| delayed_at(&place, "ops", &["freeze", "x", "--json"], &call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 2));
            let meanwhile = place.run("a", &GUARD);
            (frozen.join().expect("it ran"), meanwhile)
        });
        assert_eq!(frozen.code, Some(0), "{context}: {frozen:?}");
        assert!(matches!(meanwhile.code, Some(0 | 2)), "{context}: it runs or is refused: {meanwhile:?}");
        assert_eq!(place.run("b", &GUARD).code, Some(2), "frozen-means-frozen: {context}: after the answer");
        let events = events(&place);
        assert!(!is_granted_after_the_freeze(&events), "frozen-means-frozen: {context}: {events:?}");
        let started = place.beside("started").exists();
        assert_eq!(started, meanwhile.code == Some(0), "{context}: what is refused doesn't run");
        let mut order = order.lock().expect("no thread panicked with it");
        *(if started { &mut order.0 } else { &mut order.1 }) += 1;
    });
    let (ran, refused) = order.into_inner().expect("no thread panicked with it");
    assert!(ran > 0 && refused > 0, "both orders were seen: {ran} ran, {refused} refused");
}

/// Frozen by a whole record of `ops`, or not at all; and whichever it is, the next commands work.
fn is_frozen_or_not(place: &Place, context: &str) -> bool {
    let guard = place.run("a", &GUARD);
    assert!(matches!(guard.code, Some(0 | 2)), "{context}: the next command works: {guard:?}");
    let left: Vec<_> = fs::read_dir(place.root().join("state/tmp")).into_iter().flatten().collect();
    // Whoever is refused tidies nothing.
    assert!(left.is_empty() || guard.code == Some(2), "{context}: temp files are cleaned up: {left:?}");
    let stored = fs::read(place.root().join("freezes/x.json")).ok();
    assert_eq!(guard.code == Some(2), stored.is_some(), "{context}: frozen or not, and nothing in between");
    if let Some(stored) = stored {
        let record: Value = serde_json::from_slice(&stored).expect("whole-records: a freeze is whole");
        assert_eq!(record["owner"], "ops", "{context}: it is whose it was");
        let ended = place.run("ops", &["unfreeze", "x"]);
        assert_eq!(ended.code, Some(0), "{context}: its owner can end it: {ended:?}");
        assert_eq!(place.run("a", &GUARD).code, Some(0), "{context}: and then it is free");
        return true;
    }
    false
}

/// A command that is killed: what it is called, what comes before it, its words.
type Victim = (&'static str, fn(&Place), &'static [&'static str]);

#[test]
fn a_freeze_or_unfreeze_killed_at_any_system_call_leaves_it_frozen_or_not() {
    lokt_testkit::need!("strace");
    let frozen: fn(&Place) = |place| {
        assert_eq!(place.run("ops", &["freeze", "x", "--ttl", "1h"]).code, Some(0), "it is free");
    };
    let victims: [Victim; 4] = [
        ("freeze", |_| {}, &["freeze", "x"]),
        ("extension", frozen, &["freeze", "x", "--ttl", "2h"]),
        ("unfreeze", frozen, &["unfreeze", "x"]),
        ("forced unfreeze", frozen, &["unfreeze", "x", "--force"]),
    ];
    let mut cases = Vec::new();
    for (title, prepare, args) in victims {
        let place = place();
        prepare(&place);
        let all = calls(&place, "ops", args);
        cases.extend(all.into_iter().map(|call| (title, prepare, args, call)));
    }
    let seen = Mutex::new(Vec::new());
    in_parallel(AT_ONCE, cases, |(title, prepare, args, call)| {
        let context = format!("{title} killed at {}#{}", call.name, call.nth);
        let place = place();
        prepare(&place);
        let killed: Ended = killed_at(&place, "ops", args, &call);
        let is_frozen = is_frozen_or_not(&place, &context);
        assert!(is_frozen || title != "extension", "frozen-means-frozen: {context}: an extension never thaws");
        assert!(killed.code != Some(0), "{context}: whoever is killed says nothing: {killed:?}");
        seen.lock().expect("no thread panicked with it").push((title, is_frozen));
    });
    let seen = seen.into_inner().expect("no thread panicked with it");
    for title in ["freeze", "unfreeze"] {
        for is_frozen in [true, false] {
            assert!(seen.contains(&(title, is_frozen)), "{title}: some kills come before the change, and some after");
        }
    }
}
