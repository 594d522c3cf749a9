//! `fence check`: is a token still the one to act under?

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::guards::Guard;
use crate::common::{LOKT, Root, Sleeper, eventually, go_record, remove};

/// The token of what is held under `name`.
fn token(root: &Root, name: &str) -> u64 {
    root.record(name)["fencing_token"].as_u64().unwrap_or_else(|| panic!("{name} has a token"))
}

fn check(root: &Root, name: &str, token: u64) -> i32 {
    let text = root.run("anybody", &format!("fence check {name} --token {token}")).code;
    let json = root.run("anybody", &format!("fence check {name} --token {token} --json")).code;
    assert_eq!(text, json, "text and JSON agree");
    text
}

#[test]
fn the_token_of_a_living_hold_is_good_whoever_asks() {
    let root = Root::new();
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    let token = token(&root, "x");
    let said = root.run("b", &format!("fence check x --token {token}")).exits(0, "it is the current one");
    said.says(&format!("token {token} of lock \"x\" is good\n"), "it says so")
        .notes("note: the lock is held until", "and until when");
    let said = root.run("b", &format!("fence check --json --token={token} x")).exits(0, "flags go anywhere");
    assert_eq!(
        said.members(),
        ["status", "name", "fencing_token", "owner", "lock_id", "remaining_sec"],
        "members in order"
    );
    let answer = said.json();
    assert_eq!((&answer["status"], &answer["owner"]), (&json!("good"), &json!("a")), "{answer}");
    assert_eq!(answer["fencing_token"], token, "{answer}");
    assert_eq!(root.events_of("x"), ["acquire"], "a look leaves no event");
}

#[test]
fn any_other_token_is_stale() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let token = token(&root, "x");
    for other in [0, token - 1, token + 1, u64::MAX] {
        let said = root.run("a", &format!("fence check x --token {other}")).exits(6, "it is not the current one");
        said.notes(&format!("error: token {other} is not the current one of lock \"x\": that is {token}"), "which is");
        let json = root.run("a", &format!("fence check x --token {other} --json")).exits(6, "it is not").json();
        assert_eq!((&json["status"], &json["code"]), (&json!("error"), &json!("E_FENCING_MISMATCH")), "{json}");
    }
    root.run("a", "unlock x").exits(0, "it is ours");
    let said = root.run("a", &format!("fence check x --token {token}")).exits(6, "what was given back is over");
    said.notes("it has none", "nobody has one");
}

#[test]
fn a_token_is_stale_once_another_took_the_lock() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let old = token(&root, "x");
    root.run("thief", "unlock x --force").exits(0, "force");
    assert_eq!(check(&root, "x", old), 6, "nobody holds it");
    root.run("thief", "lock x").exits(0, "it is free");
    assert_eq!(check(&root, "x", old), 6, "another does");
    assert_eq!(check(&root, "x", token(&root, "x")), 0, "whose token is good");
}

#[test]
fn an_expired_lease_that_nobody_took_is_a_five() {
    let root = Root::new();
    root.run("a", "lock x --ttl 1s").exits(0, "it is free");
    let old = token(&root, "x");
    // Asked once at a time: it may end between two questions.
    eventually("the lease ends", || root.run("a", &format!("fence check x --token {old}")).code != 0);
    let said = root.run("a", &format!("fence check x --token {old}")).exits(5, "expired, and nobody has taken it");
    said.notes("its lease has expired, and nobody has taken it since", "it says so");
    let json = root.run("a", &format!("fence check x --token {old} --json")).exits(5, "expired").json();
    assert_eq!((&json["code"], &json["holder_owner"]), (&json!("E_LOCK_EXPIRED"), &json!("a")), "{json}");
    root.run("b", "lock x").exits(0, "now it is taken");
    assert_eq!(check(&root, "x", old), 6, "and the old token is stale");
}

#[test]
fn the_token_of_a_process_that_is_gone_is_stale() {
    let root = Root::new();
    let mut process = Sleeper::new();
    root.run("a", &format!("lock x --bind {}", process.pid())).exits(0, "it is free");
    let token = token(&root, "x");
    assert_eq!(check(&root, "x", token), 0, "it lives");
    process.end();
    let said = root.run("a", &format!("fence check x --token {token}")).exits(6, "its process is gone");
    said.notes("its process is gone", "it says why");
}

#[test]
fn a_freeze_spoils_no_token() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    root.run("ops", "freeze x").exits(0, "it may be frozen");
    assert_eq!(check(&root, "x", token(&root, "x")), 0, "what lives goes on");
}

#[test]
fn what_is_no_record_has_no_token_and_what_cannot_be_read_is_an_error() {
    let root = Root::used();
    root.put_record("old", &go_record("old", "a"));
    root.put("locks/corrupt.json", "garbage");
    root.put("locks/newer.json", r#"{"version": 2, "fencing_token": 7}"#);
    std::fs::create_dir(root.record_path("dir")).expect("it is new");
    for (name, code) in [("old", 6), ("corrupt", 6), ("missing", 6), ("newer", 65), ("dir", 65)] {
        assert_eq!(check(&root, name, 7), code, "{name}");
    }
}

#[test]
fn bad_words_are_usage_and_a_missing_root_holds_nothing() {
    let root = Root::new();
    for words in [
        "fence check x --token seven",
        "fence check x --token -1",
        "fence check x --token 1.5",
        "fence check x --token 99999999999999999999999",
        "fence check x --token",
        "fence check ../x --token 1",
        "fence check x y --token 1",
        "fence check x",
        "fence check --token 1",
        "fence check",
        "fence",
        "fence lift x --token 1",
    ] {
        root.run("a", words).exits(64, words);
        root.run("a", &format!("{words} --json")).exits(64, words);
    }
    let said = root.run("a", "fence check x --token 1").exits(6, "there is no root, so nobody holds anything");
    said.notes("error: token 1 is not the current one of lock \"x\": it has none", "it says so");
    assert_eq!(root.run("a", "fence check x --token 1 --json").exits(6, "the same").failure(), "E_FENCING_MISMATCH");
    assert!(!root.path().exists(), "no root is made for a look");
}

/// What `lokt WORDS` inside a guard says, and its exit code.
fn inside(guard: &mut Guard, words: &str) -> (String, i32) {
    let from = guard.stdout().len();
    guard.does(&format!("{LOKT} {words}; echo \"code $?\""));
    let said = guard.stdout()[from..].to_owned();
    let code = said.lines().find_map(|line| line.strip_prefix("code ")).and_then(|code| code.parse().ok());
    (said.clone(), code.unwrap_or_else(|| panic!("it ended: {said}")))
}

#[test]
fn inside_a_guard_neither_name_nor_token_is_needed() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "x");
    let token = token(&root, "x");
    let (said, code) = inside(&mut guard, "fence check");
    assert!(code == 0 && said.contains(&format!("token {token} of lock \"x\" is good")), "{said}");
    assert_eq!(inside(&mut guard, "fence check x").1, 0, "the name alone");
    assert_eq!(inside(&mut guard, &format!("fence check --token {token}")).1, 0, "the token alone");
    assert_eq!(inside(&mut guard, &format!("fence check --token {}", token + 1)).1, 6, "a wrong token");
    assert_eq!(inside(&mut guard, "fence check y").1, 64, "a name that it doesn't hold, and no token");
    root.run("thief", "unlock x --force").exits(0, "force");
    assert_eq!(inside(&mut guard, "fence check").1, 6, "it was taken away");
    root.run("thief", "lock x").exits(0, "it is free");
    assert_eq!(inside(&mut guard, "fence check").1, 6, "and given to another");
}

#[test]
fn a_guard_of_several_names_is_checked_as_a_whole() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "x y");
    let (said, code) = inside(&mut guard, "fence check");
    assert_eq!(code, 0, "both are good: {said}");
    for name in ["x", "y"] {
        assert!(said.contains(&format!("token {} of lock \"{name}\" is good", token(&root, name))), "{said}");
        assert_eq!(inside(&mut guard, &format!("fence check {name}")).1, 0, "{name} alone");
    }
    assert_eq!(inside(&mut guard, "fence check --token 1").1, 64, "one token for two names says nothing");
    let (said, code) = inside(&mut guard, "fence check --json");
    assert_eq!(code, 0, "{said}");
    let answer = said.split_once("code ").map_or("", |(answer, _)| answer);
    let answer: Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("one JSON value: {error}: {said}"));
    assert_eq!((&answer[0]["name"], &answer[1]["name"]), (&json!("x"), &json!("y")), "one object for each: {answer}");
    root.run("thief", "unlock y --force").exits(0, "force");
    assert_eq!(inside(&mut guard, "fence check").1, 6, "one of them was taken away");
    assert_eq!(inside(&mut guard, "fence check x").1, 0, "the other is good");
}

#[test]
fn nested_guards_have_their_own_tokens_and_those_around_them() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "outer");
    let words = |inner: &str, check: &str| format!("guard {inner} -- {LOKT} fence check {check}");
    assert_eq!(inside(&mut guard, &words("inner", "")).1, 0, "the inner one's own");
    assert_eq!(inside(&mut guard, &words("inner", "inner")).1, 0, "by name");
    assert_eq!(inside(&mut guard, &words("inner", "outer")).1, 0, "that of the guard around it");
    assert_eq!(inside(&mut guard, &words("outer", "")).1, 0, "inside its own lock again");
    assert_eq!(inside(&mut guard, &words("outer", "outer")).1, 0, "by name");
    root.run("thief", "unlock outer --force").exits(0, "force");
    assert_eq!(inside(&mut guard, &words("inner", "outer")).1, 6, "the outer one is lost");
    assert_eq!(inside(&mut guard, &words("inner", "")).1, 0, "the inner one isn't");
}

#[test]
fn the_lease_of_a_guard_that_stands_still_is_a_five_until_somebody_takes_it() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "x --ttl 1s");
    guard.stop();
    eventually("its lease is over", || root.run("b", "exists x").code == 3);
    assert_eq!(inside(&mut guard, "fence check").1, 5, "expired, and nobody has taken it");
    root.run("b", "lock x").exits(0, "it is over");
    assert_eq!(inside(&mut guard, "fence check").1, 6, "taken");
    guard.signal(Signal::CONT);
}

#[test]
fn the_check_goes_by_the_record_alone() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "x");
    remove(&root.record_path("x"));
    assert_eq!(inside(&mut guard, "fence check").1, 6, "a deleted record holds nothing");
    let answer: Value = root.run("b", "fence check x --token 1 --json").exits(6, "stale").json();
    assert!(answer.get("holder_owner").is_none(), "there is nobody to name: {answer}");
}
