//! A program that only locks doesn't build ledgers and snapshots.

use std::collections::BTreeSet;
use std::process::Command;

/// The crates that a program gets with these features of `lokt`.
fn crates_with(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "lokt", "--edges", "normal", "--prefix", "none", "--format", "{lib}"])
        .args(["--offline", "--no-default-features", "--features"])
        .arg(features.join(","))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn a_lock_brings_no_snapshots_and_no_ledger() {
    let crates = crates_with(&[]);
    assert!(crates.contains("lokt_named"), "{crates:?}");
    for heavy in ["lokt_ledger", "lokt_worktree", "lokt_tree", "blake3", "sha2", "clap"] {
        assert!(!crates.contains(heavy), "{heavy} is built for a lock: {crates:?}");
    }
}

#[test]
fn each_feature_brings_what_it_is_about() {
    let ledger = crates_with(&["ledger"]);
    assert!(ledger.contains("lokt_ledger") && !ledger.contains("lokt_worktree"), "{ledger:?}");
    let worktree = crates_with(&["worktree"]);
    assert!(worktree.contains("lokt_worktree") && !worktree.contains("lokt_ledger"), "{worktree:?}");
}
