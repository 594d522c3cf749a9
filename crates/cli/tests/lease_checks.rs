//! The numbered checks of the seed's protocol, as far as one process after the other can show them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG, SHORT};
use crate::common::{chmod, eventually, put, remove, seconds_between, time};

/// What every record has.
const FIELDS: [&str; 14] = [
    "lock_id",
    "worktree_id",
    "holder_id",
    "holder_nonce",
    "session_id",
    "acquire_seq",
    "created_at",
    "last_renewed_at",
    "lease_duration_ms",
    "renew_interval_ms",
    "max_clock_skew_ms",
    "steal_grace_ms",
    "lease_expires_at",
    "fencing_token",
];

/// A lease that has ended, but is nobody else's yet.
fn in_grace(grove: &Grove, owner: &str) -> u64 {
    let token = grove.acquire(owner, "--lease 200ms --skew 1h --grace 1h");
    eventually("it ends", || grove.state("main") == "expired_grace");
    token
}

/// The session of `owner`, with one member changed, as a file.
fn forged(grove: &Grove, owner: &str, member: &str) -> String {
    let text = fs::read(grove.session_of(owner)).expect("it has a session");
    let mut session: Value = serde_json::from_slice(&text).expect("a session is JSON");
    let digits = session[member].as_str().unwrap_or_else(|| panic!("{member} is text: {session}")).len();
    session[member] = "0".repeat(digits).into();
    let path = grove.outside().join(format!("forged-{member}"));
    put(&path, session.to_string());
    chmod(&path, 0o600);
    path.display().to_string()
}

#[test]
fn check_01_a_free_lease_is_acquired() {
    let grove = Grove::new();
    assert!(!grove.view("main").exists(), "absent when free");
    let json = grove.json("alice", "lease acquire", 0);
    assert!(json.is_object() && grove.record("main").is_object(), "{json}");
}

#[test]
fn check_02_the_record_has_all_fourteen_fields() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    let record = grove.record("main");
    for field in FIELDS {
        assert!(!record[field].is_null(), "{field}: {record}");
    }
    for field in ["lock_id", "worktree_id", "holder_id", "holder_nonce", "session_id"] {
        assert!(record[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {record}");
    }
    for field in
        FIELDS.iter().filter(|field| field.ends_with("_ms") || field.ends_with("_seq") || field.ends_with("token"))
    {
        assert!(record[field].is_u64(), "{field} is an integer: {record}");
    }
    for field in FIELDS.iter().filter(|field| field.ends_with("_at")) {
        time(&record[field]);
        assert!(record[field].as_str().is_some_and(|text| text.ends_with('Z')), "{field}: {record}");
    }
    assert_eq!(record["worktree_id"], "main", "{record}");
}

#[test]
fn check_03_the_holder_is_the_process_that_acquired() {
    let grove = Grove::new();
    let script = "cat /proc/$$/stat > stat && exec \"$0\" lease acquire --lease 1h";
    grove
        .call("sh")
        .args(["-c", script, crate::common::LOKT])
        .env("LOKT_OWNER", "al:ice %")
        .run()
        .exits(0, "it is free");
    let stat = grove.text("stat");
    let pid = stat.split(' ').next().expect("it begins with the pid");
    let (_, fields) = stat.rsplit_once(')').expect("the command is in parentheses");
    let start = fields.split_whitespace().nth(19).expect("field 22");
    let record = grove.record("main");
    let id = record["holder_id"].as_str().expect("text");
    let parts: Vec<&str> = id.split(':').collect();
    assert_eq!(parts, [&crate::common::host(), "al%3Aice%20%25", pid, start], "{id}");
    let json = grove.json("bob", "lease acquire", 2);
    assert_eq!(json["holder_owner"], "al:ice %", "decoded for people: {json}");
}

#[test]
fn check_04_the_default_policy_is_the_seeds() {
    let grove = Grove::new();
    grove.acquire("alice", "");
    let record = grove.record("main");
    let numbers = ["lease_duration_ms", "renew_interval_ms", "max_clock_skew_ms", "steal_grace_ms"];
    assert_eq!(numbers.map(|name| record[name].as_u64()), [30_000, 10_000, 2_000, 1_000].map(Some), "{record}");
}

#[test]
fn check_05_a_lease_ends_its_length_after_its_last_renewal() {
    let grove = Grove::new();
    grove.acquire("alice", "--lease 25m");
    for _ in 0..3 {
        let record = grove.record("main");
        let lasts = seconds_between(&record["last_renewed_at"], &record["lease_expires_at"]);
        assert!((lasts - 1_500.0).abs() < 0.0011, "{lasts}: {record}");
        assert!(time(&record["created_at"]) <= time(&record["last_renewed_at"]), "{record}");
        grove.run("alice", "lease renew").exits(0, "it is hers");
    }
}

#[test]
fn check_06_a_live_lease_is_refused_to_another_session() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    let before = grove.view_bytes("main");
    assert_eq!(grove.json("bob", "lease acquire", 2)["code"], "E_LOCK_CONFLICT");
    assert_eq!(grove.view_bytes("main"), before, "byte for byte");
}

#[test]
fn check_07_within_skew_and_grace_it_is_refused_with_a_time() {
    let grove = Grove::new();
    in_grace(&grove, "alice");
    let before = grove.view_bytes("main");
    let json = grove.json("bob", "lease acquire", 2);
    assert_eq!(json["code"], "E_LOCK_CONFLICT", "{json}");
    assert!(json["retry_after_ms"].as_u64().is_some_and(|ms| ms > 7_000_000 && ms < 7_200_200), "{json}");
    assert_eq!(grove.view_bytes("main"), before, "unchanged");
}

#[test]
fn check_08_what_is_over_is_stolen_with_everything_new() {
    let grove = Grove::new();
    grove.acquire("alice", SHORT);
    let old = grove.record("main");
    grove.is_over();
    grove.json("bob", "lease acquire", 0);
    let new = grove.record("main");
    for field in ["lock_id", "holder_nonce", "session_id"] {
        assert_ne!(new[field], old[field], "{field}");
    }
    for field in ["fencing_token", "acquire_seq"] {
        assert!(new[field].as_u64() > old[field].as_u64(), "{field}: {new} after {old}");
    }
}

#[test]
fn check_12_worktrees_have_leases_of_their_own() {
    let grove = Grove::with(&["feature"]);
    grove.acquire("alice", LONG);
    grove.json("bob", &format!("lease acquire --worktree feature {LONG}"), 0);
    grove.run("bob", "lease acquire").exits(2, "main is alice's");
    grove.run("alice", "lease release").exits(0, "it is hers");
    assert_eq!(grove.state("feature"), "held", "the other goes on");
    assert_eq!(grove.record("feature")["worktree_id"], "feature");
}

#[test]
fn check_13_no_name_leads_out_and_no_link_is_followed() {
    let grove = Grove::new();
    let before: BTreeSet<_> = crate::common::names_in(&grove.inside("locks")).into_iter().collect();
    let long = "n".repeat(300);
    for (name, code) in [
        ("a/b", "E_PATH_ESCAPE"),
        ("../main", "E_PATH_ESCAPE"),
        ("..", "E_PATH_ESCAPE"),
        ("a..b", "E_PATH_ESCAPE"),
        ("/etc", "E_PATH_ESCAPE"),
        ("a\\b", "E_PATH_ESCAPE"),
        ("", "E_NAME_INVALID"),
        (".", "E_NAME_INVALID"),
        ("a b", "E_NAME_INVALID"),
        ("a\nb", "E_NAME_INVALID"),
        ("naïve", "E_NAME_INVALID"),
        (&long, "E_NAME_INVALID"),
    ] {
        let flag = format!("--worktree={name}");
        for words in [
            &["lease", "acquire", &flag][..],
            &["lease", "steal", &flag],
            &["lease", "renew", &flag],
            &["lease", "release", &flag],
            &["lease", "status", &flag],
            &["lease", "break", "--force", "--reason", "x", &flag],
            &["lease", "fence", "check", "--token", "1", &flag],
            &["lease", "audit", &flag],
            &["worktree", "create", name],
            &["worktree", "rename", name, "x"],
            &["worktree", "rename", "main", name],
            &["worktree", "remove", name],
        ] {
            let said = grove.lokt("a").args(words).args(["--json"]).run().exits(64, "it is no name");
            assert_eq!(said.failure(), code, "{words:?}");
        }
        grove
            .lokt("a")
            .args(["lease", "acquire", &flag])
            .run()
            .exits(64, "no name")
            .notes("invalid worktree name", "why");
    }
    let after: BTreeSet<_> = crate::common::names_in(&grove.inside("locks")).into_iter().collect();
    assert_eq!(after, before, "nothing was created");
    assert!(!grove.home().exists(), "no session neither");
    let precious = grove.outside().join("precious");
    put(&precious, "precious");
    symlink(&precious, grove.view("main")).expect("a temp directory is writable");
    let said = grove.run("alice", "lease acquire");
    assert!([0, 2, 65].contains(&said.code), "whatever is decided{said}");
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious", "it is not followed");
    grove.run("alice", "lease break --force --reason link");
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious", "nor now");
    let token = grove.acquire("bob", LONG);
    assert!(token > 0 && !grove.view("main").is_symlink(), "people get past it");
}

#[test]
fn check_14_a_renewal_moves_the_end_and_nothing_else() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    let old = grove.record("main");
    grove.run("alice", "lease renew").exits(0, "it is hers");
    let new = grove.record("main");
    for field in ["fencing_token", "lock_id", "created_at", "acquire_seq", "session_id", "holder_nonce"] {
        assert_eq!(new[field], old[field], "{field}");
    }
    for field in ["last_renewed_at", "lease_expires_at"] {
        assert!(time(&new[field]) > time(&old[field]), "{field}");
    }
}

#[test]
fn check_15_and_16_and_34_a_wrong_secret_or_session_is_nobodys() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    let before = grove.view_bytes("main");
    for member in ["secret", "session_id"] {
        let file = forged(&grove, "alice", member);
        for command in ["renew", "release"] {
            let json = grove.json("alice", &format!("lease {command} --session {file}"), 4);
            assert_eq!(json["code"], "E_LOCK_NOT_HELD", "{command} with another {member}: {json}");
        }
        assert_eq!(grove.view_bytes("main"), before, "{member}: unchanged");
    }
    grove.run("alice", "lease renew").exits(0, "it is still hers");
}

#[test]
fn check_17_nothing_is_renewed_after_its_release() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    grove.run("alice", "lease release").exits(0, "it is hers");
    assert_eq!(grove.json("alice", "lease renew", 4)["code"], "E_LOCK_NOT_HELD");
    assert!(!grove.view("main").exists(), "and none is made");
}

#[test]
fn check_18_nothing_is_renewed_after_a_steal() {
    let grove = Grove::new();
    grove.acquire("alice", SHORT);
    grove.is_over();
    grove.json("bob", &format!("lease acquire {LONG}"), 0);
    let thief = grove.view_bytes("main");
    assert_eq!(grove.json("alice", "lease renew", 4)["code"], "E_LOCK_NOT_HELD");
    assert_eq!(grove.json("alice", "lease release", 4)["code"], "E_LOCK_NOT_HELD");
    assert_eq!(grove.view_bytes("main"), thief, "the thief's record is untouched");
}

#[test]
fn check_19_nothing_is_renewed_after_its_end() {
    let grove = Grove::new();
    in_grace(&grove, "alice");
    assert_eq!(grove.json("alice", "lease renew", 5)["code"], "E_LOCK_EXPIRED");
    let other = Grove::new();
    other.acquire("alice", SHORT);
    other.is_over();
    assert_eq!(other.json("alice", "lease renew", 5)["code"], "E_LOCK_EXPIRED", "also when anybody could have it");
}

#[test]
fn check_22_nobody_is_early() {
    let grove = Grove::new();
    grove.acquire("alice", "--lease 900ms --renew 300ms --skew 300ms --grace 300ms");
    let old = grove.record("main");
    let mut tries = 0;
    let new = loop {
        // No wait at all: whoever asks in a loop is no earlier for that.
        let said = grove.run("bob", "lease steal --json");
        if said.code == 0 {
            break said.json()["lock"].clone();
        }
        let json = said.exits(2, "not yet").json();
        assert_eq!(json["code"], "E_LOCK_CONFLICT", "{json}");
        tries += 1;
        assert!(tries < 2_000, "it comes to an end: {json}");
    };
    let waited = seconds_between(&old["last_renewed_at"], &new["created_at"]);
    assert!(waited > 1.5, "{waited} s, after {tries} tries");
}

#[test]
fn check_33_and_35_tokens_grow_over_a_hundred_cycles() {
    let grove = Grove::new();
    let mut last = 0;
    for _ in 0..100 {
        let token = grove.acquire("alice", LONG);
        assert!(token > last, "{token} > {last}");
        last = token;
        grove.run("alice", "lease release").exits(0, "it is hers");
    }
    assert_eq!(grove.json("alice", "lease release", 4)["code"], "E_LOCK_NOT_HELD", "once is enough");
    assert_eq!(grove.state("main"), "free");
    let files = crate::common::names_in(&grove.inside("locks/main.lock.d")).len();
    assert!(files < 400, "old links go: {files}");
}

#[test]
fn check_37_tokens_survive_the_loss_of_all_locks() {
    let grove = Grove::new();
    let first = grove.acquire("alice", LONG);
    fs::remove_dir_all(grove.inside("locks")).expect("it is ours");
    let second = grove.acquire("bob", LONG);
    assert!(second > first, "{second} > {first}");
    // A snapshot that another program published under a token of its own.
    grove.run("bob", "lease release").exits(0, "it is his");
    let descriptor = json!({"snapshot_id": "1-1", "worktree_name": "main", "fencing_token": 50_000});
    grove.put(".jvs/descriptors/1-1.json", descriptor.to_string());
    fs::remove_dir_all(grove.inside("locks")).expect("it is ours");
    let third = grove.acquire("carol", LONG);
    assert!(third > 50_000, "greater than any descriptor's: {third}");
}

#[test]
fn check_44_a_held_worktree_keeps_its_name_and_its_files() {
    let grove = Grove::with(&["busy"]);
    grove.put("worktrees/busy/file", "text");
    grove.json("alice", &format!("lease acquire --worktree busy {LONG}"), 0);
    for words in ["worktree rename busy idle", "worktree remove busy", "worktree remove busy --force"] {
        assert_eq!(grove.json("bob", words, 2)["code"], "E_LOCK_CONFLICT", "{words}");
    }
    assert_eq!(grove.text("worktrees/busy/file"), "text");
}

#[test]
fn check_52_failures_have_their_codes_in_json() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    for (owner, words, exit, code) in [
        ("bob", "lease acquire", 2, "E_LOCK_CONFLICT"),
        ("bob", "lease renew", 4, "E_LOCK_NOT_HELD"),
        ("bob", "lease fence check --token 99", 6, "E_FENCING_MISMATCH"),
        ("bob", "lease acquire --worktree a/b", 64, "E_PATH_ESCAPE"),
        ("bob", "lease acquire --worktree -x", 64, "E_USAGE"),
        ("bob", "lease acquire --worktree x", 3, "E_NOT_FOUND"),
    ] {
        let said = grove.run(owner, &format!("{words} --json")).exits(exit, words);
        assert_eq!(said.json()["code"], code, "{words}{said}");
    }
    for words in ["lease explode", "worktree explode", "lease", "worktree"] {
        let said = grove.run("bob", &format!("{words} --json")).exits(64, "there is no such command");
        assert_eq!(said.failure(), "E_USAGE", "{words}");
        grove.run("bob", words).exits(64, "in text, too");
    }
    remove(&grove.inside("format_version"));
    grove.put(".jvs/format_version", "99\n");
    assert_eq!(grove.run("bob", "lease status --json").exits(65, "newer").failure(), "E_FORMAT_UNSUPPORTED");
}

#[test]
fn check_53_a_shared_worktree_claims_no_single_writer() {
    let grove = Grove::new();
    grove.run("a", "worktree create notes --isolation shared").exits(0, "it is made");
    let said = grove.run("a", "lease acquire --worktree notes --json").exits(64, "there is nothing to hold");
    assert_eq!(said.failure(), "E_NOT_EXCLUSIVE");
    for words in ["lease status --worktree notes", "lease status --all", "worktree list"] {
        let said = grove.run("a", words).exits(0, "anybody may look");
        assert!(said.stdout.contains("shared"), "{words}{said}");
        assert!(!said.stdout.contains("one writer") && !said.stdout.contains("exclusive worktree"), "{words}{said}");
    }
    let json = grove.json("a", "lease status --worktree notes", 0);
    assert_eq!(
        (&json["state"], &json["lock"], &json["mine"]),
        (&json!("shared"), &json!(null), &json!(false)),
        "{json}"
    );
    fs::remove_dir_all(grove.inside("locks")).expect("it is ours");
    grove.run("a", "lease status --worktree notes").exits(0, "nothing is missing");
}
