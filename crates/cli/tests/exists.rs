//! `lokt exists`: the exit code is the answer.

use serde_json::json;

use crate::common::{Root, alive, elsewhere, go_lease, go_record};

#[test]
fn a_live_hold_exists_and_nothing_is_said() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let said = root.run("b", "exists build").exits(0, "it is held");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "the exit code is the answer");
}

#[test]
fn what_is_not_held_does_not_exist() {
    let root = Root::new();
    let said = root.run("b", "exists build").exits(3, "there is no root");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "the exit code is the answer");
    assert!(!root.path().exists(), "looking makes no root");
    root.run("a", "lock build").exits(0, "it is free");
    root.run("a", "unlock build").exits(0, "it is a's");
    root.run("b", "exists build").exits(3, "it was given back");
}

#[test]
fn json_says_the_same() {
    let root = Root::new();
    let said = root.run("b", "exists build --json").exits(3, "it is not held");
    assert_eq!(said.json(), json!({"name": "build", "exists": false}), "not held");
    root.run("a", "lock build").exits(0, "it is free");
    let said = root.run("b", "exists --json build").exits(0, "it is held");
    assert_eq!(said.json(), json!({"name": "build", "exists": true}), "held");
}

#[test]
fn a_hold_exists_if_and_only_if_it_is_live() {
    let root = Root::used();
    for (record, code, sentence) in [
        (alive(go_record("build", "a")), 0, "a live process holds it"),
        (elsewhere(go_record("build", "a")), 0, "a process that can't be seen holds it"),
        (elsewhere(go_lease("build", "a", 60, 50)), 0, "a lease that runs holds it"),
        (go_record("build", "a"), 3, "a dead process doesn't hold it"),
        (alive(go_lease("build", "a", 60, -5)), 3, "an expired lease doesn't hold it, whoever lives"),
        (elsewhere(go_lease("build", "a", 60, -5)), 3, "an expired lease doesn't hold it, wherever it was taken"),
    ] {
        root.put_record("build", &record);
        root.run("b", "exists build").exits(code, sentence);
    }
}

#[test]
fn a_freeze_is_no_hold() {
    let root = Root::used();
    root.put_freeze("build", &go_lease("build", "ops", 60, 60));
    root.run("b", "exists build").exits(3, "freezes are not considered");
}

#[test]
fn what_is_no_record_does_not_exist_and_what_cannot_be_read_is_an_error() {
    let root = Root::used();
    root.put("locks/corrupt.json", "garbage");
    root.run("b", "exists corrupt").exits(3, "what is no record keeps nobody out");
    root.put("locks/young.json", "");
    root.run("b", "exists young").exits(0, "what is being written counts");
    root.put("locks/newer.json", r#"{"version": 2}"#);
    root.run("b", "exists newer").exits(65, "what is newer can't be judged").notes("newer.json", "it names the file");
    std::fs::create_dir(root.record_path("dir")).expect("a temp directory is writable");
    root.run("b", "exists dir")
        .exits(65, "what can't be read is an error, never a no")
        .notes("dir.json", "it names it");
    let said = root.run("b", "exists newer --json").exits(65, "what is newer can't be judged");
    assert_eq!(said.failure(), "E_UNSUPPORTED_VERSION", "the same code as from every other command");
}

#[test]
fn exactly_one_name_is_taken() {
    let root = Root::new();
    root.run("b", "exists").exits(64, "one name is needed");
    root.run("b", "exists a b").exits(64, "one name is enough");
    root.run("b", "exists ../x").exits(64, "a bad name is a usage error");
}

#[test]
fn looking_changes_nothing() {
    let root = Root::used();
    root.put_record("dead", &go_lease("dead", "a", 60, -5));
    root.put("locks/bad.json", "garbage");
    let before = root.snapshot();
    root.run("c", "exists dead").exits(3, "it has expired");
    root.run("c", "exists bad").exits(3, "it is no record");
    assert_eq!(root.snapshot(), before, "exists changes nothing");
}

#[test]
fn what_cannot_be_read_comes_with_advice() {
    let root = Root::used();
    std::fs::create_dir(root.record_path("dir")).expect("a temp directory is writable");
    root.run("b", "exists dir").exits(65, "it can't be read").notes("counts as held; `lokt doctor`", "what helps");
}
