//! `lokt unlock`: every flag, every answer, in text and JSON.

use serde_json::{Value, json};

use crate::common::{Call, NO_PID, Root, Sleeper, alive, elsewhere, go_lease, go_record, host};

#[test]
fn the_owner_ends_its_lock() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    let record = root.record("build");
    let said = root.run("a", "unlock build").exits(0, "its owner may");
    assert_eq!(said.stdout, "released lock \"build\"\n", "stdout is the answer scripts know");
    assert!(!root.has_record("build"), "a lock that was given back has no record");
    root.run("b", "lock build").exits(0, "the next owner gets it");
    let event = &root.audit_of("build")[1];
    assert_eq!(event["event"], "release", "giving back is a release");
    assert_eq!(event["lock_id"], record["lock_id"], "the event names the hold");
    assert_eq!(event["ttl_sec"], 300, "the event has the lock's lease");
    assert_eq!(event["extra"]["part"], "owner", "the event says which part ended");
}

#[test]
fn json_says_what_ended() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let record = root.record("build");
    let said = root.run("a", "unlock build --json").exits(0, "its owner may");
    let expected = json!({
        "status": "released",
        "name": "build",
        "event": "release",
        "part": "owner",
        "owner": "a",
        "lock_id": record["lock_id"],
        "fencing_token": record["fencing_token"],
        "still_guarded": false,
    });
    assert_eq!(said.json(), expected, "the answer in JSON");
    assert_eq!(said.stderr, "", "with --json there is nothing to read on stderr");
}

#[test]
fn a_name_that_is_not_held_is_not_found() {
    let root = Root::new();
    for used in [false, true] {
        if used {
            root.run("a", "lock other").exits(0, "it is free");
        }
        root.run("a", "unlock build")
            .exits(3, "nothing is held")
            .notes("error: lock \"build\" not found", "it says so");
        let said = root.run("a", "unlock build --json").exits(3, "nothing is held");
        assert_eq!(said.failure(), "E_NOT_FOUND", "the code is stable");
        root.run("a", "unlock --force build").exits(3, "force finds nothing either");
        root.run("a", "unlock --break-stale build").exits(3, "neither does --break-stale");
        assert_eq!(root.path().exists(), used, "unlocking makes no root");
    }
}

#[test]
fn another_owners_lock_is_not_yours() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let before = root.snapshot();
    let said = root.run("b", "unlock build").exits(4, "it is a's");
    let host = host();
    said.notes(&format!("error: lock \"build\" owned by a@{host}, not b@{host}"), "it says whose it is")
        .notes("`LOKT_OWNER=a lokt unlock build`", "it says how its owner does it");
    let json = root.run("b", "unlock build --json").exits(4, "it is a's").json();
    assert_eq!(json["status"], "error", "a refusal to unlock is an error");
    assert_eq!(json["code"], "E_LOCK_NOT_HELD", "the code is stable");
    assert_eq!(json["holder_owner"], "a", "it names the holder");
    assert_eq!(root.snapshot(), before, "nothing changed");
}

#[test]
fn force_takes_anybodys_lock_and_is_audited_with_the_victims_name() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    let record = root.record("build");
    let said = root.run("b", "unlock --force build").exits(0, "force takes it");
    assert_eq!(said.stdout, "released lock \"build\"\n", "stdout is the answer scripts know");
    said.notes(&format!("note: it was held by a@{}\n", host()), "it names the victim");
    let event = &root.audit_of("build")[1];
    assert_eq!((&event["event"], &event["owner"]), (&json!("force-break"), &json!("b")), "who forced it is the actor");
    assert_eq!(event["lock_id"], record["lock_id"], "the event names the hold");
    assert_eq!(event["extra"]["pruned_owner"], "a", "the event names the victim");
    assert_eq!(event["extra"]["pruned_pid"], record["pid"], "the event names the victim's process");
}

#[test]
fn force_works_after_the_name_too() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let json = root.run("b", "unlock build --force --json").exits(0, "force takes it").json();
    assert_eq!((&json["event"], &json["owner"]), (&json!("force-break"), &json!("a")), "the JSON names the victim");
}

#[test]
fn break_stale_leaves_a_lease_that_runs() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    let before = root.snapshot();
    let said = root.run("b", "unlock --break-stale build").exits(1, "a lease that runs is not stale");
    said.notes(&format!("error: lock \"build\" held by a@{} is not stale", host()), "it says so");
    let json = root.run("b", "unlock --break-stale build --json").exits(1, "a lease that runs is not stale").json();
    assert_eq!(json["code"], "E_NOT_STALE", "the code is stable");
    assert_eq!(root.snapshot(), before, "nothing changed");
}

#[test]
fn break_stale_leaves_a_process_that_lives() {
    let root = Root::used();
    root.put_record("build", &alive(go_record("build", "a")));
    let said = root.run("b", "unlock --break-stale build").exits(1, "a live process is not stale");
    let pid = std::process::id();
    said.notes(&format!("held by a@{} is not stale (owner PID {pid} is alive)", host()), "it says which process");
    assert!(root.has_record("build"), "it is still held");
}

#[test]
fn break_stale_leaves_a_process_that_cannot_be_seen() {
    let root = Root::used();
    root.put_record("build", &elsewhere(go_record("build", "a")));
    root.run("b", "unlock --break-stale build")
        .exits(1, "a process on another host can't be proven dead")
        .notes("held by a@elsewhere.example: cannot verify PID on remote host", "it says why not");
    assert!(root.has_record("build"), "it is still held");
}

#[test]
fn break_stale_removes_what_has_expired_wherever_it_was_taken() {
    let root = Root::used();
    for record in [
        go_lease("build", "a", 60, -5),
        alive(go_lease("build", "a", 60, -5)),
        elsewhere(go_lease("build", "a", 60, -5)),
    ] {
        root.put_record("build", &record);
        root.run("b", "unlock --break-stale build").exits(0, "an expired hold is stale");
        assert!(!root.has_record("build"), "it is gone");
        let event = root.audit_of("build").pop().expect("it left an event");
        assert_eq!(event["event"], "stale-break", "the event says stale");
        assert_eq!(event["extra"]["pruned_owner"], "a", "the event names the victim");
    }
}

#[test]
fn break_stale_removes_what_a_dead_process_left() {
    let root = Root::used();
    root.put_record("build", &go_record("build", "a"));
    let json = root.run("b", "unlock --break-stale build --json").exits(0, "a dead process holds nothing").json();
    assert_eq!((&json["event"], &json["owner"]), (&json!("stale-break"), &json!("a")), "the JSON names the victim");
}

#[test]
fn force_wins_over_break_stale() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    root.run("b", "unlock --break-stale --force build").exits(0, "force wins");
    assert_eq!(root.events_of("build").last().map(String::as_str), Some("force-break"), "and is remembered as force");
}

#[test]
fn a_lock_id_makes_it_conditional() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let id = root.record("build")["lock_id"].as_str().expect("it has an id").to_owned();
    for flags in ["", "--force", "--break-stale"] {
        let said = root.run("a", &format!("unlock build --lock-id {} {flags}", "0".repeat(32)));
        said.exits(4, "another hold is not the one that was meant").notes(&id, "it names the current hold");
    }
    let json = root.run("a", "unlock build --lock-id 0 --json").exits(4, "it is another hold").json();
    assert_eq!(json["code"], "E_LOCK_NOT_HELD", "the code is stable");
    assert_eq!(json["holder_lock_id"], json!(id), "it names the current hold");
    assert!(root.has_record("build"), "it is still held");
    root.run("a", &format!("unlock build --lock-id {id}")).exits(0, "the hold that was meant is ended");
}

#[test]
fn a_lock_id_keeps_a_late_force_from_taking_the_next_hold() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let id = root.record("build")["lock_id"].as_str().expect("it has an id").to_owned();
    root.run("a", "unlock build").exits(0, "it is a's");
    root.run("c", "lock build").exits(0, "it is free again");
    root.run("b", &format!("unlock --force build --lock-id {id}")).exits(4, "that hold is over");
    assert_eq!(root.record("build")["owner"], "c", "the next holder keeps it");
}

#[test]
fn a_token_makes_it_conditional() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let token = root.record("build")["fencing_token"].as_u64().expect("it has a token");
    let said =
        root.run("a", &format!("unlock build --token {}", token + 1)).exits(6, "that token is not the current one");
    said.notes(
        &format!("token {} is not the current one of lock \"build\": that is {token}", token + 1),
        "it says both",
    );
    let json = root.run("a", "unlock build --token 0 --json").exits(6, "zero never is a token").json();
    assert_eq!((&json["status"], &json["code"]), (&json!("error"), &json!("E_FENCING_MISMATCH")), "the code is stable");
    root.run("b", "unlock build --force --token 0").exits(6, "force doesn't lift the condition");
    assert!(root.has_record("build"), "it is still held");
    root.run("a", &format!("unlock build --token {token}")).exits(0, "the right token ends it");
}

#[test]
fn a_record_without_a_token_has_no_right_one() {
    let root = Root::used();
    root.put_record("build", &go_record("build", "a"));
    root.run("a", "unlock build --token 1").exits(6, "it has none").notes("it has none", "it says so");
}

#[test]
fn both_conditions_must_hold() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let record = root.record("build");
    let (id, token) = (record["lock_id"].as_str().expect("it has an id"), &record["fencing_token"]);
    root.run("a", &format!("unlock build --lock-id {id} --token 999999")).exits(6, "the token is wrong");
    root.run("a", &format!("unlock build --lock-id 00 --token {token}")).exits(4, "the id is wrong");
    root.run("a", &format!("unlock build --lock-id {id} --token {token}")).exits(0, "both are right");
}

#[test]
fn all_ends_mine_and_nobody_elses() {
    let root = Root::new();
    for name in ["z", "m", "b"] {
        root.run("a", &format!("lock {name}")).exits(0, "it is free");
    }
    root.run("b", "lock theirs").exits(0, "it is free");
    root.put_freeze("q", &go_lease("q", "a", 60, 60));
    let said = root.run("a", "unlock --all").exits(0, "they are a's");
    assert_eq!(said.stdout, "released 3 lock(s)\n", "stdout is the answer scripts know");
    assert!(root.has_record("theirs"), "another owner's lock stays");
    assert!(root.path().join("freezes/q.json").exists(), "freezes stay");
    assert_eq!(root.events_of("m"), ["acquire", "release"], "each lock that ended leaves its release");
}

#[test]
fn all_in_json_lists_names_in_order() {
    let root = Root::new();
    for name in ["z", "m", "b"] {
        root.run("a", &format!("lock {name}")).exits(0, "it is free");
    }
    let json = root.run("a", "unlock --all --json").exits(0, "they are a's").json();
    assert_eq!(
        json,
        json!({"released": ["b", "m", "z"], "count": 3, "skipped": []}),
        "names in order, and their count"
    );
    let json = root.run("a", "unlock --all --json").exits(0, "nothing is left").json();
    assert_eq!(json, json!({"released": [], "count": 0, "skipped": []}), "an empty list is a list");
}

#[test]
fn all_of_nothing_is_no_error() {
    let root = Root::new();
    let said = root.run("a", "unlock --all").exits(0, "there is nothing to end");
    assert_eq!(said.stdout, "no locks matched\n", "stdout is the answer scripts know");
    assert!(!root.path().exists(), "unlocking makes no root");
}

#[test]
fn owner_names_oneself_without_force() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let said = root.run("a", "unlock --owner a").exits(0, "it is a's own");
    assert_eq!(said.stdout, "released 1 lock(s)\n", "stdout is the answer scripts know");
    assert_eq!(root.events_of("build"), ["acquire", "release"], "ending one's own is a release");
}

#[test]
fn another_owners_locks_need_force() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    root.run("b", "unlock --owner a").exits(4, "a is not b").notes("that owner ends them", "it says who can");
    let said = root.run("b", "unlock --owner a --json").exits(4, "a is not b");
    assert_eq!(said.failure(), "E_LOCK_NOT_HELD", "the code is stable");
    assert!(root.has_record("build"), "it is still held");
    let json = root.run("b", "unlock --owner a --force --json").exits(0, "force takes them").json();
    assert_eq!(json["released"], json!(["build"]), "the names of what ended");
    let event = root.audit_of("build").pop().expect("it left an event");
    assert_eq!((&event["event"], &event["owner"]), (&json!("force-break"), &json!("b")), "it is no plain release");
    assert_eq!(event["extra"]["pruned_owner"], "a", "the event names the victim");
}

#[test]
fn an_empty_owner_counts_as_not_given() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    root.lokt("a").args(["unlock", "--owner", ""]).run().exits(64, "nothing is given");
    root.lokt("a").args(["unlock", "--owner", "", "build"]).run().exits(0, "the name is all that is given");
}

#[test]
fn what_cannot_be_understood_is_skipped_with_a_warning() {
    let root = Root::new();
    root.run("a", "lock good").exits(0, "it is free");
    root.put("locks/bad.json", "garbage");
    let said = root.run("a", "unlock --all --json").exits(0, "what is a's ends");
    assert_eq!(said.json()["released"], json!(["good"]), "what is readable ends");
    said.notes("warning: skipping unreadable lock \"bad\"", "the rest is mentioned");
    assert!(root.has_record("bad"), "and left alone");
}

#[test]
fn combinations_that_mean_nothing_are_usage_errors() {
    let root = Root::new();
    for words in [
        "unlock",
        "unlock build --all",
        "unlock build --owner a",
        "unlock --owner a --all",
        "unlock --all --force",
        "unlock --all --break-stale",
        "unlock --owner a --break-stale",
        "unlock --all --lock-id 1",
        "unlock --all --token 1",
        "unlock build other",
        "unlock build --token",
        "unlock build --token abc",
        "unlock build --token -1",
        "unlock build --lock-id",
    ] {
        let said = root.run("a", words).exits(64, words);
        assert_eq!(said.stdout, "", "{words}: a usage error is no answer{said}");
        let said = root.run("a", &format!("{words} --json")).exits(64, words);
        assert_eq!(said.failure(), "E_USAGE", "{words}: the code is stable");
    }
    assert!(!root.path().exists(), "a usage error touches nothing");
}

#[test]
fn the_owner_may_end_what_has_expired() {
    let root = Root::used();
    root.put_record("build", &go_lease("build", "a", 60, -5));
    root.run("b", "unlock build").exits(4, "an expired hold is still not b's");
    root.run("a", "unlock build").exits(0, "its owner tidies up");
    assert!(!root.has_record("build"), "it is gone");
}

#[test]
fn the_owner_may_end_the_record_of_an_old_program() {
    let root = Root::used();
    for record in [go_record("build", "a"), elsewhere(go_record("build", "a"))] {
        root.put_record("build", &record);
        root.run("a", "unlock build").exits(0, "a record without our fields is unlocked by its owner");
        assert!(!root.has_record("build"), "it is gone");
    }
}

#[test]
fn the_owner_may_end_a_bound_lock() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    root.run("a", &format!("lock build --bind {}", sleeper.pid())).exits(0, "it is free");
    root.run("b", "unlock build").exits(4, "it is a's");
    let json = root.run("a", "unlock build --json").exits(0, "its owner may").json();
    assert_eq!(json["part"], "process", "what ended is the process part");
    assert!(!root.has_record("build"), "it is gone");
}

#[test]
fn unlock_beside_a_bound_process_ends_only_the_owners_part() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    root.run("a", &format!("lock build --bind {}", sleeper.pid())).exits(0, "it is free");
    root.run("a", "lock build --ttl 5m").exits(0, "an owner part is added");
    let record = root.record("build");
    assert_eq!(record["pid"], json!(sleeper.pid()), "the bound process stays what it is");
    let json = root.run("a", "unlock build --json").exits(0, "its owner may").json();
    assert_eq!(
        (&json["part"], &json["still_guarded"]),
        (&json!("owner"), &json!(true)),
        "one part remains, and it says so"
    );
    let after = root.record("build");
    assert_eq!(after["lock_id"], record["lock_id"], "it is the same hold");
    assert_eq!(after["fencing_token"], record["fencing_token"], "with the same token");
    assert_eq!(after["parts"].get("owner"), None, "without the owner's part");
    assert_eq!(after.get("expires_at"), None, "the end was the owner part's");
    root.run("b", "lock build").exits(2, "it is still held");
}

#[test]
fn a_refused_unlock_says_it_in_the_same_json_shape() {
    let root = Root::used();
    root.put_record("build", &alive(go_lease("build", "a", 300, 200)));
    let json = root.run("b", "unlock build --json").exits(4, "it is a's").json();
    for member in ["name", "holder_owner", "holder_host", "holder_pid", "holder_expires_at", "code", "message", "hint"]
    {
        assert_ne!(json.get(member), None, "{member} is there: {json}");
    }
    assert_ne!(json["holder_pid"], Value::from(NO_PID), "it is this process");
}

#[test]
fn what_still_holds_it_is_called_by_its_name() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    root.run("a", &format!("lock build --bind {}", sleeper.pid())).exits(0, "it is free");
    root.run("a", "lock build").exits(0, "an owner part is added");
    let said = root.run("a", "unlock build").exits(0, "the owner part ends");
    said.notes(&format!("note: the process it is bound to (pid {}) still holds it", sleeper.pid()), "it is no guard");
}

#[test]
fn break_stale_on_a_lock_without_a_ttl_does_not_speak_of_a_lease() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    root.run("b", "unlock --break-stale build")
        .exits(1, "it is held")
        .notes("is not stale (it has no TTL)", "it says why");
}

#[test]
fn another_owners_stale_lock_needs_no_force() {
    let root = Root::used();
    root.put_record("build", &go_lease("build", "a", 60, -5));
    root.run("b", "unlock build")
        .exits(4, "it is a's")
        .notes("`lokt unlock --break-stale build`", "less than force is enough");
    root.run("b", "unlock --break-stale build").exits(0, "and works");
}

#[test]
fn an_owner_that_cannot_be_typed_is_not_shown_as_a_command() {
    let root = Root::new();
    for (owner, shown) in
        [("it's me", "`LOKT_OWNER='it'\\''s me' lokt unlock build`"), ("two\nlines", "`lokt unlock build`")]
    {
        root.lokt(owner).args(["lock", "build"]).run().exits(0, "it is free");
        root.run("b", "unlock build").exits(4, "it isn't b's").notes(shown, "what is shown can be typed");
        root.run("b", "unlock --force build").exits(0, "force takes it");
    }
}

#[test]
fn the_command_that_ends_anothers_locks_can_be_typed_as_it_stands() {
    let root = Root::new();
    for owner in ["bob", "it's me"] {
        root.run(owner, "lock build").exits(0, "it is free");
        let said = root.lokt("a").args(["unlock", "--owner", owner, "--json"]).run().exits(4, "it is another's");
        let hint = said.json()["hint"].as_str().expect("there is a hint").to_owned();
        let typed = hint.split('`').nth(1).and_then(|text| text.strip_prefix("lokt ")).expect("it names a command");
        let script = format!("{} {typed}", env!("CARGO_BIN_EXE_lokt"));
        let call = Call::new("sh").args(["-c", &script]).env("LOKT_ROOT", root.path()).env("LOKT_OWNER", owner);
        call.run().exits(0, "that owner can type it");
        assert!(!root.has_record("build"), "it did what was said: {typed}");
    }
}
