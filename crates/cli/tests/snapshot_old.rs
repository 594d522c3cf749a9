//! A repository that the old program wrote: read, verified, restored and continued.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::grove::Grove;
use crate::common::{put, remove};

const WRITER: [&str; 4] = ["-B", "-E", "-s", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/jvs_repo.py")];
const FIRST: &str = "1700000000001-0a0b0c01";
const SECOND: &str = "1700000060002-0a0b0c02";
const THIRD: &str = "1700000120003-0a0b0c03";
const SCHEMAS: [&str; 2] = ["spec", "code"];

fn old(schema: &str) -> Grove {
    let grove = Grove::none();
    let top = grove.top();
    let said = grove.call("python3").args(WRITER).args([&top]).args([schema]).run();
    said.exits(0, "the fixture is written");
    grove
}

/// What is in a tree, as somebody who looks sees it.
fn contents(tree: &Path) -> Value {
    let text = |path: &str| fs::read_to_string(tree.join(path)).ok();
    json!({
        "page": text("page"),
        "tool": text("dir/tool"),
        "mode": fs::metadata(tree.join("dir/tool")).map(|meta| meta.permissions().mode() & 0o777).ok(),
        "link": fs::read_link(tree.join("dir/link")).ok(),
        "empty": tree.join("empty").is_dir(),
        "their own": text("dir/.READY"),
        "the mark": tree.join(".READY").exists(),
    })
}

fn second() -> Value {
    json!({
        "page": "version 2\n", "tool": "#!/bin/sh\n", "mode": 0o755, "link": "../page", "empty": true,
        "their own": "a user's own file\n", "the mark": false,
    })
}

#[test]
fn what_the_old_program_wrote_is_read() {
    for schema in SCHEMAS {
        let grove = old(schema);
        assert_eq!(grove.history(""), [SECOND, FIRST], "{schema}: what is whole is there");
        let json = grove.json("alice", &format!("snapshot show {SECOND}"), 0);
        assert_eq!(
            (&json["worktree_id"], &json["parent_snapshot_id"], &json["fencing_token"], &json["note"]),
            (&json!("main"), &json!(FIRST), &json!(42), &json!("before <2> & after")),
            "{schema}: {json}"
        );
        let info = grove.json("alice", "snapshot info", 0);
        assert_eq!((&info["head"], &info["partial_snapshots"]), (&json!(SECOND), &json!(1)), "{schema}: {info}");
        assert_eq!(grove.json("alice", "snapshot show release", 0)["snapshot_id"], FIRST, "{schema}: by its name");
        assert_eq!(grove.json("alice", "snapshot show latest", 0)["snapshot_id"], SECOND, "{schema}");
        let difference = grove.json("alice", &format!("snapshot diff {FIRST} {SECOND}"), 0).to_string();
        for path in ["page", "dir/link", "empty"] {
            assert!(difference.contains(path), "{schema}: {path}: {difference}");
        }
        grove.run("alice", "snapshot diff latest").exits(0, "the files are those of the head");
    }
}

#[test]
fn what_the_old_program_wrote_is_verified() {
    for schema in SCHEMAS {
        let grove = old(schema);
        let json = grove.json("alice", "snapshot verify --all", 0);
        assert_eq!((&json["overall"], &json["checked"]), (&json!("sound"), &json!(2)), "{schema}: {json}");
        let page = grove.inside(&format!("snapshots/{SECOND}/page"));
        put(&page, "version 3\n");
        let json = grove.json("alice", &format!("snapshot verify {SECOND}"), 65);
        assert_eq!((&json["payload_hash_valid"], &json["checksum_valid"]), (&json!(false), &json!(true)), "{schema}");
        assert_eq!(json["error"], "E_PAYLOAD_HASH_MISMATCH", "{schema}: {json}");
        let into = format!("snapshot restore {SECOND} --into copy");
        assert_eq!(grove.json("alice", &into, 65)["code"], "E_PAYLOAD_HASH_MISMATCH", "{schema}: nor restored");
        assert!(!grove.top().join("worktrees/copy").exists(), "{schema}: nothing came back");
        let descriptor = grove.inside(&format!("descriptors/{FIRST}.json"));
        let text = fs::read_to_string(&descriptor).expect("it is there");
        put(&descriptor, text.replace("quiesced", "best_effort"));
        let json = grove.json("alice", &format!("snapshot verify {FIRST}"), 65);
        assert_eq!(
            (&json["checksum_valid"], &json["error"]),
            (&json!(false), &json!("E_DESCRIPTOR_CORRUPT")),
            "{schema}"
        );
        assert_eq!(grove.json("alice", "snapshot verify --all", 65)["bad"], 2, "{schema}: both");
        grove.run("alice", "doctor --strict").exits(1, "it is damaged").says("E_PAYLOAD_HASH_MISMATCH", "it says so");
    }
}

#[test]
fn what_the_old_program_wrote_comes_back_without_its_mark() {
    for schema in SCHEMAS {
        let grove = old(schema);
        grove.run("alice", &format!("snapshot restore {SECOND} --into copy")).exits(0, "it is whole");
        assert_eq!(contents(&grove.top().join("worktrees/copy")), second(), "{schema}: in a new worktree");
        let back = format!("snapshot restore {FIRST} --in-place --acquire");
        grove.run("alice", &back).exits(0, "all of it is saved");
        assert_eq!(grove.text("main/page"), "version 1\n", "{schema}");
        assert!(!grove.top().join("main/.READY").exists(), "{schema}: the mark is no file of theirs");
        grove.run("alice", &format!("snapshot restore {SECOND} --in-place --acquire")).exits(0, "and forth");
        assert_eq!(contents(&grove.top().join("main")), second(), "{schema}: in place");
    }
}

#[test]
fn what_the_old_program_did_not_finish_is_invisible() {
    for schema in SCHEMAS {
        let grove = old(schema);
        for words in [
            format!("snapshot restore {THIRD} --into copy"),
            format!("snapshot restore {THIRD} --in-place --acquire --force"),
            format!("snapshot verify {THIRD}"),
            format!("snapshot show {THIRD}"),
        ] {
            assert_eq!(grove.json("alice", &words, 9)["code"], "E_PARTIAL_SNAPSHOT", "{schema}: {words}");
        }
        remove(&grove.inside(&format!("snapshots/{SECOND}/.READY")));
        assert_eq!(grove.history(""), [FIRST], "{schema}: without its mark it isn't there");
        assert_eq!(
            grove.json("alice", &format!("snapshot verify {SECOND}"), 9)["code"],
            "E_PARTIAL_SNAPSHOT",
            "{schema}"
        );
    }
}

#[test]
fn what_the_old_program_wrote_is_continued() {
    for schema in SCHEMAS {
        let grove = old(schema);
        let json = grove.json("alice", "snapshot create --acquire", 0);
        assert_eq!(json["parent_snapshot_id"], SECOND, "{schema}: after the old head: {json}");
        assert!(json["fencing_token"].as_u64().is_some_and(|token| token > 43), "{schema}: a greater token: {json}");
        let id = json["snapshot_id"].as_str().expect("it has an id");
        assert_eq!(grove.history(""), [id, SECOND, FIRST], "{schema}");
        let difference = grove.json("alice", &format!("snapshot diff {SECOND} {id}"), 0);
        for kind in ["added", "removed", "modified"] {
            assert_eq!(difference[kind], json!([]), "{schema}: the same files: {difference}");
        }
        assert_eq!(grove.json("alice", "snapshot verify --all", 0)["checked"], 3, "{schema}");
        let plan = grove.json("alice", "snapshot gc plan", 0);
        assert_eq!(plan["candidate_count"], 0, "{schema}: what it descends from stays: {plan}");
        let config: Value = serde_json::from_str(&grove.text(".jvs/worktrees/main/config.json")).expect("JSON");
        assert_eq!(config["head_snapshot_id"], id, "{schema}: the old program finds it, too: {config}");
        grove.run("alice", "snapshot gc run --keep-last 1 --now").exits(0, "old ones may go");
        assert_eq!(grove.history(""), [id, FIRST], "{schema}: what has a name stays");
        grove.run("alice", "snapshot verify --all").exits(0, "the others are whole");
    }
}
