//! `lokt snapshot pin`, `unpin` and `gc`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::grove::Grove;

/// A repository with so many snapshots of `main`, the newest first.
fn grove(number: usize) -> (Grove, Vec<String>) {
    let grove = Grove::new();
    for at in 0..number {
        grove.put("main/a", at.to_string());
        grove.take("");
    }
    let ids = grove.history("");
    (grove, ids)
}

fn ids(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("it is a list: {list}"));
    list.iter().map(|one| one["snapshot_id"].as_str().or(one.as_str()).expect("each has an id").to_owned()).collect()
}

#[test]
fn a_pin_is_set_and_removed() {
    let (grove, ids) = grove(1);
    let id = &ids[0];
    let said = grove.lokt("alice").args(["snapshot", "pin", id, "--note", "the release"]).run().exits(0, "it is there");
    assert_eq!(said.stdout, format!("pinned snapshot {id}\n"));
    let said = grove.run("alice", &format!("snapshot pin {id} --note again")).exits(0, "it is pinned");
    assert_eq!(said.stdout, format!("snapshot {id} is pinned already\n"));
    said.notes("unpin it first", "its note stays");
    let json = grove.json("alice", "snapshot pin latest", 0);
    assert_eq!(json, json!({"status": "already_pinned", "snapshot_id": id}));
    grove.run("alice", "snapshot history").exits(0, "it is there").says("[HEAD] [PINNED]", "it is marked");
    assert_eq!(grove.json("alice", "snapshot show latest", 0)["pinned"], true);
    let said = grove.run("alice", "snapshot unpin latest").exits(0, "it is pinned");
    assert_eq!(said.stdout, format!("unpinned snapshot {id}\n"));
    let said = grove.run("alice", "snapshot unpin latest").exits(0, "that is no error");
    assert_eq!(said.stdout, format!("snapshot {id} was not pinned\n"));
    assert_eq!(grove.json("alice", "snapshot unpin latest", 0), json!({"status": "not_pinned", "snapshot_id": id}));
    let json = grove.json("alice", "snapshot pin latest --note why", 0);
    assert_eq!(json, json!({"status": "pinned", "snapshot_id": id, "note": "why"}));
    assert_eq!(grove.json("alice", "snapshot unpin latest", 0)["status"], "unpinned");
}

#[test]
fn without_flags_only_what_was_taken_in_a_worktree_that_is_gone_goes() {
    let (grove, all) = grove(2);
    let json = grove.json("alice", "snapshot gc plan", 0);
    assert_eq!((&json["candidate_count"], &json["protected_by_lineage"]), (&json!(0), &json!(1)), "{json}");
    let kept = json!([{"snapshot_id": all[1], "why": "lineage"}, {"snapshot_id": all[0], "why": "head"}]);
    assert_eq!(json["kept"], kept, "{json}");
    let said = grove.run("alice", "snapshot gc plan").exits(0, "that is no error");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("0 snapshots would go, 0 B; 2 stay\n", ""));
    grove.run("alice", &format!("snapshot restore {} --in-place --acquire", all[1])).exits(0, "nothing is lost");
    let json = grove.json("alice", "snapshot gc plan", 0);
    let kept = json!([{"snapshot_id": all[1], "why": "head"}, {"snapshot_id": all[0], "why": "worktree"}]);
    assert_eq!(json["kept"], kept, "who went back may go forward again: {json}");
    grove.run("alice", "snapshot restore latest --into other").exits(0, "the name is free");
    let lost = grove.take("--worktree other");
    grove.run("alice", "worktree remove other --force").exits(0, "nobody holds it");
    let json = grove.json("alice", "snapshot gc plan", 0);
    assert_eq!((&json["candidate_count"], ids(&json["candidates"])), (&json!(1), vec![lost.clone()]), "{json}");
    let candidate = &json["candidates"][0];
    assert_eq!((&candidate["worktree_id"], &candidate["bytes"]), (&json!("other"), &json!(1)), "{json}");
    assert_eq!(json["deletable_bytes_estimate"], 1, "{json}");
    let said = grove.run("alice", "snapshot gc plan").exits(0, "that is no error");
    said.says(&format!("{lost}  20"), "which")
        .says("1 snapshot would go, 1 B; 2 stay", "in short")
        .notes("hint: ", "what to do");
    assert_eq!(grove.history("--all").len(), 3, "a plan removes nothing");
    grove.run("alice", &format!("snapshot pin {lost}")).exits(0, "it is there");
    let json = grove.json("alice", "snapshot gc plan", 0);
    assert_eq!((&json["candidate_count"], &json["protected_by_pin"]), (&json!(0), &json!(1)), "{json}");
}

#[test]
fn keep_flags_let_the_old_go() {
    let (grove, all) = grove(4);
    grove.run("alice", &format!("snapshot pin {}", all[3])).exits(0, "it is there");
    let plan = |flags: &str| ids(&grove.json("alice", &format!("snapshot gc plan {flags}"), 0)["candidates"]);
    assert_eq!(plan("--keep-last 2"), [all[2].clone()], "the pinned one stays");
    assert_eq!(plan("--keep-last 9"), [""; 0]);
    assert_eq!(plan("--keep-within 1h"), [""; 0], "they are young");
    assert_eq!(plan("--keep-within 0"), [all[2].clone(), all[1].clone()], "the head stays");
    assert_eq!(plan("--keep-within 0 --keep-last 2"), [all[2].clone()], "either is enough");
    let json = grove.json("alice", "snapshot gc run --keep-last 2", 0);
    assert_eq!(
        (&json["status"], ids(&json["removed"]), &json["failed"], &json["emptied"], &json["in_trash"]),
        (&json!("done"), vec![all[2].clone()], &json!([]), &json!(0), &json!(1)),
        "{json}"
    );
    assert_eq!(json["trash"], json!(grove.inside("trash")), "{json}");
    assert_eq!(grove.history(""), [all[0].clone(), all[1].clone(), all[3].clone()]);
    grove.run("alice", "snapshot verify --all").exits(0, "the others are whole");
    assert!(grove.inside("trash").join("").read_dir().expect("it is there").count() == 1, "it is in the trash");
}

#[test]
fn run_says_what_went_and_now_deletes_at_once() {
    let (grove, all) = grove(3);
    let said = grove.run("alice", "snapshot gc run --keep-last 2").exits(0, "one goes");
    assert_eq!(said.stdout, format!("removed snapshot {}\n", all[2]));
    said.notes("1 snapshot removed, 2 stay", "in short")
        .notes("1 entry is still in ", "where")
        .notes("--now", "what to do");
    let said = grove.run("alice", "snapshot gc run").exits(0, "nothing goes");
    assert_eq!(said.stdout, "", "{said}");
    let said = grove.run("alice", "snapshot gc run --keep-last 1 --now").exits(0, "one goes");
    said.says(&format!("removed snapshot {}\n", all[1]), "which")
        .notes("2 entries of the trash deleted", "and the other");
    assert_eq!(grove.json("alice", "snapshot info", 0)["trash"]["entries"], 0, "nothing is left");
    assert_eq!(grove.history(""), [all[0].clone()]);
    assert!(!grove.events_of("gc_run").is_empty(), "it is in the log");
}

#[test]
fn what_is_typed_wrong_removes_nothing() {
    let (grove, all) = grove(2);
    for words in [
        "snapshot gc",
        "snapshot gc x",
        "snapshot gc plan --now",
        "snapshot gc run --keep-last x",
        "snapshot gc run --keep-last=-1",
        "snapshot gc run --keep-within x",
        "snapshot gc run --keep-within=-1h",
        "snapshot gc run extra",
    ] {
        grove.run("alice", words).exits(64, words);
        assert_eq!(grove.run("alice", &format!("{words} --json")).exits(64, words).failure(), "E_USAGE", "{words}");
    }
    assert_eq!(grove.history(""), all);
    assert_eq!(Grove::none().json("alice", "snapshot gc run", 3)["code"], "E_NOT_FOUND");
}

#[test]
fn what_could_not_be_deleted_is_named_and_the_run_fails() {
    lokt_testkit::need!(root);
    let (grove, all) = grove(2);
    grove.run("alice", "snapshot gc run --keep-last 1").exits(0, "one goes to the trash");
    let trash = grove.inside("trash");
    let entry =
        fs::read_dir(&trash).expect("it is there").next().expect("one is there").expect("it can be read").path();
    // A mount can't be removed, not even by root, and needs no file system with attributes.
    let mounted = entry.join("tree");
    let mount =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(&mounted).status().is_ok_and(|it| it.success());
    assert!(mount(&["mount", "-t", "tmpfs", "none"]), "root may mount");
    let json = grove.json("alice", "snapshot gc run --keep-last 1 --now", 1);
    let said = grove.run("alice", "snapshot gc run --keep-last 1 --now");
    assert!(mount(&["umount"]), "it was mounted");
    assert_eq!((&json["status"], &json["in_trash"]), (&json!("incomplete"), &json!(1)), "{json}");
    let failed = json["failed"][0]["path"].as_str().unwrap_or_default();
    assert_eq!((failed, json["failed"].as_array().map(Vec::len)), (entry.to_str().expect("text"), Some(1)), "{json}");
    let said = said.exits(1, "it isn't done").notes(failed, "what is left is named");
    assert!(!said.stderr.contains("--now"), "it was said: {}", said.stderr);
    grove.run("alice", "snapshot gc run --keep-last 1 --now").exits(0, "now it goes");
    assert_eq!(grove.history(""), [all[0].as_str()]);
}
