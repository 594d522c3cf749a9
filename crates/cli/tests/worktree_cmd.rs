//! `lokt worktree`: a repository and its worktrees, made, listed, renamed and removed.

use std::fs;

use serde_json::json;

use crate::common::grove::{Grove, LONG};
use crate::common::{names_in, time};

#[test]
fn init_makes_a_repository_once() {
    let grove = Grove::none();
    let top = grove.top().display().to_string();
    let said = grove.run("a", "worktree init").exits(0, "there is none");
    assert_eq!(said.stdout, format!("made repository {top}\n"), "where it is");
    said.notes("`lokt worktree create NAME`", "what to do next").notes(&format!("{top}/main"), "where to work");
    assert_eq!(fs::read_to_string(grove.inside("format_version")).expect("it is there"), "2\n");
    assert!(grove.top().join("main").is_dir(), "the first worktree");
    let id = fs::read_to_string(grove.inside("repo_id")).expect("it is there");
    assert_eq!(id.trim().len(), 36, "a UUID: {id}");
    let said = grove.run("a", "worktree init").exits(0, "it is there already");
    assert_eq!(said.stdout, format!("already there: repository {top}\n"), "it says so");
    let json = grove.json("a", "worktree init", 0);
    assert_eq!(
        json,
        json!({"status": "exists", "repository": top, "repo_id": id.trim(), "worktrees": ["main"]}),
        "the same in JSON"
    );
    let other = Grove::none();
    assert_eq!(other.json("a", "worktree init --isolation shared", 0)["status"], "created");
    assert_eq!(other.json("a", "worktree list", 0)[0]["isolation"], "shared", "as it was asked for");
}

#[test]
fn no_repository_is_made_inside_another() {
    let grove = Grove::new();
    let said = grove.lokt("a").args(["worktree", "init"]).cwd(&grove.top().join("main")).run();
    said.exits(64, "it would be inside")
        .notes("is in a lokt repository already", "it says so")
        .notes("create NAME", "better");
    let said = grove.lokt("a").args(["worktree", "init", "--json"]).cwd(&grove.top().join("main")).run();
    assert_eq!(said.exits(64, "in JSON too").failure(), "E_USAGE");
    assert_eq!(names_in(&grove.top().join("main")), [""; 0].map(std::path::PathBuf::from), "nothing was made");
    grove.run("a", "worktree init --isolation mine").exits(64, "there is no such kind");
}

#[test]
fn where_there_is_no_repository_every_command_says_so() {
    let grove = Grove::none();
    for words in [
        "worktree create x",
        "worktree list",
        "worktree rename x y",
        "worktree remove x",
        "lease acquire",
        "lease renew",
        "lease steal",
        "lease release",
        "lease status",
        "lease status --all",
        "lease break --force --reason why",
        "lease fence check --token 1",
        "lease audit",
        "doctor --strict",
    ] {
        let said = grove.run("a", words).exits(3, words);
        said.notes("no lokt repository (.jvs) in", words).notes("`lokt worktree init`", "what to do");
        let said = grove.run("a", &format!("{words} --json")).exits(3, words);
        assert_eq!(said.failure(), "E_NOT_FOUND", "{words}");
    }
    assert_eq!(names_in(&grove.top()).len(), 0, "nothing was made");
    assert!(!grove.home().exists(), "no session neither");
}

#[test]
fn create_makes_a_worktree_and_list_shows_it() {
    let grove = Grove::new();
    let path = grove.top().join("worktrees/feature");
    let said = grove.run("a", "worktree create feature").exits(0, "there is none");
    assert_eq!(said.stdout, format!("made exclusive worktree \"feature\": {}\n", path.display()));
    assert!(path.is_dir(), "its directory");
    let json = grove.json("a", "worktree create notes --isolation shared", 0);
    assert_eq!(
        (&json["status"], &json["name"], &json["isolation"], &json["has_payload"]),
        (&json!("created"), &json!("notes"), &json!("shared"), &json!(true)),
        "{json}"
    );
    time(&json["created_at"]);
    let json = grove.json("a", "worktree list", 0);
    let rows: Vec<_> =
        json.as_array().expect("a list").iter().map(|row| (row["name"].clone(), row["isolation"].clone())).collect();
    assert_eq!(
        rows,
        [
            (json!("feature"), json!("exclusive")),
            (json!("main"), json!("exclusive")),
            (json!("notes"), json!("shared"))
        ]
    );
    assert_eq!(json[0]["path"], path.display().to_string(), "where it is");
    assert_eq!(json[1]["path"], grove.top().join("main").display().to_string(), "main is beside them");
    let said = grove.run("a", "worktree list").exits(0, "anybody may look");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("WORKTREE  ISOLATION  SINCE"), "{said}");
    assert!(lines[1].starts_with("feature   exclusive  20") && lines[1].ends_with("worktrees/feature"), "{said}");
    // From anywhere in it.
    let said = grove.lokt("b").args(["worktree", "create", "deep"]).cwd(&path).run().exits(0, "it is found upwards");
    assert!(said.stdout.contains("repo/worktrees/deep"), "not below{said}");
}

#[test]
fn a_name_that_is_taken_is_refused_also_in_another_case() {
    let grove = Grove::with(&["feature"]);
    for name in ["feature", "Feature", "main", "MAIN"] {
        let said =
            grove.run("a", &format!("worktree create {name}")).exits(1, "some file systems don't tell them apart");
        said.notes("already", "it says so").notes("choose another name", "what to do");
        assert_eq!(grove.run("a", &format!("worktree create {name} --json")).exits(1, name).failure(), "E_EXISTS");
    }
    grove.run("a", "worktree create other").exits(0, "it is free");
    assert_eq!(grove.run("a", "worktree rename other FEATURE --json").exits(1, "taken").failure(), "E_EXISTS");
    assert_eq!(names_in(&grove.top().join("worktrees")).len(), 2, "feature and other");
}

#[test]
fn rename_moves_a_worktree_with_its_files() {
    let grove = Grove::with(&["old"]);
    grove.put("worktrees/old/file", "text");
    let said = grove.run("a", "worktree rename old new").exits(0, "nobody holds it");
    assert!(said.stdout.starts_with("renamed worktree \"old\" to \"new\": "), "{said}");
    said.notes("must cd again", "what shells notice");
    assert_eq!(grove.text("worktrees/new/file"), "text");
    assert!(!grove.top().join("worktrees/old").exists(), "it is gone from there");
    let json = grove.json("a", "worktree rename new newer", 0);
    assert_eq!(
        (&json["status"], &json["name"], &json["old_name"]),
        (&json!("renamed"), &json!("newer"), &json!("new")),
        "{json}"
    );
    grove
        .run("a", "worktree rename nothing x")
        .exits(3, "there is none")
        .notes("no worktree \"nothing\"", "it says so");
    assert_eq!(grove.run("a", "worktree rename nothing x --json").exits(3, "none").failure(), "E_NOT_FOUND");
    grove.run("a", "worktree rename main x").exits(64, "main stays").notes("can't be renamed", "it says so");
    let said = grove.run("a", "worktree rename newer main --json").exits(64, "main is there");
    assert_eq!(said.failure(), "E_NAME_INVALID");
    assert_eq!(grove.run("a", "worktree rename main x --json").exits(64, "main stays").failure(), "E_NAME_INVALID");
}

#[test]
fn remove_wants_force_for_what_has_files() {
    let grove = Grove::with(&["empty", "full"]);
    grove.put("worktrees/full/dir/file", "text");
    let said = grove.run("a", "worktree remove empty").exits(0, "nothing is in it");
    assert_eq!(said.stdout, "removed worktree \"empty\"\n");
    assert!(!grove.top().join("worktrees/empty").exists(), "it is gone");
    let said = grove.run("a", "worktree remove full").exits(1, "there are files");
    said.notes("is not empty: ", "it says so").notes("worktree remove full --force", "what to do");
    assert_eq!(grove.run("a", "worktree remove full --json").exits(1, "files").failure(), "E_NOT_EMPTY");
    assert_eq!(grove.text("worktrees/full/dir/file"), "text", "nothing was touched");
    let json = grove.json("a", "worktree remove full --force", 0);
    assert_eq!((&json["status"], &json["name"]), (&json!("removed"), &json!("full")), "{json}");
    assert!(!grove.top().join("worktrees/full").exists(), "with everything in it");
    grove.run("a", "worktree remove full").exits(3, "it is gone").notes("no worktree \"full\"", "it says so");
    grove.run("a", "worktree remove main --force").exits(64, "main stays").notes("can't be removed", "it says so");
    assert_eq!(grove.json("a", "worktree list", 0).as_array().map(Vec::len), Some(1), "only main is left");
}

#[test]
fn a_worktree_whose_lease_is_held_is_neither_renamed_nor_removed() {
    let grove = Grove::with(&["busy"]);
    grove.json("alice", &format!("lease acquire --worktree busy {LONG} --purpose rebase"), 0);
    for words in ["worktree rename busy idle", "worktree remove busy --force"] {
        let said = grove.run("bob", words).exits(2, "alice writes there");
        said.notes("held by alice", "who")
            .notes("purpose:  rebase", "what for")
            .notes("when it was given back, try again", "what helps");
        let json = grove.json("bob", words, 2);
        assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "{json}");
        assert_eq!((&json["holder_owner"], &json["state"]), (&json!("alice"), &json!("held")), "{json}");
    }
    grove.run("alice", "lease release --worktree busy").exits(0, "it is hers");
    grove.run("bob", "worktree rename busy idle").exits(0, "nobody holds it");
}

#[test]
fn a_worktree_of_an_old_name_goes_on_with_greater_tokens() {
    let grove = Grove::with(&["x"]);
    let token = |grove: &Grove| {
        let json = grove.json("alice", "lease acquire --worktree x", 0);
        grove.run("alice", "lease release --worktree x").exits(0, "it is hers");
        json["fencing_token"].as_u64().expect("a number")
    };
    let first = token(&grove);
    grove.run("a", "worktree remove x").exits(0, "nobody holds it");
    grove.run("a", "worktree create x").exits(0, "it is free again");
    let second = token(&grove);
    assert!(second > first, "{second} > {first}");
    grove.run("a", "worktree rename x y").exits(0, "nobody holds it");
    grove.run("a", "worktree create x").exits(0, "it is free again");
    let third = token(&grove);
    assert!(third > second, "{third} > {second}");
    let renamed = grove.json("alice", "lease acquire --worktree y", 0)["fencing_token"].as_u64().expect("a number");
    assert!(renamed > second, "what was given under the old name is behind: {renamed} > {second}");
}

#[test]
fn a_repository_of_a_newer_format_is_left_alone() {
    let grove = Grove::new();
    grove.put(".jvs/format_version", "3\n");
    for words in ["worktree list", "worktree create x", "lease acquire", "lease status"] {
        grove.run("a", words).exits(65, words).notes("upgrade lokt", "what to do");
        let said = grove.run("a", &format!("{words} --json")).exits(65, words);
        assert_eq!(said.failure(), "E_FORMAT_UNSUPPORTED", "{words}");
    }
    assert!(!grove.top().join("worktrees/x").exists(), "nothing was made");
}

#[test]
fn what_is_wrong_with_one_worktree_is_shown_beside_the_others() {
    let grove = Grove::with(&["broken", "fine"]);
    grove.put(".jvs/worktrees/broken/config.json", "{");
    let json = grove.json("a", "worktree list", 0);
    let broken = json.as_array().expect("a list").iter().find(|row| row["name"] == "broken").expect("it is shown");
    assert!(broken["problem"].is_string(), "{broken}");
    grove.run("a", "worktree list").exits(0, "the others are fine").says("fine", "they are shown");
    grove.run("a", "lease status --all").exits(0, "the others are fine").says("fine", "shown").notes("broken", "named");
    let said = grove.run("a", "lease acquire --worktree broken");
    assert!([1, 65].contains(&said.code), "it can't be told whether it is shared{said}");
    said.notes("worktrees/broken/config.json", "the path is named");
}
