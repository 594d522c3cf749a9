//! `lokt snapshot restore`: into a worktree of its own, or in place.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::common::grove::{Grove, LONG};
use crate::common::{chmod, mode, names_in, put, remove};

/// A repository, and a snapshot of `main`.
fn grove() -> (Grove, String) {
    let grove = Grove::new();
    grove.put("main/a", "old");
    grove.put("main/dir/run", "#!/bin/sh\n");
    chmod(&grove.top().join("main/dir/run"), 0o751);
    symlink("dir/run", grove.top().join("main/link")).expect("a link can be made");
    let id = grove.take("");
    (grove, id)
}

#[test]
fn it_comes_back_in_a_worktree_of_its_own() {
    let (grove, id) = grove();
    grove.put("main/a", "new");
    let said = grove.run("alice", "snapshot restore latest").exits(0, "the name is free");
    let path = grove.top().join(format!("worktrees/restore-{id}"));
    let expected =
        format!("restored snapshot {id} into the new worktree \"restore-{id}\", 3 files, 13 B: {}\n", path.display());
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (expected.as_str(), ""));
    assert_eq!(fs::read_to_string(path.join("a")).expect("it is there"), "old");
    assert_eq!(mode(&path.join("dir/run")) & 0o777, 0o751, "its mode");
    assert_eq!(fs::read_link(path.join("link")).expect("it is a link"), std::path::Path::new("dir/run"));
    assert_eq!(grove.text("main/a"), "new", "what was there is as it was");
    let list = grove.run("alice", "worktree list").exits(0, "they are listed");
    list.says(&format!("restore-{id}  exclusive"), "it is a worktree");
    let json = grove.json("alice", &format!("snapshot restore {id} --into copy"), 0);
    let path = grove.top().join("worktrees/copy");
    let expected = json!({
        "status": "restored", "snapshot_id": id, "worktree": "copy", "path": path, "files": 3, "bytes": 13, "in_place": false,
    });
    assert_eq!(json, expected);
    assert!(names_in(&grove.inside("restores")).is_empty(), "nothing is left over");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let (grove, id) = grove();
    grove.run("alice", "snapshot restore latest").exits(0, "the name is free");
    for (words, name) in [
        ("snapshot restore latest", &format!("restore-{id}")[..]),
        ("snapshot restore latest --dry-run", &format!("restore-{id}")),
        ("snapshot restore latest --into main", "main"),
    ] {
        let said = grove.run("alice", words).exits(1, "it is taken");
        said.notes(&format!("there is a worktree \"{name}\" already"), "which").notes("`--into NAME`", "what to do");
        assert_eq!(grove.run("alice", &format!("{words} --json")).exits(1, "it is taken").failure(), "E_EXISTS");
    }
    grove.put("worktrees/full/file", "x");
    let said = grove.run("alice", "snapshot restore latest --into full").exits(1, "something is there");
    said.notes("worktrees/full", "where");
    assert_eq!(grove.text("worktrees/full/file"), "x", "which stays");
    grove.run("alice", "snapshot restore latest --into ../x").exits(64, "that is no name");
    grove.run("alice", "snapshot restore latest --into x --in-place").exits(64, "one or the other");
    grove.run("alice", "snapshot restore latest --force").exits(64, "only in place");
    grove.run("alice", "snapshot restore latest --acquire").exits(64, "only in place");
    grove.run("alice", "snapshot restore latest --token 1").exits(64, "only in place");
}

#[test]
fn in_place_the_files_are_exchanged() {
    let (grove, id) = grove();
    grove.put("main/a", "new");
    grove.put("main/more", "new");
    grove.take("");
    grove.acquire("alice", LONG);
    let said = grove.run("alice", &format!("snapshot restore {id} --in-place")).exits(0, "nothing is lost");
    let path = grove.top().join("main");
    assert_eq!(
        said.stdout,
        format!("restored snapshot {id} in worktree \"main\", 3 files, 13 B: {}\n", path.display())
    );
    assert_eq!(grove.text("main/a"), "old");
    assert!(!path.join("more").exists(), "what came later is gone");
    let old = grove.inside("trash");
    said.notes(&format!("note: what was there is in {}/", old.display()), "where it is")
        .notes("must cd again", "a warning");
    let json = grove.json("alice", "snapshot history", 0);
    assert_eq!(json["head"], id, "the next one follows it: {json}");
    grove.run("alice", "snapshot diff latest --exit-code").exits(0, "it is there as it was");
    let json = grove.json("alice", &format!("snapshot restore {id} --in-place"), 0);
    let members = ["status", "worktree", "in_place", "snapshot_id", "files"].map(|member| json[member].clone());
    assert_eq!(members, [json!("restored"), json!("main"), json!(true), json!(id), json!(3)], "{json}");
    let old = json["old_tree"].as_str().expect("where what was there is");
    assert_eq!(fs::read_to_string(format!("{old}/a")).expect("it is there"), "old");
    assert_eq!(grove.json("alice", "snapshot info", 0)["trash"]["entries"], 2, "both are in the trash");
    assert_eq!(grove.state("main"), "held", "the lease goes on");
}

#[test]
fn in_place_needs_the_lease_even_by_force() {
    let (grove, _) = grove();
    for words in ["snapshot restore latest --in-place", "snapshot restore latest --in-place --force"] {
        let said = grove.run("alice", words).exits(4, "she holds no lease");
        said.notes("`--acquire`", "what to do");
        assert_eq!(grove.json("alice", words, 4)["code"], "E_LOCK_NOT_HELD");
    }
    let token = grove.acquire("bob", LONG);
    let words = "snapshot restore latest --in-place --force";
    assert_eq!(grove.json("alice", words, 4)["code"], "E_LOCK_NOT_HELD", "it is bob's");
    assert_eq!(grove.json("alice", &format!("{words} --acquire"), 2)["code"], "E_LOCK_CONFLICT");
    assert_eq!(grove.json("alice", &format!("{words} --token {}", token + 1), 6)["code"], "E_FENCING_MISMATCH");
    let said = grove.run("alice", &format!("{words} --token {}", token + 1)).exits(6, "it is none");
    said.notes("note: nothing was restored", "plainly");
    grove.run("alice", &format!("{words} --token {token}")).exits(0, "it is the one");
    grove.run("bob", "lease release").exits(0, "it is his");
    grove.run("alice", &format!("{words} --acquire")).exits(0, "nobody has it");
    assert_eq!(grove.state("main"), "free", "it was given back");
}

#[test]
fn what_is_in_no_snapshot_is_not_lost_without_force() {
    let (grove, id) = grove();
    grove.put("main/a", "unsaved");
    grove.put("main/more", "unsaved");
    grove.acquire("alice", LONG);
    let said = grove.run("alice", "snapshot restore latest --in-place").exits(1, "it would be lost");
    said.notes("error: worktree \"main\" has files that are in no snapshot (1 added, 1 modified)", "why")
        .notes("  M a\n  A more\n", "which")
        .notes("`lokt snapshot create` keeps them; `--force`", "what to do");
    let json = grove.json("alice", "snapshot restore latest --in-place", 1);
    assert_eq!(
        (&json["status"], &json["code"], &json["added"], &json["modified"]),
        (&json!("error"), &json!("E_DIRTY"), &json!(["more"]), &json!(["a"])),
        "{json}"
    );
    assert_eq!(grove.text("main/a"), "unsaved", "nothing was changed");
    let json = grove.json("alice", &format!("snapshot restore {id} --in-place --force"), 0);
    let old = json["old_tree"].as_str().expect("where what was there is");
    assert_eq!(fs::read_to_string(format!("{old}/more")).expect("it is there"), "unsaved", "for an hour");
    assert_eq!(grove.text("main/a"), "old");
}

#[test]
fn many_files_that_would_be_lost_are_counted() {
    let (grove, _) = grove();
    for number in 10..25 {
        grove.put(&format!("main/new-{number}"), "x");
    }
    let said = grove.run("alice", "snapshot restore latest --in-place --acquire").exits(1, "they would be lost");
    said.notes("  A new-19\n  and 5 more\n", "the rest is counted");
}

#[test]
fn a_dry_run_changes_nothing_and_needs_no_lease() {
    let (grove, id) = grove();
    grove.put("main/a", "new");
    grove.put("main/more", "new");
    let said = grove.run("alice", "snapshot restore latest --in-place --dry-run").exits(0, "only asking");
    assert_eq!(said.stdout, "M a\nD more\n", "what would change");
    said.notes(&format!("would restore snapshot {id} in worktree \"main\": 1 removed, 1 modified"), "in short");
    let json = grove.json("alice", "snapshot restore latest --in-place --dry-run", 0);
    let expected = json!({
        "status": "would_restore", "snapshot_id": id, "worktree": "main", "in_place": true,
        "added": [], "removed": ["more"], "modified": ["a"], "touched": [],
    });
    assert_eq!(json, expected);
    assert_eq!(grove.text("main/a"), "new", "nothing was changed");
    let said = grove.run("alice", "snapshot restore latest --dry-run --into copy").exits(0, "only asking");
    let path = grove.top().join("worktrees/copy");
    let expected =
        format!("would restore snapshot {id} into the new worktree \"copy\", 3 files, 13 B: {}\n", path.display());
    assert_eq!(said.stdout, expected);
    let json = grove.json("alice", "snapshot restore latest --dry-run --into copy", 0);
    assert_eq!(
        (&json["status"], &json["files"], &json["bytes"]),
        (&json!("would_restore"), &json!(3), &json!(13)),
        "{json}"
    );
    assert!(!path.exists(), "nothing was made");
}

#[test]
fn what_is_ignored_stays_in_place() {
    let grove = Grove::new();
    grove.put("main/.lokt-ignore", "target/\n");
    grove.put("main/a", "old");
    grove.put("main/target/big", "kept");
    let id = grove.take("");
    grove.put("main/a", "new");
    grove.take("");
    grove.run("alice", &format!("snapshot restore {id} --in-place --acquire")).exits(0, "nothing is lost");
    assert_eq!((grove.text("main/a"), grove.text("main/target/big")), ("old".to_owned(), "kept".to_owned()));
}

#[test]
fn a_shared_worktree_is_restored_without_a_lease() {
    let grove = Grove::new();
    grove.run("setup", "worktree create notes --isolation shared").exits(0, "a worktree is made");
    grove.put("worktrees/notes/a", "old");
    grove.run("alice", "snapshot create --worktree notes").exits(0, "nobody is asked");
    grove.put("worktrees/notes/a", "new");
    grove.run("alice", "snapshot restore latest --in-place --worktree notes").exits(1, "it would be lost");
    grove.run("alice", "snapshot restore latest --in-place --force --worktree notes").exits(0, "that is wanted");
    assert_eq!(grove.text("worktrees/notes/a"), "old");
}

#[test]
fn a_damaged_snapshot_is_not_restored() {
    let (grove, id) = grove();
    let file = grove.inside(&format!("snapshots/{id}/a"));
    remove(&file);
    put(&file, "bad");
    for words in ["snapshot restore latest", "snapshot restore latest --in-place --force --acquire"] {
        let json = grove.json("alice", words, 65);
        assert_eq!(json["code"], "E_PAYLOAD_HASH_MISMATCH", "{words}: {json}");
    }
    assert_eq!(grove.text("main/a"), "old", "what was there is as it was");
    assert!(!grove.top().join(format!("worktrees/restore-{id}")).exists(), "nothing was made");
}
