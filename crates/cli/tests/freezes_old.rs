//! Freezes of the old program, which are locks with a name of their own, beside ours.

use std::fs;

use crate::common::{Root, go_lease};
use crate::freezes::is_frozen;

#[test]
fn a_freeze_of_an_old_program_counts_and_a_lock_of_that_name_does_not() {
    let root = Root::used();
    root.put_record("freeze-build", &go_lease("freeze-build", "ops", 600, 600));
    root.run("a", "lock build").exits(2, "freeze-build of an old program freezes build");
    root.run("a", "lock freeze-deploy").exits(0, "freeze-deploy is a name like any other");
    root.run("b", "lock deploy").exits(0, "and freezes nothing");
}

#[test]
fn a_freeze_of_an_old_program_is_ended_by_its_owner_or_by_force() {
    let root = Root::used();
    root.put_record("freeze-x", &go_lease("freeze-x", "ops", 600, 600));
    root.run("b", "unfreeze x").exits(4, "it is another's").notes("owned by ops@", "whose");
    root.run("b", "freeze x").exits(2, "x is frozen by another").notes("frozen by ops", "by whom");
    assert!(root.has_record("freeze-x"), "it is left alone");
    root.run("ops", "unfreeze x").exits(0, "its owner ends it");
    assert!(!root.has_record("freeze-x"), "it is gone");
    root.run("a", "lock x").exits(0, "the lock can be had again");
    root.put_record("freeze-y", &go_lease("freeze-y", "ops", 600, 600));
    root.run("b", "unfreeze y --force").exits(0, "by force").notes("it was frozen by ops@", "whose it was");
    assert!(!root.has_record("freeze-y"), "it is gone");
    assert_eq!(root.events_of("y"), ["force-unfreeze"], "audited: under the name that was frozen");
}

#[test]
fn unfreeze_ends_both_freezes_of_ones_own_and_says_if_another_one_stays() {
    let root = Root::used();
    root.put_record("freeze-x", &go_lease("freeze-x", "ops", 600, 600));
    root.run("ops", "freeze x --ttl 1m").exits(0, "one's own old freeze is no obstacle");
    assert!(is_frozen(&root, "x"), "it is a freeze of its own");
    root.run("ops", "unfreeze x").exits(0, "both are ours");
    assert!(!is_frozen(&root, "x") && !root.has_record("freeze-x"), "both are gone");
    root.run("a", "lock x").exits(0, "the lock can be had again");

    root.run("ops", "freeze y").exits(0, "it is free");
    root.put_record("freeze-y", &go_lease("freeze-y", "boss", 600, 600));
    let said = root.run("ops", "unfreeze y").exits(0, "ours is ended");
    said.notes("warning: \"y\" is still frozen, by ", "and the user is told that it didn't help")
        .notes("locks/freeze-y.json", "with the path");
    root.run("a", "lock y").exits(2, "it is still frozen");
}

#[test]
fn an_old_freeze_that_cannot_be_read_does_not_hide_that_ones_own_was_ended() {
    let root = Root::used();
    root.run("ops", "freeze x").exits(0, "it is free");
    fs::create_dir(root.record_path("freeze-x")).expect("it is new");
    let said = root.run("ops", "unfreeze x").exits(0, "ours is ended");
    said.says("unfrozen \"x\"", "and says so").notes("warning: \"x\" is still frozen, by ", "but that it didn't help");
    root.run("a", "lock x").exits(2, "what can't be read counts as a freeze");
    root.run("ops", "unfreeze x").exits(65, "nobody knows whose it is").notes("`lokt doctor` says", "what to do");
    root.run("ops", "unfreeze x --force").exits(0, "force moves it aside");
    assert_eq!(root.aside().len(), 1, "it is not lost");
    root.run("a", "lock x").exits(0, "the lock can be had again");
}

#[test]
fn a_freeze_that_is_over_does_not_hide_one_of_an_old_program() {
    let root = Root::used();
    root.put_freeze("deploy", &go_lease("deploy", "ops", 60, -10));
    root.put_record("freeze-deploy", &go_lease("freeze-deploy", "alice", 600, 600));
    let said = root.run("b", "guard deploy -- echo ran").exits(2, "the old program's freeze counts");
    let said = said.notes("frozen by alice", "it is alice's");
    assert_eq!(said.stdout, "", "frozen-means-frozen: nothing ran");
}

#[test]
fn a_running_freeze_of_an_old_program_is_not_stale_because_its_command_has_ended() {
    let root = Root::used();
    root.put_record("freeze-deploy", &go_lease("freeze-deploy", "alice", 600, 600));
    root.run("b", "lock freeze-deploy").exits(2, "it is somebody's");
    root.run("b", "unlock --break-stale freeze-deploy").exits(1, "it is not stale");
    root.run("b", "doctor --fix");
    root.run("b", "guard deploy -- true").exits(2, "frozen-means-frozen: it still is");
    root.put_record("freeze-deploy", &go_lease("freeze-deploy", "alice", 600, -1));
    root.run("b", "guard deploy -- true").exits(0, "its lease is over");
    root.run("b", "lock freeze-deploy").exits(0, "and what is over is anybody's");
}
