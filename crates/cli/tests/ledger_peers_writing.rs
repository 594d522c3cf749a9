//! The stand-ins for other programs write as the originals were seen to: what they leave behind at each step, and what they break.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::peers::{Peer, SharedLedger, Style};
use crate::common::{make_old, mode, put, remove};

const NO_OP: &str = r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00.5Z","node_ids":[]}"#;

/// What is in the ledger's directory beside events.
fn others(shared: &SharedLedger) -> Vec<String> {
    let names =
        fs::read_dir(shared.ledger()).expect("it is there").map(|entry| entry.expect("it is there").file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| Path::new(name).extension().is_none_or(|end| end != "json"));
    names.sort();
    names
}

#[test]
fn the_native_writer_leaves_at_each_step_what_the_original_leaves() {
    for (step, lock_bytes, temp) in [
        ("created", false, None),
        ("lock", true, None),
        ("listing", true, None),
        ("temp", true, Some((0, 0o600))),
        ("written", true, Some((1, 0o600))),
        ("synced", true, Some((1, 0o600))),
        ("renamed", true, None),
        ("compared", true, None),
    ] {
        let shared = SharedLedger::native();
        let peer = shared.start_af(&format!("append DIR 1 --pause-after {step}")).stops();
        let lock = fs::read_to_string(shared.lock()).expect("it holds the lock");
        assert_eq!(mode(&shared.lock()), 0o600, "the lock is private at {step}");
        assert_eq!(!lock.is_empty(), lock_bytes, "the lock's bytes at {step}: {lock}");
        if lock_bytes {
            assert!(lock.starts_with(r#"{"agent_id":"append-operation","acquired_at":""#) && lock.ends_with("\"}\n"));
        }
        match (shared.temps().as_slice(), temp) {
            ([], None) => {}
            ([path], Some((full, bits))) => {
                assert_eq!(mode(path), bits, "the mode of the temporary file at {step}");
                assert_eq!(u64::from(fs::metadata(path).expect("it is there").len() > 0), full, "its bytes at {step}");
            }
            (found, _) => panic!("temporary files at {step}: {found:?}"),
        }
        let published = u64::from(matches!(step, "renamed" | "compared"));
        assert_eq!(shared.numbers().len() as u64, 2 + published, "the events at {step}");
        let ending = peer.finishes();
        assert_eq!((ending.code, ending.stdout.as_str()), (Some(0), "3\n"), "it goes on after {step}: {ending:?}");
        assert_eq!(mode(&shared.event_path(3)), 0o644, "everybody can read the event");
        assert_eq!(others(&shared), Vec::<String>::new(), "nothing is left after {step}");
    }
}

#[test]
fn the_shell_writer_leaves_at_each_step_what_the_documents_example_leaves() {
    for (step, temps, events) in [("lock", 0, 0), ("count", 0, 0), ("mktemp", 1, 0), ("write", 1, 0), ("mv", 0, 1)] {
        let shared = SharedLedger::documented();
        let peer = shared.start_seed(2, "s-", step).stops();
        assert!(fs::symlink_metadata(shared.lock()).expect("it holds the lock").is_dir(), "its lock is a directory");
        assert_eq!((shared.temps().len(), shared.numbers().len()), (temps, events), "what is there after {step}");
        let ending = peer.finishes();
        assert_eq!(ending.code, Some(0), "it goes on after {step}: {ending:?}");
        shared.is_contiguous(2);
        assert_eq!(mode(&shared.event_path(1)), 0o600, "mktemp makes files for their owner alone");
    }
}

#[test]
fn peers_of_every_kind_exclude_each_other() {
    let shared = SharedLedger::documented();
    let mut peers: Vec<Peer> = (0..2).map(|at| shared.start_seed(20, &format!("shell-{at}-"), "")).collect();
    let af = |at| shared.start_af(&format!("append DIR 20 --documented --timeout 60 --payload python-{at}-"));
    peers.extend((0..2).map(af));
    for peer in peers {
        let ending = peer.ends();
        assert_eq!((ending.code, ending.stderr.as_str()), (Some(0), ""), "every append succeeds");
    }
    shared.is_contiguous(80);
    assert_eq!(shared.style(), Style::Documented);
    let payloads = shared.payloads();
    assert_eq!((payloads.len(), payloads.values().sum::<usize>()), (80, 80), "every payload is there once");
}

#[test]
fn deleting_a_stopped_writers_lock_loses_an_event_and_a_lock_as_with_the_original() {
    let shared = SharedLedger::native();
    let stopped = shared.start_af("append DIR 1 --payload stopped- --pause-after synced").stops();
    remove(&shared.lock());
    shared.af("append DIR 1 --payload lost-").exits(0, "the lock is free").says("3\n", "and this is event 3");
    let inside = shared.start_af("append DIR 1 --payload inside- --pause-after listing").stops();
    assert_eq!(stopped.finishes().code, Some(0), "it notices nothing");
    assert_eq!(shared.event(3)["payload"], "stopped-1", "the committed event is replaced");
    assert!(!shared.is_locked(), "and the lock of the one who is inside is gone");
    assert_eq!(inside.finishes().code, Some(0), "who says so on stderr alone");
}

#[test]
fn a_release_compares_the_agent_unless_told_otherwise() {
    for (flags, stays) in [("", true), ("--unlink-blindly", false)] {
        let shared = SharedLedger::native();
        let peer = shared.start_af(&format!("append DIR 1 {flags} --pause-after renamed")).stops();
        put(&shared.lock(), r#"{"agent_id":"somebody else","acquired_at":"2026-11-15T12:00:00Z"}"#);
        let ending = peer.finishes();
        assert_eq!(shared.is_locked(), stays, "another agent's lock, released with {flags:?}: {ending:?}");
        assert_eq!(ending.stderr.contains("lock ownership mismatch"), stays, "it says so: {ending:?}");
        assert_eq!(ending.code, Some(0), "the event is there all the same");
    }
}

#[test]
fn a_directory_with_something_in_it_survives_every_kind_of_release() {
    for words in ["append DIR 1", "append DIR 1 --unlink-blindly"] {
        let shared = SharedLedger::native();
        let peer = shared.start_af(&format!("{words} --pause-after renamed")).stops();
        remove(&shared.lock());
        put(&shared.lock().join("holder.json"), "{}");
        let ending = peer.finishes();
        assert!(shared.lock().join("holder.json").exists(), "{words} leaves it: {ending:?}");
        assert!(ending.stderr.contains("failed to release lock"), "{words} says so: {ending:?}");
    }
    let shared = SharedLedger::documented();
    let peer = shared.start_seed(1, "s-", "mv").stops();
    put(&shared.lock().join("holder.json"), "{}");
    peer.finishes();
    assert!(shared.lock().join("holder.json").exists(), "rmdir leaves it");
}

#[test]
fn a_writer_whose_temporary_file_was_deleted_fails_and_overwrites_nothing() {
    let shared = SharedLedger::native();
    let peer = shared.start_af("append DIR 1 --pause-after synced").stops();
    for temp in shared.temps() {
        remove(&temp);
    }
    shared.put_event(3, NO_OP);
    let ending = peer.finishes();
    assert_eq!(ending.code, Some(1), "it says that it failed: {ending:?}");
    assert_eq!(shared.event_bytes(3), NO_OP.as_bytes(), "and the event is as it was");
}

#[test]
fn the_native_program_waits_for_any_lock_and_for_no_old_one() {
    let shared = SharedLedger::native();
    put(&shared.lock(), "");
    make_old(&shared.lock());
    let said = shared.af("append DIR 1 --timeout 0.1").exits(1, "a lock of 2001 is one");
    said.notes("timeout waiting for lock", "it says so");
    remove(&shared.lock());
    fs::create_dir(shared.lock()).expect("a temp directory is writable");
    shared.af("append DIR 1 --timeout 0.1").exits(1, "and so is a directory");
    fs::remove_dir(shared.lock()).expect("it is empty");
    shared.af("append DIR 1 --timeout 0").exits(0, "there is one attempt even without time");
}

#[test]
fn compare_and_swap_is_on_the_highest_number() {
    let shared = SharedLedger::native();
    shared
        .af("append-if DIR 1")
        .exits(1, "it has moved")
        .notes("expected sequence 1, but ledger is at 2", "it says so");
    shared.af("append-if DIR 2").exits(0, "that is the highest").says("3\n", "so this comes next");
    shared.put_event(5, NO_OP);
    shared.af("append-if DIR 4").exits(1, "not the count");
    shared.af("append-if DIR 5").exits(0, "but the highest").says("6\n", "beyond the gap");
}

fn nodes(shared: &SharedLedger) -> Vec<Value> {
    let said = shared.af("status DIR").exits(0, "it can be read");
    said.stdout.lines().map(|line| serde_json::from_str(line).expect("a node is JSON")).collect()
}

#[test]
fn claims_follow_the_native_rules() {
    let shared = SharedLedger::native_with(1);
    shared.af("claim DIR 1 alice 0.001").exits(0, "a free node can be claimed").says("4\n", "its event");
    shared.af("claim DIR 1 bob").exits(3, "an expired claim is a claim").notes("is not available", "it says so");
    shared.af("claim DIR 1 alice").exits(3, "even for its owner");
    shared.af("claim DIR 1.9 alice").exits(3, "there is no such node").notes("NODE_NOT_FOUND", "it says so");
    shared.af("refresh DIR 1 bob").exits(1, "it isn't his").notes("claimed by alice, not bob", "it says so");
    shared.af("release DIR 1 bob").exits(1, "it isn't his").notes("owner does not match", "it says so");
    shared.af("refresh DIR 1 alice 60").exits(0, "an expired claim can be refreshed");
    assert_eq!(nodes(&shared)[0]["claimed_by"], "alice");
    shared.af("reap DIR").exits(0, "nothing has expired");
    assert_eq!(shared.numbers().len(), 5, "so nothing is written");
    shared.af("release DIR 1 alice").exits(0, "its owner can release it");
    shared.af("release DIR 1 alice").exits(1, "once").notes("is not claimed", "it says so");
    shared.af("claim DIR 1.1 carol 0.001").exits(0, "another node");
    shared.af("reap DIR").exits(0, "an expired claim is ended").says("8\n", "by one event");
    shared.af("claim DIR 1 alice 60").exits(0, "and again");
    shared.af("reap DIR --all").exits(0, "all claims can be ended").says("10\n", "by one event");
    assert!(nodes(&shared).iter().all(|node| node["workflow_state"] == "available"), "all are free");
    shared.pleases_af();
}

#[test]
fn two_native_reaps_at_once_brick_a_proof_as_the_originals_do() {
    let shared = SharedLedger::native();
    shared.af("claim DIR 1 alice 0.001").exits(0, "a free node can be claimed");
    let first = shared.start_af("reap DIR --pause-after created").stops();
    let second = shared.start_af("reap DIR --timeout 60");
    // The second one has replayed as soon as it waits for the lock; both release the same node.
    let second = second.waits();
    assert_eq!(first.finishes().code, Some(0), "the first releases the node");
    assert_eq!(second.ends().code, Some(0), "and the second releases it again");
    shared.af("check DIR").exits(1, "then nobody can read it").says("invalid transition", "for this reason");
}

#[test]
fn a_changed_statement_is_found_by_its_hash() {
    let shared = SharedLedger::native();
    shared.pleases_af();
    let text = String::from_utf8(shared.event_bytes(2)).expect("it is text");
    shared.put_event(2, text.replace("a statement", "another statement"));
    shared.af("check DIR").exits(0, "nobody looks without being asked");
    shared.af("check DIR --verify").exits(1, "it differs").says("content hash verification failed", "it says so");
}
