//! `lokt guard` with several names: all or nothing.

use std::time::Duration;

use lokt_testkit::swarm::pause;
use rustix::process::Signal;
use serde_json::json;

use crate::common::guards::{Guard, leftovers};
use crate::common::{LOKT, Root, eventually, go_record};

#[test]
fn several_names_are_held_together_and_given_back_together() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "deploy db --ttl 5m --reason both");
    for name in ["db", "deploy"] {
        let record = root.record(name);
        assert_eq!((&record["pid"], &record["ttl_sec"]), (&json!(guard.pid()), &json!(300)), "{name} is the guard's");
        root.run("b", &format!("guard {name} -- true")).exits(2, "it is held").notes("reason:  both", "for its reason");
    }
    let (db, deploy) = (root.record("db"), root.record("deploy"));
    assert_ne!(db["lock_id"], deploy["lock_id"], "two holds");
    assert!(db["fencing_token"].as_u64() < deploy["fencing_token"].as_u64(), "taken in byte order");
    guard.exit(3).exits(3, "its command ended");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "both are given back");
    let order: Vec<(String, String)> = root
        .audit()
        .iter()
        .filter(|event| event["event"] != "deny")
        .map(|event| (event["event"].as_str().expect("a text").into(), event["name"].as_str().expect("a text").into()))
        .collect();
    let expected = [("acquire", "db"), ("acquire", "deploy"), ("release", "deploy"), ("release", "db")];
    assert_eq!(
        order,
        expected.map(|(event, name)| (event.to_owned(), name.to_owned())),
        "the last one taken ends first"
    );
}

#[test]
fn without_waiting_one_held_name_refuses_all_and_nothing_is_taken() {
    for held in ["a", "m", "z"] {
        let root = Root::new();
        let holder = Guard::start(&root, "holder", held);
        let said = root.run("b", "guard z a m -- touch ran").exits(2, "one of them is held");
        assert!(said.stderr.starts_with(&format!("error: lock \"{held}\" held by holder ")), "it is named{said}");
        let json = root.run("b", "guard z a m --json -- touch ran").exits(2, "one of them is held").json();
        assert_eq!((&json["name"], &json["holder_pid"]), (&json!(held), &json!(holder.pid())), "in JSON too: {json}");
        root.run("b", "guard z a m -E 9 -- touch ran").exits(9, "the code can be chosen");
        let taken: Vec<_> = root.audit().into_iter().filter(|event| event["event"] == "acquire").collect();
        assert_eq!(taken.len(), 1, "only the holder ever acquired something: {taken:?}");
        assert_eq!(root.events_of(held), ["acquire", "deny", "deny", "deny"], "what was refused is audited");
        holder.exit(0).exits(0, "the holder ends");
        assert!(!root.outside().join("ran").exists(), "nothing was run");
        assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
    }
}

#[test]
fn a_freeze_or_an_unknown_version_of_one_name_refuses_all_too() {
    let root = Root::used();
    root.put_freeze("m", &go_record("m", "admin"));
    root.run("b", "guard a m -- touch ran")
        .exits(2, "m is frozen")
        .notes("operation \"m\" frozen by admin", "it is named");
    assert_eq!(root.events_of("a"), Vec::<String>::new(), "a was not taken");
    root.put_record("old", &json!({"version": 2, "name": "old"}));
    root.run("b", "guard a old -- touch ran").exits(65, "old is of the future").notes("lock \"old\"", "it is named");
    assert_eq!(root.events_of("a"), Vec::<String>::new(), "a was not taken");
    assert!(!root.outside().join("ran").exists(), "nothing was run");
}

#[test]
fn with_a_timeout_what_was_taken_is_given_back() {
    let root = Root::new();
    let holder = Guard::start(&root, "holder", "m");
    let said = root.run("b", "guard z a m --timeout 2s -- touch ran").exits(2, "m is not given back");
    said.notes("waiting for lock \"m\"", "it says for which it waits")
        .notes("error: timeout waiting for lock \"m\"", "and which");
    assert_eq!(root.events_of("a"), ["acquire", "release"], "a comes before m: taken and given back");
    assert_eq!(root.events_of("z"), Vec::<String>::new(), "z comes after m: not even asked for");
    holder.exit(0).exits(0, "the holder ends");
    assert!(!root.outside().join("ran").exists(), "nothing was run");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn with_patience_they_are_taken_one_after_the_other() {
    let root = Root::new();
    let first = Guard::start(&root, "holder", "a");
    let second = Guard::start(&root, "holder", "m");
    let waiter = Guard::ask(root.lokt("b"), "z a m --wait --ttl 5m");
    waiter.warns("waiting for lock \"a\"", "it waits for the first in byte order");
    first.exit(0).exits(0, "the first is given back");
    eventually("it takes the first", || root.has_record("a") && root.record("a")["owner"] == "b");
    eventually("it waits for the second", || {
        let json = root.run("c", "queue m --json").exits(0, "it can be asked").json();
        json["waiters"][0]["owner"] == "b"
    });
    assert!(!root.has_record("z"), "what comes later isn't taken yet");
    assert!(!waiter.stdout().contains("runs"), "nothing runs before all are there");
    second.exit(0).exits(0, "the second is given back");
    waiter.runs();
    for name in ["a", "m", "z"] {
        assert_eq!(root.record(name)["pid"], waiter.pid(), "{name} is the waiter's");
    }
    let said = waiter.exit(0).exits(0, "it ran");
    said.notes("got lock \"z, a, m\" after ", "it says that it has them");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn the_timeout_is_for_all_of_them_together() {
    let root = Root::new();
    let first = Guard::start(&root, "holder", "a");
    let _second = Guard::start(&root, "holder", "m");
    let waiter = Guard::ask(root.lokt("b"), "a m --timeout 10s --json");
    waiter.warns("waiting for lock \"a\"", "it waits for the first");
    pause(Duration::from_secs(5));
    first.exit(0).exits(0, "the first is given back");
    let said = waiter.wait_for_end().exits(2, "the second is not");
    let waited_ms = said.json()["waited_ms"].as_u64().expect("a number");
    assert!((9_900..14_900).contains(&waited_ms), "ten seconds for both, and not {waited_ms} ms");
    let denied = root.audit_of("m").into_iter().find(|event| event["event"] == "deny").expect("it was refused");
    let of_the_second = denied["extra"]["waited_ms"].as_u64().expect("a number");
    assert!(of_the_second < 9_000, "of its ten seconds five were over, but it waited {of_the_second} ms more");
}

#[test]
fn a_wait_for_several_that_is_interrupted_gives_back_what_was_taken() {
    let root = Root::new();
    let _holder = Guard::start(&root, "holder", "m");
    let waiter = Guard::ask(root.lokt("b"), "a m --wait");
    waiter.warns("waiting for lock \"m\"", "it has a and waits for m");
    assert!(root.has_record("a"), "a is taken");
    waiter.signal(Signal::TERM);
    let said = waiter.wait().exits(143, "a signal ends the wait");
    said.notes("interrupted while waiting for lock", "it says so");
    assert_eq!(root.events_of("a"), ["acquire", "release"], "a is given back");
    assert_eq!(
        root.run("c", "queue m --json").exits(0, "it can be asked").json()["waiters"],
        json!([]),
        "the line is left"
    );
}

#[test]
fn a_name_given_twice_counts_once() {
    let root = Root::new();
    let said = root.run("a", "guard x y x x -- printenv LOKT_NAME").exits(0, "it doesn't wait for itself");
    assert_eq!(said.stdout, "x,y\n", "each name once");
    let said = root.run("a", "guard x x --wait -- printenv LOKT_NAME").exits(0, "nor when it may wait");
    assert_eq!(said.stdout, "x\n", "each name once");
    assert_eq!(root.events_of("x"), ["acquire", "release", "acquire", "release"], "taken once each time");
}

#[test]
fn of_several_names_those_that_are_held_around_the_guard_are_neither_taken_nor_given_back() {
    let root = Root::new();
    let mut outer = Guard::start(&root, "a", "x y");
    let before = (root.record_text("x"), root.record_text("y"));
    outer.does(&format!("{LOKT} guard y n x -- true && echo ran"));
    assert!(outer.stdout().contains("ran\n"), "it runs inside: {}", outer.stderr());
    assert_eq!((root.record_text("x"), root.record_text("y")), before, "what it is inside of is untouched");
    assert_eq!(root.events_of("n"), ["acquire", "release"], "the new one came and went");
    outer.does(&format!("{LOKT} guard x y -- true && echo again"));
    assert!(outer.stdout().contains("again\n"), "it runs inside with nothing new at all: {}", outer.stderr());
    outer.exit(0).exits(0, "nothing was lost");
    assert_eq!(root.events_of("x"), ["acquire", "release"], "one hold from beginning to end");
}

#[test]
fn each_of_several_leases_is_renewed() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x y z --ttl 1s");
    for name in ["x", "y", "z"] {
        eventually("it is renewed", || root.events_of(name).contains(&"renew".to_owned()));
    }
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn one_of_several_that_is_lost_is_named_and_the_others_are_given_back() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x y z");
    root.run("b", "unlock --force y").exits(0, "force takes everything");
    guard.warns("warning: lock \"y\" was lost: its record was removed", "it is named");
    assert!(root.has_record("x") && root.has_record("z"), "the others are still held");
    guard.exit(0).exits(79, "one lost is not a success");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
    assert_eq!(root.events_of("y"), ["acquire", "force-break"], "the lost one ended by force");
    assert_eq!(root.events_of("z"), ["acquire", "release"], "the others by their guard");
}
