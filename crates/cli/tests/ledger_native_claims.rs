//! Claims beside the native program, and claims that others wrote into a ledger of either style.

use std::fs;
use std::thread;

use lokt_testkit::swarm::wait_until;
use serde_json::Value;

use crate::common::peers::{PATIENCE, SharedLedger};
use crate::common::{Said, from_now, put, time};

/// The type of each event after the second.
fn kinds(shared: &SharedLedger) -> Vec<String> {
    let kind = |number: &u64| shared.event(*number)["type"].as_str().expect("an event has a type").to_owned();
    shared.numbers().iter().skip(2).map(kind).collect()
}

/// The root node, as the native program sees it.
fn root(shared: &SharedLedger) -> Value {
    let said = shared.af("status DIR").exits(0, "the native program reads it");
    serde_json::from_str(said.stdout.lines().next().expect("there is a root node")).expect("a node is JSON")
}

/// A claim of ours, in an hour.
fn take(shared: &SharedLedger, owner: &str) -> Said {
    shared.lokt(owner, "claim take 1 -d DIR --ttl 1h --json")
}

/// A claim of the native program that is over.
fn expired() -> SharedLedger {
    let shared = SharedLedger::native();
    shared.af("claim DIR 1 a 0.001").exits(0, "the node is free");
    shared
}

/// Row 3 of the conformance checks.
#[test]
fn the_native_program_respects_a_claim_of_ours() {
    let shared = SharedLedger::native();
    let claim = take(&shared, "a").exits(0, "the node is free").json();
    shared.af("claim DIR 1 b").exits(3, "it is claimed");
    assert_eq!(kinds(&shared), ["nodes_claimed"], "and nothing is written");
    let node = root(&shared);
    assert_eq!(node["claimed_by"], "a", "{node}");
    let expiry = time(&node["claimed_at"]).duration_since(time(&claim["expires_at"])).as_secs_f64();
    assert!(expiry.abs() < 1.0, "both know when it ends: {node} {claim}");
}

/// Row 4.
#[test]
fn a_claim_of_the_native_program_is_respected() {
    let shared = SharedLedger::native();
    shared.af("claim DIR 1 a 600").exits(0, "the node is free");
    let said = take(&shared, "b").exits(2, "it is claimed");
    assert!(said.stdout.contains("node already locked"), "in the words of the document{said}");
    assert!(said.stdout.contains("\"a\"") && said.stdout.contains("expires_at"), "by whom and until when{said}");
    let text = shared.lokt("b", "claim take 1 -d DIR").exits(2, "it is claimed");
    text.notes("node already locked", "in the words of the document").notes("a", "by whom");
    assert_eq!(kinds(&shared), ["nodes_claimed"], "nothing is written");
}

/// Row 5.
#[test]
fn take_extend_and_release_write_what_the_native_program_reads() {
    let shared = SharedLedger::native();
    let claim = take(&shared, "a").exits(0, "the node is free").json();
    assert_eq!((&claim["seq"], &claim["token"]), (&3.into(), &3.into()), "{claim}");
    assert_eq!(root(&shared)["workflow_state"], "claimed");
    let until = time(&root(&shared)["claimed_at"]);
    let said = shared.lokt("a", "claim extend 1 -d DIR --ttl 2h --json").exits(0, "it is a's");
    assert_eq!((&said.json()["seq"], &said.json()["token"]), (&4.into(), &3.into()), "the token stays{said}");
    assert!(time(&root(&shared)["claimed_at"]) > until, "row 11: the native program sees the new end");
    let said = shared.lokt("a", "claim reap -d DIR --json").exits(0, "nothing has expired");
    assert_eq!(kinds(&shared), ["nodes_claimed", "claim_refreshed"], "so nothing is written{said}");
    shared.lokt("a", "claim release 1 -d DIR --json").exits(0, "it is a's");
    assert_eq!(root(&shared)["workflow_state"], "available");
    assert_eq!(kinds(&shared), ["nodes_claimed", "claim_refreshed", "nodes_released"]);
    for number in 3..=5 {
        let text = String::from_utf8(shared.event_bytes(number)).expect("it is text");
        assert!(text.starts_with("{\"type\":\"") && text.contains(",\"timestamp\":\""), "the type is first: {text}");
    }
    let text = String::from_utf8(shared.event_bytes(3)).expect("it is text");
    let order = ["\"type\"", "\"timestamp\"", "\"node_ids\"", "\"owner\"", "\"timeout\"", "\"boot_id\""];
    let places: Vec<usize> =
        order.iter().map(|name| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"))).collect();
    assert!(places.is_sorted(), "the native members come first, in their order: {text}");
    shared.pleases_af();
}

/// Row 6.
#[test]
fn nobody_extends_or_releases_the_claim_of_another() {
    let shared = SharedLedger::native();
    shared.af("claim DIR 1 a 600").exits(0, "the node is free");
    for words in ["claim extend 1 -d DIR --json", "claim release 1 -d DIR --json"] {
        let said = shared.lokt("b", words).exits(4, "it isn't b's");
        assert!(said.stdout.contains("E_LOCK_NOT_HELD"), "{words}{said}");
    }
    assert_eq!(kinds(&shared), ["nodes_claimed"], "nothing is written");
}

/// Row 7.
#[test]
fn taking_what_is_ones_own_refreshes_it() {
    let shared = SharedLedger::native();
    shared.af("claim DIR 1 a 600").exits(0, "the node is free");
    let said = take(&shared, "a").exits(0, "it is a's, whoever wrote that");
    assert_eq!(said.json()["token"], 3, "the token stays{said}");
    assert_eq!(kinds(&shared), ["nodes_claimed", "claim_refreshed"], "one event, no second claim");
    shared.pleases_af();
}

/// Rows 8 and 9.
#[test]
fn an_expired_claim_is_taken_over_and_its_old_owner_can_do_nothing_about_it() {
    let shared = expired();
    let said = take(&shared, "b").exits(0, "it has expired");
    assert_eq!((&said.json()["seq"], &said.json()["token"]), (&5.into(), &5.into()), "a new token{said}");
    assert_eq!(kinds(&shared), ["nodes_claimed", "nodes_released", "nodes_claimed"], "released, then claimed");
    assert_eq!(root(&shared)["claimed_by"], "b");
    for words in ["claim extend 1 -d DIR --json", "claim release 1 -d DIR --json"] {
        shared.lokt("a", words).exits(4, "it is b's now");
    }
    shared.lokt("a", "claim release 1 -d DIR --token 3 --json").exits(6, "the old token is stale");
    let fenced = shared.call("a").args(["ledger", "append", "--json", "--token", "3", r#"{"type":"x"}"#]).run();
    assert_eq!(fenced.exits(6, "for appends too").failure(), "E_FENCING_MISMATCH");
    shared.call("b").args(["ledger", "append", "--token", "5", r#"{"type":"x"}"#]).run().exits(0, "b's is good");
    assert_eq!(root(&shared)["claimed_by"], "b", "nothing was freed");
    shared.pleases_af();
}

/// Row 10.
#[test]
fn an_expired_claim_that_nobody_took_is_neither_extended_nor_released() {
    let shared = expired();
    for words in ["claim extend 1 -d DIR --json", "claim release 1 -d DIR --json"] {
        let said = shared.lokt("a", words).exits(5, "it is over");
        assert!(said.stdout.contains("E_LOCK_EXPIRED"), "{words}{said}");
    }
    assert_eq!(kinds(&shared), ["nodes_claimed"], "nothing is written");
    take(&shared, "a").exits(0, "but it can be taken anew");
    assert_eq!(kinds(&shared), ["nodes_claimed", "nodes_released", "nodes_claimed"], "with a new token");
    shared.pleases_af();
}

/// Row 12.
#[test]
fn eight_reaps_at_once_write_one_event() {
    let shared = SharedLedger::native();
    for round in 0..20 {
        shared.af("claim DIR 1 a 0.001").exits(0, "the node is free");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    shared.lokt("r", "claim reap -d DIR --json").exits(0, "whoever comes too late has nothing to do")
                });
            }
        });
        let head = *shared.numbers().last().expect("there are events");
        assert_eq!(head, 2 + 2 * (round + 1), "one event ended it");
        let event = shared.event(head);
        assert_eq!(event["node_ids"], serde_json::json!(["1"]), "{event}");
        assert_eq!(
            (&event["reason"], &event["previous_owners"]),
            (&"expired".into(), &serde_json::json!(["a"])),
            "{event}"
        );
    }
    shared.pleases_af();
}

/// Waits until a process of ours waits for the foreign lock, lets `meanwhile` happen, and frees the lock.
fn reap_beside(shared: &SharedLedger, meanwhile: &str) {
    fs::create_dir(shared.lock()).expect("the name is free");
    let reap = shared.start_lokt("claim reap -d DIR --json");
    // It has read everything and waits for nothing but the lock when it sleeps between two looks.
    assert!(wait_until(PATIENCE, || reap.naps()), "it waits for the lock");
    shared.put_event(4, meanwhile);
    fs::remove_dir(shared.lock()).expect("it is empty");
    let ending = reap.ends();
    assert_eq!(ending.code, Some(0), "it has nothing to do: {ending:?}");
    assert_eq!(shared.numbers(), [1, 2, 3, 4], "so nothing is written: {ending:?}");
    shared.pleases_af();
}

/// Row 13.
#[test]
fn a_reap_does_not_revoke_a_claim_that_was_just_refreshed() {
    let shared = expired();
    let until = from_now(600);
    reap_beside(
        &shared,
        &format!(
            r#"{{"type":"claim_refreshed","timestamp":"2026-11-15T12:00:00Z","node_id":"1","owner":"a","new_timeout":"{until}"}}"#
        ),
    );
    assert_eq!(root(&shared)["claimed_by"], "a");
}

/// Row 14.
#[test]
fn a_reap_does_not_release_what_was_just_released() {
    reap_beside(&expired(), r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00Z","node_ids":["1"]}"#);
}

/// Row 29.
#[test]
fn a_documented_claim_in_a_native_ledger_counts_and_is_warned_of() {
    let shared = SharedLedger::native();
    let until = from_now(600);
    shared.put_event(3, format!(r#"{{"type":"lock_acquired","timestamp":"2026-11-15T12:00:00Z","node_id":"1","owner":"a","expires_at":"{until}"}}"#));
    let said = take(&shared, "b").exits(2, "a has it");
    assert!(said.stdout.contains("\"a\""), "{said}");
    shared
        .lokt("b", "ledger doctor -d DIR")
        .exits(65, "the native program can't read it")
        .says("000003.json", "which event");
}

/// Row 30.
#[test]
fn claims_in_a_documented_ledger_are_those_that_have_not_ended() {
    let shared = SharedLedger::documented();
    let (past, future) = (from_now(-60), from_now(600));
    let event = |kind: &str, node: &str, more: &str| {
        format!(r#"{{"type":"{kind}","timestamp":"2026-11-15T12:00:00Z","node_id":"{node}","owner":"a"{more}}}"#)
    };
    let until = |at| format!(r#","expires_at":"{at}""#);
    for (number, event) in (1..).zip([
        event("lock_acquired", "1.1", &until(future)),
        event("lock_acquired", "1.2", &until(past)),
        event("lock_acquired", "1.3", &until(future)),
        event("lock_released", "1.3", ""),
        event("lock_acquired", "1.4", &until(future)),
        event("lock_reaped", "1.4", ""),
        event("lock_released", "1.9", ""),
        event("lock_acquired", "alpha", &until(future)),
    ]) {
        shared.put_event(number, event);
    }
    for (node, code) in [("1.1", 2), ("alpha", 2), ("1.3", 0), ("1.4", 0), ("1.9", 0)] {
        shared.lokt("b", &format!("claim take {node} -d DIR --dry-run")).exits(code, node);
    }
    let list = shared.lokt("b", "claim list -d DIR --json").exits(0, "it can be read");
    for (node, listed) in [("1.1", true), ("alpha", true), ("1.3", false), ("1.4", false), ("1.9", false)] {
        assert_eq!(list.stdout.contains(&format!("\"{node}\"")), listed, "{node} in the list{list}");
    }
    let said = shared.lokt("b", "claim take 1.2 -d DIR --json").exits(0, "that one has expired");
    assert_eq!(said.json()["seq"], 10, "after an event that ended it{said}");
    let (ended, taken) = (shared.event(9), shared.event(10));
    assert_eq!(
        (&ended["type"], &ended["node_id"], &ended["owner"]),
        (&"lock_reaped".into(), &"1.2".into(), &"a".into()),
        "{ended}"
    );
    assert_eq!((&taken["type"], &taken["owner"]), (&"lock_acquired".into(), &"b".into()), "{taken}");
    let text = String::from_utf8(shared.event_bytes(10)).expect("it is text");
    let order = ["\"type\"", "\"timestamp\"", "\"node_id\"", "\"owner\"", "\"expires_at\"", "\"ttl_sec\""];
    let places: Vec<usize> =
        order.iter().map(|name| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"))).collect();
    assert!(places.is_sorted(), "the documented members come first, in their order: {text}");
}

/// Row 34.
#[test]
fn the_length_of_a_claim_comes_from_meta_json_in_either_form() {
    for (meta, expected) in [
        (r#"{"version":"1.0","lock_timeout":"90s"}"#, Some(90.0)),
        (r#"{"version":"1.0","lock_timeout":90000000000}"#, Some(90.0)),
        (r#"{"version":"1.0"}"#, Some(300.0)),
        (r#"{"version":"1.0","lock_timeout":"1h"}"#, Some(3600.0)),
        (r#"{"version":"1.0","lock_timeout":"2h"}"#, None),
        (r#"{"version":"1.0","lock_timeout":"1ms"}"#, None),
        (r#"{"version":"1.0","lock_timeout":[]}"#, None),
    ] {
        let shared = SharedLedger::native();
        put(&shared.path().join("meta.json"), meta);
        let said = shared.lokt("a", "claim take 1 -d DIR --json");
        match expected {
            Some(secs) => {
                let said = said.exits(0, meta);
                let event = shared.event(3);
                let length = crate::common::seconds_between(&event["timestamp"], &event["timeout"]);
                assert!((length - secs).abs() < 2.0, "{meta}: {length} seconds{said}");
            }
            // Refused, or within the limits and with a warning.
            None if said.code == 0 => {
                let event = shared.event(3);
                let length = crate::common::seconds_between(&event["timestamp"], &event["timeout"]);
                assert!((0.9..=3600.1).contains(&length), "{meta}: {length} seconds{said}");
                assert!(said.stderr.contains("lock_timeout"), "{meta}: it says so{said}");
            }
            None => assert!(said.stdout.contains("lock_timeout"), "{meta}: it says why{said}"),
        }
    }
}

/// Row 36.
#[test]
fn only_canonical_ids_of_nodes_are_taken_in_a_native_ledger() {
    let shared = SharedLedger::native_with(2);
    for node in ["01", "1.+1", "2", "1..2", "", "1.", ".1", "1.01", " 1", "1.0", "1.-1", "one", "1.1\n"] {
        let said = shared.call("a").args(["claim", "take", "--json", "--", node]).run();
        assert!(matches!(said.code, 3 | 64), "{node:?} is no node{said}");
    }
    shared.lokt("a", "claim take 1.9 -d DIR --json").exits(3, "there is no such node");
    assert_eq!(kinds(&shared).len(), 2, "nothing is written");
    shared.lokt("a", "claim take 1.2 -d DIR").exits(0, "this one is there");
    let said = shared.lokt("b", "claim take --any 1.2 1.1 1 -d DIR --json").exits(0, "one of them is free");
    assert_eq!(said.json()["node"], "1.1", "the first that is{said}");
    shared.pleases_af();
}

/// Row 39.
#[test]
fn the_answer_is_one_object_on_stdout() {
    let shared = SharedLedger::native();
    let said = take(&shared, "a").exits(0, "the node is free");
    assert_eq!(said.stderr, "", "nothing beside it{said}");
    let answer = said.json();
    for (name, value) in [("seq", Value::from(3)), ("token", 3.into()), ("node", "1".into()), ("owner", "a".into())] {
        assert_eq!(answer[name], value, "{name}{said}");
    }
    assert!(time(&answer["expires_at"]) > from_now(3_000), "{said}");
}

#[test]
fn the_native_program_and_ours_hand_a_node_to_and_fro() {
    let shared = SharedLedger::native();
    for round in 0..5 {
        take(&shared, &format!("ours-{round}")).exits(0, "the node is free");
        shared.af(&format!("release DIR 1 ours-{round}")).exits(0, "the owner may release it with either program");
        shared.af(&format!("claim DIR 1 theirs-{round} 600")).exits(0, "the node is free");
        take(&shared, "c").exits(2, "it is claimed");
        shared.lokt(&format!("theirs-{round}"), "claim release 1 -d DIR").exits(0, "and so may this one");
    }
    assert_eq!(shared.numbers().len(), 22);
    shared.lokt("b", "ledger verify -d DIR --json").exits(0, "nothing is wrong with it");
    shared.pleases_af();
}
