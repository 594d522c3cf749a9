//! Snapshots inside `lokt lease run`: under its token, of its worktree.

use serde_json::Value;

use crate::common::LOKT;
use crate::common::grove::Grove;

/// Runs `script` under the lease of a worktree; what it prints is JSON.
#[track_caller]
fn inside(grove: &Grove, flags: &[&str], script: &str) -> Value {
    let script = script.replace("lokt ", &format!("{LOKT} "));
    let call = grove.lokt("alice").args(["lease", "run"]).args(flags).args(["--", "sh", "-c", &script]);
    call.run().exits(0, &script).json()
}

#[test]
fn inside_lease_run_its_token_is_used() {
    let grove = Grove::new();
    grove.put("main/a", "x");
    let json = inside(&grove, &[], "lokt snapshot create --json");
    assert!(json["fencing_token"].is_u64(), "{json}");
    let json = inside(&grove, &[], "cd /; lokt snapshot create --json");
    assert_eq!(json["worktree_id"], "main", "wherever the command went: {json}");
    let said = grove.lokt("alice").args(["lease", "run", "--", "sh", "-c"]);
    let script =
        format!("{LOKT} lease break --force --reason test 2> /dev/null > /dev/null; {LOKT} snapshot create --json");
    let said = said.args([&script]).run();
    assert_eq!(said.json()["code"], "E_FENCING_MISMATCH", "a lease that was broken publishes nothing{said}");
    assert_eq!(grove.history("").len(), 2, "nothing is to be seen of it");
}

#[test]
fn inside_lease_run_it_is_about_the_worktree_that_is_held_unless_one_is_in_another() {
    let grove = Grove::with(&["feature", "other"]);
    grove.put("worktrees/feature/a", "x");
    grove.put("worktrees/other/a", "x");
    let flags = ["--worktree", "feature"];
    let json = inside(&grove, &flags, "lokt snapshot create --json");
    assert_eq!(json["worktree_id"], "feature", "at the top, the one that is held: {json}");
    let json = inside(&grove, &flags, "cd worktrees/other && lokt snapshot create --acquire --json");
    assert_eq!(json["worktree_id"], "other", "in another, that one: {json}");
    let json = inside(&grove, &flags, "lokt snapshot create --acquire --worktree other --json");
    assert_eq!(json["worktree_id"], "other", "or the one that is named: {json}");
    let json = inside(&grove, &flags, "lokt snapshot history --json");
    assert_eq!(json["worktree"], "feature", "looking is the same: {json}");
    let said = grove.lokt("alice").args(["lease", "run", "--worktree", "feature", "--", "sh", "-c"]);
    let said = said.args([&format!("cd worktrees/other && {LOKT} snapshot create")]).run();
    said.exits(4, "the token of one is not that of another");
}
