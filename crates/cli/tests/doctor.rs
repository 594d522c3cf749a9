//! `lokt doctor`: what it says, in text and JSON, about roots with nothing wrong, and about those that can't be used.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::common::exam::Exam;
use crate::common::{Call, LOKT, Root, put};

const ALL: [&str; 15] = [
    "writable",
    "file_system",
    "overlay",
    "namespaces",
    "clock",
    "second_root",
    "permissions",
    "mutex",
    "records",
    "freezes",
    "legacy_freezes",
    "endless",
    "pulses",
    "tokens",
    "audit",
];

#[test]
fn a_root_in_use_passes_in_text_and_json_and_nothing_in_it_changes() {
    let root = Root::used();
    root.run("a", "lock held --ttl 1h").exits(0, "it is free");
    root.run("a", "lock bare").exits(0, "it is free");
    let before = root.snapshot();
    let text = root.run("a", "doctor").exits(0, "nothing is wrong");
    let lines: Vec<&str> = text.stdout.lines().collect();
    let path = format!("Path: {}", root.path().display());
    assert_eq!(lines[..6], ["lokt doctor", "", "Root: root (via LOKT_ROOT env)", &path, "", "Checks:"]);
    assert_eq!(lines[6], "  [OK]    Directory writable");
    assert_eq!(lines.last(), Some(&"Result: PASS"));
    for label in ["Directory writable", "Clock sanity", "legacy_freezes"] {
        assert!(lines.contains(&format!("  [OK]    {label}").as_str()), "{label} is as it always was{text}");
    }
    assert_eq!(text.stderr, "", "nothing is left to say");

    let exam = Exam::new(&root, "");
    assert_eq!(exam.said.members(), ["protocol_version", "root_method", "root_path", "checks", "overall"]);
    let json = exam.said.json();
    assert_eq!(json["protocol_version"], 1);
    assert_eq!((&json["root_method"], &json["root_path"]), (&json!("env"), &json!(root.path())));
    assert_eq!(exam.names(), ALL, "names are stable");
    assert_eq!(*exam.check("writable"), json!({"name": "writable", "status": "ok"}), "what is empty is left out");
    assert_eq!(exam.overall(), "ok");
    assert_eq!(root.snapshot(), before, "nothing changed");
    root.run("a", "doctor --fix").exits(0, "there is nothing to fix").says("Result: PASS\n", "and it says so");
    assert_eq!(root.snapshot(), before, "nothing changed by --fix either");
}

#[test]
fn a_root_that_is_not_there_yet_is_said_to_be_missing_and_is_not_made() {
    let root = Root::new();
    for flags in ["", "--fix"] {
        let exam = Exam::new(&root, flags);
        assert_eq!(exam.overall(), "ok");
        exam.says("writable", &["isn't there yet", &root.path().display().to_string()]);
        assert_eq!(exam.status("file_system"), "ok", "the directory that it would be made in is tried");
    }
    root.run("a", "doctor").exits(0, "nothing is wrong").says("isn't there yet; the first lock makes it", "text too");
    assert_eq!(fs::read_dir(root.outside()).expect("it is ours").count(), 0, "nothing is left behind");
}

#[test]
fn a_directory_that_is_there_but_was_never_used_is_no_root_yet_and_stays_empty() {
    let root = Root::new();
    fs::create_dir(root.path()).expect("a temp directory is writable");
    crate::common::chmod(&root.path(), 0o700);
    let exam = Exam::new(&root, "--fix");
    assert_eq!(exam.overall(), "ok", "{}", exam.said);
    assert_eq!(fs::read_dir(root.path()).expect("it is ours").count(), 0, "nothing is left behind");
}

#[test]
fn what_can_not_be_a_root_fails_and_says_why() {
    let dir = Root::new();
    let at = |name: &str| dir.outside().join(name);
    put(&at("file"), "");
    symlink("nowhere", at("broken")).expect("a temp directory is writable");
    symlink("loop", at("loop")).expect("a temp directory is writable");
    for (name, why) in [("file", "not a directory"), ("broken", "symbolic link to nothing"), ("loop", "symbolic link")]
    {
        let call = || dir.lokt("a").env("LOKT_ROOT", at(name));
        let exam = Exam::of(call().args(["doctor", "--json"]).run());
        assert_eq!(exam.status("writable"), "fail");
        exam.says("writable", &[why, &at(name).display().to_string(), "LOKT_ROOT"]);
        let text = call().args(["doctor", "--fix"]).run().exits(1, "it can't be used");
        text.says("[FAIL]  Directory writable", "the row says so").says("Result: FAIL", "and so does the end");
    }
    let below = dir.lokt("a").env("LOKT_ROOT", at("file").join("root")).args(["doctor", "--json"]).run();
    assert_eq!(Exam::of(below).status("writable"), "fail", "below a file nothing can be made");
}

#[test]
fn how_the_root_was_found_is_said() {
    lokt_testkit::need!("git");
    let dir = tempfile::tempdir().expect("temp");
    let doctor =
        |json: &[&str]| Call::new(LOKT).cwd(dir.path()).env("HOME", dir.path()).args(["doctor"]).args(json).run();
    doctor(&[]).exits(0, "nothing is wrong").says("Root: .lokt (via .lokt/ fallback)", "outside of git");
    assert_eq!(doctor(&["--json"]).json()["root_method"], "local");
    Call::new("git").args(["init", "-q"]).cwd(dir.path()).run().exits(0, "git works");
    doctor(&[]).exits(0, "nothing is wrong").says("Root: lokt (via git common dir)", "inside of git");
    assert_eq!(doctor(&["--json"]).json()["root_method"], "git");
}

#[test]
fn doctor_is_in_the_help_and_its_helper_is_not() {
    let root = Root::new();
    root.run("a", "help").exits(0, "help").says("\n  doctor ", "it is listed");
    let help = root
        .run("a", "doctor --help")
        .exits(0, "help")
        .says("--fix", "the flag is listed")
        .says("--json", "so is this");
    assert!(!help.stdout.contains("rival"), "what is for lokt's own use isn't{help}");
    root.run("a", "doctor x").exits(64, "it takes no names");
    assert_eq!(root.run("a", "doctor --fixx --json").exits(64, "no such flag").failure(), "E_USAGE");
}
