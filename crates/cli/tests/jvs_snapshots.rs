//! Snapshots beside `jvs` (`peers/jvs.py`): each reads, verifies and continues those of the other, and neither removes them.

use std::fs;

use serde_json::{Value, json};

use crate::common::grove::Grove;
use crate::common::jvs::{ERAS, LOCKS, V8};
use crate::common::put;

fn described(grove: &Grove, id: &str) -> Value {
    serde_json::from_str(&grove.text(&format!(".jvs/descriptors/{id}.json"))).expect("a descriptor is JSON")
}

fn config(grove: &Grove) -> Value {
    serde_json::from_str(&grove.text(".jvs/worktrees/main/config.json")).expect("it is JSON")
}

#[test]
fn jvs_gc_deletes_nothing_that_a_snapshot_of_lokt_descends_from() {
    for era in ERAS {
        let grove = Grove::of_jvs(era);
        let one = grove.jvs_takes(era, "one");
        grove.put("main/page", "version 2\n");
        let two = grove.jvs_takes(era, "two");
        fs::create_dir(grove.top().join("main/dir")).expect("it is writable");
        std::os::unix::fs::symlink("../page", grove.top().join("main/dir/link")).expect("it is writable");
        grove.put("main/dir/<&>", "odd");
        let three = grove.take("--note a<b>&c");
        assert_eq!(grove.jvs(era, "gc plan", 0)["to_delete"], json!([]), "{era}: everything is needed");
        assert_eq!(grove.jvs_history(era), [three.as_str(), &two, &one], "{era}: jvs reads on");
        grove.jvs_verifies(era, 3);
        grove.jvs(era, "gc run", 0);
        assert_eq!(grove.history(""), [three.as_str(), &two, &one], "{era}: nothing is gone");
        let four = grove.jvs_takes(era, "four");
        assert_eq!(described(&grove, &four)["parent_id"], three, "{era}: jvs continues it");
        let five = grove.take("");
        assert_eq!(grove.history(""), [five.as_str(), &four, &three, &two, &one], "{era}: and lokt that of jvs");
        grove.jvs_verifies(era, 5);
        let verified = grove.json("alice", "snapshot verify --all", 0);
        assert_eq!((&verified["overall"], &verified["checked"]), (&json!("sound"), &json!(5)), "{era}: {verified}");
        grove.run("alice", "doctor --strict").exits(0, "nothing is wrong");
    }
}

#[test]
fn snapshots_of_v8_are_read_verified_and_restored() {
    let grove = Grove::of_jvs(V8);
    let one = grove.jvs_takes(V8, "one");
    grove.put("main/page", "version two\n");
    let two = grove.jvs_takes(V8, "two");
    assert_eq!(grove.history(""), [two.as_str(), &one]);
    let verified = grove.json("alice", "snapshot verify --all", 0);
    assert_eq!((&verified["overall"], &verified["checked"]), (&json!("sound"), &json!(2)), "{verified}");
    grove.run("alice", "doctor --strict").exits(0, "nothing is wrong");
    let shown = grove.json("alice", &format!("snapshot show {two}"), 0);
    assert_eq!(
        (&shown["parent_snapshot_id"], &shown["fencing_token"], &shown["note"]),
        (&json!(one), &Value::Null, &json!("two")),
        "{shown}"
    );
    grove.run("alice", &format!("snapshot restore {one} --in-place --acquire")).exits(0, "all of it is saved");
    assert_eq!(grove.text("main/page"), "version 1\n");
    let page = grove.inside(&format!("snapshots/{two}/page"));
    put(&page, "version six\n");
    assert_eq!(grove.json("alice", &format!("snapshot verify {two}"), 65)["error"], "E_PAYLOAD_HASH_MISMATCH");
    let path = grove.inside(&format!("descriptors/{one}.json"));
    put(&path, fs::read_to_string(&path).expect("it is there").replace("\"one\"", "\"ten\""));
    assert_eq!(grove.json("alice", &format!("snapshot verify {one}"), 65)["error"], "E_DESCRIPTOR_CORRUPT");
}

#[test]
fn the_head_of_jvs_counts() {
    for era in ERAS {
        let grove = Grove::of_jvs(era);
        // The chain is there before the first snapshot is.
        grove.run("alice", "lease acquire").exits(0, "it is free");
        grove.run("alice", "lease release").exits(0, "it is hers");
        let one = grove.jvs_takes(era, "one");
        assert_eq!(grove.json("alice", "snapshot info", 0)["head"], one, "{era}: as config.json says");
        let two = grove.take("");
        let three = grove.jvs_takes(era, "three");
        let head = &grove.json("alice", "snapshot history", 0)["head"];
        assert_eq!(*head, three, "{era}: it is later than that of the chain");
        let four = grove.json("alice", "snapshot create --acquire", 0);
        assert_eq!(four["parent_snapshot_id"], three, "{era}: {four}");
        let four = four["snapshot_id"].as_str().expect("it has an id");
        assert_eq!(grove.history(""), [four, &three, &two, &one], "{era}: one line");
        if era == V8 {
            let config = config(&grove);
            assert_eq!((&config["head_snapshot_id"], &config["latest_snapshot_id"]), (&json!(four), &json!(four)));
        }
        grove.jvs_takes(era, "five");
        // Who went back stays there, although newer ones of jvs are around.
        grove.run("alice", &format!("snapshot restore {two} --in-place --acquire --force")).exits(0, "it is told to");
        assert_eq!(grove.json("alice", "snapshot info", 0)["head"], two, "{era}: a restore of lokt is later");
    }
}

#[test]
fn that_a_head_of_jvs_was_followed_is_said_once() {
    let grove = Grove::of_jvs(LOCKS);
    grove.take("");
    let two = grove.jvs_takes(LOCKS, "two");
    let said = grove.run("alice", "snapshot create --acquire").exits(0, "it follows");
    said.notes(&two, "the snapshot of jvs is named");
    let said = grove.run("alice", "snapshot create --acquire").exits(0, "it follows ours");
    assert!(!said.stderr.contains(&two), "only once: {}", said.stderr);
}

#[test]
fn a_repository_of_an_earlier_lokt_becomes_one_that_jvs_refuses() {
    let grove = Grove::new();
    let one = grove.take("");
    assert_eq!(grove.text(".jvs/format_version"), "2\n", "as lokt makes them");
    // As earlier versions made them.
    put(&grove.inside("format_version"), "1\n");
    grove.run("alice", "doctor --strict").exits(0, "it is a warning").says("format_version", "it is named");
    assert_eq!(grove.text(".jvs/format_version"), "1\n", "looking changes nothing");
    grove.run("alice", "doctor --strict --fix").exits(0, "it is mended");
    assert_eq!(grove.text(".jvs/format_version"), "2\n");
    put(&grove.inside("format_version"), "1\n");
    let two = grove.take("");
    assert_eq!(grove.text(".jvs/format_version"), "2\n", "so does the next snapshot");
    let events = grove.events_of("format_upgrade");
    assert_eq!(events.len(), 2, "the log says so: {events:?}");
    assert_eq!(grove.history(""), [two.as_str(), &one]);
    assert!(described(&grove, &two)["payload_root_hash"].is_object(), "in our own schema");
    grove.jvs_says(LOCKS, "gc run", 1);
    assert_eq!(grove.history(""), [two.as_str(), &one], "nothing is gone");
}

#[test]
fn a_repository_with_descriptors_of_both_is_told() {
    let grove = Grove::new();
    let one = grove.take("");
    // As earlier versions made them: jvs takes it for its own.
    put(&grove.inside("format_version"), "1\n");
    let two = grove.jvs_takes(LOCKS, "two");
    let said = grove.run("alice", "doctor --strict").exits(0, "it is a warning");
    said.says("jvs gc", "what not to run is said");
    let three = grove.take("");
    assert_eq!(grove.text(".jvs/format_version"), "1\n", "jvs is at home there, too");
    assert_eq!(grove.history(""), [three.as_str(), &two, &one], "lokt reads all of them");
    assert_eq!(grove.jvs_history(LOCKS), [three.as_str(), &two], "jvs reads on as far as it can");
}

#[test]
fn files_and_bytes_of_a_snapshot_of_jvs_are_counted() {
    let grove = Grove::none();
    grove.jvs(LOCKS, "init", 0);
    for (path, text) in [("main/a", "12"), ("main/b", "345"), ("main/c", "678")] {
        grove.put(path, text);
    }
    let one = grove.jvs_takes(LOCKS, "one");
    let json = grove.json("alice", &format!("snapshot verify {one}"), 0);
    assert_eq!((&json["files"], &json["bytes"]), (&json!(3), &json!(8)), "without the mark of jvs: {json}");
    assert_eq!(grove.json("alice", "snapshot info", 0)["total_bytes"], 8);
    grove.run("alice", "snapshot info").exits(0, "it is there").says("1 with 8 B of files", "what it has is counted");
}
