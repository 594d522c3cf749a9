//! `lokt doctor --strict`: what is wrong with a repository, and what `--fix` does about it.

use std::fs;

use lokt_testkit::moved_clock;
use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG, SHORT};
use crate::common::{Call, make_old, remove};
use crate::no_clock_trust::dynamic_binary;

/// The check of that name.
#[track_caller]
fn check(json: &Value, name: &str) -> Value {
    let checks = json["checks"].as_array().unwrap_or_else(|| panic!("there are checks: {json}"));
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name} is there: {json}")).clone()
}

#[test]
fn a_healthy_repository_passes() {
    let grove = Grove::with(&["feature"]);
    grove.acquire("alice", LONG);
    let said = grove.run("a", "doctor --strict").exits(0, "nothing is wrong");
    assert!(said.stdout.starts_with("lokt doctor --strict\n\nRepository: "), "{said}");
    for row in ["Repository", "Worktrees", "Leases", "Nothing left behind", "Clocks", "Audit log"] {
        assert!(said.stdout.contains(&format!("  [OK]    {row}\n")), "{row}{said}");
    }
    assert!(said.stdout.ends_with("\nResult: PASS\n"), "{said}");
    let json = grove.json("a", "doctor --strict", 0);
    assert_eq!(
        (&json["overall"], &json["repository"]),
        (&json!("ok"), &json!(grove.top().display().to_string())),
        "{json}"
    );
    assert!(
        json["checks"].as_array().is_some_and(|checks| checks.iter().all(|check| check["status"] == "ok")),
        "{json}"
    );
    let said = grove.lokt("a").args(["doctor", "--strict", "--fix"]).cwd(&grove.top().join("main")).run();
    said.exits(0, "from anywhere in it").says("Result: PASS", "nothing to do");
    assert_eq!(grove.state("main"), "held", "a living lease is left alone");
    grove.run("alice", "lease renew").exits(0, "it is still hers");
}

#[test]
fn check_50_what_was_left_behind_is_listed_and_removed_and_what_lives_is_not() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    let record = fs::read(grove.view("main")).expect("it is held");
    // As another program leaves it when it is killed, and as it has it while it works.
    grove.put(".jvs/locks/main.lock.tmp.1", "");
    grove.put(".jvs/locks/main.lock.tmp.2", "");
    make_old(&grove.inside("locks/main.lock.tmp.1"));
    let json = grove.json("a", "doctor --strict", 0);
    let found = check(&json, "temp_files");
    assert_eq!(
        (&found["status"], &found["code"], &found["severity"]),
        (&json!("warn"), &json!("orphan_temp"), &json!("warning")),
        "{json}"
    );
    assert_eq!((&found["safe_auto"], &found["repair"]), (&json!(true), &json!("remove it")), "{json}");
    assert!(
        found["path"].as_str().is_some_and(|path| path.ends_with("locks/main.lock.tmp.1")),
        "only that one: {json}"
    );
    let said = grove.run("a", "doctor --strict").exits(0, "a warning");
    said.says("orphan_temp", "its code")
        .says("main.lock.tmp.1", "the path")
        .says("Result: PASS with warnings", "so")
        .says("with `lokt doctor --strict --fix`: remove it", "what to type");
    let said = grove.run("a", "doctor --strict --fix").exits(0, "it is safe");
    said.says("[FIXED] Nothing left behind", "it says so")
        .says("fixed: remove it", "what was done")
        .says("Result: PASS\n", "so");
    assert!(!grove.inside("locks/main.lock.tmp.1").exists(), "it is gone");
    assert!(grove.inside("locks/main.lock.tmp.2").exists(), "whoever writes it now needs it");
    assert_eq!(fs::read(grove.view("main")).expect("it is held"), record, "the lease is as it was");
    assert_eq!(check(&grove.json("a", "doctor --strict", 0), "temp_files")["status"], "ok");
}

#[test]
fn check_51_a_clock_that_is_not_the_file_systems_is_a_warning() {
    lokt_testkit::need!("faketime");
    let grove = Grove::new();
    let at = |offset: &str| {
        let moved = moved_clock::by_offset(offset);
        let call = Call::new(&moved[0]).args(&moved[1..]).args([dynamic_binary()]);
        let said = call.args(["doctor", "--strict", "--json"]).env("LOKT_OWNER", "a").cwd(&grove.top()).run();
        check(&said.exits(0, "a warning").json(), "clock_offset")
    };
    assert_eq!(at("+0")["status"], "ok", "the control");
    for (offset, how) in [("+1h", "ahead of"), ("-1h", "behind"), ("+2s", "ahead of")] {
        let found = at(offset);
        assert_eq!((&found["status"], &found["code"]), (&json!("warn"), &json!("clock_offset")), "{offset}: {found}");
        assert!(found["message"].as_str().is_some_and(|text| text.contains(how)), "{offset}: {found}");
    }
    grove.put(".jvs/config.json", r#"{"skew_ms": 60000}"#);
    assert_eq!(at("+2s")["status"], "ok", "as much as is allowed");
}

#[test]
fn damage_fails_and_names_the_path() {
    let grove = Grove::with(&["broken"]);
    grove.put(".jvs/worktrees/broken/config.json", "{");
    let said = grove.run("a", "doctor --strict").exits(1, "it can't be used");
    said.says("[FAIL]  Worktrees", "which check")
        .says("worktrees/broken/config.json", "which file")
        .says("Result: FAIL", "so");
    let json = grove.json("a", "doctor --strict", 1);
    assert_eq!((&json["overall"], &check(&json, "worktrees")["status"]), (&json!("fail"), &json!("fail")), "{json}");
    let newer = Grove::new();
    newer.put(".jvs/format_version", "3\n");
    let json = newer.json("a", "doctor --strict", 1);
    let found = check(&json, "repository");
    assert_eq!((&found["code"], &found["severity"]), (&json!("E_FORMAT_UNSUPPORTED"), &json!("critical")), "{json}");
}

#[test]
fn a_broken_log_is_kept_aside_and_a_new_one_begun() {
    let grove = Grove::new();
    grove.acquire("alice", SHORT);
    let path = grove.inside("audit/audit.jsonl");
    let stored = fs::read_to_string(&path).expect("it is there");
    grove.put(".jvs/audit/audit.jsonl", stored.replacen(":alice:", ":mallory:", 1));
    let json = grove.json("a", "doctor --strict", 1);
    assert_eq!(check(&json, "audit_log")["code"], "E_AUDIT_CHAIN_BROKEN", "{json}");
    grove.run("a", "lease audit --verify").exits(65, "it is broken");
    let json = grove.json("a", "doctor --strict --fix", 0);
    assert!(check(&json, "audit_log")["fixed"].is_string(), "{json}");
    grove.run("a", "lease audit --verify").exits(0, "a new one");
    let first = &grove.events()[0];
    assert_eq!(first["operation"], "audit_repair", "which says why: {first}");
    let aside = fs::read_to_string(grove.inside("audit/audit.jsonl.broken.1")).expect("the old one is kept");
    assert!(aside.contains(":mallory:"), "as it was");
}

#[test]
fn a_lock_file_that_says_something_else_is_put_right() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    remove(&grove.view("main"));
    let json = grove.json("a", "doctor --strict", 0);
    assert_eq!(check(&json, "leases")["code"], "stale_view", "{json}");
    assert_eq!(grove.state("main"), "held", "it decides nothing");
    grove.run("a", "doctor --strict --fix").exits(0, "it is safe");
    assert_eq!(grove.record("main")["fencing_token"], 1, "others see it again");
    grove.run("alice", "lease renew").exits(0, "it is hers");
}
