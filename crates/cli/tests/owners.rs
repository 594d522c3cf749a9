//! An owner is not a process: what keeps a lock, and what no longer does.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{NO_PID, Pulse, Root, Sleeper, alive, elsewhere, go_lease, go_record, host, start_of};

#[test]
fn an_owners_lock_outlives_the_command_that_took_it() {
    let root = Root::new();
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    let pid = &root.record("x")["pid"];
    let json = root.run("b", "lock x --json").exits(2, "it is a's for five minutes").json();
    assert_eq!((&json["holder_pid"], &json["holder_pid_status"]), (pid, &json!("dead")), "although that pid is dead");
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

// --- lock --bind

fn bind(root: &Root, owner: &str, sleeper: &Sleeper, more: &str) -> crate::common::Said {
    root.run(owner, &format!("lock x --bind {} {more}", sleeper.pid()))
}

#[test]
fn a_bound_lock_lives_as_long_as_its_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "").exits(0, "it is free");
    root.run("b", "lock x").exits(2, "its process lives");
    sleeper.end();
    root.run("b", "lock x").exits(0, "its process is gone").notes("(dead_pid)", "b is told what it broke");
    assert_eq!(root.events_of("x"), ["acquire", "deny", "auto-prune", "acquire"], "and it is audited");
}

#[test]
fn a_zombie_holds_nothing() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "").exits(0, "it is free");
    sleeper.kill();
    root.run("b", "lock x").exits(0, "a zombie has ended; only its parent hasn't looked yet");
}

#[test]
fn binding_the_same_process_again_is_a_refresh() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let first = bind(&root, "a", &sleeper, "--json").exits(0, "it is free").json();
    let second = bind(&root, "a", &sleeper, "--ttl 5m --json").exits(0, "the same owner and process").json();
    assert_eq!(second["refreshed"], true, "it is a refresh");
    assert_eq!(
        (&second["lock_id"], &second["fencing_token"]),
        (&first["lock_id"], &first["fencing_token"]),
        "of one hold"
    );
    assert_eq!(root.events_of("x"), ["acquire", "renew"], "and it is audited as one");
    bind(&root, "b", &sleeper, "").exits(2, "another owner is refused, whatever process it names");
}

#[test]
fn another_process_of_the_same_owner_is_refused() {
    let (root, one, two) = (Root::new(), Sleeper::new(), Sleeper::new());
    bind(&root, "a", &one, "").exits(0, "it is free");
    bind(&root, "a", &two, "").exits(2, "two processes of one owner exclude each other");
    assert_eq!(root.record("x")["pid"], json!(one.pid()), "the first has it");
}

#[test]
fn a_bound_lock_with_a_ttl_ends_with_its_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "--ttl 1h").exits(0, "it is free");
    root.run("b", "lock x").exits(2, "its process lives, its lease runs");
    sleeper.end();
    root.run("b", "lock x").exits(0, "its process is gone");
}

#[test]
fn a_bound_lock_with_a_ttl_ends_with_its_lease() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "--ttl 1h").exits(0, "it is free");
    let end = root.record("x")["expires_at"].as_str().expect("it has an end").to_owned();
    root.edit("x", &format!("\"expires_at\": \"{end}\""), "\"expires_at\": \"2026-01-01T00:00:00Z\"");
    root.run("b", "lock x").exits(0, "its lease is over, whoever lives");
}

#[test]
fn a_process_lives_whatever_it_calls_itself() {
    let root = Root::new();
    // A name that is no text and looks like the end of the name and a zombie's state.
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", "printf ') Z \\377' > /proc/self/comm; echo ready; read line"]);
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh can be started");
    let mut ready = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    output.read_line(&mut ready).expect("it says that it is ready");
    let bound = root.run("a", &format!("lock x --bind {}", child.id()));
    let refused = root.run("b", "lock x");
    child.kill().expect("it is ours");
    child.wait().expect("it is our child");
    bound.exits(0, "it is a process like any other");
    refused.exits(2, "and lives");
    root.run("b", "lock x").exits(0, "until it ends");
}

#[test]
fn an_owner_part_outlives_the_bound_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "").exits(0, "it is free");
    root.run("a", "lock x --ttl 5m").exits(0, "an owner part is added");
    assert_eq!(root.record("x").get("expires_at"), None, "one part has no end, so the hold has none");
    sleeper.end();
    let json = root.run("b", "lock x --json").exits(2, "the owner part holds it").json();
    assert!(json["holder_remaining_sec"].as_i64().is_some_and(|left| left <= 300), "until its own end: {json}");
    assert_eq!(parts(&root), ["owner"], "which is all that is left");
}

#[test]
fn a_bound_process_joins_its_owners_lock() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    let before = root.record("x");
    bind(&root, "a", &sleeper, "").exits(0, "a process part is added");
    let after = root.record("x");
    assert_eq!(
        (&after["lock_id"], &after["fencing_token"]),
        (&before["lock_id"], &before["fencing_token"]),
        "one hold"
    );
    assert_eq!(parts(&root), ["process", "owner"], "held in two ways");
    sleeper.end();
    assert_eq!(parts(&root), ["owner"], "the owner part is what remains");
    root.run("b", "lock x").exits(2, "and holds it");
}

fn parts(root: &Root) -> Vec<String> {
    let json = root.run("c", "status x --json").exits(0, "it is held").json();
    let parts = json["parts"].as_array().expect("it is a list");
    parts.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

#[test]
fn a_bound_lock_of_a_process_that_ended_is_refreshed_by_its_owner() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    let first = bind(&root, "a", &sleeper, "--json").exits(0, "it is free").json();
    sleeper.end();
    let second = root.run("a", "lock x --json").exits(0, "its owner takes it again").json();
    assert_eq!(second["lock_id"], first["lock_id"], "the same hold");
    assert!(second["fencing_token"].as_u64() > first["fencing_token"].as_u64(), "with a new token");
    assert_eq!(parts(&root), ["owner"], "the process part is dropped");
}

// --- a guard's hold: a process part with a pulse, which the guard and its command keep locked

/// Makes the hold of `owner` on x a running guard's: bound to `sleeper`, with a pulse that is kept locked for as long as it lives.
fn guard(root: &Root, owner: &str, sleeper: &Sleeper) -> Pulse {
    bind(root, owner, sleeper, "").exits(0, "it is free");
    let pulse = Pulse::new(root, "x", 7, "granted", owner, sleeper.pid());
    let (dev, ino) = pulse.id();
    root.edit("x", "\"boot_id\"", &format!("\"pulse\": {{\"n\": 7, \"dev\": {dev}, \"ino\": {ino}}},\n  \"boot_id\""));
    pulse
}

fn liveness(root: &Root) -> String {
    let json = root.run("c", "status x --json").exits(0, "it is there").json();
    json["liveness"].as_str().expect("it is a text").to_owned()
}

#[test]
fn a_guards_hold_is_not_unlocked_from_under_its_command() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let _pulse = guard(&root, "a", &sleeper);
    let said = root.run("a", "unlock x").exits(4, "it is a's, but not by `lock`");
    said.notes("a running guard of yours", "it says what holds it").notes("`lokt unlock --force x`", "and what helps");
    let json = root.run("a", "unlock x --json").exits(4, "it is a guard's").json();
    assert_eq!(json["code"], "E_LOCK_NOT_HELD", "the code is stable");
    let said = root.run("a", "unlock --all").exits(0, "nothing else is a's");
    said.says("no locks matched", "nothing ended").notes("note: skipped \"x\": a running guard holds it", "and why");
    let json = root.run("a", "unlock --owner a --json").exits(0, "nothing else is a's").json();
    assert_eq!(json, json!({"released": [], "count": 0, "skipped": ["x"]}), "in JSON too");
    root.run("b", "unlock --force x").exits(0, "force takes everything");
    assert!(!root.has_record("x"), "it is gone");
}

#[test]
fn an_owner_part_beside_a_guard_comes_and_goes_by_itself() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let _pulse = guard(&root, "a", &sleeper);
    let before = root.record("x");
    root.run("a", "lock x --ttl 5m").exits(0, "an owner part is added");
    let both = root.record("x");
    for member in ["pid", "pid_start_ns", "host", "agent_id", "pulse", "lock_id", "fencing_token"] {
        assert_eq!(both[member], before[member], "the guard's {member} stays");
    }
    assert_eq!(parts(&root), ["process", "owner"], "held in two ways");
    let said = root.run("a", "unlock x").exits(0, "the owner part ends beside a running guard");
    said.notes(&format!("note: a guard (pid {}) still holds it", sleeper.pid()), "and it says so");
    assert_eq!(parts(&root), ["process"], "the guard's part remains");
    assert_eq!(root.audit_of("x").pop().expect("there is one")["extra"]["part"], "owner", "the event says which ended");
}

#[test]
fn a_command_that_outlives_its_guard_holds_the_lock() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    let pulse = guard(&root, "a", &sleeper);
    assert_eq!(liveness(&root), "alive", "the guard runs");
    sleeper.end();
    assert_eq!(liveness(&root), "orphan", "the guard is gone, something still keeps its pulse");
    root.run("b", "lock x").exits(2, "and that counts");
    root.run("b", "status").exits(0, "it can be read").says("[ORPHAN]", "the list marks it");
    let said = root.run("b", "unlock --break-stale x").exits(1, "it is not stale");
    said.notes("its guard is gone, the command still runs", "it says why");
    drop(pulse);
    assert_eq!(liveness(&root), "gone", "now nothing is behind it");
    root.run("b", "lock x").exits(0, "and the next in line enters at once");
}

#[test]
fn two_guards_of_one_owner_exclude_each_other() {
    let (root, one, two) = (Root::new(), Sleeper::new(), Sleeper::new());
    let _pulse = guard(&root, "a", &one);
    bind(&root, "a", &two, "").exits(2, "two terminals of one user exclude each other");
    bind(&root, "a", &one, "").exits(2, "a guard's process can't be bound to a second time");
}
