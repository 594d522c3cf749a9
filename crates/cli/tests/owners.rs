//! An owner is not a process: what keeps a lock, and what no longer does.

use serde_json::json;

use crate::common::{NO_PID, Root, alive, elsewhere, go_lease, go_record, host, start_of};

#[test]
fn an_owners_lock_outlives_the_command_that_took_it() {
    let root = Root::new();
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    let pid = &root.record("x")["pid"];
    let json = root.run("b", "lock x --json").exits(2, "it is a's for five minutes").json();
    assert_eq!((&json["holder_pid"], &json["holder_pid_status"]), (pid, &json!("none")), "no process is behind it");
    for words in ["lock x", "lock x --ttl 5m", "lock x --ttl 1s", "lock x"] {
        root.run("b", words).exits(2, "however often and however b asks");
    }
    root.run("b", "unlock --break-stale x").exits(1, "and it is not stale");
    assert_eq!(root.record("x")["owner"], "a", "a has it");
}

#[test]
fn an_owners_lock_without_a_ttl_stays_until_it_is_unlocked() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    root.run("b", "lock x").exits(2, "only an unlock ends it");
    root.run("a", "unlock x").exits(0, "it is a's");
    root.run("b", "lock x").exits(0, "now it is free");
}

#[test]
fn three_owners_and_two_slots_make_one_of_them_wait() {
    let root = Root::new();
    let slot = |owner| {
        ["slot-1", "slot-2"].into_iter().find(|slot| root.run(owner, &format!("lock {slot} --ttl 5m")).code == 0)
    };
    assert_eq!((slot("a"), slot("b"), slot("c")), (Some("slot-1"), Some("slot-2"), None), "one slot each, none for c");
}

#[test]
fn of_many_owners_at_once_one_gets_it() {
    let root = Root::new();
    let running: Vec<_> =
        (0..16).map(|n| root.lokt(&format!("owner-{n}")).args(["lock", "x", "--ttl", "5m"]).start()).collect();
    let codes: Vec<i32> = running.into_iter().map(|call| call.wait().code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "one is let in: {codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 2).count(), 15, "all others are refused: {codes:?}");
}

#[test]
fn a_dead_processes_record_is_evicted_and_audited_with_the_victims_name() {
    let root = Root::used();
    let record = go_record("x", "victim");
    root.put_record("x", &record);
    let said = root.run("b", "lock x --ttl 5m").exits(0, "a dead process holds nothing");
    said.notes(&format!("note: broke the stale lock of victim@{} (dead_pid)", host()), "b is told what it broke");
    assert_eq!(root.events_of("x"), ["auto-prune", "acquire"], "first what was broken, then what came of it");
    let pruned = &root.audit_of("x")[0];
    assert_eq!(pruned["owner"], "b", "the actor is b");
    assert_eq!(pruned["lock_id"], record["lock_id"], "the hold that was broken");
    assert_eq!(
        pruned["extra"],
        json!({"pruned_owner": "victim", "pruned_host": host(), "pruned_pid": NO_PID, "reason": "dead_pid"}),
        "whose it was, and why it was broken"
    );
}

#[test]
fn a_reused_pid_is_another_process() {
    let root = Root::used();
    let mut record = alive(go_record("x", "a"));
    record["pid_start_ns"] = (start_of(std::process::id()) - 1).into();
    root.put_record("x", &record);
    root.run("b", "lock x").exits(0, "a process that started at another time is not the one that locked");
}

#[test]
fn a_live_pid_without_a_start_time_is_alive() {
    let root = Root::used();
    let mut record = alive(go_record("x", "a"));
    record.as_object_mut().expect("a record is an object").remove("pid_start_ns");
    root.put_record("x", &record);
    root.run("b", "lock x").exits(2, "what can't be told apart counts as alive");
}

#[test]
fn a_live_processes_record_is_respected() {
    let root = Root::used();
    root.put_record("x", &alive(go_record("x", "a")));
    let before = root.record_text("x");
    root.run("b", "lock x").exits(2, "its process lives");
    assert_eq!(root.record_text("x"), before, "a refusal changes nothing");
}

#[test]
fn another_hosts_unexpired_record_is_respected() {
    let root = Root::used();
    for record in [elsewhere(go_record("x", "a")), elsewhere(go_lease("x", "a", 60, 50))] {
        root.put_record("x", &record);
        root.run("b", "lock x")
            .exits(2, "its process can't be asked from here")
            .notes("elsewhere.example", "it says where");
    }
}

#[test]
fn whatever_has_expired_is_evicted_by_a_plain_lock() {
    let root = Root::used();
    for (record, sentence) in [
        (go_lease("x", "a", 60, -5), "expired here, its process dead"),
        (alive(go_lease("x", "a", 60, -5)), "expired here, its process alive"),
        (elsewhere(go_lease("x", "a", 60, -5)), "expired on another host"),
    ] {
        root.put_record("x", &record);
        let said = root.run("b", "lock x").exits(0, sentence);
        said.notes("(expired)", "b is told what it broke");
        let events = root.audit_of("x");
        let pruned = &events[events.len() - 2];
        assert_eq!(pruned["event"], "auto-prune", "{sentence}: it is audited");
        assert_eq!(pruned["extra"]["pruned_owner"], "a", "{sentence}: with the victim's name");
        assert_eq!(pruned["extra"]["reason"], "expired", "{sentence}: and why");
        root.run("b", "unlock x").exits(0, "it is b's");
    }
}

#[test]
fn the_hold_that_was_broken_cannot_be_unlocked_by_its_old_owner() {
    let root = Root::used();
    root.put_record("x", &go_lease("x", "a", 60, -5));
    root.run("b", "lock x").exits(0, "it has expired");
    root.run("a", "unlock x").exits(4, "it is b's now");
    assert_eq!(root.record("x")["owner"], "b", "b keeps it");
}
