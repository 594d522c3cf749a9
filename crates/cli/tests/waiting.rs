//! Waiting: what wakes a waiter, how a wait ends without the lock, and what it leaves behind: nothing.

use std::fs::File;
use std::time::Duration;

use lokt_testkit::line::{Process, in_line, line_dir, served, ticket_of, tickets};
use lokt_testkit::swarm::{now_ms, pause, wait_until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{LOKT, Root, Sleeper, alive, eventually, go_lease, names_in, pid_of, remove, start_of};

/// Waits, and holds it when it ends.
const LOCK: [&str; 4] = [LOKT, "lock", "x", "--wait"];
/// Nothing but a look once a second tells a waiter.
const WITHIN_A_LOOK: Duration = Duration::from_secs(8);
/// A look once a second comes later than this.
const AT_ONCE_MS: u64 = 500;

fn queued(root: &Root, owner: &str, words: &str) -> Process {
    let words: Vec<&str> = [LOKT].into_iter().chain(words.split_whitespace()).collect();
    in_line(&root.path(), "x", owner, &words)
}

/// A guard that runs until it is told otherwise.
fn guarding(root: &Root, words: &str) -> Process {
    let words: Vec<&str> = [LOKT].into_iter().chain(words.split_whitespace()).collect();
    let process = Process::start(&root.path(), "a", &words);
    eventually("the guard runs its command", || command_of(root).is_some());
    process
}

/// The command that the one holder's pulse names.
fn command_of(root: &Root) -> Option<u32> {
    let pulse = std::fs::read(names_in(&root.path().join("state/held")).first()?).ok()?;
    let pulse: Value = serde_json::from_slice(&pulse).ok()?;
    pulse["command"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
}

/// `release` wakes whoever waits for what `hold` holds, before it would look by itself. A busy machine may need several tries.
fn wakes_at_once<H>(sentence: &str, hold: impl Fn(&Root) -> H, release: impl Fn(&Root, &mut H)) {
    let mut took = Vec::new();
    for _ in 0..10 {
        let root = Root::used();
        let mut held = hold(&root);
        let waiter = in_line(&root.path(), "x", "b", &LOCK);
        // It has armed its alarm by now, and looks by itself a second after that.
        pause(Duration::from_millis(100));
        let began_ms = now_ms();
        release(&root, &mut held);
        let ended = waiter.end();
        took.push(now_ms() - began_ms);
        assert_eq!(ended.code, Some(0), "{sentence}: it is granted: {ended:?}");
        assert_eq!(root.record("x")["owner"], "b", "{sentence}: the record says so");
        if took.last().is_some_and(|ms| *ms < AT_ONCE_MS) {
            return;
        }
    }
    panic!("{sentence}: it took {took:?} ms");
}

/// A waiter finds out by itself.
fn wakes_within_a_look<H>(sentence: &str, hold: impl Fn(&Root) -> H, release: impl Fn(&Root, &mut H)) {
    let root = Root::used();
    let mut held = hold(&root);
    let waiter = in_line(&root.path(), "x", "b", &LOCK);
    release(&root, &mut held);
    assert_eq!(waiter.end_within(WITHIN_A_LOOK).code, Some(0), "{sentence}");
    assert_eq!(root.record("x")["owner"], "b", "{sentence}: the record says so");
}

fn lock(root: &Root) {
    root.run("a", "lock x").exits(0, "it is free");
}

// --- what wakes a waiter

#[test]
fn the_end_of_a_guard_wakes_the_next_at_once() {
    let hold = |root: &Root| guarding(root, "guard x -- sleep 600");
    wakes_at_once("a guard that ends", hold, |root, guard| {
        let command = command_of(root).expect("it runs");
        kill_process(pid_of(command), Signal::KILL).expect("it is ours");
        assert!(guard.ends_within(Duration::from_secs(10)), "the guard ends with its command");
    });
}

#[test]
fn the_death_of_a_guard_and_its_command_wakes_the_next_at_once() {
    let hold = |root: &Root| guarding(root, "guard x -- sleep 600");
    wakes_at_once("a guard that is killed", hold, |root, guard| {
        let command = command_of(root).expect("it runs");
        guard.kill();
        kill_process(pid_of(command), Signal::KILL).expect("it is ours");
    });
}

#[test]
fn the_command_of_a_dead_guard_keeps_the_next_waiting_until_it_ends() {
    for words in ["guard x -- sleep 600", "guard x -o -- sleep 600"] {
        let root = Root::used();
        let mut guard = guarding(&root, words);
        let command = command_of(&root).expect("it runs");
        let mut waiter = in_line(&root.path(), "x", "b", &LOCK);
        guard.kill();
        assert!(!waiter.ends_within(Duration::from_millis(2500)), "nobody enters while the command lives: {words}");
        kill_process(pid_of(command), Signal::KILL).expect("it is ours");
        assert_eq!(waiter.end_within(WITHIN_A_LOOK).code, Some(0), "then the next one does: {words}");
    }
}

#[test]
fn unlock_wakes_the_next_at_once() {
    wakes_at_once("an unlock", lock, |root, ()| {
        root.run("a", "unlock x").exits(0, "it is a's");
    });
}

#[test]
fn a_forced_unlock_of_an_owners_lock_wakes_the_next_at_once() {
    wakes_at_once("a forced unlock", lock, |root, ()| {
        root.run("admin", "unlock --force x").exits(0, "break glass");
    });
}

#[test]
fn a_deleted_record_wakes_the_next_at_once() {
    wakes_at_once("a deleted record", lock, |root, ()| remove(&root.record_path("x")));
}

#[test]
fn the_end_of_a_bound_process_wakes_the_next_at_once() {
    let hold = |root: &Root| {
        let sleeper = Sleeper::new();
        root.run("a", &format!("lock x --bind {}", sleeper.pid())).exits(0, "it is free");
        sleeper
    };
    wakes_at_once("a bound process that ends", hold, |_, sleeper| sleeper.end());
    wakes_at_once("a bound process that is a zombie", hold, |_, sleeper| sleeper.kill());
}

#[test]
fn the_end_of_a_process_that_another_program_recorded_wakes_the_next() {
    let hold = |root: &Root| {
        let sleeper = Sleeper::new();
        let mut record = alive(go_lease("x", "a", 600, 600));
        record["pid"] = sleeper.pid().into();
        record["pid_start_ns"] = start_of(sleeper.pid()).into();
        root.put_record("x", &record);
        sleeper
    };
    wakes_within_a_look("another program's process ends", hold, |_, sleeper| sleeper.end());
}

#[test]
fn a_forced_unlock_of_a_guards_lock_wakes_the_next_within_a_look() {
    let hold = |root: &Root| guarding(root, "guard x --on-lost warn -- sleep 600");
    wakes_within_a_look("break glass under a guard", hold, |root, _| {
        root.run("admin", "unlock --force x").exits(0, "break glass");
    });
    wakes_within_a_look("a guard's record is deleted", hold, |root, _| remove(&root.record_path("x")));
}

#[test]
fn the_end_of_a_lease_wakes_the_next_just_after_it() {
    let mut late = Vec::new();
    for _ in 0..10 {
        let root = Root::used();
        let began_ms = now_ms();
        root.run("a", "lock x --ttl 4s").exits(0, "it is free");
        // Looks by itself come half a second after the lease ends.
        pause(Duration::from_millis(500));
        let waiter = in_line(&root.path(), "x", "b", &LOCK);
        assert_eq!(waiter.end().code, Some(0), "it is granted when the lease is over");
        let waited_ms = now_ms() - began_ms;
        assert!(waited_ms >= 4_000, "not before its end: {waited_ms} ms");
        late.push(waited_ms.saturating_sub(4_000));
        if late.last().is_some_and(|ms| *ms < 400) {
            assert_eq!(root.events_of("x"), ["acquire", "auto-prune", "acquire"], "the log says what ended it");
            return;
        }
    }
    panic!("a lease that ends wakes the next just after it, not {late:?} ms later");
}

#[test]
fn the_lease_of_a_stopped_guard_ends_and_the_next_enters() {
    let root = Root::used();
    let guard = guarding(&root, "guard x --ttl 4s -- sleep 600");
    let mut waiter = in_line(&root.path(), "x", "b", &LOCK);
    assert!(!waiter.ends_within(Duration::from_secs(6)), "renewals keep it");
    guard.stop();
    assert_eq!(waiter.end_within(WITHIN_A_LOOK * 2).code, Some(0), "without them it ends");
}

#[test]
fn a_freeze_that_is_removed_wakes_the_next_at_once() {
    let hold = |root: &Root| root.put_freeze("x", &go_lease("x", "ops", 600, 600));
    wakes_at_once("a freeze that is removed", hold, |root, ()| remove(&root.path().join("freezes/x.json")));
    let hold = |root: &Root| root.put_record("freeze-x", &go_lease("freeze-x", "ops", 600, 600));
    wakes_at_once("an old program's freeze that is removed", hold, |root, ()| remove(&root.record_path("freeze-x")));
}

#[test]
fn a_freeze_that_ends_wakes_the_next() {
    let root = Root::used();
    let began_ms = now_ms();
    root.put_freeze("x", &go_lease("x", "ops", 60, 5));
    let waiter = in_line(&root.path(), "x", "b", &LOCK);
    assert_eq!(waiter.end_within(WITHIN_A_LOOK * 2).code, Some(0), "it ends by itself");
    assert!(now_ms() - began_ms > 3_500, "not before its end");
}

#[test]
fn waiters_stay_in_line_under_a_freeze_and_go_on_in_order() {
    let root = Root::used();
    lock(&root);
    let early: Vec<Process> = ["b", "c"].iter().map(|owner| queued(&root, owner, "guard x --wait -- true")).collect();
    root.put_freeze("x", &go_lease("x", "ops", 600, 600));
    let late: Vec<Process> = ["d", "e"].iter().map(|owner| queued(&root, owner, "guard x --wait -- true")).collect();
    root.run("a", "unlock x").exits(0, "a freeze keeps nobody from leaving");
    pause(Duration::from_millis(2500));
    assert_eq!(served(&root.path(), "x"), ["a"], "nobody is served under a freeze");
    assert_eq!(tickets(&root.path(), "x").len(), 4, "and nobody leaves the line");
    let queue = root.run("z", "queue x --json").exits(0, "it can be read").json();
    let passed = queue["waiters"].as_array().expect("a list").iter().any(|waiter| waiter["passed_over"] == true);
    assert!(!passed, "a frozen name is not offered to anyone: {queue}");
    remove(&root.path().join("freezes/x.json"));
    for waiter in early.into_iter().chain(late) {
        assert_eq!(waiter.end().code, Some(0), "all of them are served");
    }
    assert_eq!(served(&root.path(), "x"), ["a", "b", "c", "d", "e"], "in the order of their arrival");
    let denied = root.events_of("x").iter().filter(|event| event.contains("deny")).count();
    assert_eq!(denied, 0, "nobody was denied");
}

// --- how a wait ends without the lock

#[test]
fn ones_own_lock_is_not_waited_for() {
    // AC6 of the document reentrant.
    let root = Root::new();
    lock(&root);
    let before = root.record("x");
    let began_ms = now_ms();
    let json = root.run("a", "lock x --wait --json").exits(0, "it is a's").json();
    assert_eq!((&json["status"], &json["refreshed"]), (&json!("acquired"), &json!(true)), "it is refreshed");
    assert!(now_ms() - began_ms < 5_000, "without waiting");
    assert_eq!(root.record("x")["lock_id"], before["lock_id"], "it is the same hold");
    assert_eq!(root.events_of("x"), ["acquire", "renew"], "and the log says so");
}

#[test]
fn a_free_lock_is_not_waited_for() {
    let root = Root::new();
    let said = root.run("a", "lock x --wait --timeout 5m").exits(0, "it is free");
    assert!(!said.stderr.contains("waiting for lock"), "there is no wait to speak of{said}");
    assert!(!line_dir(&root.path(), "x").exists(), "nor a line");
}

#[test]
fn a_timeout_implies_waiting_and_is_told() {
    let root = Root::new();
    lock(&root);
    let began_ms = now_ms();
    let said = root.run("b", "lock x --timeout 700ms").exits(2, "nobody unlocked it");
    assert!(now_ms() - began_ms >= 700, "it was waited for");
    said.notes("error: timeout waiting for lock \"x\" held by a (agent: ", "it says what happened")
        .notes("waiting for lock \"x\": first in line; held by a@", "and said so at the beginning")
        .notes("\n  waited:  ", "and how long it waited")
        .notes("hint: `lokt why x`", "and what next");

    let json = root.run("b", "lock x --timeout 300ms --wait --json").exits(2, "nobody unlocked it").json();
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "it is blocked");
    assert_eq!(json["holder_owner"], "a", "by whom");
    let message = json["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("timeout waiting for lock \"x\" held by a "), "why: {message}");
    let waited_ms = json["waited_ms"].as_u64().expect("a wait that was in vain is measured");
    assert!((300..10_000).contains(&waited_ms), "how long: {waited_ms}");
    assert_eq!(json["waiters"], 0, "nobody else waits");

    let json = root.run("b", "lock x --json").exits(2, "nobody unlocked it").json();
    assert!(json.get("waited_ms").is_none(), "whoever doesn't wait hasn't waited: {json}");
    assert!(!line_dir(&root.path(), "x").exists(), "nothing of them is left in line");
}

#[test]
fn a_guard_that_times_out_runs_nothing() {
    let root = Root::new();
    lock(&root);
    let touched = root.outside().join("touched");
    let said = root.run("b", &format!("guard x --timeout 300ms -- touch {}", touched.display()));
    said.exits(2, "nobody unlocked it").notes("error: timeout waiting for lock \"x\" held by a (agent: ", "it says so");
    let said = root.run("b", &format!("guard x --timeout 300ms -E 9 --json -- touch {}", touched.display()));
    let json = said.exits(9, "the user's own code").json();
    assert!(json["waited_ms"].as_u64().is_some_and(|ms| ms >= 300), "how long: {json}");
    assert!(!touched.exists(), "the command was not run");
    assert!(!line_dir(&root.path(), "x").exists(), "nothing of them is left in line");
    assert!(names_in(&root.path().join("state/held")).is_empty(), "nor a pulse");
}

#[test]
fn who_names_no_timeout_waits_ten_minutes() {
    let root = Root::new();
    lock(&root);
    for words in ["lock x --wait", "guard x --wait -- true"] {
        let waiter = queued(&root, "b", words);
        waiter.signal(Signal::TERM);
        let ended = waiter.end();
        let ten_minutes = ["giving up in 10m0s", "giving up in 9m5"];
        assert!(ten_minutes.iter().any(|text| ended.stderr.contains(text)), "{words}: {}", ended.stderr);
    }
    for command in ["lock", "guard"] {
        let said = root.run("b", &format!("{command} --help")).exits(0, "it helps");
        said.says("Wait in line for it, for at most 10 minutes", "and says so");
    }
}

#[test]
fn a_wait_in_vain_leaves_one_event_and_a_wait_that_ends_well_none() {
    let root = Root::new();
    lock(&root);
    // Long enough for several looks.
    root.run("b", "lock x --timeout 2500ms").exits(2, "nobody unlocked it");
    root.run("b", "guard x --timeout 400ms -- true").exits(2, "nobody unlocked it");
    let events = root.audit_of("x").split_off(1);
    assert_eq!(events.len(), 2, "one event per wait: {events:?}");
    for (event, ms) in events.iter().zip([2_500, 400]) {
        assert_eq!((&event["event"], &event["owner"]), (&json!("deny"), &json!("b")), "which says who");
        assert_eq!(event["extra"]["reason"], "timeout", "why");
        assert_eq!(event["extra"]["holder_owner"], "a", "because of whom");
        assert!(event["extra"]["waited_ms"].as_u64().is_some_and(|waited| waited >= ms), "and how long: {event}");
    }
    let waiter = queued(&root, "c", "lock x --wait");
    pause(Duration::from_millis(1200));
    root.run("a", "unlock x").exits(0, "it is a's");
    let ended = waiter.end();
    assert_eq!(ended.code, Some(0), "c gets it");
    assert!(ended.stderr.contains("got lock \"x\" after "), "and is told how long that took: {}", ended.stderr);
    assert_eq!(root.events_of("x"), ["acquire", "deny", "deny", "release", "acquire"], "c was not denied");
}

#[test]
fn a_timeout_leaves_the_line_and_the_next_is_not_delayed() {
    let root = Root::new();
    lock(&root);
    let head = queued(&root, "b", "lock x --wait");
    let impatient = queued(&root, "c", "lock x --timeout 3s");
    let ticket = ticket_of(&root.path(), "x", impatient.pid()).expect("it is in line");
    let last = queued(&root, "d", "lock x --wait");
    assert_eq!(impatient.end().code, Some(2), "it gives up");
    assert!(!line_dir(&root.path(), "x").join(ticket.to_string()).exists(), "and takes its ticket along");
    root.run("a", "unlock x").exits(0, "it is a's");
    assert_eq!(head.end().code, Some(0), "the head gets it");
    let began_ms = now_ms();
    root.run("b", "unlock x").exits(0, "it is b's");
    assert_eq!(last.end().code, Some(0), "then the last");
    assert!(now_ms() - began_ms < 5_000, "without delay");
    // The head itself gives up: the next one is the head then.
    let impatient = queued(&root, "e", "lock x --timeout 3s");
    let next = queued(&root, "f", "lock x --wait");
    assert_eq!(impatient.end().code, Some(2), "the head gives up");
    pause(Duration::from_millis(100));
    let began_ms = now_ms();
    root.run("d", "unlock x").exits(0, "it is d's");
    assert_eq!(next.end().code, Some(0), "the next one was told that it is the head");
    assert!(now_ms() - began_ms < 5_000, "without delay");
}

#[test]
fn a_signal_ends_a_wait_and_the_line_is_left() {
    let root = Root::new();
    lock(&root);
    for (signal, code, words) in [
        (Signal::TERM, 143, "lock x --wait"),
        (Signal::INT, 130, "lock x --wait"),
        (Signal::HUP, 129, "guard x --wait -- true"),
        (Signal::INT, 130, "guard x --wait -- true"),
    ] {
        let waiter = queued(&root, "b", words);
        let next = queued(&root, "c", "guard x --wait -- true");
        waiter.signal(signal);
        let ended = waiter.end_within(Duration::from_secs(10));
        assert_eq!(ended.code, Some(code), "{words}: it ends as a shell would say: {ended:?}");
        assert!(ended.stderr.contains("interrupted while waiting for lock \"x\""), "{words}: it says so: {ended:?}");
        assert_eq!(tickets(&root.path(), "x").len(), 1, "{words}: only the other one is in line");
        let event = root.audit_of("x").pop().expect("there is one");
        assert_eq!((&event["event"], &event["owner"]), (&json!("deny"), &json!("b")), "{words}: it is remembered");
        assert_eq!(event["extra"]["reason"], "interrupted", "{words}: why");
        drop(next);
    }
    let json = {
        let waiter = queued(&root, "b", "lock x --wait --json");
        waiter.signal(Signal::TERM);
        let ended = waiter.end();
        serde_json::from_str::<Value>(&ended.stdout).expect("one JSON value")
    };
    assert_eq!((&json["code"], &json["signal"]), (&json!("E_INTERRUPTED"), &json!(15)), "in JSON too");
}

#[test]
fn a_bound_lock_can_be_waited_for() {
    let root = Root::new();
    lock(&root);
    let sleeper = Sleeper::new();
    let waiter = queued(&root, "b", &format!("lock x --bind {} --wait", sleeper.pid()));
    root.run("a", "unlock x").exits(0, "it is a's");
    assert_eq!(waiter.end().code, Some(0), "it gets it");
    assert_eq!(root.record("x")["pid"], sleeper.pid(), "for the process it named");
    root.run("b", "lock x --json").exits(0, "the same owner joins it");
    root.run("b", "unlock x").exits(0, "and leaves");
    let next = in_line(&root.path(), "x", "c", &LOCK);
    drop(sleeper);
    assert_eq!(next.end().code, Some(0), "the end of that process is the end of the lock");
}

#[test]
fn a_process_that_ends_before_its_turn_is_not_given_the_lock() {
    let root = Root::new();
    lock(&root);
    let mut sleeper = Sleeper::new();
    let waiter = queued(&root, "b", &format!("lock x --bind {} --wait", sleeper.pid()));
    sleeper.end();
    root.run("a", "unlock x").exits(0, "it is a's");
    let ended = waiter.end_within(Duration::from_secs(20));
    root.run("c", "lock x").exits(0, "nobody holds it for a process that is gone");
    assert!(!line_dir(&root.path(), "x").exists(), "nothing is left in line: {ended:?}");
}

#[test]
fn a_busy_root_does_not_end_a_wait() {
    let root = Root::new();
    lock(&root);
    let mut waiter = queued(&root, "b", "lock x --wait");
    let mutex = File::open(root.path()).expect("the root is there");
    flock(&mutex, FlockOperation::LockExclusive).expect("it is free");
    let mut late = Process::start(&root.path(), "c", &LOCK);
    // The waiter is woken, but can't look.
    remove(&root.record_path("x"));
    pause(Duration::from_secs(3));
    assert!(!waiter.is_over(), "it goes on waiting");
    assert!(!late.is_over(), "also whoever has no ticket yet");
    flock(&mutex, FlockOperation::Unlock).expect("it is ours");
    assert_eq!(waiter.end().code, Some(0), "and gets it when it can look");
    root.run("b", "unlock x").exits(0, "it is b's");
    assert_eq!(late.end().code, Some(0), "and so does the other");
}

#[test]
fn a_signal_ends_a_wait_although_the_root_is_busy() {
    let root = Root::new();
    lock(&root);
    let waiter = queued(&root, "b", "lock x --wait");
    let mutex = File::open(root.path()).expect("the root is there");
    flock(&mutex, FlockOperation::LockExclusive).expect("it is free");
    pause(Duration::from_millis(100));
    waiter.signal(Signal::INT);
    // Five seconds are designed, as for every command; twice that would be ten.
    let ended = waiter.end_within(Duration::from_millis(9_900));
    assert_eq!(ended.code, Some(130), "it ends: {ended:?}");
    flock(&mutex, FlockOperation::Unlock).expect("it is ours");
    assert_eq!(root.run("c", "queue x").stdout, "nobody waits for lock \"x\"\n", "and doesn't wait any more");
}

#[test]
fn a_wait_says_so_on_stderr_and_nothing_on_stdout() {
    let root = Root::new();
    lock(&root);
    let first = queued(&root, "b", "lock x --wait --json");
    let second = queued(&root, "c", "lock x --timeout 3s --json");
    let ended = second.end();
    assert!(ended.stderr.contains("waiting for lock \"x\": 1 ahead; held by a@"), "its place: {}", ended.stderr);
    assert!(serde_json::from_str::<Value>(&ended.stdout).is_ok(), "stdout is JSON: {}", ended.stdout);
    root.run("a", "unlock x").exits(0, "it is a's");
    let ended = first.end();
    let json: Value = serde_json::from_str(&ended.stdout).expect("stdout is JSON");
    assert_eq!((&json["status"], &json["refreshed"]), (&json!("acquired"), &json!(false)), "a grant like any other");
}

#[test]
fn whoever_is_refreshed_away_under_a_waiter_keeps_it_waiting() {
    let root = Root::new();
    root.run("a", "lock x --ttl 5s").exits(0, "it is free");
    let mut waiter = in_line(&root.path(), "x", "b", &LOCK);
    for _ in 0..8 {
        pause(Duration::from_millis(800));
        root.run("a", "lock x --ttl 5s").exits(0, "it is a's");
    }
    assert!(!waiter.is_over(), "a lease that is refreshed in time doesn't end");
    assert!(wait_until(Duration::from_secs(15), || waiter.is_over()), "one that isn't does");
}
