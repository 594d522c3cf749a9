//! `lokt worktree init --here`: an existing project, also one in git, is the worktree `main` in place.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::common::grove::Grove;
use crate::common::{names_in, put, remove};

/// A project in git, with what a project has.
fn project() -> Grove {
    let grove = Grove::none();
    git(&grove, "init -q");
    git(&grove, "config user.email a@example.com");
    git(&grove, "config user.name a");
    grove.put("src/a.rs", "fn a() {}\n");
    grove.put("file.txt", "one\n");
    grove.put(".gitignore", "target\n");
    git(&grove, "add -A");
    git(&grove, "commit -qm one");
    grove.put("target/out", "built");
    grove.put(".git/hooks/pre-push", "#!/bin/sh\n");
    grove
}

/// The same as a worktree.
fn here() -> Grove {
    let grove = project();
    grove.run("alice", "worktree init --here").exits(0, "a project becomes a worktree");
    grove
}

#[track_caller]
fn git(grove: &Grove, words: &str) -> String {
    grove.call("git").args(words.split_whitespace()).run().exits(0, words).stdout
}

#[test]
fn undoing_the_damage_of_an_agent_takes_two_commands() {
    lokt_testkit::need!("git");
    let grove = here();
    let said = grove.run("alice", "worktree list").exits(0, "it is a worktree");
    said.says(&format!("  {}\n", grove.top().display()), "in place");
    assert!(!grove.top().join("main").exists(), "no other directory is made");
    assert_eq!(git(&grove, "status --short"), "", "git sees nothing of it");
    let bytes = |path: &str| fs::read(grove.top().join(path)).expect("it is there");
    let before = [".git/index", ".git/hooks/pre-push", ".git/HEAD"].map(bytes);
    let json = grove.json("alice", "snapshot create --acquire", 0);
    assert_eq!(json["lokt"]["files"].as_u64().or(json["files"].as_u64()), Some(4), "all files but git's: {json}");
    fs::remove_dir_all(grove.top().join("src")).expect("it is ours");
    put(&grove.top().join("file.txt"), "broken");
    remove(&grove.top().join("target/out"));
    grove.put("src", "a file where a directory was");
    grove.put("junk/x", "junk");
    let restore = "snapshot restore latest --in-place --acquire --force";
    let said = grove.run("alice", restore).exits(0, "it comes back");
    said.notes("shells in its subdirectories must cd again", "the directory itself is the same");
    // Looked at before git writes down that it has seen the files.
    assert_eq!(before, [".git/index", ".git/hooks/pre-push", ".git/HEAD"].map(bytes), "git's files are untouched");
    assert_eq!(git(&grove, "status --short"), "", "as it was");
    git(&grove, "fsck --strict");
    assert_eq!(grove.text("target/out"), "built", "what git ignores is a part of it");
    assert!(!grove.top().join("junk").exists());
    assert!(names_in(&grove.inside("restores")).is_empty(), "nothing is left over");
    grove.run("alice", "snapshot diff latest --exit-code").exits(0, "nothing differs");
    grove.run("alice", "snapshot verify --all").exits(0, "the snapshot is whole");
    grove.run("alice", "doctor --strict").exits(0, "and so is the repository");
}

#[test]
fn what_is_in_git_stays_unless_it_is_asked_for() {
    lokt_testkit::need!("git");
    let grove = here();
    let id = grove.take("--with-git");
    let manifest = fs::read_to_string(grove.inside(&format!("snapshots/{id}.manifest"))).expect("it is text");
    assert!(manifest.contains("\".git/HEAD\"") && !manifest.contains("\".jvs"), "with .git, never with .jvs");
    put(&grove.top().join("file.txt"), "two\n");
    git(&grove, "commit -qam two");
    let [one, two] = ["HEAD~1", "HEAD"].map(|rev| git(&grove, &format!("rev-parse {rev}")));
    let said = grove.run("alice", "snapshot restore latest --in-place --dry-run").exits(0, "it says what would change");
    assert!(!said.stdout.contains(".git/"), "git's files wouldn't: {}", said.stdout);
    grove.run("alice", "snapshot restore latest --in-place --acquire").exits(1, "a file is unsaved").says("", "");
    grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(0, "it comes back");
    assert_eq!(git(&grove, "rev-parse HEAD"), two, "the commit stays");
    assert_eq!(git(&grove, "status --short"), " M file.txt\n");
    grove.run("alice", "snapshot restore latest --into copy").exits(0, "beside it, too");
    assert!(grove.inside("trees/copy/file.txt").exists() && !grove.inside("trees/copy/.git").exists());
    // A lock root in it stays where it is.
    let root = grove.top().join(".git/lokt");
    let guard = || grove.lokt("alice").env("LOKT_ROOT", &root).args(["guard", "x", "--", "true"]).run();
    guard().exits(0, "the root is made");
    let before = fs::metadata(&root).expect("it is there").ino();
    grove.run("alice", "snapshot restore latest --in-place --acquire --force --with-git").exits(0, "it comes back");
    assert_eq!(fs::metadata(&root).expect("it is there").ino(), before, "no root is moved");
    assert_eq!(git(&grove, "rev-parse HEAD"), one, "git is where it was");
    assert_eq!(git(&grove, "status --short"), "");
    git(&grove, "fsck --strict");
    guard().exits(0, "the root can be used");
    // One without it leaves git alone, whatever is asked for.
    grove.take("");
    grove.run("alice", "snapshot restore latest --in-place --acquire --force --with-git").exits(0, "it comes back");
    assert_eq!(git(&grove, "rev-parse HEAD"), one);
}

#[test]
fn every_command_knows_where_it_is() {
    lokt_testkit::need!("git");
    let grove = here();
    let deep = grove.top().join("src");
    let said = grove.lokt("alice").cwd(&deep).args(["lease", "status"]).run().exits(0, "deep inside");
    said.says("\"main\"", "it is main");
    let said = grove.lokt("alice").cwd(&deep).args(["lease", "run", "--", "pwd"]).run().exits(0, "a run works");
    said.says(&deep.display().to_string(), "where it was started");
    grove.run("alice", "worktree create x").exits(0, "another one").says(".jvs/trees/x", "out of git's sight");
    assert_eq!(git(&grove, "status --short"), "");
    let inside = grove.inside("trees/x");
    let said = grove.lokt("alice").cwd(&inside).args(["lease", "status"]).run().exits(0, "in it");
    said.says("\"x\"", "it is x");
    grove.put(".jvs/trees/x/y", "y");
    assert_eq!(grove.json("alice", "snapshot create --acquire --worktree x", 0)["worktree_id"], "x");
    grove.run("alice", "snapshot restore latest --in-place --acquire --worktree x").exits(0, "it is an ordinary one");
    grove.run("alice", "worktree rename x z").exits(0, "it can be renamed");
    grove.run("alice", "worktree remove z --force").exits(0, "and removed");
    for words in ["worktree remove main", "worktree remove main --force", "worktree rename main other"] {
        grove.run("alice", words).exits(64, "it stays").notes("worktree \"main\" can't be", "which");
    }
    assert_eq!(grove.text("src/a.rs"), "fn a() {}\n", "nothing happened to the project");
    let said = grove.lokt("alice").cwd(&grove.inside("")).args(["lease", "status"]).run().exits(64, "no worktree");
    said.notes("is in no worktree of its lokt repository", "where we are");
}

#[test]
fn it_is_made_once_and_never_inside_another() {
    lokt_testkit::need!("git");
    let grove = here();
    grove.run("alice", "worktree init --here").exits(0, "it is there").says("already there", "it says so");
    grove.run("alice", "worktree init").exits(0, "it is there").says("already there", "either way");
    for dir in ["src", ".jvs"] {
        let said = grove.lokt("alice").cwd(&grove.top().join(dir)).args(["worktree", "init", "--here"]).run();
        said.exits(64, "inside").notes("is in a lokt repository already", "why");
    }
    let other = Grove::new();
    let said = other.run("alice", "worktree init --here").exits(64, "it has main/");
    said.notes("is a lokt repository already, with its worktree in main/", "why");
    let said = other.lokt("alice").cwd(&other.top().join("main")).args(["worktree", "init", "--here"]).run();
    said.exits(64, "in a worktree").notes("is in a lokt repository already", "why");
    assert!(!other.top().join("main/.jvs").exists());
}

#[test]
fn programs_that_know_only_the_first_format_refuse_it() {
    lokt_testkit::need!("git");
    let grove = here();
    let format = fs::read_to_string(grove.inside("format_version")).expect("it is there");
    assert_eq!(format, "2\nmain: .\n");
    assert_eq!(grove.json("alice", "snapshot info", 0)["format_version"], 2);
    put(&grove.inside("format_version"), "3\n");
    grove.run("alice", "snapshot info").exits(65, "it is of a later lokt").notes("has format 3", "which");
}

#[test]
fn a_user_is_told_before_something_is_lost() {
    lokt_testkit::need!("git");
    let grove = project();
    let said = grove.run("alice", "snapshot create --acquire").exits(3, "there is none");
    said.notes("no lokt repository (.jvs) in", "whose")
        .notes("this is a git repository, which leases and snapshots don't use", "what it isn't")
        .notes("`lokt worktree init --here`", "what to do");
    let said = grove.run("alice", "worktree init").exits(0, "it is made all the same");
    said.notes("warning: the 5 entries here are not in main/", "what isn't in it").notes("--here", "what to do");
    let said = grove.run("alice", "snapshot create --acquire").exits(0, "it is taken");
    said.notes("warning: the snapshot is empty", "what it is worth");
    let empty = Grove::none();
    let said = empty.run("alice", "worktree init").exits(0, "it is made");
    assert!(!said.stderr.contains("warning"), "nothing is beside it: {}", said.stderr);
    let said = Grove::none().run("alice", "snapshot create").exits(3, "there is none");
    assert!(!said.stderr.contains("git repository"), "this is no git repository: {}", said.stderr);
}
