//! Leases beside `jvs` (`peers/jvs.py`): each honours and shows the lock of the other.

use std::fs;
use std::time::Duration;

use lokt_testkit::swarm::pause;
use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG};
use crate::common::jvs::{LOCKS, V8};
use crate::common::{eventually, put};

fn lock_file(grove: &Grove, worktree: &str) -> std::path::PathBuf {
    grove.inside(&format!("worktrees/{worktree}/lock.json"))
}

fn lock(grove: &Grove, worktree: &str) -> Option<Value> {
    Some(serde_json::from_slice(&fs::read(lock_file(grove, worktree)).ok()?).expect("a lock of jvs is JSON"))
}

#[test]
fn a_lock_of_jvs_is_honoured_by_every_command_that_writes() {
    let grove = Grove::of_jvs(LOCKS);
    grove.jvs(LOCKS, "worktree create side", 0);
    let first = grove.jvs_takes(LOCKS, "one");
    grove.jvs(LOCKS, "lock acquire", 0);
    grove.jvs(LOCKS, "lock acquire --worktree side", 0);
    let before = fs::read(lock_file(&grove, "main")).expect("jvs holds it");
    for words in [
        "lease acquire".to_owned(),
        "lease steal".to_owned(),
        "lease run -- true".to_owned(),
        "snapshot create --acquire".to_owned(),
        format!("snapshot restore {first} --in-place --acquire --force"),
    ] {
        let words = words.replace(" -- ", " --json -- ");
        let words = if words.contains("--json") { words } else { format!("{words} --json") };
        let denied = grove.run("alice", &words).exits(2, &words).json();
        assert_eq!(
            (&denied["code"], &denied["state"]),
            (&json!("E_LOCK_CONFLICT"), &json!("foreign")),
            "{words}: {denied}"
        );
    }
    for words in ["worktree remove side --force", "worktree rename side other"] {
        let denied = grove.json("alice", words, 2);
        assert_eq!(denied["code"], "E_LOCK_CONFLICT", "{words}: {denied}");
    }
    assert!(grove.top().join("worktrees/side").is_dir(), "what jvs holds stays");
    assert_eq!(fs::read(lock_file(&grove, "main")).expect("it is there"), before, "nobody touched it");
    let said = grove.run("alice", "lease acquire").exits(2, "jvs holds it");
    said.notes("jvs", "the holder is named");
    grove.jvs(LOCKS, "lock release", 0);
    grove.acquire("alice", LONG);
}

#[test]
fn a_lock_of_jvs_is_shown_live_and_expired() {
    let grove = Grove::of_jvs(LOCKS);
    grove.jvs(LOCKS, "lock acquire", 0);
    let status = grove.json("alice", "lease status", 0);
    assert_eq!((&status["state"], &status["lives"]), (&json!("foreign"), &json!(true)), "{status}");
    assert_eq!(status["lock"]["fencing_token"], 1, "{status}");
    grove.run("alice", "lease status").exits(0, "it is shown").says("jvs", "and whose it is");
    grove.run("alice", "doctor --strict").exits(0, "that is no fault").says("lock.json", "and where");
    grove.jvs(LOCKS, "lock release", 0);
    grove.jvs(LOCKS, "lock acquire 0.1", 0);
    // Beyond its end, and what clocks may differ.
    eventually("it expires by its own time", || grove.state("main") == "expired");
    grove.run("alice", "doctor --strict").exits(0, "that is no fault").says("lock.json", "an expired one is shown");
    let token = grove.acquire("alice", LONG);
    assert!(token > 1, "above that of jvs: {token}");
    let shown = lock(&grove, "main").expect("jvs sees the lease");
    assert_eq!(shown["fencing_token"], token, "the expired one was replaced: {shown}");
}

#[test]
fn a_waiter_gets_the_lease_when_jvs_releases_its_lock() {
    let grove = Grove::of_jvs(LOCKS);
    grove.jvs(LOCKS, "lock acquire", 0);
    let waiter = grove.lokt("alice").args(["lease", "acquire", "--wait", "--timeout", "25s"]).start();
    pause(Duration::from_millis(300));
    grove.jvs(LOCKS, "lock release", 0);
    waiter.wait().exits(0, "jvs gave it back");
}

#[test]
fn the_token_of_jvs_is_in_the_floor_of_ours() {
    let grove = Grove::of_jvs(LOCKS);
    grove.acquire("alice", LONG);
    grove.run("alice", "lease release").exits(0, "it is hers");
    let mut planted = grove.jvs(LOCKS, "lock acquire 0.1", 0);
    planted["fencing_token"] = 70_000.into();
    put(&lock_file(&grove, "main"), planted.to_string());
    eventually("it expires by its own time", || grove.state("main") == "expired");
    assert!(grove.acquire("alice", LONG) > 70_000, "no token is given twice");
}

#[test]
fn a_lock_of_jvs_that_cannot_be_read_counts_as_held() {
    let grove = Grove::of_jvs(LOCKS);
    put(&lock_file(&grove, "main"), "");
    let denied = grove.json("alice", "lease acquire", 2);
    assert_eq!((&denied["code"], &denied["state"]), (&json!("E_LOCK_CONFLICT"), &json!("corrupt")), "{denied}");
    let said = grove.run("alice", "lease acquire").exits(2, "somebody may be writing it");
    said.notes("worktrees/main/lock.json", "the file is named").notes("`--wait` waits until", "and what helps");
    grove.run("alice", "lease break --force --reason stuck").exits(0, "it is told to");
    assert!(!lock_file(&grove, "main").exists(), "the way is free, for jvs too");
    grove.acquire("alice", LONG);
}

#[test]
fn jvs_sees_a_lease() {
    let grove = Grove::of_jvs(LOCKS);
    grove.jvs(LOCKS, "worktree create side", 0);
    let token = grove.acquire("alice", LONG);
    let said = grove.jvs_says(LOCKS, "lock acquire", 1);
    assert!(said.stderr.contains("E_LOCK_CONFLICT: worktree main is locked"), "{}", said.stderr);
    let status = grove.jvs(LOCKS, "lock status", 0);
    assert_eq!((&status["state"], &status["lock"]["fencing_token"]), (&json!("held"), &json!(token)), "{status}");
    grove.jvs_says(LOCKS, "snapshot over-the-lease", 1);
    let until = lock(&grove, "main").expect("it is shown")["expires_at"].clone();
    pause(Duration::from_millis(20));
    grove.run("alice", "lease renew").exits(0, "it is hers");
    assert_ne!(lock(&grove, "main").expect("it is shown")["expires_at"], until, "a renewal is shown");
    grove.run("bob", "lease acquire --worktree side").exits(0, "it is free");
    let said = grove.jvs_says(LOCKS, "worktree remove side", 1);
    assert!(said.stderr.contains("E_LOCK_CONFLICT"), "{}", said.stderr);
    grove.run("alice", "lease release").exits(0, "it is hers");
    assert_eq!(grove.jvs(LOCKS, "lock status", 0)["state"], "free", "what is given back is free for jvs");
    grove.jvs(LOCKS, "lock acquire", 0);
    grove.run("alice", "lease release").exits(4, "it isn't hers any more");
    assert_eq!(grove.jvs(LOCKS, "lock status", 0)["state"], "held", "nobody removed what is another's");
}

#[test]
fn a_holder_that_was_killed_leaves_a_lock_that_expires_by_its_own_time() {
    let grove = Grove::of_jvs(LOCKS);
    let short = "--lease 1s --renew 100ms --skew 50ms --grace 50ms";
    grove.lease("alice", short);
    assert!(lock(&grove, "main").is_some(), "jvs sees it");
    eventually("it expires for jvs", || grove.jvs(LOCKS, "lock status", 0)["state"] == "expired");
    grove.is_over();
    grove.jvs(LOCKS, "lock steal", 0);
    grove.run("bob", "lease acquire").exits(2, "jvs took it");
    grove.run("alice", "lease renew").exits(4, "it isn't hers any more");
}

#[test]
fn jvs_that_takes_a_lease_by_force_is_noticed_by_the_next_renewal() {
    let grove = Grove::of_jvs(LOCKS);
    grove.acquire("alice", LONG);
    let mut taken = lock(&grove, "main").expect("it is shown");
    taken["holder_nonce"] = "00000000-0000-4000-8000-000000000000".into();
    taken.as_object_mut().expect("an object").remove("chain");
    put(&lock_file(&grove, "main"), taken.to_string());
    grove.run("alice", "lease renew").exits(4, "another has it").notes("held by jvs", "it is named");
    assert_eq!(lock(&grove, "main").expect("it is there")["holder_nonce"], taken["holder_nonce"], "and keeps it");
}

#[test]
fn a_renamed_worktree_is_free_for_both() {
    let grove = Grove::of_jvs(LOCKS);
    grove.jvs(LOCKS, "worktree create side", 0);
    grove.run("alice", "worktree rename side other").exits(0, "nobody holds it");
    assert!(lock(&grove, "other").is_none(), "what showed the lease is gone");
    grove.run("alice", "lease acquire --worktree other").exits(0, "it is free");
    grove.run("alice", "lease release --worktree other").exits(0, "it is hers");
    grove.jvs(LOCKS, "lock acquire --worktree other", 0);
}

#[test]
fn in_a_repository_of_lokt_there_is_no_lock_of_jvs_and_jvs_refuses_it() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    assert!(lock(&grove, "main").is_none(), "nobody would read it");
    for era in [LOCKS, V8] {
        for words in ["info", "history", "gc run", "snapshot x", "worktree remove main"] {
            let said = grove.jvs_says(era, words, 1);
            assert!(said.stderr.contains("E_FORMAT_UNSUPPORTED"), "{era}: {words}: {}", said.stderr);
        }
    }
}
