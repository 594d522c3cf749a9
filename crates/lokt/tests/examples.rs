//! The examples run, and print what they say.

use std::path::Path;
use std::process::{Command, Output};

/// Cargo builds examples together with the tests, into the directory beside theirs.
fn run(example: &str, dir: &Path) -> Output {
    let test = std::env::current_exe().expect("it runs");
    let built = test.parent().and_then(Path::parent).expect("it is in deps").join("examples").join(example);
    assert!(built.exists(), "{} was built: run all tests of the package, or `cargo build --examples`", built.display());
    Command::new(built).arg(dir).output().expect("it runs")
}

#[track_caller]
fn prints(example: &str, expected: &str) {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let output = run(example, dir.path());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{example}");
    assert!(output.status.success(), "{example}: {}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{example}");
}

#[test]
fn the_guard_works_and_gives_its_lock_back() {
    prints("guard", "working under token 1\ndone\n");
}

#[test]
fn the_guard_says_who_is_in_its_way() {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let lokt = lokt::Lokt::discover(dir.path()).expect("a temp directory is writable").owner("alice");
    lokt.freeze("nightly").reason("incident").apply().expect("nobody froze it");
    let output = run("guard", dir.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("frozen by alice@"), "{text}");
}

#[test]
fn the_leader_leads_and_steps_down() {
    prints("leader", "leading in term 1\nround 1\nround 2\nround 3\nstepped down\n");
}

#[test]
fn the_fenced_write_refuses_the_stale_holder() {
    prints(
        "fenced_write",
        "published 20 bytes under token 2\nrefused token 1: E_FENCING_MISMATCH\nfrom the new holder\n",
    );
}
