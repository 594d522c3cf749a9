//! `lokt lease audit`: what happened, and whether that is all of it.

use std::fs;

use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG, SHORT};
use crate::common::ledgers::objects;
use crate::common::put;

/// A repository in which a few things happened.
fn busy() -> Grove {
    let grove = Grove::with(&["feature"]);
    grove.acquire("alice", SHORT);
    grove.is_over();
    grove.acquire("bob", &format!("{LONG} --purpose rebase"));
    grove.run("carol", "lease acquire").exits(2, "it is bob's");
    grove.run("bob", "lease renew").exits(0, "it is his");
    grove.run("dora", "lease break --force --reason wanted").exits(0, "that was wanted");
    grove.json("alice", &format!("lease acquire --worktree feature {LONG}"), 0);
    grove.run("alice", "lease release --worktree feature").exits(0, "it is hers");
    grove
}

fn operations(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["operation"].as_str().expect("it has a name")).collect()
}

#[test]
fn the_log_is_shown_line_by_line() {
    let grove = busy();
    let said = grove.run("a", "lease audit --json").exits(0, "anybody may look");
    let lines = objects(&said);
    let stored = fs::read_to_string(grove.inside("audit/audit.jsonl")).expect("it is there");
    assert_eq!(said.stdout, stored, "as it stands in the file");
    for wanted in ["lock_acquire", "lock_steal", "lock_denied", "lock_renew", "lock_break", "lock_release"] {
        assert!(operations(&lines).contains(&wanted), "{wanted}: {:?}", operations(&lines));
    }
    let steal = lines.iter().find(|line| line["operation"] == "lock_steal").expect("there is one");
    assert_eq!(steal["details"]["evidence"], "boot_clock", "how it was known: {steal}");
    assert!(steal["details"]["old_holder"].as_str().is_some_and(|old| old.contains(":alice:")), "whose: {steal}");
    assert!(steal["details"]["new_token"].as_u64() > steal["details"]["old_token"].as_u64(), "{steal}");
    let text = grove.run("a", "lease audit").exits(0, "anybody may look");
    assert_eq!(text.stdout.lines().count(), lines.len(), "a line each{text}");
    let line = text.stdout.lines().find(|line| line.contains("lock_steal")).expect("it is shown");
    assert!(line.contains("  main  token ") && line.contains("bob@") && line.contains("from alice@"), "{line}");
    assert!(text.stdout.lines().any(|line| line.contains("lock_break") && line.contains("wanted")), "why{text}");
}

#[test]
fn a_part_of_the_log_is_shown() {
    let grove = busy();
    let all = objects(&grove.run("a", "lease audit --json").exits(0, "anybody may look"));
    let last = objects(&grove.run("a", "lease audit --json --last 2").exits(0, "anybody may look"));
    assert_eq!(last, all[all.len() - 2..], "the last two");
    assert_eq!(objects(&grove.run("a", "lease audit --json --last 999").exits(0, "all")).len(), all.len());
    assert_eq!(grove.run("a", "lease audit --last 0").exits(0, "none").stdout, "");
    let feature = objects(&grove.run("a", "lease audit --json --worktree feature").exits(0, "anybody may look"));
    assert!(feature.iter().all(|line| line["target"] == "feature") && feature.len() >= 2, "{feature:?}");
    let one = objects(&grove.run("a", "lease audit --json --worktree main --last 1").exits(0, "both"));
    assert_eq!((one.len(), &one[0]["target"]), (1, &json!("main")), "of that worktree: {one:?}");
    grove.run("a", "lease audit --last x").exits(64, "no number");
    grove.run("a", "lease audit --verify --last 1").exits(64, "one or the other");
    let gone = grove.run("a", "lease audit --worktree gone").exits(0, "it may have been removed");
    assert_eq!(gone.stdout, "", "nothing is known of it");
    let fresh = Grove::new();
    fresh.run("a", "lease audit").exits(0, "nothing has happened to a lease");
    fresh.run("a", "lease audit --verify").exits(0, "nothing is wrong").says("nothing is wrong", "it says so");
}

#[test]
fn a_changed_line_is_found() {
    let grove = busy();
    let json = grove.json("a", "lease audit --verify", 0);
    let path = grove.inside("audit/audit.jsonl");
    let stored = fs::read_to_string(&path).expect("it is there");
    let count = stored.lines().count();
    assert_eq!((&json["status"], &json["events"]), (&json!("sound"), &json!(count)), "{json}");
    assert_eq!(json["path"], path.display().to_string(), "{json}");
    grove
        .run("a", "lease audit --verify")
        .exits(0, "it is whole")
        .says(&format!("{count} events, nothing is wrong"), "so");
    let lines: Vec<&str> = stored.lines().collect();
    let without = |at: usize| {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| format!("{line}\n"));
        kept.collect::<String>()
    };
    let first = lines.iter().position(|line| line.contains(":alice:")).expect("she was there") + 1;
    let cases = [
        ("changed", stored.replacen(":alice:", ":mallory:", 1), Some(first)),
        ("taken out", without(2), Some(3)),
        ("cut off", without(count - 1), Some(count)),
        ("garbage", format!("garbage\n{stored}"), Some(1)),
    ];
    for (what, text, line) in cases {
        put(&path, text);
        let said = grove.run("a", "lease audit --verify --json").exits(65, what);
        let json = said.json();
        assert_eq!(
            (said.failure().as_str(), json["line"].as_u64()),
            ("E_AUDIT_CHAIN_BROKEN", line.map(|n| n as u64)),
            "{what}{said}"
        );
        let said = grove.run("a", "lease audit --verify").exits(65, what);
        said.notes("the audit log is broken at line", what)
            .notes("audit.jsonl", "which")
            .notes("doctor --strict --fix", "how");
        assert_eq!(grove.state("main"), "free", "{what}: leases don't depend on it");
        grove.run("a", "lease audit").exits(0, "what is there is shown");
        put(&path, &stored);
    }
    grove.run("a", "lease audit --verify").exits(0, "it is as it was");
    let head = grove.inside("audit/audit.head");
    for kept in (0..count).rev() {
        put(&path, stored.split_inclusive('\n').take(kept).collect::<String>());
        if head.exists() {
            crate::common::remove(&head);
        }
        let said = grove.run("a", "lease audit --verify").exits(65, "the end was cut off, and the head removed");
        said.notes("the audit log is broken at line", "where");
    }
    fs::remove_dir_all(grove.inside("audit")).expect("it is there");
    grove.run("a", "lease audit --verify").exits(65, "all of it is gone");
    grove.run("a", "doctor --strict --fix").exits(0, "a new one is begun");
    grove.run("a", "lease audit --verify").exits(0, "it is whole");
}
