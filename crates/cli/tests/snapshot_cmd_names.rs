//! Which snapshot is meant: by its id, the beginning of one, `latest`, or a name.

use std::fs;

use serde_json::json;

use crate::common::grove::Grove;
use crate::common::{put, remove};

/// Commands that take a snapshot, in the place of `ID`.
const TAKING_ONE: [&str; 6] = [
    "snapshot show ID",
    "snapshot diff ID",
    "snapshot restore ID",
    "snapshot restore ID --in-place --acquire",
    "snapshot pin ID",
    "snapshot unpin ID",
];

#[test]
fn a_beginning_is_enough_if_it_is_the_only_one() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let first = grove.take("");
    for word in [&first[..], &first[..first.len() - 1], &first[..4], "latest"] {
        let json = grove.json("alice", &format!("snapshot show {word}"), 0);
        assert_eq!(json["snapshot_id"], first, "{word}: {json}");
    }
    let second = grove.take("");
    let common = &first[..4];
    for words in TAKING_ONE {
        let words = words.replace("ID", common);
        let said = grove.run("alice", &words).exits(64, "which one?");
        said.notes(&first, "the candidates are named").notes("more digits", "what to do");
        let said = grove.run("alice", &format!("{words} --json")).exits(64, "which one?");
        assert_eq!(said.failure(), "E_USAGE", "{words}");
    }
    assert_eq!(grove.json("alice", "snapshot show latest", 0)["snapshot_id"], second, "the head");
}

#[test]
fn what_isnt_there_is_not_found() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    grove.take("");
    for words in TAKING_ONE {
        for id in ["0000000000000-00000000", "nothing", "../x"] {
            let words = words.replace("ID", id);
            let said = grove.run("alice", &words).exits(3, "there is none");
            said.notes(&format!("there is no snapshot \"{id}\""), "which")
                .notes("`lokt snapshot history --all`", "what to do");
            assert_eq!(
                grove.run("alice", &format!("{words} --json")).exits(3, "there is none").failure(),
                "E_NOT_FOUND"
            );
        }
    }
    grove.run("alice", "snapshot verify nothing").exits(3, "there is none");
    grove.run("alice", "snapshot show").exits(64, "one is needed");
}

#[test]
fn a_name_in_refs_stands_for_its_snapshot() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let id = grove.take("");
    grove.take("");
    let reference =
        json!({"ref_name": "release", "snapshot_id": id, "created_at": "2026-11-16T00:00:00Z", "created_by": "alice"});
    put(&grove.inside("refs/release.json"), reference.to_string());
    let json = grove.json("alice", "snapshot show release", 0);
    assert_eq!((&json["snapshot_id"], &json["refs"]), (&json!(id), &json!(["release"])), "{json}");
    grove.run("alice", "snapshot show release").exits(0, "it is there").says("refs:        release\n", "its name");
}

#[test]
fn what_isnt_whole_is_told_apart() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let whole = grove.take("");
    let id = "1700000000000-0123abcd";
    put(&grove.inside(&format!("snapshots/{id}/a")), "half");
    for words in TAKING_ONE {
        let words = words.replace("ID", id);
        let said = grove.run("alice", &words).exits(9, "somebody didn't finish");
        said.notes("`lokt doctor --strict --fix`", "what to do");
        assert_eq!(
            grove.run("alice", &format!("{words} --json")).exits(9, "not whole").failure(),
            "E_PARTIAL_SNAPSHOT"
        );
    }
    assert_eq!(grove.history("--all"), [whole], "it is not to be seen");
    assert_eq!(grove.json("alice", "snapshot info", 0)["partial_snapshots"], 1, "it is counted");
    grove
        .run("alice", "snapshot info")
        .exits(0, "there is a repository")
        .says("partial:   1; `lokt doctor", "and named");
}

#[test]
fn what_was_removed_is_told_apart() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let old = grove.take("");
    grove.take("");
    grove.run("alice", "snapshot gc run --keep-last 1").exits(0, "one goes");
    for words in TAKING_ONE {
        let words = words.replace("ID", &old);
        let said = grove.run("alice", &words).exits(3, "it is gone");
        said.notes("was removed at 20", "when").notes("`lokt snapshot gc run`", "by what");
        assert_eq!(grove.run("alice", &format!("{words} --json")).exits(3, "it is gone").failure(), "E_NOT_FOUND");
    }
}

#[test]
fn what_cant_be_read_is_damaged() {
    let grove = Grove::new();
    grove.put("main/a", "1");
    let id = grove.take("");
    let path = grove.inside(&format!("descriptors/{id}.json"));
    let text = fs::read_to_string(&path).expect("it is there");
    for damage in [Some("{"), None] {
        match damage {
            Some(bytes) => put(&path, bytes),
            None => remove(&path),
        }
        for words in TAKING_ONE {
            let words = words.replace("ID", &id);
            let said = grove.run("alice", &words).exits(65, "its description can't be used");
            said.notes(&path.display().to_string(), "the file is named");
            let said = grove.run("alice", &format!("{words} --json")).exits(65, "its description can't be used");
            assert_eq!(said.failure(), "E_DESCRIPTOR_CORRUPT", "{words}");
        }
        let said = grove.run("alice", "snapshot history").exits(0, "the others can be listed");
        said.notes(&format!("warning: snapshot {id} can't be used"), "it is named");
        assert_eq!(grove.json("alice", "snapshot info", 0)["damaged_snapshots"], 1, "it is counted");
    }
    put(&path, text);
    grove.run("alice", &format!("snapshot show {id}")).exits(0, "it is whole again");
}

#[test]
fn shells_complete_ids() {
    let grove = Grove::with(&["feature"]);
    grove.put("main/a", "1");
    let (first, second) = (grove.take("--note one"), grove.take(""));
    let candidates = |words: &[&str]| {
        let said = grove.lokt("alice").args(["complete", "--", "snapshot"]).args(words).run();
        said.exits(0, "asking is no error").stdout
    };
    for command in ["show", "diff", "restore", "verify", "pin", "unpin"] {
        let shown = candidates(&[command, ""]);
        assert_eq!(shown, format!("{second} main\n{first} main one\nlatest where the worktree is\n"), "{command}");
    }
    assert_eq!(
        candidates(&["diff", &second, ""]),
        format!("{first} main one\nlatest where the worktree is\n"),
        "the other"
    );
    assert_eq!(candidates(&["show", "la"]), "latest where the worktree is\n");
    assert_eq!(candidates(&["gc", ""]), "plan Say what would go\nrun Let it go\n");
    assert_eq!(candidates(&["create", "--consistency", ""]).lines().count(), 2, "its levels");
    assert_eq!(candidates(&["create", "--worktree", "f"]), "feature exclusive\n");
    assert_eq!(candidates(&["gc", "run", "--keep-within", "3"]), "30s\n30m\n");
}
