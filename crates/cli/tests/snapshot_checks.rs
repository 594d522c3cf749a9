//! The numbered checks of the seed's protocol about snapshots, as far as one process after the other can show them.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lokt_testkit::swarm::Over;
use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG};
use crate::common::{names_in, put, remove};

/// A repository with a snapshot of `main`, whose file was changed after that.
fn grove() -> (Grove, String) {
    let grove = Grove::new();
    grove.put("main/page", "saved");
    let id = grove.take("");
    grove.put("main/page", "not saved");
    (grove, id)
}

/// Everything that a refused command must not change: head, descriptions, history, what is stored, and the files.
fn state(grove: &Grove) -> Value {
    let names = |dir: &str| -> Vec<String> {
        names_in(&grove.inside(dir)).iter().map(|path| path.display().to_string()).collect()
    };
    json!({
        "head": grove.json("observer", "snapshot info", 0)["head"],
        "history": grove.json("observer", "snapshot history --all", 0),
        "descriptors": names("descriptors"),
        "snapshots": names("snapshots"),
        "intents": names("intents"),
        "restores": names("restores"),
        "config": grove.text(".jvs/worktrees/main/config.json"),
        "page": grove.text("main/page"),
    })
}

#[test]
fn check_39_a_stale_token_publishes_and_restores_nothing() {
    let (grove, id) = grove();
    let stale = grove.acquire("alice", LONG);
    grove.run("alice", "lease release").exits(0, "it is hers");
    for holder in [None, Some("bob")] {
        if let Some(holder) = holder {
            grove.acquire(holder, LONG);
        }
        let before = state(&grove);
        for words in [
            format!("snapshot create --token {stale}"),
            format!("snapshot create --consistency best_effort --token {stale}"),
            format!("snapshot restore {id} --in-place --force --token {stale}"),
        ] {
            assert_eq!(grove.json("alice", &words, 6)["code"], "E_FENCING_MISMATCH", "{words}, held by {holder:?}");
            assert_eq!(state(&grove), before, "{words}, held by {holder:?}: nothing changed");
        }
    }
}

#[test]
fn check_42_without_the_lease_nothing_is_taken_or_restored_in_place() {
    let (grove, id) = grove();
    for holder in [None, Some("bob")] {
        if let Some(holder) = holder {
            grove.acquire(holder, LONG);
        }
        let before = state(&grove);
        for words in [
            "snapshot create".to_owned(),
            format!("snapshot restore {id} --in-place"),
            format!("snapshot restore {id} --in-place --force"),
        ] {
            assert_eq!(grove.json("alice", &words, 4)["code"], "E_LOCK_NOT_HELD", "{words}, held by {holder:?}");
            assert_eq!(state(&grove), before, "{words}, held by {holder:?}: nothing changed");
        }
    }
}

#[test]
fn check_43_of_fifteen_at_once_every_acknowledged_one_is_reachable() {
    let grove = Grove::new();
    grove.put("main/page", "saved");
    grove.acquire("alice", LONG);
    let running: Vec<_> = (0..15).map(|_| grove.lokt("alice").args(["snapshot", "create", "--json"]).start()).collect();
    let mut acknowledged = BTreeSet::new();
    for said in running.into_iter().map(crate::common::Running::wait) {
        let said = said.exits(0, "it is her lease");
        let id = said.json()["snapshot_id"].as_str().expect("a snapshot has an id").to_owned();
        assert!(acknowledged.insert(id.clone()), "{id} is one of them");
    }
    assert_eq!(reachable(&grove), acknowledged, "each leads to the next, from the head to the first");
    let plan = grove.json("alice", "snapshot gc plan", 0);
    assert_eq!(plan["candidate_count"], 0, "none would go: {plan}");
    grove.run("alice", "snapshot gc run --now").exits(0, "nothing goes");
    assert_eq!(grove.json("alice", "snapshot verify --all", 0)["checked"], 15, "all are whole");
}

/// The snapshots that the head of `main` descends from, and itself.
fn reachable(grove: &Grove) -> BTreeSet<String> {
    let history = grove.json("observer", "snapshot history --all", 0);
    let snapshots = history["snapshots"].as_array().expect("it is a list");
    let mut next = grove.json("observer", "snapshot info", 0)["head"].clone();
    let mut reached = BTreeSet::new();
    while let Some(id) = next.as_str() {
        assert!(reached.insert(id.to_owned()), "{id} doesn't descend from itself");
        let found = snapshots.iter().find(|one| one["snapshot_id"] == id);
        next = found.unwrap_or_else(|| panic!("{id} is in the history: {history}"))["parent_snapshot_id"].clone();
    }
    reached
}

#[test]
fn check_44_a_held_worktree_keeps_its_name_files_and_snapshots() {
    let grove = Grove::with(&["feature"]);
    grove.put("worktrees/feature/page", "x");
    grove.run("alice", "snapshot create --acquire --worktree feature").exits(0, "it is free");
    grove.run("alice", "lease acquire --lease 1h --worktree feature").exits(0, "it is free");
    for words in ["worktree rename feature other", "worktree remove feature", "worktree remove feature --force"] {
        assert_eq!(grove.json("bob", words, 2)["code"], "E_LOCK_CONFLICT", "{words}");
    }
    grove.run("alice", "snapshot create --worktree feature").exits(0, "it goes on under its name");
    assert_eq!(grove.history("--worktree feature").len(), 2, "both are there");
}

#[test]
fn check_45_quiesced_is_the_default_and_what_is_unknown_is_refused() {
    let (grove, id) = grove();
    assert_eq!(grove.json("observer", &format!("snapshot show {id}"), 0)["consistency_level"], "quiesced");
    assert_eq!(grove.json("observer", "snapshot info", 0)["default_consistency"], "quiesced");
    let before = state(&grove);
    for level in ["quick", "QUIESCED", "best-effort", ""] {
        let said = grove.run("alice", &format!("snapshot create --acquire --consistency={level} --json"));
        assert_eq!(said.exits(64, "no such level").failure(), "E_USAGE", "{level:?}");
    }
    assert_eq!(state(&grove), before, "nothing changed");
}

/// Runs `check` while a file of `main` is written to all the time.
fn beside_a_writer<T>(grove: &Grove, check: impl FnOnce() -> T) -> T {
    let (path, over) = (grove.top().join("main/moving"), AtomicBool::new(false));
    put(&path, "0");
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u64.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                put(&path, number.to_string());
            }
        });
        let _over = Over(&over);
        check()
    })
}

#[test]
fn check_46_quiesced_beside_a_writer_is_refused_and_nothing_is_visible() {
    let (grove, _) = grove();
    // On a busy machine the writer may rest while the files are copied.
    let attempt = || {
        let before = state(&grove);
        (before, beside_a_writer(&grove, || grove.run("alice", "snapshot create --acquire --json")))
    };
    let (before, said) = (0..20).map(|_| attempt()).find(|(_, said)| said.code != 0).expect("it writes all the time");
    let said = said.exits(8, "something moved");
    assert_eq!(said.failure(), "E_CONSISTENCY_UNAVAILABLE");
    assert!(said.json()["message"].as_str().is_some_and(|text| text.contains("moving")), "it says what{said}");
    assert_eq!(state(&grove), before, "nothing changed, and nothing is left");
    grove.run("alice", "snapshot create --acquire").exits(0, "when it is quiet it works");
}

/// The risk of a snapshot, in an answer or in its description.
fn risk(said: &Value) -> &Value {
    if said["risk"].is_null() { &said["lokt"]["risk"] } else { &said["risk"] }
}

#[test]
fn check_47_best_effort_beside_a_writer_carries_its_risk() {
    let (grove, _) = grove();
    let words = "snapshot create --acquire --consistency best_effort";
    // On a busy machine the writer may rest while the files are copied.
    let attempt = || beside_a_writer(&grove, || grove.json("alice", words, 0));
    let changed = |taken: &Value| risk(taken)["changed_count"].as_u64().is_some_and(|count| count > 0);
    let taken = (0..20).map(|_| attempt()).find(changed).expect("it writes all the time");
    let id = taken["snapshot_id"].as_str().expect("a snapshot has an id");
    let descriptor: Value = serde_json::from_str(&grove.text(&format!(".jvs/descriptors/{id}.json"))).expect("JSON");
    let history = grove.json("observer", "snapshot history", 0);
    let info = grove.json("observer", "snapshot info", 0);
    for (place, said) in [
        ("its answer", &taken),
        ("its description", &descriptor),
        ("history", &history["snapshots"][0]),
        ("info", &info["latest"]),
    ] {
        assert_eq!((&said["snapshot_id"], &said["consistency_level"]), (&json!(id), &json!("best_effort")), "{place}");
        assert_eq!(risk(said)["label"], "best_effort", "{place}: {said}");
        assert!(changed(said), "{place}: {said}");
        assert!(risk(said)["changed_during_copy"].to_string().contains("moving"), "{place}: {said}");
    }
    // Attempts beside which nothing was written carry the label, too.
    assert_eq!(info["risky_snapshots"][0], json!(id), "{info}");
    for words in ["snapshot history", "snapshot info", "snapshot show latest"] {
        grove.run("observer", words).exits(0, words).says("[RISK]", "people see it, too");
    }
    grove.run("observer", &format!("snapshot verify {id}")).exits(0, "what it has is what it was published with");
}

#[test]
fn check_48_a_snapshot_without_its_receipt_is_invisible() {
    let (grove, first) = grove();
    let second = grove.take("");
    // A later link no longer vouches for it.
    grove.acquire("alice", LONG);
    grove.run("alice", "lease release").exits(0, "it is hers");
    remove(&grove.inside(&format!("snapshots/{second}.ready")));
    assert_eq!(grove.history("--all"), [first.as_str()], "the other one is there");
    let info = grove.json("observer", "snapshot info", 0);
    assert_eq!((&info["snapshot_count"], &info["partial_snapshots"]), (&json!(1), &json!(1)), "{info}");
    for words in [
        format!("snapshot restore {second} --into again"),
        format!("snapshot restore {second} --in-place --acquire --force"),
        format!("snapshot verify {second}"),
        format!("snapshot show {second}"),
        format!("snapshot diff {first} {second}"),
        format!("snapshot pin {second}"),
    ] {
        let said = grove.run("bob", &format!("{words} --json")).exits(9, &words);
        assert_eq!(said.failure(), "E_PARTIAL_SNAPSHOT", "{words}");
    }
    assert!(!grove.top().join("worktrees/again").exists(), "nothing came back");
    assert_eq!(grove.text("main/page"), "not saved", "nothing came back");
    let json = grove.json("bob", "snapshot verify --all", 0);
    assert_eq!(json["checked"], 1, "only what is there: {json}");
}

#[test]
fn check_53_a_snapshot_of_a_shared_worktree_says_so() {
    let grove = Grove::new();
    grove.run("setup", "worktree create notes --isolation shared").exits(0, "a worktree is made");
    grove.put("worktrees/notes/page", "x");
    for owner in ["alice", "bob"] {
        let json = grove.json(owner, "snapshot create --worktree notes", 0);
        assert_eq!((&json["fencing_token"], &json["isolation"]), (&json!(null), &json!("shared")), "{json}");
    }
    let history = grove.json("observer", "snapshot history --worktree notes", 0);
    for one in history["snapshots"].as_array().expect("it is a list") {
        assert_eq!((&one["fencing_token"], &one["isolation"]), (&json!(null), &json!("shared")), "{one}");
    }
    assert!(history["snapshots"][0]["parent_snapshot_id"].is_string(), "one after the other: {history}");
    assert!(!grove.view("notes").exists(), "nobody holds anything");
    assert_eq!(fs::read_dir(grove.inside("intents")).expect("it is there").count(), 0, "nobody is at anything");
}
