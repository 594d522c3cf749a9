//! `lokt lease renew`, `release`, `status` and `break`: what becomes of a lease.

use std::fs;

use serde_json::json;

use crate::common::grove::{Grove, LONG, SHORT};
use crate::common::{eventually, seconds_between, time};

#[test]
fn renew_gives_the_full_time_again() {
    let grove = Grove::new();
    let token = grove.acquire("alice", "--lease 1h");
    let before = grove.record("main");
    let said = grove.run("alice", "lease renew").exits(0, "it is hers");
    assert!(
        said.stdout.starts_with(&format!("renewed the lease of worktree \"main\", token {token}, until 20")),
        "{said}"
    );
    let json = grove.json("alice", "lease renew", 0);
    assert_eq!(
        (&json["status"], &json["worktree"], &json["fencing_token"]),
        (&json!("renewed"), &json!("main"), &json!(token)),
        "{json}"
    );
    assert!(time(&json["lock"]["lease_expires_at"]) > time(&before["lease_expires_at"]), "later: {json}");
    assert_eq!(json["lock"]["lock_id"], before["lock_id"], "the same lease: {json}");
    assert!(json.get("session").is_none(), "{json}");
}

#[test]
fn without_the_session_nothing_is_ones_own() {
    let grove = Grove::new();
    for command in ["renew", "release"] {
        let said = grove.run("bob", &format!("lease {command}")).exits(4, "bob never had one");
        said.notes("you hold no lease of worktree \"main\": there is no session file", "it says so")
            .notes(&grove.session_of("bob").display().to_string(), "where it would be")
            .notes("--session, --owner or LOKT_OWNER", "what helps");
        let said = grove.run("bob", &format!("lease {command} --json")).exits(4, "bob never had one");
        assert_eq!(said.failure(), "E_LOCK_NOT_HELD", "{command}");
    }
    assert!(!grove.home().exists(), "nobody who only renews makes a session");
    grove.acquire("alice", LONG);
    // Bob has a session by now, and no lease.
    grove.run("bob", "lease acquire").exits(2, "it is alice's");
    let before = grove.view_bytes("main");
    for command in ["renew", "release"] {
        let said = grove.run("bob", &format!("lease {command}")).exits(4, "it is alice's");
        said.notes("isn't yours: it is held by alice", "it says so").notes("lease status", "what helps");
        let json = grove.json("bob", &format!("lease {command}"), 4);
        assert_eq!((&json["status"], &json["code"]), (&json!("error"), &json!("E_LOCK_NOT_HELD")), "{json}");
        assert_eq!(json["holder_owner"], "alice", "{json}");
    }
    assert_eq!(grove.view_bytes("main"), before, "alice notices nothing");
    grove.run("alice", "lease renew").exits(0, "it is hers");
}

#[test]
fn release_frees_it_and_nothing_is_renewed_or_released_twice() {
    let grove = Grove::new();
    let token = grove.acquire("alice", LONG);
    let said = grove.run("alice", "lease release").exits(0, "it is hers");
    assert_eq!(said.stdout, format!("released the lease of worktree \"main\", token {token}\n"));
    assert!(!grove.view("main").exists(), "the lock file is gone");
    for command in ["renew", "release"] {
        let said = grove.run("alice", &format!("lease {command}")).exits(4, "it is free");
        said.notes("nobody does", "it says so").notes("`lokt lease acquire`", "what to do");
        assert_eq!(grove.json("alice", &format!("lease {command}"), 4)["code"], "E_LOCK_NOT_HELD", "{command}");
    }
    assert!(!grove.view("main").exists(), "renewing makes none");
    let token = grove.acquire("alice", LONG);
    let json = grove.json("alice", "lease release", 0);
    assert_eq!(json, json!({"status": "released", "worktree": "main", "fencing_token": token}));
}

#[test]
fn what_has_ended_is_not_renewed_but_can_be_given_back() {
    let grove = Grove::new();
    grove.acquire("alice", "--lease 200ms --skew 1h --grace 1h");
    eventually("it ends", || grove.state("main") == "expired_grace");
    let said = grove.run("alice", "lease renew").exits(5, "its time is over");
    said.notes("has ended before it was renewed", "it says so").notes("`lokt lease acquire`", "what to do");
    assert_eq!(grove.json("alice", "lease renew", 5)["code"], "E_LOCK_EXPIRED");
    grove.run("alice", "lease release").exits(0, "nobody has taken it");
    grove.run("bob", "lease acquire").exits(0, "so nobody waits for two hours");
}

#[test]
fn status_says_how_a_lease_stands() {
    let grove = Grove::with(&["feature"]);
    let said = grove.run("a", "lease status").exits(0, "anybody may look");
    assert_eq!(said.stdout, "worktree \"main\": free\n");
    let json = grove.json("a", "lease status", 0);
    assert_eq!(
        (&json["worktree"], &json["state"], &json["isolation"], &json["lock"], &json["mine"], &json["lives"]),
        (&json!("main"), &json!("free"), &json!("exclusive"), &json!(null), &json!(false), &json!(false)),
        "{json}"
    );
    grove.run("alice", &format!("lease acquire {LONG} --purpose rebase")).exits(0, "it is free");
    let json = grove.json("alice", "lease status", 0);
    assert_eq!((&json["state"], &json["mine"], &json["lives"]), (&json!("held"), &json!(true), &json!(true)), "{json}");
    assert_eq!(json["evidence"], "boot_clock", "{json}");
    assert!(json["remaining_ms"].as_u64().is_some_and(|ms| ms > 3_000_000), "{json}");
    assert!(json["retry_after_ms"].as_u64() > json["remaining_ms"].as_u64(), "others wait longer: {json}");
    assert_eq!(grove.json("bob", "lease status", 0)["mine"], false, "bob has another session");
    let said = grove.run("alice", "lease status").exits(0, "anybody may look");
    assert!(said.stdout.starts_with("worktree \"main\": held by you\n"), "{said}");
    for line in [
        "  holder:   alice",
        "  token:    1\n",
        "  since:    20",
        "  renewed:  20",
        "  until:    20",
        "  purpose:  rebase\n",
    ] {
        assert!(said.stdout.contains(line), "{line}{said}");
    }
    said.says("(in 59m", "how long")
        .says("evidence: the boot clock", "how that is known")
        .says("locks/main.lock\n", "where");
    let said = grove.run("bob", "lease status --all").exits(0, "anybody may look");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "a title and two worktrees{said}");
    assert!(lines[0].starts_with("WORKTREE  STATE"), "{said}");
    assert!(lines[1].starts_with("feature   free"), "{said}");
    assert!(lines[2].starts_with("main      held") && lines[2].contains("alice"), "{said}");
    grove.run("alice", "lease status --all").exits(0, "she looks").says("held (yours)", "which is hers");
    let json = grove.json("bob", "lease status --all", 0);
    let states: Vec<_> = json.as_array().expect("a list").iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, [json!("free"), json!("held")], "{json}");
    let before = fs::metadata(grove.inside("locks/main.lock.d")).and_then(|meta| meta.modified()).expect("it is there");
    grove.run("carol", "lease status").exits(0, "anybody may look");
    let after = fs::metadata(grove.inside("locks/main.lock.d")).and_then(|meta| meta.modified()).expect("it is there");
    assert_eq!(before, after, "looking changes nothing");
}

#[test]
fn break_ends_whoevers_lease_and_says_why() {
    let grove = Grove::new();
    let said = grove.run("bob", "lease break --force --reason why").exits(3, "it is free");
    said.notes("nothing to break", "it says so");
    assert_eq!(
        grove.run("bob", "lease break --force --reason why --json").exits(3, "free").json()["code"],
        "E_NOT_FOUND"
    );
    let token = grove.acquire("alice", LONG);
    for words in ["lease break", "lease break --force", "lease break --reason why"] {
        grove.run("bob", words).exits(64, "both are needed");
        assert_eq!(grove.run("bob", &format!("{words} --json")).exits(64, "both are needed").failure(), "E_USAGE");
    }
    grove.lokt("bob").args(["lease", "break", "--force", "--reason", " "]).run().exits(64, "that is no reason");
    assert_eq!(grove.state("main"), "held", "nothing happened");
    let said = grove.lokt("bob").args(["lease", "break", "--force", "--reason", "her laptop is gone"]).run();
    let said = said.exits(0, "that was wanted");
    assert!(said.stdout.starts_with("broke the lease of worktree \"main\" of alice"), "{said}");
    said.notes("what it writes into the worktree nobody stops", "plainly").notes("`lokt lease acquire`", "what to do");
    let said = grove.run("alice", "lease renew").exits(4, "it isn't hers any more");
    drop(said);
    let events = grove.events_of("lock_break");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (&events[0]["reason"], &events[0]["target"]),
        (&json!("her laptop is gone"), &json!("main")),
        "{events:?}"
    );
    assert!(events[0]["actor"].as_str().is_some_and(|actor| actor.contains(":bob:")), "{events:?}");
    let next = grove.acquire("carol", LONG);
    assert!(next > token, "{next} > {token}");
    let json = grove.json("bob", "lease break --force --reason again", 0);
    assert_eq!(
        (&json["status"], &json["fencing_token"], &json["holder_owner"], &json["reason"]),
        (&json!("broken"), &json!(next), &json!("carol"), &json!("again")),
        "{json}"
    );
}

#[test]
fn another_programs_lock_file_counts() {
    let grove = Grove::new();
    let now = crate::common::now();
    let at = |secs: i64| crate::common::from_now(secs).to_string();
    let foreign = json!({
        "lock_id": "a".repeat(32), "worktree_id": "main", "holder_id": "elsewhere:dora:17:4711",
        "holder_nonce": "b".repeat(64), "session_id": "c".repeat(32), "acquire_seq": 40, "created_at": at(-1),
        "last_renewed_at": now.to_string(), "lease_duration_ms": 3_600_000, "renew_interval_ms": 10_000,
        "max_clock_skew_ms": 2_000, "steal_grace_ms": 1_000, "lease_expires_at": at(3600), "fencing_token": 41,
    });
    grove.put(".jvs/locks/main.lock", foreign.to_string());
    let json = grove.json("alice", "lease status", 0);
    assert_eq!((&json["state"], &json["lives"]), (&json!("foreign"), &json!(true)), "{json}");
    let json = grove.json("alice", "lease acquire", 2);
    assert_eq!((&json["state"], &json["holder_owner"]), (&json!("foreign"), &json!("dora")), "{json}");
    let said = grove.run("alice", "lease acquire").exits(2, "it may be alive");
    said.notes("another program's lock file: dora@elsewhere (pid 17), token 41", "who");
    assert_eq!(grove.record("main"), foreign, "it is left alone");
    grove.run("bob", "lease break --force --reason gone").exits(0, "people may know better");
    let token = grove.acquire("alice", LONG);
    assert!(token > 41, "its tokens are overtaken, too: {token}");
}

#[test]
fn a_lease_that_is_over_is_shown_as_that() {
    let grove = Grove::new();
    grove.acquire("alice", SHORT);
    grove.is_over();
    let json = grove.json("bob", "lease status", 0);
    assert_eq!((&json["state"], &json["lives"]), (&json!("expired"), &json!(false)), "{json}");
    assert!(json.get("remaining_ms").is_none(), "{json}");
    let said = grove.run("bob", "lease status").exits(0, "anybody may look");
    assert!(said.stdout.starts_with("worktree \"main\": ended, and free for whoever asks\n"), "{said}");
    let record = grove.record("main");
    let lasted = seconds_between(&record["last_renewed_at"], &record["lease_expires_at"]);
    assert!((lasted - 0.4).abs() < 0.002, "{lasted}");
}

#[test]
fn a_configuration_that_cannot_be_read_stops_only_those_who_ask_for_a_lease() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    for config in ["", "{", r#"{"lease_ms": 1}"#] {
        grove.put(".jvs/config.json", config);
        grove.run("alice", "lease renew").exits(0, "it is hers");
        assert_eq!(grove.state("main"), "held", "{config}");
        let said = grove.run("bob", "lease acquire").exits(65, "nobody knows for how long");
        said.notes("config.json", "which file").notes("remove it", "what to do");
        grove.run("bob", "doctor --strict").exits(1, "it is damaged").says("config.json", "which file");
    }
    grove.run("alice", "lease release").exits(0, "it is hers");
}
