//! `lokt snapshot diff`: from one snapshot to another, or to what is there now.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::common::grove::Grove;
use crate::common::{chmod, put, remove};

/// A repository with a snapshot of a few files.
fn grove() -> (Grove, String) {
    let grove = Grove::new();
    for path in ["same", "changed", "gone", "mode", "dir/file"] {
        grove.put(&format!("main/{path}"), "old");
    }
    let id = grove.take("");
    (grove, id)
}

/// Adds, removes, changes and touches.
fn change(grove: &Grove) {
    let main = grove.top().join("main");
    grove.put("main/changed", "new");
    grove.put("main/new/file", "new");
    remove(&main.join("gone"));
    chmod(&main.join("mode"), 0o600);
    remove(&main.join("dir/file"));
    symlink("../same", main.join("dir/file")).expect("a link can be made");
}

const LINES: &str = "M changed\nM dir/file\nD gone\nT mode\nA new\nA new/file\n";

#[test]
fn what_differs_has_a_line_each() {
    let (grove, first) = grove();
    let said = grove.run("alice", &format!("snapshot diff {first}")).exits(0, "that is no error");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", "nothing differs\n"));
    change(&grove);
    let said = grove.run("alice", "snapshot diff latest").exits(0, "that is no error");
    assert_eq!(said.stdout, LINES);
    assert_eq!(said.stderr, "2 added, 1 removed, 2 modified, 1 touched\n");
    let second = grove.take("");
    let said = grove.run("alice", &format!("snapshot diff {first} {second}")).exits(0, "that is no error");
    assert_eq!(said.stdout, LINES, "the same between snapshots");
    let said = grove.run("alice", &format!("snapshot diff {second} {first}")).exits(0, "that is no error");
    assert_eq!(said.stdout, "M changed\nM dir/file\nA gone\nT mode\nD new\nD new/file\n", "and back");
}

#[test]
fn the_same_in_json() {
    let (grove, first) = grove();
    change(&grove);
    let json = grove.json("alice", "snapshot diff latest", 0);
    let lists = json!({
        "from": first, "to": null, "worktree": "main", "differs": true,
        "added": ["new", "new/file"], "removed": ["gone"], "modified": ["changed", "dir/file"], "touched": ["mode"],
    });
    assert_eq!(json, lists);
    let second = grove.take("");
    let json = grove.json("alice", &format!("snapshot diff {second}"), 0);
    let none = json!({
        "from": second, "to": null, "worktree": "main", "differs": false,
        "added": [], "removed": [], "modified": [], "touched": [],
    });
    assert_eq!(json, none);
    assert_eq!(grove.json("alice", &format!("snapshot diff {first} {second}"), 0)["to"], second);
}

#[test]
fn the_exit_code_tells_if_that_is_asked() {
    let (grove, first) = grove();
    grove.run("alice", "snapshot diff latest --exit-code").exits(0, "nothing differs");
    change(&grove);
    grove.run("alice", "snapshot diff latest").exits(0, "nobody asked");
    grove.run("alice", "snapshot diff latest --exit-code").exits(1, "something differs");
    assert_eq!(grove.json("alice", "snapshot diff latest --exit-code", 1)["from"], first, "in JSON too");
}

#[test]
fn names_of_any_bytes_are_told() {
    let (grove, _) = grove();
    put(&grove.top().join("main").join(OsStr::from_bytes(b"caf\xe9")), "x");
    grove.put("main/two\nlines", "x");
    let json = grove.json("alice", "snapshot diff latest", 0);
    assert_eq!(json["added"], json!([{"hex": "636166e9"}, "two\nlines"]), "{json}");
    let said = grove.run("alice", "snapshot diff latest").exits(0, "that is no error");
    assert_eq!(said.stdout, "A caf\u{fffd}\nA two\\nlines\n", "a line is a line");
}

#[test]
fn another_worktree_can_be_compared() {
    let (grove, id) = grove();
    grove.run("alice", &format!("snapshot restore {id} --into copy")).exits(0, "the name is free");
    grove.put("worktrees/copy/more", "x");
    let said = grove.run("alice", "snapshot diff latest --worktree copy").exits(0, "that is no error");
    assert_eq!(said.stdout, "A more\n");
    grove.put("worktrees/copy/.lokt-ignore", "more\n");
    let said = grove.run("alice", "snapshot diff latest --worktree copy").exits(0, "that is no error");
    assert_eq!(said.stdout, "A .lokt-ignore\n", "what is ignored doesn't count");
}
