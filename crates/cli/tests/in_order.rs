//! **in-order**: whoever came first is served first. The dead delay nobody, the stopped are passed over and are first when they wake.

use std::fs;
use std::time::Duration;

use lokt_testkit::line::{Process, in_line, line_dir, served, ticket_of, tickets};
use lokt_testkit::swarm::{now_ms, pause};
use rustix::process::Signal;
use serde_json::json;

use crate::common::{LOKT, Pulse, Root, eventually, go_lease, names_in, remove};

/// Waiters that don't look at the clock before something is wrong.
const GUARD: [&str; 6] = [LOKT, "guard", "x", "--wait", "--", "true"];
const LOCK: [&str; 4] = [LOKT, "lock", "x", "--wait"];
/// Two seconds are designed; machines are busy.
const PASSED_OVER: Duration = Duration::from_secs(10);

/// Held by `holder`, who is none of those in line.
fn held() -> Root {
    let root = Root::new();
    root.run("holder", "lock x").exits(0, "it is free");
    root
}

fn release(root: &Root, owner: &str) {
    root.run(owner, "unlock x").exits(0, "it is the holder's");
}

/// So many waiters, one after the other, at least 5 ms apart.
fn line_of(root: &Root, count: usize, words: impl Fn(usize) -> Vec<&'static str>) -> Vec<Process> {
    let one = |n: usize| {
        let waiter = in_line(&root.path(), "x", &owner(n), &words(n));
        pause(Duration::from_millis(5));
        waiter
    };
    (0..count).map(one).collect()
}

fn owner(n: usize) -> String {
    format!("w{n:03}")
}

/// Everybody who was granted `x` after `holder`.
fn served_after_holder(root: &Root) -> Vec<String> {
    served(&root.path(), "x").split_off(1)
}

fn nothing_is_left(root: &Root) {
    eventually("the directory of an empty line is removed", || !line_dir(&root.path(), "x").exists());
    assert_eq!(names_in(&root.path().join("state/held")), Vec::<std::path::PathBuf>::new(), "no pulse is left");
    assert!(!root.has_record("x"), "no record is left");
}

#[test]
fn a_hundred_waiters_are_served_in_the_order_of_their_arrival() {
    let root = held();
    let waiters = line_of(&root, 100, |_| GUARD.to_vec());
    assert_eq!(tickets(&root.path(), "x").len(), 100, "all of them have a ticket");
    release(&root, "holder");
    for waiter in waiters {
        assert_eq!(waiter.end().code, Some(0), "every waiter runs its command");
    }
    assert_eq!(served_after_holder(&root), (0..100).map(owner).collect::<Vec<_>>(), "first come, first served");
    let denied = root.events_of("x").iter().filter(|event| *event == "deny").count();
    assert_eq!(denied, 0, "whoever is granted in the end was not denied");
    nothing_is_left(&root);
}

#[test]
fn killing_every_third_in_line_delays_nobody() {
    let root = held();
    let mut waiters = line_of(&root, 60, |_| GUARD.to_vec());
    let dies = |n: usize| n % 3 == 2;
    for (_, waiter) in waiters.iter_mut().enumerate().filter(|(n, _)| dies(*n)) {
        waiter.kill();
    }
    release(&root, "holder");
    // A second's look for each of the dead would be twenty.
    let began_ms = now_ms();
    for (_, waiter) in waiters.into_iter().enumerate().filter(|(n, _)| !dies(*n)) {
        assert_eq!(waiter.end().code, Some(0), "every other waiter runs its command");
    }
    assert!(now_ms() - began_ms < 18_000, "the dead delay nobody: it took {} ms", now_ms() - began_ms);
    let expected: Vec<String> = (0..60).filter(|n| !dies(*n)).map(owner).collect();
    assert_eq!(served_after_holder(&root), expected, "the others are served in order");
    nothing_is_left(&root);
}

#[test]
fn waiters_that_are_killed_while_the_line_moves_delay_nobody() {
    let root = held();
    let mut waiters = line_of(&root, 60, |_| GUARD.to_vec());
    release(&root, "holder");
    let dies = |n: usize| n % 3 == 2;
    for (_, waiter) in waiters.iter_mut().enumerate().rev().filter(|(n, _)| dies(*n)) {
        if !waiter.is_over() {
            waiter.kill();
        }
    }
    let began_ms = now_ms();
    for (_, waiter) in waiters.into_iter().enumerate().filter(|(n, _)| !dies(*n)) {
        assert_eq!(waiter.end().code, Some(0), "every other waiter runs its command");
    }
    assert!(now_ms() - began_ms < 18_000, "the dead delay nobody: it took {} ms", now_ms() - began_ms);
    let order = served_after_holder(&root);
    let mut sorted = order.clone();
    sorted.sort();
    assert_eq!(order, sorted, "whoever was served was served in order");
    for n in (0..60).filter(|n| !dies(*n)) {
        assert!(order.contains(&owner(n)), "waiter {n} was served");
    }
}

#[test]
fn a_stopped_waiter_is_passed_over_and_is_first_when_it_wakes() {
    let root = held();
    let waiters = line_of(&root, 3, |_| LOCK.to_vec());
    let [mut first, second, mut third] = <[Process; 3]>::try_from(waiters).ok().expect("three were started");
    first.stop();
    release(&root, "holder");
    assert_eq!(second.end_within(PASSED_OVER).code, Some(0), "the next one gets it within the designed two seconds");
    assert!(!first.is_over(), "a stopped one does nothing");
    assert!(ticket_of(&root.path(), "x", first.pid()).is_some(), "but it keeps its ticket");
    let queue = root.run("c", "queue x --json").json();
    assert_eq!(queue["waiters"][0]["passed_over"], true, "whoever looks sees that it is passed over");
    root.run("c", "queue x").says("[PASSED OVER]", "in text too");

    first.signal(Signal::CONT);
    eventually("a waiter that wakes is no longer passed over", || {
        root.run("c", "queue x --json").json()["waiters"][0]["passed_over"] == false
    });
    release(&root, "w001");
    assert_eq!(first.end().code, Some(0), "it is first");
    assert!(!third.ends_within(Duration::from_millis(200)), "whoever came after it still waits");
    release(&root, "w000");
    assert_eq!(third.end().code, Some(0), "and is served then");
    assert_eq!(served_after_holder(&root), ["w001", "w000", "w002"], "that is the order");
}

#[test]
fn several_stopped_in_a_row_are_passed_over_together() {
    let root = held();
    let mut waiters = line_of(&root, 8, |_| GUARD.to_vec());
    for waiter in &waiters[1..7] {
        waiter.stop();
    }
    release(&root, "holder");
    let last = waiters.pop().expect("eight were started");
    // Two seconds for each of them would be twelve.
    assert_eq!(last.end_within(Duration::from_secs(8)).code, Some(0), "six stopped ones take no longer than one");
    assert_eq!(served_after_holder(&root), ["w000", "w007"], "only those that are awake were served");
    for waiter in &waiters[1..] {
        waiter.signal(Signal::CONT);
    }
    for waiter in waiters {
        assert_eq!(waiter.end().code, Some(0), "they are served when they wake");
    }
    assert_eq!(served_after_holder(&root).len(), 8, "everybody once");
    nothing_is_left(&root);
}

#[test]
fn a_head_that_is_stopped_while_it_waits_alone_gets_the_lock_when_it_wakes() {
    let root = held();
    let waiter = in_line(&root.path(), "x", "b", &LOCK);
    waiter.stop();
    release(&root, "holder");
    root.run("late", "lock x").exits(0, "nobody waits for a stopped one");
    root.run("late", "unlock x").exits(0, "it is late's");
    waiter.signal(Signal::CONT);
    assert_eq!(waiter.end().code, Some(0), "it wakes and takes it");
}

#[test]
fn a_head_that_leaves_a_free_lock_alone_is_passed_over_after_two_seconds() {
    // A machine that stands still for longer than that is no help.
    let offered = (0..10).find_map(|_| {
        let root = Root::used();
        // Nobody sees whether its process is stopped: it says of no pid namespace that it is in it.
        let ticket = Pulse::waiting(&root, "x", "early");
        let began_ms = now_ms();
        root.run("late", "lock x").exits(2, "it is offered to the first in line");
        assert!(tickets(&root.path(), "x")[0].1["offered_ms"].is_u64(), "and that is noted down");
        pause(Duration::from_millis(500));
        let said = root.run("late", "lock x");
        let json = root.run("late", "queue x --json").json();
        if now_ms() - began_ms >= 2_000 {
            return None;
        }
        said.exits(2, "who has two seconds to take it");
        assert_eq!(json["waiters"][0]["passed_over"], false, "and is not passed over before");
        Some((root, ticket))
    });
    let (root, _ticket) = offered.expect("three commands in two seconds");
    let waiter = Process::start(&root.path(), "patient", &LOCK);
    assert_eq!(waiter.end_within(PASSED_OVER).code, Some(0), "then the next one gets it");
    assert_eq!(root.run("late", "queue x --json").json()["waiters"][0]["passed_over"], true, "and it shows");
}

#[test]
fn a_plain_lock_does_not_overtake() {
    let root = held();
    let mut waiters = line_of(&root, 30, |_| GUARD.to_vec());
    release(&root, "holder");
    let mut refused = 0;
    loop {
        let waits = waiters.iter_mut().any(|waiter| !waiter.is_over());
        let said = root.run("late", "lock x --json");
        if said.code == 0 {
            break;
        }
        assert!(waits || refused == 0, "who is alone is not refused{said}");
        let json = said.exits(2, "whoever has no ticket is behind all").json();
        assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "it says so");
        refused += 1;
    }
    assert_eq!(served_after_holder(&root).last().map(String::as_str), Some("late"), "it was the last to be served");
    assert_eq!(served_after_holder(&root).len(), 31, "after everybody who waited");
    assert!(refused > 0, "it came while others waited");
}

#[test]
fn a_refresh_of_ones_own_live_lock_ignores_the_line() {
    let root = held();
    let _waiter = in_line(&root.path(), "x", "b", &LOCK);
    let json = root.run("holder", "lock x --ttl 5m --json").exits(0, "it is the holder's").json();
    assert_eq!(json["refreshed"], true, "it is a refresh");
    let json = root.run("holder", "lock x --wait --json").exits(0, "it is the holder's").json();
    assert_eq!(json["refreshed"], true, "also for those who would wait");
    let said = root.run("late", "lock x --json").exits(2, "it is held");
    assert_eq!(said.json()["waiters"], 1, "the refusal counts those who wait");
}

#[test]
fn ones_own_expired_lock_is_not_revived_past_the_line() {
    let root = Root::used();
    root.put_record("x", &go_lease("x", "a", 60, -10));
    let ticket = Pulse::waiting(&root, "x", "early");
    root.run("a", "lock x").exits(2, "somebody waits for it");
    drop(ticket);
    root.run("a", "lock x").exits(0, "nobody does");
}

#[test]
fn lock_and_guard_wait_in_one_line() {
    let root = held();
    let mixed = |n: usize| if n.is_multiple_of(2) { LOCK.to_vec() } else { GUARD.to_vec() };
    let waiters = line_of(&root, 8, mixed);
    release(&root, "holder");
    for (n, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(waiter.end().code, Some(0), "waiter {n} is served");
        if n.is_multiple_of(2) {
            assert_eq!(root.record("x")["owner"], owner(n), "and holds it, because nobody overtook it");
            release(&root, &owner(n));
        }
    }
    assert_eq!(served_after_holder(&root), (0..8).map(owner).collect::<Vec<_>>(), "in the order of their arrival");
}

#[test]
fn a_waiter_whose_ticket_was_deleted_queues_again() {
    let root = held();
    let waiters = line_of(&root, 3, |_| GUARD.to_vec());
    let ticket = ticket_of(&root.path(), "x", waiters[1].pid()).expect("it is in line");
    remove(&line_dir(&root.path(), "x").join(ticket.to_string()));
    release(&root, "holder");
    for waiter in waiters {
        assert_eq!(waiter.end().code, Some(0), "all of them are served");
    }
    let mut order = served_after_holder(&root);
    assert_eq!(order.remove(0), "w000", "the first was not affected");
    order.sort();
    assert_eq!(order, ["w001", "w002"], "nor was anybody forgotten");
    nothing_is_left(&root);
}

#[test]
fn those_who_wait_outlive_a_deleted_state() {
    for holder in [["lock", "x"].as_slice(), &["guard", "x", "--", "sleep", "600"]] {
        let root = Root::used();
        let _holding = Process::start(&root.path(), "holder", &[[LOKT].as_slice(), holder].concat());
        eventually("the holder has it", || root.has_record("x"));
        let waiters = line_of(&root, 10, |_| GUARD.to_vec());
        // They may make something in it while it goes.
        eventually("it goes", || fs::remove_dir_all(root.path().join("state")).is_ok());
        if holder[0] == "lock" {
            release(&root, "holder");
        } else {
            root.run("admin", "unlock --force x").exits(0, "break glass");
        }
        for (n, waiter) in waiters.into_iter().enumerate() {
            assert_eq!(waiter.end().code, Some(0), "waiter {n} is served in the end");
        }
        // Their tickets are gone, and with them the order.
        let mut order = served_after_holder(&root);
        order.sort();
        assert_eq!(order, (0..10).map(owner).collect::<Vec<_>>(), "everybody once");
    }
}

#[test]
fn the_ticket_of_a_dead_process_is_tidied_away() {
    let root = held();
    let mut waiters = line_of(&root, 2, |_| GUARD.to_vec());
    // The last one first: whoever lives tidies up after those ahead.
    waiters.iter_mut().rev().for_each(Process::kill);
    assert_eq!(tickets(&root.path(), "x").len(), 2, "the dead leave their tickets");
    assert_eq!(root.run("c", "queue x").stdout, "nobody waits for lock \"x\"\n", "which nobody counts");
    root.run("late", "lock x").exits(2, "it is held");
    assert!(!line_dir(&root.path(), "x").exists(), "whoever looks next removes them, and the empty line");
    release(&root, "holder");
    root.run("late", "lock x").exits(0, "nobody is in the way");
}
