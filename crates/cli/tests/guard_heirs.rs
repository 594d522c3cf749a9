//! What a command inherits of its guard, and what it leaves behind: descriptors, and processes that go on without it.

use std::fs;
use std::time::Duration;

use lokt_testkit::session::{PATIENCE, Stray};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::process::{Pid, Signal};

use super::common::{LOKT, Root, put};
use super::guard_signals::started;

/// What is open in the command, as `ls` shows it: number and target.
fn open_in_command(root: &Root, flags: &[&str]) -> Vec<(i32, String)> {
    let script = "for fd in /proc/$$/fd/*; do echo ${fd##*/} $(readlink $fd); done";
    let mut session =
        started(root, "alice", &[&[LOKT, "guard", "x", "y"], flags, &["--", "sh", "-c", script]].concat()).session();
    assert_eq!(session.ends(), 0, "{}", session.err());
    let parse = |line: &str| line.split_once(' ').map(|(fd, to)| (fd.parse().expect("a number"), to.to_owned()));
    session.out().lines().filter_map(parse).collect()
}

#[test]
fn a_command_inherits_the_pulse_of_each_lock_far_from_its_own_descriptors() {
    let root = Root::used();
    let held = root.path().join("state/held").display().to_string();
    let open = open_in_command(&root, &[]);
    let pulses: Vec<_> = open.iter().filter(|(_, to)| to.starts_with(&held)).collect();
    assert_eq!(pulses.len(), 2, "one per lock: {open:?}");
    assert!(pulses.iter().all(|(fd, _)| *fd >= 100), "scripts use low descriptors by number: {open:?}");
    let root_text = root.path().display().to_string();
    let others = open.iter().filter(|(fd, to)| *fd < 100 && to.starts_with(&root_text)).count();
    assert_eq!(others, 0, "nothing else of the guard's is open: {open:?}");
}

#[test]
fn with_close_a_command_inherits_nothing() {
    let root = Root::used();
    for flag in ["-o", "--close"] {
        let open = open_in_command(&root, &[flag]);
        let root_text = root.path().display().to_string();
        assert!(open.iter().all(|(_, to)| !to.starts_with(&root_text)), "no descriptor leads to the root: {open:?}");
    }
}

/// Leaves a process behind as daemons do it: two forks, a session of its own, nothing closed. Ends with 5 when that one runs.
const DAEMONISES: &str = "
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    os.write(write, b'%d' % os.getpid())
    for _ in range(6000):
        if os.path.exists('end'):
            break
        time.sleep(0.01)
    os._exit(0)
pid = os.read(read, 20)
open('daemon.new', 'wb').write(pid)
os.rename('daemon.new', 'daemon')
sys.exit(5)
";

/// A root beside which the script is, and how the guard of it is started.
fn daemon_root() -> Root {
    let root = Root::used();
    put(&root.outside().join("daemonises.py"), DAEMONISES);
    root
}

fn guard<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&[LOKT, "guard", "x"], flags, &["--", "python3", "daemonises.py"]].concat()
}

/// Has any of its threads a child?
fn has_children(pid: Pid) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(children).any(|children| !children.trim().is_empty())
}

#[track_caller]
fn daemon(root: &Root) -> Stray {
    let path = root.outside().join("daemon");
    let read = || fs::read_to_string(&path).ok().and_then(|text| Pid::from_raw(text.parse().ok()?));
    assert!(wait_until(PATIENCE, || read().is_some()), "the daemon starts");
    Stray(read().expect("it was there"))
}

#[test]
fn a_daemon_that_the_command_left_behind_does_not_keep_the_lock() {
    let root = daemon_root();
    let mut session = started(&root, "alice", &guard(&[])).session();
    assert_eq!(session.ends(), 5, "the guard ends with its command: {}", session.err());
    let daemon = daemon(&root);
    assert!(daemon.lives(), "the daemon goes on");
    assert!(!root.has_record("x"), "the lock is released");
    root.run("bob", "guard x -- true").exits(0, "and free for others, though the daemon has the pulse open");
    assert!(daemon.lives(), "all that time");
}

#[test]
fn until_all_keeps_the_lock_until_the_daemon_ends() {
    for flags in [&["--until-all"][..], &["--until-all", "--ttl", "4s"]] {
        let root = daemon_root();
        let mut session = started(&root, "alice", &guard(flags)).session();
        let daemon = daemon(&root);
        // Longer than the lease, which is renewed.
        pause(Duration::from_secs(6));
        assert_eq!(session.code(), None, "the guard waits for what the command left behind");
        root.run("bob", "guard x -- true").exits(2, "the lock is held");
        put(&root.outside().join("end"), "");
        assert_eq!(session.ends(), 5, "the exit code is the command's: {}", session.err());
        assert!(wait_until(PATIENCE, || !daemon.lives()), "nobody is left");
        assert!(!root.has_record("x"), "the lock is released");
        let renewed = root.events_of("x").iter().any(|event| event == "renew");
        assert_eq!(renewed, flags.len() > 1, "a lease is renewed meanwhile");
    }
}

#[test]
fn a_daemon_keeps_the_lock_when_a_guard_that_waits_for_it_is_told_to_end() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let root = daemon_root();
        let mut session = started(&root, "alice", &guard(&["--until-all"])).session();
        let daemon = daemon(&root);
        // The command ends right after it wrote the daemon's pid; a signal before that would be the command's.
        assert!(wait_until(PATIENCE, || !has_children(session.pid())), "the command ends");
        // And the guard has to see that.
        pause(Duration::from_millis(500));
        session.signal(signal);
        assert_eq!(session.ends(), 5, "the exit code is the command's, always: {}", session.err());
        let err = session.err();
        assert!(err.contains("it keeps the lock until it ends"), "it says what becomes of the lock: {err}");
        assert!(daemon.lives(), "the daemon goes on");
        root.run("bob", "status").exits(0, "it can be looked at").says("[ORPHAN]", "the guard is gone, the hold lives");
        root.run("bob", "guard x -- true").exits(2, "the lock is held");
        let mut waiter = started(&root, "bob", &[LOKT, "guard", "x", "--wait", "--", "echo", "entered"]).session();
        assert!(wait_until(PATIENCE, || waiter.err().contains("waiting for lock")), "bob waits");
        put(&root.outside().join("end"), "");
        assert_eq!(waiter.ends(), 0, "it is free when the daemon ends: {}", waiter.err());
        assert_eq!(waiter.out(), "entered\n");
    }
}

#[test]
fn until_all_without_anything_left_behind_ends_with_the_command() {
    let root = Root::used();
    root.run("alice", "guard x --until-all -- false").exits(1, "the exit code is the command's");
    assert!(!root.has_record("x"), "the lock is released");
}
