//! `lokt audit --tail`: what happens, while it happens.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use lokt_testkit::session::{PATIENCE, Session};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use super::guard_signals::started;
use crate::audit::line;
use crate::common::{Call, LOKT, Root};

/// A running `lokt audit --tail WORDS`.
struct Tail(Session);

impl Tail {
    fn start(root: &Root, words: &[&str]) -> Self {
        let tail = Self(started(root, "watcher", &[&[LOKT, "audit", "--tail"], words].concat()).session());
        tail.is_ready();
        tail
    }

    /// It sleeps: the first look is over.
    fn is_ready(&self) {
        let syscall = format!("/proc/{}/wchan", self.0.pid().as_raw_nonzero());
        let sleeps = || fs::read_to_string(&syscall).is_ok_and(|text| text.contains("poll"));
        assert!(wait_until(PATIENCE, sleeps), "it waits for events: {}", self.0.err());
    }

    /// Waits until exactly these names have been shown.
    #[track_caller]
    fn shows(&self, expected: &[&str]) {
        let shown = || -> Vec<String> {
            let out = self.0.out();
            let whole = out.rfind('\n').map_or("", |end| &out[..end]);
            let events = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("whole lines of JSON"));
            events.map(|event| event["name"].as_str().expect("a name").to_owned()).collect()
        };
        wait_until(PATIENCE, || shown().len() >= expected.len());
        assert_eq!(shown(), expected, "{}", self.0.err());
    }

    /// Ends it by a signal.
    fn ends_by(mut self, signal: Signal) {
        self.0.signal(signal);
        assert_eq!(self.0.ends(), 0, "that is how it ends: {}", self.0.err());
        assert_eq!(self.0.err(), "", "there is nothing to complain about");
    }
}

/// Appends to the log as another program would, with one write.
fn append(root: &Root, text: &str) {
    use std::io::Write as _;
    let log = fs::OpenOptions::new().create(true).append(true).open(root.path().join("audit.log"));
    log.and_then(|mut log| log.write_all(text.as_bytes())).expect("a temp directory is writable");
}

fn shell(root: &Root, script: &str) {
    Call::new("sh").args(["-c", script]).cwd(&root.path()).run().exits(0, script);
}

#[test]
fn tail_shows_what_happens_from_now_on_until_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let root = Root::used();
        let tail = Tail::start(&root, &[]);
        root.run("a", "lock x").exits(0, "it is free");
        tail.shows(&["x"]);
        root.run("b", "lock x").exits(2, "it is held");
        root.run("a", "unlock x").exits(0, "it is ours");
        tail.shows(&["x", "x", "x"]);
        let log = fs::read_to_string(root.path().join("audit.log")).expect("it is there");
        assert!(log.ends_with(&tail.0.out()), "the lines are the log's");
        tail.ends_by(signal);
    }
}

#[test]
fn tail_shows_only_what_is_asked_for() {
    let root = Root::used();
    let tail = Tail::start(&root, &["--name", "x", "--name", "y", "--event", "acquire", "--owner", "a", "--json"]);
    for (owner, name) in [("a", "z"), ("b", "x"), ("a", "y"), ("b", "w")] {
        root.run(owner, &format!("lock {name}")).exits(0, "it is free");
        root.run(owner, &format!("unlock {name}")).exits(0, "it is ours");
    }
    root.run("a", "lock x").exits(0, "it is free");
    tail.shows(&["y", "x"]);
    tail.ends_by(Signal::TERM);
}

#[test]
fn tail_waits_for_a_root_and_a_log_that_are_not_there_yet_and_come_again() {
    let root = Root::new();
    let tail = Tail::start(&root, &[]);
    root.run("a", "lock x1").exits(0, "the root is made");
    tail.shows(&["x1"]);
    fs::remove_dir_all(root.path()).expect("it is ours");
    root.run("a", "lock x2").exits(0, "the root is made again");
    tail.shows(&["x1", "x2"]);
    shell(&root, "rm audit.log");
    root.run("a", "unlock x2").exits(0, "it is ours");
    tail.shows(&["x1", "x2", "x2"]);
    tail.ends_by(Signal::INT);
}

#[test]
fn tail_follows_every_kind_of_rotation() {
    let root = Root::used();
    let tail = Tail::start(&root, &[]);
    root.run("a", "lock x1").exits(0, "it is free");
    // Ours: blank lines that make it long enough.
    append(&root, &"\n".repeat(8 << 20));
    root.run("a", "lock x2").exits(0, "it is free");
    assert!(!root.path().join("audit.log").exists(), "it was rotated");
    root.run("a", "lock x3").exits(0, "it is free");
    tail.shows(&["x1", "x2", "x3"]);
    // Anybody's: the new one isn't smaller, and all happens between two looks.
    tail.0.signal(Signal::STOP);
    let names: Vec<String> = (4..40).map(|n| format!("x{n}")).collect();
    let events: Vec<String> = names.iter().map(|name| line("acquire", name, "a")).collect();
    append(&root, &format!("{}\n", line("acquire", "last", "a")));
    shell(&root, "mv audit.log.1 audit.log.2; mv audit.log audit.log.1");
    append(&root, &(events.join("\n") + "\n"));
    shell(&root, "mv audit.log.2 audit.log.3; mv audit.log.1 audit.log.2; mv audit.log audit.log.1");
    append(&root, &format!("{}\n", line("acquire", "newest", "a")));
    tail.0.signal(Signal::CONT);
    let mut expected = vec!["x1", "x2", "x3", "last"];
    expected.extend(names.iter().map(String::as_str));
    expected.push("newest");
    tail.shows(&expected);
    // Cut off.
    shell(&root, ": > audit.log");
    append(&root, &format!("{}\n", line("acquire", "cut", "a")));
    expected.push("cut");
    tail.shows(&expected);
    tail.ends_by(Signal::TERM);
}

#[test]
fn tail_shows_a_line_that_comes_in_two_parts_once_and_whole() {
    let root = Root::used();
    let text = format!("{}\n", line("acquire", "x", "a"));
    append(&root, &text[..25]);
    let tail = Tail::start(&root, &[]);
    append(&root, &text[25..50]);
    pause(Duration::from_millis(300));
    assert_eq!(tail.0.out(), "", "it isn't all there");
    append(&root, &text[50..]);
    tail.shows(&["x"]);
    assert_eq!(tail.0.out(), text);
    append(&root, "not an event\n");
    append(&root, &text);
    tail.shows(&["x", "x"]);
    let Tail(mut session) = tail;
    session.signal(Signal::INT);
    assert_eq!(session.ends(), 0);
    assert!(session.err().starts_with("warning: 1 line that is no event was skipped"), "{}", session.err());
}

#[test]
fn tail_ends_when_nobody_reads_any_more() {
    let root = Root::used();
    let script = "{ \"$0\" audit --tail; echo \"ended $?\" >&2; } | head -n 1";
    let mut session = started(&root, "a", &["sh", "-c", script, LOKT]).session();
    // Nothing says when the first look was taken, so there are several events.
    let shown = wait_until(PATIENCE, || {
        append(&root, &format!("{}\n", line("acquire", "x", "a")));
        pause(Duration::from_millis(20));
        !session.out().is_empty()
    });
    assert!(shown, "the first event is shown");
    assert_eq!(session.ends(), 0, "without another event");
    assert_eq!((session.out().lines().count(), session.err().as_str()), (1, "ended 0\n"));
}

#[test]
fn tail_can_be_ended_while_nobody_reads() {
    let root = Root::used();
    let mut child = Command::new(LOKT)
        .args(["audit", "--tail"])
        .env("LOKT_ROOT", root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("lokt runs");
    // More than a pipe holds; the reader is there and doesn't read.
    let pid = crate::common::pid_of(child.id());
    let stuck = wait_until(PATIENCE, || {
        append(&root, &format!("{}\n", line("acquire", "x", &"o".repeat(900))).repeat(200));
        pause(Duration::from_millis(20));
        let pipe = child.stdout.as_ref().expect("it is piped");
        rustix::io::ioctl_fionread(pipe).is_ok_and(|length| length > 60_000)
    });
    assert!(stuck, "the pipe is full");
    rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
    let mut code = None;
    wait_until(PATIENCE, || {
        code = child.try_wait().expect("it is our child");
        code.is_some()
    });
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(code.and_then(|status| status.code()), Some(0), "a signal ends it all the same");
}

#[test]
fn tail_on_a_terminal_is_a_table_with_its_heading_at_once() {
    let root = Root::used();
    let mut terminal = started(&root, "a", &[LOKT, "audit", "--tail"]).terminal(120);
    let place = terminal.shows_after(0, "DETAILS");
    let mut place_after = place;
    for name in ["x1", "x2"] {
        // The first look may still be under way when the heading is there.
        wait_until(PATIENCE, || {
            append(&root, &format!("{}\n", line("acquire", name, "bob")));
            pause(Duration::from_millis(20));
            terminal.screen()[place_after..].contains(name)
        });
        place_after = terminal.shows_after(place_after, name);
    }
    terminal.types("\x03");
    assert_eq!(terminal.ends(), 0, "Ctrl-C is how it ends: {:?}", terminal.screen());
    assert_eq!(terminal.screen().matches("DETAILS").count(), 1, "one heading");
    assert!(terminal.screen().contains("bob@h (pid 7)"), "{:?}", terminal.screen());
}

#[test]
fn tail_misses_nothing_while_many_write_and_rotate() {
    let root = Root::used();
    let tail = Tail::start(&root, &["--event", "acquire", "--event", "release"]);
    let before = fs::metadata(root.path().join("audit.log")).expect("it is there").len();
    // A line of 100 KB, so that a hundred of them are more than a log.
    let owner = "o".repeat(100_000);
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do \"$0\" guard x$1.$n -- true || exit 1; done";
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let call = Call::new("sh").args(["-c", script, LOKT]).args([worker.to_string()]);
            call.env("LOKT_ROOT", root.path()).env("LOKT_OWNER", &owner).start()
        })
        .collect();
    for worker in workers {
        worker.wait().exits(0, "every guard gets its lock");
    }
    let files: Vec<String> = ["audit.log.2", "audit.log.1", "audit.log"]
        .iter()
        .map(|file| fs::read_to_string(root.path().join(file)).unwrap_or_default())
        .collect();
    assert!(!files[1].is_empty(), "it was rotated");
    let log = files.concat().split_off(usize::try_from(before).expect("a short log"));
    wait_until(PATIENCE, || tail.0.out().len() >= log.len());
    assert!(tail.0.out() == log, "the {} lines of the log, and nothing else", log.lines().count());
    tail.ends_by(Signal::TERM);
}
