//! Tokens that the environment hands down: each is good for the hold for which it was issued, and for no other.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG};
use crate::common::guards::Guard;
use crate::common::{LOKT, Root, put};

/// What `lokt WORDS` says inside `guard`, on the root in `root`, and its exit code.
fn inside(guard: &mut Guard, root: &Path, words: &str) -> (String, i32) {
    let from = guard.stdout().len();
    guard.does(&format!("LOKT_ROOT={} {LOKT} {words} 2>&1; echo \"code $?\"", root.display()));
    let said = guard.stdout()[from..].to_owned();
    let code = said.lines().find_map(|line| line.strip_prefix("code ")).and_then(|code| code.parse().ok());
    (said.clone(), code.unwrap_or_else(|| panic!("it ended: {said}")))
}

fn token(root: &Root, name: &str) -> u64 {
    root.record(name)["fencing_token"].as_u64().unwrap_or_else(|| panic!("{name} has a token"))
}

#[test]
fn all_or_nothing_a_token_of_another_root_opens_no_fence() {
    let (ours, theirs) = (Root::new(), Root::new());
    let mut guard = Guard::start(&ours, "alice", "site");
    theirs.run("bob", "lock site --ttl 5m").exits(0, "it is free");
    let number = token(&theirs, "site");
    assert_eq!(token(&ours, "site"), number, "two new roots count alike");
    let (new, target) = (theirs.outside().join("new.html"), theirs.outside().join("site.html"));
    put(&new, "alice's\n");
    put(&target, "bob's\n");
    let publish = format!("publish site {} {}", new.display(), target.display());
    for words in ["fence check", "fence check site", "fence check --json", "fence check site --json", &publish] {
        let (said, code) = inside(&mut guard, &theirs.path(), words);
        assert_eq!(code, 6, "all-or-nothing: {words}: {said}");
        assert!(said.contains(&format!("token {number} was issued elsewhere")), "{words}: it says why: {said}");
        assert!(said.contains("bob@"), "{words}: and whose that number is here: {said}");
    }
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "bob's\n", "nothing was published");
    let last = theirs.audit().pop().expect("there are events");
    assert_eq!((&last["event"], &last["owner"]), (&json!("publish-deny"), &json!("alice")), "{last}");
    assert_eq!(inside(&mut guard, &ours.path(), "fence check site").1, 0, "at home it is good");
    let by_number = inside(&mut guard, &theirs.path(), &format!("fence check site --token {number}"));
    assert_eq!(by_number.1, 0, "a number that is given is compared as a number: {}", by_number.0);
    for (root, code) in [(&ours, 6), (&theirs, 0)] {
        let id = theirs.record("site")["lock_id"].as_str().expect("it has one").to_owned();
        let said = root.run("x", &format!("fence check site --token {number} --lock-id {id}"));
        assert_eq!(said.code, code, "with a lock id, only for that hold{said}");
    }
}

#[test]
fn a_token_does_not_outlive_its_root() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "alice", "site");
    let number = token(&root, "site");
    fs::remove_dir_all(root.path()).expect("it is ours");
    assert_eq!(inside(&mut guard, &root.path(), "fence check").1, 6, "nobody holds anything");
    root.run("bob", "lock site").exits(0, "it is free in the new root");
    assert_eq!(token(&root, "site"), number, "which counts from the beginning");
    for words in ["fence check", "fence check site"] {
        let (said, code) = inside(&mut guard, &root.path(), words);
        assert_eq!(code, 6, "all-or-nothing: {words} in a root that was made again: {said}");
    }
}

#[test]
fn of_guards_of_several_roots_the_one_of_this_root_counts() {
    let (first, second) = (Root::new(), Root::new());
    let mut guard = Guard::start(&first, "alice", "x y");
    let nested = |inner: &str, at: &Path, check: &str| {
        format!("guard {inner} -- env LOKT_ROOT={} {LOKT} fence check {check}", at.display())
    };
    for (words, code, sentence) in [
        (nested("x", &second.path(), ""), 0, "the inner guard's own"),
        (nested("x", &second.path(), "x"), 0, "by name"),
        (nested("x", &first.path(), "x"), 0, "the outer guard's, in its own root"),
        (nested("x", &first.path(), "y"), 0, "and its other name"),
        (nested("x", &second.path(), "y"), 6, "which nobody holds there"),
        (nested("x", &first.path(), ""), 6, "the inner guard's locks are in the second root"),
        (nested("z", &second.path(), "z"), 0, "another name"),
    ] {
        let (said, found) = inside(&mut guard, &second.path(), &words);
        assert_eq!(found, code, "{sentence}: {words}: {said}");
    }
    // Inside its own lock a guard has no hold of its own, and hands down what it was asked for.
    for (inner, check) in [("x", ""), ("x", "x"), ("x y", ""), ("x y", "y"), ("y z", ""), ("y z", "x")] {
        let (said, code) = inside(&mut guard, &first.path(), &nested(inner, &first.path(), check));
        assert_eq!(code, 0, "guard {inner}, fence check {check}: {said}");
    }
}

#[test]
fn a_root_by_another_path_is_the_same_root() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "alice", "x");
    let link = root.outside().join("link");
    symlink(root.path(), &link).expect("a temp directory is writable");
    assert_eq!(inside(&mut guard, &link, "fence check").1, 0, "by a link");
    assert_eq!(inside(&mut guard, &link, "fence check x").1, 0, "by name");
}

#[test]
fn a_token_without_its_hold_opens_nothing() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let (number, id) = (token(&root, "x").to_string(), root.record("x")["lock_id"].as_str().expect("one").to_owned());
    let with = |ids: Option<&str>| {
        let call = root.lokt("a").env("LOKT_NAME", "x").env("LOKT_FENCING_TOKEN", &number);
        let call = if let Some(ids) = ids { call.env("LOKT_LOCK_ID", ids) } else { call };
        call.args(["fence", "check"]).run()
    };
    with(Some(&id)).exits(0, "as a guard hands it down");
    with(None).exits(6, "a number alone, from the environment");
    with(Some("")).exits(6, "of no hold");
    with(Some("0123")).exits(6, "of another");
}

/// `lokt WORDS` in `dir`, inside `lokt lease run` of `main` in `grove`.
fn in_run(grove: &Grove, dir: &Path, words: &str) -> crate::common::Said {
    let script = format!("cd {} && exec {LOKT} {words}", dir.display());
    grove.lokt("alice").args(["lease", "run", "--", "sh", "-c", &script]).run()
}

#[test]
fn all_or_nothing_a_lease_of_another_repository_opens_no_fence() {
    let (ours, theirs) = (Grove::new(), Grove::new());
    theirs.acquire("bob", LONG);
    theirs.put("main/s", "alice's\n");
    theirs.put("main/t", "bob's\n");
    let places = [theirs.top().display().to_string(), ours.top().display().to_string()];
    for words in ["lease fence check", "lease fence publish main/s main/t", "lease fence check --worktree main"] {
        let said = in_run(&ours, &theirs.top(), words).exits(6, words);
        assert!(places.iter().all(|place| said.stderr.contains(place)), "both repositories are named{said}");
        let json: Value = in_run(&ours, &theirs.top(), &format!("{words} --json")).exits(6, words).json();
        assert_eq!(json["code"], "E_FENCING_MISMATCH", "{words}: {json}");
    }
    // By the target, wherever it is done from.
    let target = theirs.top().join("main/t");
    ours.put("main/s", "alice's\n");
    for dir in [ours.top(), ours.top().join("main"), Path::new("/").to_owned()] {
        let words = format!("lease fence publish {} {}", ours.top().join("main/s").display(), target.display());
        in_run(&ours, &dir, &words).exits(6, "its target is elsewhere").notes(&places[0], "where");
    }
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "bob's\n", "nothing was published");
    let said = in_run(&ours, &theirs.top(), "snapshot create").exits(4, "a snapshot goes by where one is, too");
    said.notes("lease", "it has none there");
    // In no repository the lease of the run is meant, and at home it is.
    for dir in [ours.top(), ours.top().join("main"), ours.outside().to_owned()] {
        in_run(&ours, &dir, "lease fence check").exits(0, "of the run's repository");
    }
    in_run(&ours, &ours.top(), "lease fence publish main/s main/t").exits(0, "into its own worktree");
}

#[test]
fn a_repository_by_another_path_is_the_same_repository() {
    let grove = Grove::new();
    let link = grove.outside().join("link");
    symlink(grove.top(), &link).expect("a temp directory is writable");
    grove.put("main/s", "new\n");
    for words in ["lease fence check", "lease fence publish main/s main/t", "snapshot create"] {
        in_run(&grove, &link, words).exits(0, words);
    }
    // As whoever set LOKT_LEASE_REPO by hand, through the link.
    let token = grove.acquire("alice", LONG).to_string();
    let call = grove.lokt("alice").env("LOKT_LEASE_WORKTREE", "main").env("LOKT_LEASE_TOKEN", &token);
    let call = call.env("LOKT_LEASE_REPO_ID", fs::read_to_string(grove.inside("repo_id")).expect("it has one").trim());
    call.env("LOKT_LEASE_REPO", &link).args(["lease", "fence", "check"]).run().exits(0, "it is the same");
}

#[test]
fn a_lease_does_not_outlive_its_repository() {
    let grove = Grove::new();
    // The new repository counts as the old one did.
    let script = format!(
        "echo $LOKT_LEASE_TOKEN; cd {0} && mv repo old && mkdir repo && cd repo && {LOKT} worktree init && \
         LOKT_OWNER=bob {LOKT} lease acquire --json {LONG}; {LOKT} lease fence check; echo code $?",
        grove.outside().display()
    );
    let said = grove.lokt("alice").args(["lease", "run", "--on-lost", "fail", "--", "sh", "-c", &script]).run();
    let number = said.stdout.lines().next().unwrap_or_default().to_owned();
    assert!(said.stdout.contains(&format!("\"fencing_token\": {number}")), "bob's token is the same number{said}");
    assert!(said.stdout.contains("code 6"), "all-or-nothing: it was issued by another repository{said}");
}

#[test]
fn a_copy_of_a_repository_is_another_repository() {
    let grove = Grove::new();
    grove.put("main/s", "new\n");
    let copy = grove.outside().join("copy");
    let done = grove.call("cp").args(["-a", "repo", "copy"]).cwd(grove.outside()).run();
    done.exits(0, "it is copied, with its id");
    in_run(&grove, &copy, "lease fence check").exits(6, "its leases are its own").notes("copy", "where one is");
}
