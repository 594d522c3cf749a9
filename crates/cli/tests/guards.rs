//! What a guard's hold is worth to others while its end is near: nested guards, heirs of the pulse, copies of its record.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};

use crate::common::{LOKT, Root, eventually, names_in, pid_of};

fn guard(root: &Root, words: &[&str]) -> Child {
    let mut command = Command::new(LOKT);
    command.env("LOKT_ROOT", root.path()).env("LOKT_OWNER", "a").arg("guard").args(words);
    command.stdin(Stdio::null()).spawn().expect("it starts")
}

fn is_unlocked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let taken = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
    // Closing isn't enough: what another test is starting at this moment may have inherited it.
    taken && flock(&file, FlockOperation::Unlock).is_ok()
}

#[test]
fn one_holder_what_outlived_a_hold_is_not_inside_of_it() {
    let root = Root::new();
    let inherited_hold = root.outside().join("badge");
    let script = format!("echo $LOKT_HOLDS >{0}.new; mv {0}.new {0}; exec sleep 60", inherited_hold.display());
    let mut outer = guard(&root, &["x", "-o", "--", "sh", "-c", &script]);
    eventually("the command runs", || inherited_hold.exists());
    let holds = std::fs::read_to_string(&inherited_hold).expect("it is there");
    let nested = || root.lokt("a").env("LOKT_HOLDS", holds.trim()).args(["guard", "x", "--", "true"]).run();
    nested().exits(0, "inside of a live hold it runs at once");
    assert_eq!(root.events_of("x"), ["acquire"], "and nothing changes");

    let command = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id())).expect("it runs");
    outer.kill().expect("it is ours");
    outer.wait().expect("it is ours");
    let command = pid_of(command.trim().parse().expect("one child"));
    kill_process(command, Signal::KILL).expect("it runs");
    eventually("its hold is over", || root.run("b", "exists x").code != 0);
    nested().exits(0, "it is free");
    assert_eq!(
        root.events_of("x"),
        ["acquire", "auto-prune", "acquire", "release"],
        "it got a hold of its own: one that is over keeps nobody else out"
    );
}

#[test]
fn one_holder_a_guard_that_waits_for_heirs_holds_until_it_releases() {
    let root = Root::used();
    let [mark, end] = ["in", "end"].map(|name| root.outside().join(name));
    let script = format!("touch {}; while ! [ -e {} ]; do sleep 0.02; done", mark.display(), end.display());
    let mut outer = guard(&root, &["x", "--until-all", "--", "sh", "-c", &script]);
    eventually("the command runs", || mark.exists());
    let pulse = names_in(&root.path().join("state/held")).pop().expect("a guard has a pulse");
    // The release waits for the mutex.
    let mutex = File::open(root.path()).expect("it is there");
    flock(&mutex, FlockOperation::LockExclusive).expect("it is free soon");
    File::create(&end).expect("it can be made");
    eventually("nobody keeps the pulse", || is_unlocked(&pulse));
    root.run("b", "exists x").exits(0, "whoever looks now finds a hold, not a dead process's record");
    flock(&mutex, FlockOperation::Unlock).expect("it is ours");
    assert_eq!(outer.wait().expect("it is ours").code(), Some(0), "the lock was held to the end");
    assert_eq!(root.events_of("x"), ["acquire", "release"]);
}

#[test]
fn one_holder_what_is_held_while_the_rest_is_waited_for_does_not_run_out() {
    let root = Root::used();
    let mark = root.outside().join("in");
    let other = guard(&root, &["b", "--", "sleep", "60"]);
    eventually("b is held", || root.has_record("b"));
    let script = format!("touch {}", mark.display());
    let mut both = guard(&root, &["a", "b", "--ttl", "4s", "--wait", "--", "sh", "-c", &script]);
    eventually("it waits for b", || !names_in(&root.path().join("state/line/b")).is_empty());
    let renewed = || root.events_of("a").iter().filter(|event| *event == "renew").count();
    eventually("its lease of a would be over by now", || renewed() >= 4);
    root.run("c", "lock a").exits(2, "a is held");

    // Whoever takes it by force makes it begin anew.
    root.run("c", "unlock a --force").exits(0, "force takes it");
    root.run("c", "lock a").exits(0, "it is free");
    kill_process(pid_of(other.id()), Signal::TERM).expect("it runs");
    { other }.wait().expect("it is ours");
    eventually("it waits for a", || !names_in(&root.path().join("state/line/a")).is_empty());
    assert!(!mark.exists(), "a command never runs under half of its locks");
    root.run("c", "unlock a").exits(0, "it is c's");
    assert_eq!(both.wait().expect("it is ours").code(), Some(0), "in the end it had both");
    assert!(mark.exists(), "and its command ran");
}

#[test]
fn a_command_runs_where_few_files_may_be_open() {
    let root = Root::new();
    for limit in [32, 64, 100] {
        let script = format!("ulimit -n {limit}; exec {LOKT} guard x -- true");
        let few = Command::new("sh").args(["-c", &script]).env("LOKT_ROOT", root.path()).output().expect("sh runs");
        assert_eq!(few.status.code(), Some(0), "{limit} are enough: {few:?}");
    }
}

#[test]
fn child_counts_a_copied_record_does_not_take_the_pulse_of_the_original() {
    let root = Root::used();
    let holder = guard(&root, &["x", "--", "sleep", "60"]);
    eventually("it is held", || root.has_record("x"));
    let mut copy = root.record("x");
    copy["expires_at"] = "2020-01-01T00:00:00Z".into();
    root.put_record("y", &copy);
    root.run("b", "guard y -- true").exits(0, "the copy is over");
    assert_eq!(names_in(&root.path().join("state/held")).len(), 1, "the pulse is that of x, which is held");
    kill_process(pid_of(holder.id()), Signal::TERM).expect("it runs");
    { holder }.wait().expect("it is ours");
}

#[test]
fn child_counts_a_guard_of_a_root_that_was_deleted_leaves_the_pulses_of_the_new_one_alone() {
    let root = Root::new();
    let pulses = || names_in(&root.path().join("state/held"));
    let [gate, runs] = ["gate", "runs"].map(|name| root.outside().join(name));
    let script = format!("touch {}; while ! [ -e {} ]; do sleep 0.02; done", runs.display(), gate.display());
    let mut old = guard(&root, &["x", "--", "sh", "-c", &script]);
    // When its command runs, nothing new comes into the directories while they are removed.
    eventually("the first one holds", || pulses().len() == 1 && runs.exists());
    std::fs::remove_dir_all(root.path()).expect("it is ours");
    let mut new = guard(&root, &["x", "--", "sleep", "60"]);
    eventually("the new one holds, under the same number", || {
        pulses().len() == 1 && root.run("b", "exists x").code == 0
    });
    File::create(&gate).expect("it can be made");
    old.wait().expect("it is ours");
    assert_eq!(pulses().len(), 1, "the pulse is the new one's");
    let command = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", new.id())).expect("it runs");
    eventually("its command runs", || !command().trim().is_empty());
    let command = command();
    new.kill().expect("it is ours");
    new.wait().expect("it is ours");
    let refused = root.run("b", "guard x -- true").code;
    kill_process(pid_of(command.trim().parse().expect("one child")), Signal::KILL).expect("it runs");
    assert_eq!(refused, 2, "child-counts: its command runs");
}
