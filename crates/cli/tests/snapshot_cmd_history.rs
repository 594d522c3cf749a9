//! `lokt snapshot history`, `info` and `show`.

use std::slice::from_ref;

use serde_json::json;

use crate::common::grove::Grove;

#[test]
fn where_there_are_none_it_says_how_to_take_one() {
    let grove = Grove::new();
    let said = grove.run("alice", "snapshot history").exits(0, "that is no error");
    assert_eq!(said.stdout, "no snapshots of worktree \"main\"\n");
    said.notes("hint: `lokt snapshot create --acquire` takes one", "how");
    let json = grove.json("alice", "snapshot history", 0);
    assert_eq!(json, json!({"worktree": "main", "head": null, "snapshots": [], "warnings": []}));
    let json = grove.json("alice", "snapshot history --all", 0);
    assert_eq!(json, json!({"worktree": null, "head": null, "snapshots": [], "warnings": []}));
    grove.run("alice", "snapshot history --all").exits(0, "that is no error").says("no snapshots\n", "it says so");
    let json = grove.json("alice", "snapshot show latest", 3);
    assert_eq!(json["code"], "E_NOT_FOUND", "{json}");
    let said = grove.run("alice", "snapshot info").exits(0, "there is a repository");
    said.says("snapshots: 0", "none").says("head:      none", "nowhere");
}

#[test]
fn the_newest_comes_first_and_the_head_is_marked() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let first = grove.take("--note first");
    grove.put("main/a", "22");
    let second = grove.take("--consistency best_effort");
    assert_eq!(grove.history(""), [second.clone(), first.clone()]);
    assert_eq!(grove.history("-n 1"), from_ref(&second));
    assert_eq!(grove.history("--last 1"), from_ref(&second));
    assert_eq!(grove.history("-n 0"), [""; 0]);
    let said = grove.run("alice", "snapshot history").exits(0, "they are there");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("SNAPSHOT") && lines[0].contains("STATE"), "{said}");
    assert!(lines[1].starts_with(&second) && lines[1].contains("[HEAD] [RISK]") && lines[1].contains("2 B"), "{said}");
    assert!(lines[2].starts_with(&first) && !lines[2].contains('[') && lines[2].ends_with("first"), "{said}");
    let json = grove.json("alice", "snapshot history", 0);
    assert_eq!((&json["worktree"], &json["head"]), (&json!("main"), &json!(second)), "{json}");
    let (new, old) = (&json["snapshots"][0], &json["snapshots"][1]);
    assert_eq!(
        (&new["is_head"], &new["head_of"], &new["pinned"], &new["refs"]),
        (&json!(true), &json!(["main"]), &json!(false), &json!([]))
    );
    assert_eq!((&old["is_head"], &old["risk"], &old["note"]), (&json!(false), &json!(null), &json!("first")), "{json}");
    assert_eq!(new["risk"]["label"], "best_effort", "{json}");
    for words in ["snapshot history -n x", "snapshot history --all --worktree main", "snapshot history x"] {
        grove.run("alice", words).exits(64, words);
    }
}

#[test]
fn a_worktree_has_its_own_and_those_that_it_was_made_from() {
    let grove = Grove::with(&["feature"]);
    grove.put("main/a", "1");
    grove.put("worktrees/feature/b", "1");
    let base = grove.take("");
    let other = grove.take("--worktree feature");
    grove.run("alice", &format!("snapshot restore {base} --into copy")).exits(0, "the name is free");
    assert_eq!(grove.history("--worktree copy"), from_ref(&base), "what it was made from");
    let own = grove.take("--worktree copy");
    assert_eq!(grove.history("--worktree copy"), [own.clone(), base.clone()], "what was taken in it, too");
    assert_eq!(grove.history(""), from_ref(&base), "and main has its own");
    let all = grove.history("--all");
    assert_eq!(all, [own.clone(), other, base], "all of them");
    let said = grove.run("alice", "snapshot history --worktree copy").exits(0, "they are there");
    assert!(said.stdout.lines().nth(2).is_some_and(|line| line.contains("  main  ")), "whose it is{said}");
    let json = grove.json("alice", "snapshot history --all", 0);
    assert_eq!((&json["worktree"], &json["snapshots"][0]["head_of"]), (&json!(null), &json!(["copy"])), "{json}");
    let json = grove.json("alice", &format!("snapshot show {own}"), 0);
    assert_eq!((&json["is_head"], &json["head_of"]), (&json!(false), &json!(["copy"])), "not of main: {json}");
}

#[test]
fn show_says_everything() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let first = grove.take("");
    grove.put("main/b", "1");
    let id = grove.take("--note second --consistency best_effort");
    grove.run("alice", &format!("snapshot pin {id}")).exits(0, "it is there");
    let said = grove.run("alice", &format!("snapshot show {id}")).exits(0, "it is there");
    let tree = grove.inside(&format!("snapshots/{id}"));
    for text in [
        &format!("snapshot {id}\n"),
        "  worktree:    \"main\"\n",
        &format!("  after:       {first}\n"),
        "  note:        second\n",
        "  content:     2 files, 2 B\n",
        "  consistency: best_effort\n",
        "  [RISK]:      best_effort: ",
        "  token:       ",
        "  engine:      ",
        "  files hash:  blake3 ",
        "  head of:     \"main\"\n",
        "  pinned:      yes\n",
        &format!("  path:        {}\n", tree.display()),
    ] {
        assert!(said.stdout.contains(text), "{text:?}{said}");
    }
    let json = grove.json("alice", "snapshot show latest", 0);
    assert_eq!(
        (&json["snapshot_id"], &json["path"], &json["pinned"], &json["parent_snapshot_id"]),
        (&json!(id), &json!(tree), &json!(true), &json!(first)),
        "{json}"
    );
    assert_eq!(json["descriptor_checksum"]["algo"], "sha256", "{json}");
    assert_eq!(grove.text(&format!(".jvs/snapshots/{id}/a")), "1", "its files can be read there");
}

#[test]
fn info_says_how_things_stand() {
    let grove = Grove::with(&["feature"]);
    grove.put("main/a", "12345");
    let first = grove.take("--consistency best_effort");
    let head = grove.take("--note here");
    grove.run("alice", &format!("snapshot pin {first}")).exits(0, "it is there");
    let json = grove.json("alice", "snapshot info", 0);
    let id = std::fs::read_to_string(grove.inside("repo_id")).expect("it has one");
    for (member, expected) in [
        ("repo_root", json!(grove.top())),
        ("repo_id", json!(id.trim())),
        ("format_version", json!(2)),
        ("worktree", json!("main")),
        ("isolation", json!("exclusive")),
        ("worktree_count", json!(2)),
        ("total_worktrees", json!(2)),
        ("snapshot_count", json!(2)),
        ("total_snapshots", json!(2)),
        ("default_consistency", json!("quiesced")),
        ("default_isolation", json!("exclusive")),
        ("lease_duration_ms", json!(30_000)),
        ("renew_interval_ms", json!(10_000)),
        ("max_clock_skew_ms", json!(2_000)),
        ("head", json!(head)),
        ("risky_snapshots", json!([first])),
        ("pinned_snapshots", json!([first])),
        ("total_bytes", json!(10)),
        ("partial_snapshots", json!(0)),
        ("damaged_snapshots", json!(0)),
        ("trash", json!({"path": grove.inside("trash"), "entries": 0})),
    ] {
        assert_eq!(json[member], expected, "{member}: {json}");
    }
    assert_eq!((&json["latest"]["snapshot_id"], &json["latest"]["risk"]), (&json!(head), &json!(null)), "{json}");
    let said = grove.run("alice", "snapshot info").exits(0, "there is a repository");
    for text in ["2 with 10 B of files, 1 of them [RISK]", "worktrees: 2", &format!("head:      {head}"), "latest:    "]
    {
        assert!(said.stdout.contains(text), "{text:?}{said}");
    }
    let json = grove.json("alice", "snapshot info --worktree feature", 0);
    assert_eq!((&json["worktree"], &json["head"], &json["latest"]), (&json!("feature"), &json!(null), &json!(null)));
    grove.take("--consistency best_effort");
    let json = grove.json("alice", "snapshot info", 0);
    assert_eq!(json["latest"]["risk"]["label"], "best_effort", "the newest one is a risk: {json}");
}
