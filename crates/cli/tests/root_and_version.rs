//! `lokt root` and `lokt version`.

use std::fs;

use serde_json::json;

use crate::common::{Root, put};

#[test]
fn root_prints_the_path_and_says_how_it_was_found() {
    let root = Root::new();
    let said = root.run("a", "root").exits(0, "there always is an answer");
    assert_eq!(said.stdout, format!("{}\n", root.path().display()), "stdout is the path, fit for a script");
    said.notes("found via: LOKT_ROOT", "how it was found")
        .notes("not there yet; the first lock makes it", "it isn't there yet")
        .notes("you are a", "who asks");
    assert!(!root.path().exists(), "asking makes no root");
    root.run("a", "lock build").exits(0, "it is free");
    let said = root.run("a", "root").exits(0, "there always is an answer");
    assert!(!said.stderr.contains("not there yet"), "now it is there{said}");
}

#[test]
fn root_in_json() {
    let root = Root::new();
    let call = || root.lokt("a").env("LOKT_AGENT_ID", "agent-7").args(["root", "--json"]);
    let mut expected = json!({
        "root_path": root.path(), "root_method": "env", "exists": false, "owner": "a", "agent_id": "agent-7",
    });
    assert_eq!(call().run().exits(0, "there always is an answer").json(), expected, "before the first lock");
    fs::create_dir(root.path()).expect("a temp directory is writable");
    expected["exists"] = true.into();
    assert_eq!(call().run().exits(0, "there always is an answer").json(), expected, "after it was made");
}

#[test]
fn a_relative_root_is_below_the_current_directory() {
    let root = Root::new();
    let said = root.lokt("a").env("LOKT_ROOT", "here/it/is").args(["root"]).run().exits(0, "there always is an answer");
    assert_eq!(said.stdout, format!("{}\n", root.outside().join("here/it/is").display()), "the path is whole");
    root.lokt("a")
        .env("LOKT_ROOT", "here/it/is")
        .args(["lock", "build"])
        .run()
        .exits(0, "missing directories are made");
    assert!(root.outside().join("here/it/is/locks/build.json").exists(), "the lock is there");
}

#[test]
fn version_in_the_form_that_scripts_know() {
    let root = Root::new();
    let expected = concat!("lokt ", env!("CARGO_PKG_VERSION"), " (commit: ");
    for words in ["version", "--version", "-V"] {
        let said = root.run("a", words).exits(0, "the version is no secret");
        assert!(said.stdout.starts_with(expected) && said.stdout.ends_with(")\n"), "{words}{said}");
        assert!(said.stdout.contains(", built: "), "{words}{said}");
        assert_eq!(said.stdout.lines().count(), 1, "{words}{said}");
    }
}

#[test]
fn version_in_json() {
    let root = Root::new();
    let said = root.run("a", "version --json").exits(0, "the version is no secret");
    assert_eq!(said.members(), ["version", "commit", "built", "protocol_version"], "the members");
    assert_eq!(said.json()["version"], env!("CARGO_PKG_VERSION"), "the version");
    assert_eq!(said.json()["protocol_version"], 1, "the version of the records");
}

#[test]
fn neither_takes_a_name() {
    let root = Root::new();
    root.run("a", "root build").exits(64, "root takes no name");
    root.run("a", "version build").exits(64, "version takes no name");
    root.run("a", "root --bogus").exits(64, "root takes no such flag");
    assert_eq!(root.run("a", "version --bogus --json").exits(64, "nor does version").failure(), "E_USAGE", "stable");
}

#[test]
fn a_root_that_cannot_be_used_is_not_promised_to_be_made() {
    let root = Root::new();
    put(&root.path(), "a file");
    let said = root.run("a", "root").exits(0, "there always is an answer");
    let said = said.notes("(it can't be used: it is not a directory)", "it says why");
    assert!(!said.stderr.contains("not there yet"), "no lock will make it{said}");
    let json = root.run("a", "root --json").exits(0, "there always is an answer").json();
    assert_eq!((&json["exists"], &json["problem"]), (&json!(false), &json!("it is not a directory")), "in JSON too");
}
