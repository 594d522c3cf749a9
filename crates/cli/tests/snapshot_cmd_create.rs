//! `lokt snapshot create`: what it says, and what it refuses.

use std::fs;
use std::os::unix::net::UnixListener;

use serde_json::json;

use crate::common::grove::{Grove, LONG};
use crate::common::names_in;

#[test]
fn a_snapshot_says_what_it_has() {
    let grove = Grove::new();
    grove.put("main/a", "12345");
    grove.put("main/dir/b", "678");
    let token = grove.acquire("alice", LONG);
    let said = grove.lokt("alice").args(["snapshot", "create", "--note", "before the step"]).run();
    let said = said.exits(0, "she holds the lease");
    said.says("took snapshot 1", "its id").says(" of worktree \"main\": 2 files, 8 B\n", "what it has");
    let json = grove.json("alice", "snapshot create", 0);
    assert_eq!(
        (&json["status"], &json["worktree_id"], &json["files"], &json["bytes"]),
        (&json!("created"), &json!("main"), &json!(2), &json!(8)),
        "{json}"
    );
    assert_eq!(
        (&json["fencing_token"], &json["consistency_level"], &json["risk"], &json["integrity_state"]),
        (&json!(token), &json!("quiesced"), &json!(null), &json!("verified")),
        "{json}"
    );
    assert_eq!(json["payload_root_hash"]["algo"], "blake3", "{json}");
    assert!(json["copied_files"].is_u64() && json["copied_bytes"].is_u64(), "{json}");
    let history = grove.json("alice", "snapshot history", 0);
    assert_eq!(
        history["snapshots"][0]["parent_snapshot_id"], history["snapshots"][1]["snapshot_id"],
        "one after another"
    );
    assert_eq!(history["snapshots"][1]["note"], "before the step");
    assert_eq!(grove.state("main"), "held", "the lease goes on");
}

#[test]
fn without_a_lease_there_is_no_snapshot() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let said = grove.run("alice", "snapshot create").exits(4, "nobody holds it");
    said.notes("you hold no lease of worktree \"main\"", "why");
    let said = grove.run("alice", "snapshot create").exits(4, "nobody holds it");
    said.notes("`lokt lease acquire` takes it", "what to do").notes("`--acquire`", "or at once");
    assert_eq!(grove.json("alice", "snapshot create", 4)["code"], "E_LOCK_NOT_HELD");
    grove.acquire("alice", LONG);
    grove.run("alice", "lease release").exits(0, "it is hers");
    let said = grove.run("alice", "snapshot create").exits(4, "she gave it back");
    said.notes("nobody does", "why")
        .notes("note: there is no snapshot", "plainly")
        .notes("`--acquire` takes it", "what to do");
    assert_eq!(grove.json("alice", "snapshot create", 4)["code"], "E_LOCK_NOT_HELD");
    grove.acquire("bob", LONG);
    let said = grove.run("alice", "snapshot create").exits(4, "it is another's");
    said.notes("isn't yours", "why").notes("bob@", "whose it is");
    assert_eq!(grove.history(""), [""; 0], "nothing is to be seen");
    assert!(names_in(&grove.inside("snapshots")).is_empty(), "nothing is left");
}

#[test]
fn acquire_takes_the_lease_for_this_alone() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let json = grove.json("alice", "snapshot create --acquire", 0);
    assert!(json["fencing_token"].as_u64().is_some_and(|token| token > 0), "it was taken under a lease: {json}");
    assert_eq!(grove.state("main"), "free", "which was given back");
    let token = grove.acquire("alice", LONG);
    let json = grove.json("alice", "snapshot create --acquire", 0);
    assert_eq!(json["fencing_token"], token, "who has it needn't take it: {json}");
    assert_eq!(grove.state("main"), "held", "and keeps it");
    let said = grove.run("bob", "snapshot create --acquire").exits(2, "it is alice's");
    said.notes("is held by alice@", "whose")
        .notes("try again", "what to do")
        .notes("note: there is no snapshot", "plainly");
    let json = grove.json("bob", "snapshot create --acquire", 2);
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "{json}");
    let said = grove.run("bob", "snapshot create --acquire --token 1").exits(64, "one or the other");
    assert!(said.stderr.contains("--token"), "{said}");
}

#[test]
fn a_token_is_enough_while_it_is_good() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let token = grove.acquire("alice", LONG);
    let json = grove.json("bob", &format!("snapshot create --token {token}"), 0);
    assert_eq!(json["fencing_token"], token, "{json}");
    for other in [0, token - 1, token + 100] {
        let json = grove.json("alice", &format!("snapshot create --token {other}"), 6);
        assert_eq!(json["code"], "E_FENCING_MISMATCH", "{other}: {json}");
    }
    grove.run("alice", "lease release").exits(0, "it is hers");
    let said = grove.run("alice", &format!("snapshot create --token {token}")).exits(6, "it was given back");
    said.notes("note: there is no snapshot", "plainly");
    grove.run("alice", "snapshot create --token x").exits(64, "that is no token");
    assert_eq!(grove.history("").len(), 1, "only the good one is there");
}

#[test]
fn an_unknown_level_is_a_usage_error() {
    let grove = Grove::new();
    for words in ["snapshot create --consistency x", "snapshot create --consistency", "snapshot create extra"] {
        grove.run("alice", words).exits(64, words);
        assert_eq!(grove.run("alice", &format!("{words} --json")).exits(64, words).failure(), "E_USAGE");
    }
}

#[test]
fn best_effort_says_that_it_is_a_risk() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let said = grove.run("alice", "snapshot create --acquire --consistency best_effort").exits(0, "it is free");
    said.notes("warning: best_effort: ", "it says so");
    let json = grove.json("alice", "snapshot create --acquire --consistency best_effort", 0);
    assert_eq!(json["consistency_level"], "best_effort", "{json}");
    let risk = json!({"label": "best_effort", "changed_during_copy": [], "changed_count": 0});
    assert_eq!(json["risk"], risk, "{json}");
    let said = grove.run("alice", "snapshot history").exits(0, "it is there");
    assert_eq!(said.stdout.matches("[RISK]").count(), 2, "{said}");
}

#[test]
fn what_cant_be_copied_is_listed() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let _listening = UnixListener::bind(grove.top().join("main/socket")).expect("a socket can be made");
    let said = grove.run("alice", "snapshot create --acquire").exits(0, "the rest can");
    said.says("1 file,", "what is in it").notes("note: left out: socket (socket)", "what isn't");
    let json = grove.json("alice", "snapshot create --acquire", 0);
    assert_eq!(json["skipped"], json!([{"path": "socket", "kind": "socket"}]), "{json}");
}

#[test]
fn what_is_ignored_is_not_in_it() {
    let grove = Grove::new();
    grove.put("main/.lokt-ignore", "target/\n*.log\n");
    for path in ["main/kept", "main/x.log", "main/target/big"] {
        grove.put(path, "x");
    }
    let id = grove.take("");
    let tree = grove.inside(&format!("snapshots/{id}"));
    let names: Vec<_> = names_in(&tree).iter().map(|path| path.file_name().expect("it has one").to_owned()).collect();
    assert_eq!(names, [".lokt-ignore", "kept"], "what is ignored is left out");
}

#[test]
fn a_shared_worktree_needs_no_lease() {
    let grove = Grove::new();
    grove.run("setup", "worktree create notes --isolation shared").exits(0, "a worktree is made");
    grove.put("worktrees/notes/a", "x");
    let json = grove.json("alice", "snapshot create --worktree notes", 0);
    assert_eq!((&json["worktree_id"], &json["fencing_token"]), (&json!("notes"), &json!(null)), "{json}");
    let said = grove.run("alice", "snapshot show latest --worktree notes").exits(0, "it is there");
    said.says("none, the worktree is shared", "it says so");
    assert_eq!(grove.history("--worktree notes").len(), 1, "it is in the history");
    assert_eq!(grove.history(""), [""; 0], "and not in that of main");
}

#[test]
fn the_worktree_is_the_one_that_the_command_is_in() {
    let grove = Grove::with(&["feature"]);
    grove.put("worktrees/feature/sub/a", "x");
    let call = grove.lokt("alice").args(["snapshot", "create", "--acquire", "--json"]);
    let said = call.cwd(&grove.top().join("worktrees/feature/sub")).run().exits(0, "it is free");
    assert_eq!(said.json()["worktree_id"], "feature");
    grove.run("alice", "snapshot create --acquire --worktree missing").exits(3, "there is none");
    grove.run("alice", "snapshot create --acquire --worktree ../x").exits(64, "that is no name");
    let json = Grove::none().json("alice", "snapshot create", 3);
    assert_eq!(json["code"], "E_NOT_FOUND", "no repository at all: {json}");
}

#[test]
fn a_session_file_makes_one_the_holder_here_too() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let file = grove.outside().join("session");
    let with = |words: &str| grove.lokt("alice").args(words.split(' ')).args(["--session"]).args([&file]).run();
    with("lease acquire --lease 1h").exits(0, "it is free");
    grove.run("alice", "snapshot create").exits(4, "another session");
    with("snapshot create").exits(0, "the session that has it");
    let said = grove.run("bob", "snapshot create --owner alice").exits(4, "another session");
    said.notes("you hold no lease", "an owner alone is none");
    assert!(fs::metadata(&file).is_ok(), "it is still there");
}
