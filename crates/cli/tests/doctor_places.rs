//! `lokt doctor` about where a root is: other roots around it, overlays, namespaces.

use std::fs;
use std::path::Path;

use lokt_testkit::cmd::Place;
use serde_json::Value;

use crate::common::exam::Exam;
use crate::common::{Call, LOKT};

fn lokt(cwd: &Path, words: &str) -> Call {
    Call::new(LOKT).cwd(cwd).env("HOME", "/nonexistent").env("LOKT_OWNER", "a").args(words.split_whitespace())
}

fn exam(cwd: &Path) -> Exam {
    Exam::of(lokt(cwd, "doctor --json").run())
}

#[test]
fn a_second_root_above_or_below_is_named() {
    let dir = tempfile::tempdir().expect("temp");
    let top = dir.path().canonicalize().expect("it is there");
    let deep = top.join("a/b");
    fs::create_dir_all(&deep).expect("temp");
    lokt(&deep, "lock x").run().exits(0, "it makes a root there");
    assert_eq!(exam(&deep).overall(), "ok", "there is only one");
    let above = exam(&top);
    assert_eq!(
        above.status("second_root"),
        "warn",
        "whoever works in a/b doesn't exclude who works here{}",
        above.said
    );
    above.says("second_root", &[&deep.join(".lokt").display().to_string(), "LOKT_ROOT"]);
    lokt(&top, "doctor").run().exits(0, "a warning").says("[WARN]  One root", "text too");
    assert!(!top.join(".lokt").exists(), "no root was made by looking");

    lokt(&top, "lock x").run().exits(0, "it makes a root there");
    let below = exam(&deep);
    below.says("second_root", &[&top.join(".lokt").display().to_string()]);
}

#[test]
fn a_local_root_beside_the_repositorys_and_the_repositorys_beside_the_variables_are_named() {
    lokt_testkit::need!("git");
    let dir = tempfile::tempdir().expect("temp");
    let top = dir.path().canonicalize().expect("it is there");
    lokt(&top, "lock x").run().exits(0, "it makes a local root");
    Call::new("git").args(["init", "-q"]).cwd(&top).run().exits(0, "git works");
    let in_git = exam(&top);
    in_git
        .says("second_root", &[&top.join(".lokt").display().to_string(), &top.join(".git/lokt").display().to_string()]);
    fs::remove_dir_all(top.join(".lokt")).expect("it is ours");
    assert_eq!(exam(&top).overall(), "ok");

    let with_variable = || {
        let call = lokt(&top, "doctor --json").env("LOKT_ROOT", top.join("other"));
        Exam::of(call.run())
    };
    assert_eq!(with_variable().status("second_root"), "ok", "the repository's own root isn't used");
    lokt(&top, "lock x").run().exits(0, "now it is");
    with_variable().says("second_root", &[&top.join(".git/lokt").display().to_string(), "unset LOKT_ROOT"]);
}

/// Runs the doctor in a shell that was prepared by `wrap`, after `before`.
fn doctor_in(place: &Place, wrap: &[&str], before: &str) -> Value {
    let script = format!("{before} exec {LOKT} doctor --json");
    let ended = place.run_words("a", &[wrap, &["sh", "-c", &script]].concat());
    assert_eq!(ended.code, Some(0), "this test needs root, for {wrap:?}: {ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
}

fn check(answer: &Value, name: &str) -> String {
    let checks = answer["checks"].as_array().expect("there are checks");
    checks.iter().find(|check| check["name"] == name).expect("there is this one").to_string()
}

#[test]
fn namespaces_of_ones_own_are_said() {
    lokt_testkit::need!(root);
    let place = Place::new(LOKT);
    let time = doctor_in(&place, &["unshare", "--time", "--boottime", "100000", "--fork"], "");
    let said = check(&time, "namespaces");
    assert!(said.contains("\"warn\"") && said.contains("time namespace"), "{said}");
    let pids = doctor_in(&place, &["unshare", "--pid", "--fork", "--mount-proc"], "");
    let said = check(&pids, "namespaces");
    assert!(said.contains("\"ok\"") && said.contains("pid namespace"), "a container is nothing wrong: {said}");
}

#[test]
fn an_overlay_is_said_to_have_more_than_one_view() {
    lokt_testkit::need!(root);
    let place = Place::new(LOKT);
    // What is mounted goes away with the mount namespace.
    let before = "mkdir l u w root && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w root &&";
    let answer = doctor_in(&place, &["unshare", "--mount"], before);
    let said = check(&answer, "overlay");
    assert!(
        said.contains("\"ok\"") && said.contains("only processes that see the same mount exclude each other"),
        "{said}"
    );
    let file_system = check(&answer, "file_system");
    assert!(file_system.contains("overlay, local"), "{file_system}");
}
