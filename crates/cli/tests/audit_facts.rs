//! What `acquire` and `release` tell in the audit log beside who and when: the wait, the program, how long it was held and how it ended.

use std::time::Duration;

use lokt_testkit::line::in_line;
use lokt_testkit::swarm::pause;
use serde_json::{Value, json};

use crate::common::guards::Guard;
use crate::common::{LOKT, Root};

/// The last event of this kind about `name`.
fn last(root: &Root, name: &str, event: &str) -> Value {
    let found = root.audit_of(name).into_iter().rev().find(|found| found["event"] == event);
    found.unwrap_or_else(|| panic!("{name} has an {event}"))["extra"].clone()
}

fn number(extra: &Value, key: &str) -> u64 {
    extra[key].as_u64().unwrap_or_else(|| panic!("{key} is a number in {extra}"))
}

#[test]
fn a_guard_tells_its_program_how_long_it_held_and_how_it_ended() {
    let root = Root::new();
    for (script, key, value) in
        [("exit 0", "exit_code", 0), ("sleep 0.3; exit 7", "exit_code", 7), ("kill -9 $$", "signal", 9)]
    {
        let code = root.lokt("a").args(["guard", "x", "--", "/bin/sh", "-c", script]).run().code;
        assert_eq!(code, if key == "signal" { 137 } else { value }, "{script}");
        let (acquire, release) = (last(&root, "x", "acquire"), last(&root, "x", "release"));
        assert_eq!(acquire["program"], "sh", "the last component of its path: {acquire}");
        assert_eq!(acquire.get("command"), None, "its arguments may be secrets: {acquire}");
        assert_eq!(
            (acquire.get("waited_ms"), acquire.get("queue_position")),
            (None, None),
            "it didn't wait: {acquire}"
        );
        assert_eq!(release[key], value, "how it ended: {release}");
        let other = if key == "signal" { "exit_code" } else { "signal" };
        assert_eq!(release.get(other), None, "in one way: {release}");
        let held_ms = number(&release, "held_ms");
        let least_ms = if script.starts_with("sleep") { 300 } else { 0 };
        assert!((least_ms..60_000).contains(&held_ms), "{script} held it: {release}");
        assert_eq!(
            (&release["part"], release["fencing_token"].is_u64()),
            (&json!("process"), true),
            "as before: {release}"
        );
    }
}

#[test]
fn the_arguments_are_told_only_if_that_is_asked_for() {
    let root = Root::new();
    root.run("a", "guard x --log-command -- env token=secret true").exits(0, "it is free");
    let acquire = last(&root, "x", "acquire");
    assert_eq!(acquire["command"], json!(["env", "token=secret", "true"]), "all its words: {acquire}");
    assert_eq!(acquire["program"], "env", "{acquire}");
    root.run("a", "guard x y -- env token=secret true").exits(0, "it is free");
    let log = std::fs::read_to_string(root.path().join("audit.log")).expect("it is there");
    assert_eq!(log.matches("secret").count(), 1, "and nowhere else: {log}");
    let long = "w".repeat(100_000);
    root.lokt("a")
        .args(["guard", "x", "--log-command", "--", "true", "first", &long, "last"])
        .run()
        .exits(0, "it runs");
    let acquire = last(&root, "x", "acquire");
    assert_eq!(acquire["command"], json!(["true", "first", "… (cut)"]), "what fits a line: {acquire}");
}

#[test]
fn whoever_waited_tells_for_how_long_and_from_which_place() {
    let root = Root::new();
    let holder = Guard::start(&root, "a", "x");
    let words = [LOKT, "guard", "x", "--wait", "--", "true"];
    let first = in_line(&root.path(), "x", "b", &words);
    let second = in_line(&root.path(), "x", "c", &[LOKT, "lock", "x", "--wait"]);
    pause(Duration::from_millis(300));
    holder.exit(0).exits(0, "it ends as told");
    assert_eq!((first.end().code, second.end().code), (Some(0), Some(0)), "both get it");
    let events: Vec<Value> = root.audit_of("x").into_iter().filter(|event| event["event"] == "acquire").collect();
    let told = |owner: &str| events.iter().find(|event| event["owner"] == owner).expect("it got it")["extra"].clone();
    assert_eq!(told("a").get("waited_ms"), None, "it was free: {events:?}");
    for (owner, place) in [("b", 1), ("c", 2)] {
        let extra = told(owner);
        assert_eq!(number(&extra, "queue_position"), place, "{extra}");
        assert!((300..120_000).contains(&number(&extra, "waited_ms")), "{extra}");
    }
    assert_eq!(told("c").get("program"), None, "a lock runs nothing: {events:?}");
    assert!(number(&last(&root, "x", "release"), "held_ms") < 120_000, "the guard that waited tells it too");
}

#[test]
fn an_unlock_tells_how_long_it_was_held() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    pause(Duration::from_millis(200));
    root.run("a", "lock x --ttl 5m").exits(0, "it is refreshed");
    pause(Duration::from_millis(200));
    root.run("a", "unlock x").exits(0, "it is a's");
    let release = last(&root, "x", "release");
    // The time before the refresh counts as well.
    assert!((400..120_000).contains(&number(&release, "held_ms")), "{release}");
    assert_eq!((release.get("exit_code"), release.get("signal")), (None, None), "nothing ran under it: {release}");
    let sleeper = crate::common::Sleeper::new();
    root.run("a", &format!("lock x --bind {}", sleeper.pid())).exits(0, "it is free");
    pause(Duration::from_millis(100));
    root.run("a", "unlock x").exits(0, "it is a's");
    assert!((100..120_000).contains(&number(&last(&root, "x", "release"), "held_ms")), "a bound one too");
}
