//! A root that is deleted while a process waits in it.

use std::fs;
use std::path::Path;

use rustix::process::{Signal, kill_process};

use crate::common::{Call, Root, Running, eventually, names_in, now, pid_of};

/// Starts a command that waits for `name`, and waits until it does.
fn waiter(root: &Root, owner: &str, name: &str, words: &str) -> Running {
    let run = root.lokt(owner).args(words.split_whitespace()).start();
    eventually("it waits in line", || !names_in(&root.path().join("state/line").join(name)).is_empty() && run.sleeps());
    run
}

/// Deletes the root while the waiter is suspended: the waiter would begin a new one in the middle of it.
fn delete(waits: &Running, path: &Path) {
    kill_process(pid_of(waits.pid()), Signal::STOP).expect("it is ours");
    eventually("it can be deleted", || fs::remove_dir_all(path).is_ok());
}

fn go_on(waits: &Running) {
    kill_process(pid_of(waits.pid()), Signal::CONT).expect("it is ours");
}

#[test]
fn a_waiter_goes_on_in_a_new_root() {
    for words in ["guard x --timeout 60s -- true", "lock x --timeout 60s"] {
        let root = Root::new();
        root.run("holder", "lock x").exits(0, "it is free");
        let waits = waiter(&root, "waiter", "x", words);
        delete(&waits, &root.path());
        go_on(&waits);
        let said = waits.wait().exits(0, "nobody holds it in the new root");
        said.notes("was deleted during the wait", "it says so").notes(&root.path().display().to_string(), "and where");
        assert!(root.events_of("x").contains(&"acquire".to_owned()), "it got it there");
    }
}

#[test]
fn a_waiter_joins_the_root_that_a_newcomer_made_and_keeps_its_timeout() {
    let (root, other) = (Root::new(), Root::new());
    root.run("holder", "lock x").exits(0, "it is free");
    other.run("newcomer", "lock x").exits(0, "it is free");
    let began = now();
    let waits = waiter(&root, "waiter", "x", "guard x --timeout 8s -- true");
    delete(&waits, &root.path());
    Call::new("mv").args([other.path(), root.path()]).run().exits(0, "a temp directory is writable");
    go_on(&waits);
    eventually("it waits in the new root", || !names_in(&root.path().join("state/line/x")).is_empty());
    let said = waits.wait().exits(2, "the newcomer holds it");
    said.notes("newcomer", "it says who");
    assert!(now().duration_since(began).as_secs() >= 7, "it waited as long as it was told to");
    assert_eq!(root.record("x")["owner"], "newcomer", "one-holder: nothing was taken away");
}

#[test]
fn a_guard_of_several_names_holds_all_of_them_in_the_new_root() {
    let root = Root::new();
    root.run("holder", "lock b").exits(0, "it is free");
    let check = r#"test -e "$LOKT_ROOT/locks/a.json" && test -e "$LOKT_ROOT/locks/b.json""#;
    let words = ["guard", "a", "b", "--timeout", "60s", "--", "sh", "-c", check];
    let waits = root.lokt("waiter").args(words).start();
    let in_line = || !names_in(&root.path().join("state/line/b")).is_empty();
    eventually("it waits in line", || in_line() && waits.sleeps());
    assert!(root.has_record("a"), "it has the first one");
    delete(&waits, &root.path());
    go_on(&waits);
    waits.wait().exits(0, "one-holder: both are held while the command runs");
}
