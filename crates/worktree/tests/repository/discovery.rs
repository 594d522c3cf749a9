//! Which repository and which worktree are meant.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use lokt_core::lease::config::Isolation;
use lokt_sys::error::ErrorKind;
use lokt_worktree::repo::Repository;

use crate::place::{Place, me, name};

#[test]
fn a_new_repository_has_the_layout_and_main() {
    let (place, repo) = Place::new();
    for dir in ["worktrees/main", "locks", "audit", "staging", "snapshots", "descriptors", "refs", "intents", "gc"] {
        let mode = fs::metadata(place.at(".jvs").join(dir)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{dir} can be read by everybody");
    }
    assert_eq!(fs::read_to_string(place.at(".jvs/format_version")).expect("it is there"), "2\n");
    let id = fs::read_to_string(place.at(".jvs/repo_id")).expect("it is there");
    assert_eq!(id, format!("{}\n", repo.id()));
    assert_eq!(id.len(), 37);
    let config = fs::read_to_string(place.at(".jvs/worktrees/main/config.json")).expect("it is there");
    assert!(config.contains("\n  \"name\": \"main\""), "two blanks are before each member: {config}");
    assert!(place.at("main").is_dir());
    for file in ["format_version", "repo_id", "worktrees/main/config.json", "audit/audit.jsonl", "audit/audit.head"] {
        let mode = fs::metadata(place.at(".jvs").join(file)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{file} can be read by everybody");
    }
}

#[test]
fn a_second_init_changes_nothing() {
    let (place, repo) = Place::new();
    let (again, is_new) = Repository::init(&place.top(), Isolation::Shared, me()).expect("it is there");
    assert!(!is_new);
    assert_eq!(again.id(), repo.id());
    let main = again.worktree(&name("main")).expect("it can be read").expect("it is there");
    assert_eq!(main.isolation(), Isolation::Exclusive);
}

#[test]
fn an_init_that_was_killed_is_finished_by_the_next() {
    let (place, repo) = Place::new();
    fs::remove_file(place.at(".jvs/format_version")).expect("it is there");
    assert!(Repository::find(&place.top(), me()).expect("it can be looked for").is_none(), "it isn't one yet");
    let (again, is_new) = Repository::init(&place.top(), Isolation::Exclusive, me()).expect("it can be made");
    assert!(is_new);
    assert_eq!(again.id(), repo.id());
}

#[test]
fn the_files_of_somebody_who_begins_to_use_it_stay() {
    let place = Place::empty();
    fs::create_dir(place.at("main")).expect("a directory");
    fs::write(place.at("main/mine"), "x").expect("a file");
    Repository::init(&place.top(), Isolation::Exclusive, me()).expect("it can be made");
    assert!(place.at("main/mine").exists());
}

#[test]
fn a_repository_is_found_from_below_with_the_worktree() {
    let (place, repo) = Place::new();
    fs::create_dir_all(place.at("main/a/b")).expect("directories");
    fs::create_dir_all(place.at("worktrees/side/c")).expect("directories");
    fs::create_dir_all(place.at("docs")).expect("directories");
    for (dir, worktree) in [
        ("", Some("main")),
        ("main", Some("main")),
        ("main/a/b", Some("main")),
        ("worktrees", None),
        ("worktrees/side/c", Some("side")),
        ("docs", None),
        (".jvs/locks", None),
    ] {
        let found = Repository::find(&place.at(dir), me()).expect("it can be looked for").expect("it is found");
        assert_eq!(found.id(), repo.id(), "from {dir:?}");
        assert_eq!(found.worktree_at(&place.at(dir)).as_deref(), worktree, "from {dir:?}");
    }
    assert!(Repository::find(&place.at(".."), me()).expect("it can be looked for").is_none());
}

#[test]
fn another_format_is_left_alone_and_a_damaged_one_is_said_to_be() {
    let (place, _) = Place::new();
    for (text, kind) in
        [("3\n", ErrorKind::Format), ("99999999999999999999999", ErrorKind::Format), ("x", ErrorKind::Damaged)]
    {
        fs::write(place.at(".jvs/format_version"), text).expect("it can be written");
        let error = Repository::find(&place.at("main"), me()).expect_err("it can't be used");
        assert_eq!(error.kind(), kind, "{text:?}");
    }
    fs::write(place.at(".jvs/format_version"), "1").expect("it can be written");
    assert!(Repository::find(&place.at("main"), me()).expect("it can be used").is_some());
}

#[test]
fn a_link_in_the_place_of_the_repository_is_refused() {
    let (place, _) = Place::new();
    let other = Place::empty();
    symlink(place.at(".jvs"), other.at(".jvs")).expect("a link");
    let error = Repository::find(&other.top(), me()).expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Unusable);
    assert!(Repository::init(&other.top(), Isolation::Exclusive, me()).is_err());
    fs::remove_dir_all(place.at(".jvs/audit")).expect("it is there");
    symlink(other.top(), place.at(".jvs/audit")).expect("a link");
    let repo = Repository::find(&place.top(), me()).expect("a log stops nobody").expect("it is found");
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    let said =
        main.acquire(&crate::place::session(1), &crate::place::terms(), &mut lokt_sys::wait_policy::WaitPolicy::none());
    let warnings = said.expect("it can be asked").warnings;
    assert!(warnings[0].to_string().contains("audit is a symbolic link"), "{warnings:?}");
    assert!(repo.audit_log().verify().is_err(), "it can't be looked at");
    assert_eq!(fs::read_dir(other.top()).expect("it is there").count(), 1, "nothing is written outside");
}

#[test]
fn what_a_stranger_puts_where_anybody_can_is_passed_over() {
    lokt_testkit::need!(root);
    let (place, _) = Place::new();
    std::os::unix::fs::chown(place.at(".jvs"), Some(12345), Some(12345)).expect("it can be given away");
    let finds = || Repository::find(&place.at("main"), me()).expect("it can be looked for").is_some();
    assert!(finds(), "whoever may write here is no stranger");
    fs::set_permissions(place.top(), fs::Permissions::from_mode(0o1777)).expect("a mode");
    assert!(!finds(), "anybody may write here");
}

#[test]
fn what_jvs_made_is_used_as_it_is() {
    let place = Place::empty();
    for dir in [".jvs/worktrees/main", ".jvs/audit", "main"] {
        fs::create_dir_all(place.at(dir)).expect("directories");
    }
    fs::write(place.at(".jvs/format_version"), "1\n").expect("a file");
    let config = "{\n  \"name\": \"main\",\n  \"created_at\": \"2026-02-20T10:00:00.123456789Z\",\n  \"isolation\": \"exclusive\"\n}";
    fs::write(place.at(".jvs/worktrees/main/config.json"), config).expect("a file");
    let repo = Repository::find(&place.at("main"), me()).expect("it can be used").expect("it is found");
    assert!(!repo.id().is_empty(), "it gets an id");
    let entries = repo.worktrees().expect("they can be listed");
    assert_eq!(entries.len(), 1);
    assert!(entries[0].problem.is_none() && entries[0].has_payload);
    assert_eq!(crate::place::take(&repo.worktree(&name("main")).expect("it can be read").expect("it is there"), 1), 1);
}
