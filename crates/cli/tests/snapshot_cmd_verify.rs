//! `lokt snapshot verify`: what isn't what it was.

use std::fs;

use serde_json::json;

use crate::common::grove::Grove;
use crate::common::{chmod, put, remove};

fn grove() -> (Grove, [String; 2]) {
    let grove = Grove::new();
    grove.put("main/a", "12345");
    let first = grove.take("");
    grove.put("main/b", "678");
    let second = grove.take("");
    (grove, [first, second])
}

/// Changes a file of a snapshot, which nobody should.
fn spoil(grove: &Grove, id: &str, file: &str, bytes: &str) {
    let path = grove.inside(&format!("snapshots/{id}/{file}"));
    chmod(path.parent().expect("it is in a directory"), 0o755);
    // Others may have the same file.
    if path.exists() {
        remove(&path);
    }
    put(&path, bytes);
}

#[test]
fn what_is_whole_is_said_to_be() {
    let (grove, [first, second]) = grove();
    let said = grove.run("alice", "snapshot verify").exits(0, "nothing is wrong");
    assert_eq!(said.stdout, format!("snapshot {second}: 2 files, 8 B, nothing is wrong\n"), "the latest");
    let json = grove.json("alice", &format!("snapshot verify {first}"), 0);
    let sound = |id: &str, files: u64, bytes: u64| {
        json!({
            "snapshot_id": id, "checksum_valid": true, "payload_hash_valid": true, "tamper_detected": false,
            "problems": [], "files": files, "bytes": bytes,
        })
    };
    assert_eq!(json, sound(&first, 1, 5));
    let json = grove.json("alice", "snapshot verify --all", 0);
    let all =
        json!({"overall": "sound", "checked": 2, "bad": 0, "results": [sound(&second, 2, 8), sound(&first, 1, 5)]});
    assert_eq!(json, all);
    let said = grove.run("alice", "snapshot verify --all").exits(0, "nothing is wrong");
    assert!(said.stdout.ends_with("2 snapshots, nothing is wrong\n"), "{said}");
    grove.run("alice", &format!("snapshot verify {first} --all")).exits(64, "one or all");
}

#[test]
fn a_changed_file_is_found_and_named() {
    let (grove, [first, second]) = grove();
    spoil(&grove, &second, "b", "679");
    let said = grove.run("alice", "snapshot verify").exits(65, "a file was changed");
    said.says(&format!("snapshot {second}: DAMAGED (E_PAYLOAD_HASH_MISMATCH)\n  b "), "what")
        .notes("hint: ", "what to do");
    let json = grove.json("alice", "snapshot verify", 65);
    assert_eq!(
        (&json["payload_hash_valid"], &json["checksum_valid"], &json["tamper_detected"]),
        (&json!(false), &json!(true), &json!(true)),
        "{json}"
    );
    assert_eq!((&json["severity"], &json["error"]), (&json!("critical"), &json!("E_PAYLOAD_HASH_MISMATCH")), "{json}");
    let json = grove.json("alice", "snapshot verify --all", 65);
    assert_eq!((&json["overall"], &json["bad"], &json["checked"]), (&json!("damaged"), &json!(1), &json!(2)), "{json}");
    grove.run("alice", &format!("snapshot verify {first}")).exits(0, "the other one is whole");
    let said = grove.run("alice", "snapshot verify --all").exits(65, "one is damaged");
    assert!(said.stdout.ends_with("2 snapshots, 1 damaged\n"), "{said}");
}

#[test]
fn a_file_that_came_or_went_is_found() {
    let (grove, [first, second]) = grove();
    spoil(&grove, &first, "more", "x");
    remove(&grove.inside(&format!("snapshots/{second}/b")));
    for (id, problem) in [(first, "more was added"), (second, "b is missing")] {
        let json = grove.json("alice", &format!("snapshot verify {id}"), 65);
        assert!(json["problems"].to_string().contains(problem), "{problem}: {json}");
    }
}

#[test]
fn a_changed_description_is_found() {
    let (grove, [_, second]) = grove();
    let path = grove.inside(&format!("descriptors/{second}.json"));
    let text = fs::read_to_string(&path).expect("it is there");
    put(&path, text.replace("quiesced", "best_effort"));
    let json = grove.json("alice", "snapshot verify", 65);
    assert_eq!((&json["checksum_valid"], &json["error"]), (&json!(false), &json!("E_DESCRIPTOR_CORRUPT")), "{json}");
    grove.run("alice", "snapshot history").exits(0, "it is there").says("[DAMAGED]", "it is marked");
    put(&path, "{");
    let json = grove.json("alice", &format!("snapshot verify {second}"), 65);
    assert_eq!((&json["checksum_valid"], &json["snapshot_id"]), (&json!(false), &json!(second)), "{json}");
    let json = grove.json("alice", "snapshot verify --all", 65);
    assert_eq!((&json["checked"], &json["bad"]), (&json!(2), &json!(1)), "what can't be read counts: {json}");
}

#[test]
fn without_any_there_is_nothing_to_verify() {
    let grove = Grove::new();
    let said = grove.run("alice", "snapshot verify").exits(3, "there is none");
    said.notes("there is no snapshot of worktree \"main\" yet", "why").notes("`lokt snapshot create`", "what to do");
    let json = grove.json("alice", "snapshot verify --all", 0);
    assert_eq!(json, json!({"overall": "sound", "checked": 0, "bad": 0, "results": []}));
}
