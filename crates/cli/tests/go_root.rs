//! A root that the Go program made: healthy, and nothing in it had a token.

use std::fs;

use serde_json::json;

use crate::common::exam::Exam;
use crate::common::{Root, alive, from_now, go_lease, go_record, host};

/// Records and a log as the Go program leaves them, and no `state`.
fn go_root() -> Root {
    let root = Root::new();
    root.put_record("running", &alive(go_record("running", "go")));
    root.put_freeze("deploy", &go_lease("deploy", "go", 600, 300));
    let line = |event: &str, name: &str| {
        json!({"ts": from_now(-60).to_string(), "event": event, "name": name, "lock_id": "cd".repeat(16),
            "owner": "go", "host": host(), "pid": 29_442, "agent_id": "agent-c800", "ttl_sec": 600})
        .to_string()
    };
    let events = ["acquire", "renew", "release", "acquire", "deny", "auto-prune", "force-break", "freeze"];
    let lines: Vec<String> = events.iter().map(|event| line(event, "running") + "\n").collect();
    root.put("audit.log", lines.concat());
    for (dir, mode) in [("", 0o700), ("locks", 0o700), ("freezes", 0o700)] {
        crate::common::chmod(&root.path().join(dir), mode);
    }
    for file in ["audit.log", "locks/running.json", "freezes/deploy.json"] {
        crate::common::chmod(&root.path().join(file), 0o600);
    }
    root
}

fn token(root: &Root, name: &str) -> u64 {
    let said = root.run("a", &format!("lock {name} --json")).exits(0, "it is free");
    said.json()["fencing_token"].as_u64().expect("a number")
}

#[test]
fn doctor_has_nothing_to_say_about_it() {
    let exam = Exam::new(&go_root(), "");
    assert_eq!(exam.status("tokens"), "ok", "no token was ever given{}", exam.said);
    assert_eq!(exam.overall(), "ok", "it is healthy{}", exam.said);
}

#[test]
fn tokens_begin_at_one_there() {
    let root = go_root();
    assert_eq!(token(&root, "x"), 1, "no token was ever given");
    assert_eq!(root.events_of("x"), ["acquire"], "nothing was lost");
    assert_eq!(token(&root, "y"), 2, "and they go on");
}

/// token-order: as soon as lokt has given a token there, a counter that is deleted was lost.
#[test]
fn a_counter_that_is_deleted_there_later_makes_tokens_leap() {
    let root = go_root();
    let last = token(&root, "x");
    root.run("a", "unlock x").exits(0, "it is ours");
    fs::remove_dir_all(root.path().join("state")).expect("it is ours");
    assert_eq!(Exam::new(&root, "").status("tokens"), "warn", "the log tells of a token");
    let next = token(&root, "y");
    assert!(next > last + 1000, "token-order: {next} leaps over all that may have been given after {last}");
    assert_eq!(root.events_of("y"), ["token-rebase", "acquire"], "and that is audited");

    let root = go_root();
    token(&root, "x");
    fs::remove_dir_all(root.path().join("state")).expect("it is ours");
    crate::common::remove(&root.path().join("audit.log"));
    assert!(token(&root, "y") > 1000, "token-order: a record of lokt's tells of a token");

    let root = go_root();
    root.put("locks/odd.json", "garbage");
    assert!(token(&root, "y") > 1000, "token-order: what can't be read may have had one");
}
