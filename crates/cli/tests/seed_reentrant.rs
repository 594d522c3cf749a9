//! The document *reentrant* (the same owner refreshes), criterion by criterion and edge case by edge case.
//!
//! Not here: `--wait` (AC6), which comes with waiting.

use serde_json::{Value, json};

use crate::common::{Root, alive, elsewhere, go_lease, go_record, host, seconds_between};

// --- acceptance criteria

#[test]
fn ac1_the_same_owner_succeeds() {
    let root = Root::new();
    root.run("a", "lock foo").exits(0, "it is free");
    let said = root.run("a", "lock foo").exits(0, "it is a's");
    assert_eq!(said.stdout, "acquired lock \"foo\"\n", "a script that only looks at stdout needs no second branch");
    let json = root.run("a", "lock foo --json").exits(0, "it is a's").json();
    assert_eq!((&json["status"], &json["refreshed"]), (&json!("acquired"), &json!(true)), "and JSON tells");
}

#[test]
fn ac2_the_record_has_a_new_time_process_and_lease() {
    let root = Root::used();
    root.put_record("foo", &elsewhere(go_lease("foo", "a", 300, 100)));
    let before = root.record("foo");
    root.lokt("a").args(["lock", "foo", "--ttl", "10m"]).env("LOKT_AGENT_ID", "second").run().exits(0, "it is a's");
    let after = root.record("foo");
    assert!(seconds_between(&before["acquired_ts"], &after["acquired_ts"]) > 100.0, "acquired_ts is new");
    assert_ne!(after["pid"], before["pid"], "pid is the refresher's");
    assert_ne!(after["pid_start_ns"], before["pid_start_ns"], "pid_start_ns is the refresher's");
    assert_eq!(after["host"], json!(host()), "host is the refresher's");
    assert_eq!(after["agent_id"], "second", "agent_id is the refresher's");
    assert_eq!(after["ttl_sec"], 600, "ttl_sec is the new one");
    assert_eq!(after["lock_id"], before["lock_id"], "but it is the same hold");
}

#[test]
fn ac2_a_refresh_of_a_live_hold_keeps_its_token() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let before = root.record("foo");
    root.run("a", "lock foo --ttl 5m").exits(0, "it is a's");
    let after = root.record("foo");
    assert_eq!(after["lock_id"], before["lock_id"], "the same hold");
    assert_eq!(after["fencing_token"], before["fencing_token"], "the same token");
    assert_eq!(after["held_since"], before["held_since"], "the same beginning");
}

#[test]
fn ac3_another_owner_is_refused() {
    let root = Root::new();
    root.run("a", "lock foo").exits(0, "it is free");
    let before = root.record_text("foo");
    root.run("b", "lock foo").exits(2, "it is a's");
    root.run("b", "lock foo --ttl 5m --json").exits(2, "it is a's");
    assert_eq!(root.record_text("foo"), before, "a refusal changes nothing");
}

#[test]
fn ac3_owners_are_compared_letter_by_letter() {
    let root = Root::new();
    root.run("agent-1", "lock foo").exits(0, "it is free");
    for other in ["agent-10", "agent-", "Agent-1", "agent-1 ", "agent-1\n"] {
        root.lokt(other).args(["lock", "foo"]).run().exits(2, "it is another owner");
    }
}

#[test]
fn ac4_a_refresh_is_audited_as_renew() {
    let root = Root::new();
    root.run("a", "lock foo").exits(0, "it is free");
    root.run("a", "lock foo --ttl 90s").exits(0, "it is a's");
    assert_eq!(root.events_of("foo"), ["acquire", "renew"], "distinct from acquire");
    let (event, record) = (root.audit_of("foo").pop().expect("there is one"), root.record("foo"));
    assert_eq!(event["lock_id"], record["lock_id"], "it names the hold");
    assert_eq!(event["ttl_sec"], 90, "and the new lease");
    assert_eq!(event["extra"]["fencing_token"], record["fencing_token"], "and the token");
    assert_eq!((&event["owner"], &event["pid"]), (&json!("a"), &record["pid"]), "and who did it");
}

#[test]
fn r3_another_owners_stale_lock_is_evicted() {
    let root = Root::used();
    for (record, reason) in [
        (go_record("foo", "a"), "dead_pid"),
        (go_lease("foo", "a", 60, -5), "expired"),
        (alive(go_lease("foo", "a", 60, -5)), "expired"),
        (elsewhere(go_lease("foo", "a", 60, -5)), "expired"),
    ] {
        root.put_record("foo", &record);
        let json = root.run("b", "lock foo --json").exits(0, "a stale lock is evicted").json();
        assert_eq!(json["refreshed"], false, "it is a new hold");
        assert_ne!(json["lock_id"], record["lock_id"], "with an id of its own");
        let events = root.audit_of("foo");
        let pruned = &events[events.len() - 2];
        assert_eq!((&pruned["event"], &pruned["extra"]["reason"]), (&json!("auto-prune"), &json!(reason)), "and why");
        root.run("b", "unlock foo").exits(0, "it is b's");
    }
}

#[test]
fn r6_there_is_no_flag_for_it() {
    let root = Root::new();
    root.run("a", "lock foo --reentrant").exits(64, "it is the default, there is no flag");
}

// --- edge cases

#[test]
fn same_owner_different_pid_refreshes() {
    let root = Root::used();
    root.run("agent-1", "lock foo").exits(0, "it is free");
    let before = root.record("foo");
    let json = root.run("agent-1", "lock foo --json").exits(0, "the owner is the identity, not the pid").json();
    assert_eq!(json["refreshed"], true, "it is a refresh");
    assert_ne!(root.record("foo")["pid"], before["pid"], "with the new pid");
    assert_eq!(root.events_of("foo"), ["acquire", "renew"], "nothing was evicted");
}

#[test]
fn same_owner_different_pid_that_runs_joins_it() {
    let root = Root::used();
    root.put_record("foo", &alive(go_record("foo", "agent-1")));
    let json = root.run("agent-1", "lock foo --json").exits(0, "the owner is the identity, not the pid").json();
    assert_eq!(json["refreshed"], true, "it is a refresh");
    assert_eq!(root.record("foo")["pid"], std::process::id(), "a process that runs keeps its hold");
    assert_eq!(root.events_of("foo"), ["renew"], "nothing was evicted");
}

#[test]
fn same_owner_different_host_refreshes() {
    let root = Root::used();
    root.put_record("foo", &elsewhere(go_record("foo", "agent-1")));
    root.run("agent-1", "lock foo").exits(0, "the owner is the identity, not the host");
    assert_eq!(root.record("foo")["host"], json!(host()), "with the new host");
    assert_eq!(root.events_of("foo"), ["renew"], "nothing was evicted");
}

#[test]
fn an_expired_lock_of_the_same_owner_keeps_its_id_and_gets_a_new_token() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 1h").exits(0, "it is free");
    let before = root.record("foo");
    let end = before["expires_at"].as_str().expect("it has an end");
    root.edit("foo", &format!("\"expires_at\": \"{end}\""), "\"expires_at\": \"2026-01-01T00:00:00Z\"");
    let json = root.run("a", "lock foo --ttl 5m --json").exits(0, "its owner takes it again").json();
    assert_eq!(json["refreshed"], true, "it is a refresh, not an eviction");
    assert_eq!(json["lock_id"], before["lock_id"], "the same hold");
    let token = |value: &Value| value["fencing_token"].as_u64().expect("there is a token");
    assert!(token(&json) > token(&before), "with a new token: somebody may have acted on its end");
    assert_eq!(json["new_token"], true, "and the answer says so");
    assert_eq!(root.events_of("foo"), ["acquire", "renew"], "the event is a renewal");
}

#[test]
fn an_expired_lock_of_an_old_program_and_the_same_owner_refreshes() {
    let root = Root::used();
    for record in
        [go_lease("foo", "a", 60, -5), alive(go_lease("foo", "a", 60, -5)), elsewhere(go_lease("foo", "a", 60, -5))]
    {
        root.put_record("foo", &record);
        let json = root.run("a", "lock foo --json").exits(0, "its owner takes it again").json();
        assert_eq!(json["lock_id"], record["lock_id"], "the same hold");
        assert_eq!(root.events_of("foo").last().map(String::as_str), Some("renew"), "the event is a renewal");
    }
}

#[test]
fn a_dead_processes_lock_of_the_same_owner_refreshes() {
    let root = Root::used();
    let record = go_record("foo", "a");
    root.put_record("foo", &record);
    let json = root.run("a", "lock foo --json").exits(0, "its owner takes it again").json();
    assert_eq!((&json["refreshed"], &json["lock_id"]), (&json!(true), &record["lock_id"]), "the same hold");
}

#[test]
fn a_corrupted_record_is_handled_first() {
    let root = Root::used();
    root.put("locks/foo.json", r#"{"version": 1, "name": "foo", "owner": "a", "#);
    let json = root.run("a", "lock foo --json").exits(0, "what is no record is in nobody's way").json();
    assert_eq!(json["refreshed"], false, "it is a new hold");
    assert_eq!(root.events_of("foo"), ["corrupt-break", "acquire"], "what was broken is audited first");
    assert_eq!(root.aside().len(), 1, "and kept");
}

#[test]
fn twenty_refreshes_at_once_all_succeed() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let before = root.record("foo");
    let running: Vec<_> =
        (0..20).map(|_| root.lokt("a").args(["lock", "foo", "--ttl", "10m", "--json"]).start()).collect();
    for said in running.into_iter().map(crate::common::Running::wait) {
        let json = said.exits(0, "both are the same owner, both succeed").json();
        assert_eq!(json["refreshed"], true, "each is a refresh");
        assert_eq!(json["fencing_token"], before["fencing_token"], "each keeps the token");
    }
    let after = root.record("foo");
    assert_eq!(after["lock_id"], before["lock_id"], "it is the same hold");
    assert_eq!(after["ttl_sec"], 600, "the last writer won, and wrote a whole record");
    assert_eq!(root.events_of("foo").iter().filter(|event| *event == "renew").count(), 20, "one event each");
    root.run("b", "lock foo").exits(2, "and it is still a's");
}

#[test]
fn twenty_first_locks_at_once_make_one_hold() {
    let root = Root::new();
    let running: Vec<_> = (0..20).map(|_| root.lokt("a").args(["lock", "foo", "--json"]).start()).collect();
    let answers: Vec<Value> =
        running.into_iter().map(|call| call.wait().exits(0, "all are the same owner").json()).collect();
    assert!(answers.iter().all(|json| json["lock_id"] == answers[0]["lock_id"]), "all have the same hold");
    assert_eq!(answers.iter().filter(|json| json["refreshed"] == false).count(), 1, "one of them made it");
}
