//! A guard on a terminal: the command has it as if there were no guard, whatever is typed reaches it once, a shell's jobs stop, continue
//! and end as they do without one; and a wait shows one line.

use std::fs;

use lokt_testkit::session::{PATIENCE, Stray, Terminal, group, state};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal};
use std::time::Duration;

use super::common::{LOKT, Root, names_in, put};
use super::guard_signals::{Counter, started};

const CTRL_C: &str = "\x03";
const CTRL_BACKSLASH: &str = "\x1c";
const CTRL_Z: &str = "\x1a";
const EVERY_ON_LOST: [&str; 3] = ["fail", "warn", "stop"];

/// Starts `words` as the leader of a terminal.
fn on_terminal(root: &Root, owner: &str, words: &[&str]) -> Terminal {
    started(root, owner, words).terminal(200)
}

#[test]
fn what_is_typed_reaches_the_command_exactly_once() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let counter = Counter::new(&root);
        let guard = [LOKT, "guard", "x", "--on-lost", on_lost, "--"];
        let mut terminal = on_terminal(&root, "alice", &[&guard, counter.words("1").as_slice()].concat());
        counter.ready();
        for round in 1..=5 {
            for (key, name) in [(CTRL_C, "SIGINT"), (CTRL_BACKSLASH, "SIGQUIT")] {
                terminal.types(key);
                counter.gets(name, round);
            }
        }
        for round in 1..=3_u16 {
            terminal.resize(100 + round);
            counter.gets("SIGWINCH", usize::from(round));
        }
        // Whatever else is under way arrives.
        pause(Duration::from_millis(300));
        terminal.session().signal(Signal::TERM);
        assert_eq!(terminal.ends(), 42, "the exit code is the command's: {:?}", terminal.screen());
        for (name, times) in [("SIGINT", 5), ("SIGQUIT", 5), ("SIGWINCH", 3), ("SIGTERM", 1)] {
            assert_eq!(counter.count(name), times, "{name} arrives as often as it was sent (--on-lost {on_lost})");
        }
        assert!(!root.has_record("x"), "the lock is released");
    }
}

#[test]
fn ctrl_c_ends_a_command_that_doesnt_mind_it_and_the_code_says_so() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let script = "echo ready; exec sleep 600";
        let guard = [LOKT, "guard", "x", "--on-lost", on_lost, "--", "sh", "-c", script];
        let mut terminal = on_terminal(&root, "alice", &guard);
        terminal.shows_after(0, "ready");
        terminal.types(CTRL_C);
        assert_eq!(terminal.ends(), 130, "{:?}", terminal.screen());
        assert!(!root.has_record("x"), "the lock is released");
    }
}

#[test]
fn ctrl_c_before_the_command_was_started_is_not_forgotten() {
    let root = Root::used();
    let mutex = fs::File::open(root.path()).expect("a used root is there");
    flock(&mutex, FlockOperation::NonBlockingLockExclusive).expect("nobody else is here");
    let guard = [LOKT, "guard", "x", "--", "sh", "-c", "sleep 3; echo went on"];
    let mut terminal = on_terminal(&root, "alice", &guard);
    let pid = terminal.session().pid();
    assert!(wait_until(PATIENCE, || blocks_signals(pid)), "the guard listens to signals");
    terminal.types(CTRL_C);
    pause(Duration::from_millis(200));
    flock(&mutex, FlockOperation::Unlock).expect("it is ours");
    assert_eq!(terminal.ends(), 130, "it ends the command, if not the guard: {:?}", terminal.screen());
    assert!(!root.has_record("x"), "the lock is released");
}

/// A shell that runs `command` three times, and says so after each round.
fn looped(root: &Root, command: &str) -> Terminal {
    let script = format!("for round in 1 2 3; do {command}; echo after=$?; done");
    on_terminal(root, "alice", &["bash", "-c", &script])
}

#[test]
fn ctrl_c_ends_the_loop_of_a_shell_and_not_one_round_of_it() {
    let root = Root::used();
    root.run("bob", "lock held").exits(0, "it is free");
    for (command, ready) in [
        (format!("{LOKT} guard x -- sh -c 'echo ready; exec sleep 600'"), "ready"),
        (format!("{LOKT} guard held --wait -- true"), "waiting for"),
        (format!("{LOKT} lock held --wait"), "waiting for"),
    ] {
        let mut terminal = looped(&root, &command);
        terminal.shows_after(0, ready);
        terminal.types(CTRL_C);
        assert_eq!(terminal.ends(), 130, "the shell ends as its child did: {command}: {:?}", terminal.screen());
        assert!(!terminal.screen().contains("after="), "{command}: no round follows: {:?}", terminal.screen());
        assert!(!root.has_record("x"), "the lock is released first");
    }
}

#[test]
fn ctrl_c_that_a_command_makes_something_else_of_ends_no_loop() {
    for (ends, code) in [("exit 0", 0), ("exit 130", 130)] {
        let root = Root::used();
        let script = root.outside().join("minds");
        put(&script, format!("trap '{ends}' INT\necho ready\nwhile :; do sleep 0.1; done\n"));
        let mut terminal = looped(&root, &format!("{LOKT} guard x -- sh {}", script.display()));
        let mut seen = 0;
        for _ in 0..3 {
            seen = terminal.shows_after(seen, "ready");
            terminal.types(CTRL_C);
            seen = terminal.shows_after(seen, &format!("after={code}"));
        }
        assert_eq!(terminal.ends(), 0, "the command decides: {:?}", terminal.screen());
    }
}

/// Does it block SIGINT, as a guard does that reads its signals?
fn blocks_signals(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigBlk:\t")?, 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn a_terminal_that_goes_away_takes_the_command_with_it() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let counter = Counter::new(&root);
        let guard = [LOKT, "guard", "x", "--on-lost", on_lost, "--"];
        let mut terminal = on_terminal(&root, "alice", &[&guard, counter.words("1").as_slice()].concat());
        counter.ready();
        terminal.hang_up();
        counter.gets("SIGHUP", 1);
        pause(Duration::from_millis(200));
        assert_eq!(counter.count("SIGHUP"), 1, "and only once (--on-lost {on_lost})");
        terminal.session().signal(Signal::TERM);
        assert_eq!(terminal.ends(), 42);
    }
}

#[test]
fn the_command_has_the_terminal_and_can_read_from_it() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let script = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo on a terminal; read line; echo \"read <$line>\"; exit 5";
        let guard = [LOKT, "guard", "x", "--on-lost", on_lost, "--", "sh", "-c", script];
        let mut terminal = on_terminal(&root, "alice", &guard);
        let place = terminal.shows_after(0, "on a terminal");
        terminal.types("some words\n");
        terminal.shows_after(place, "read <some words>");
        assert_eq!(terminal.ends(), 5, "{:?}", terminal.screen());
    }
}

/// An interactive shell on a terminal, which has the guard as a job.
struct Shell {
    terminal: Terminal,
    seen: usize,
}

impl Shell {
    fn new(root: &Root) -> Self {
        let words = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
        let mut start = started(root, "alice", &words);
        start.env.extend([("PS1", "$ ".to_owned()), ("TERM", "dumb".to_owned()), ("HISTFILE", String::new())]);
        let mut shell = Self { terminal: start.terminal(200), seen: 0 };
        shell.sees("$ ");
        shell
    }

    fn types(&mut self, line: &str) {
        self.terminal.types(line);
    }

    /// Waits until it is shown, after what was seen before.
    #[track_caller]
    fn sees(&mut self, text: &str) {
        self.seen = self.terminal.shows_after(self.seen, text);
    }

    fn leader(&mut self) -> Pid {
        self.terminal.session().pid()
    }

    /// Waits until the process is in the foreground.
    #[track_caller]
    fn has_given_to(&mut self, pid: Pid) {
        let given = || self.terminal.foreground().is_some_and(|foreground| group(pid) == Some(foreground));
        assert!(wait_until(PATIENCE, given), "the command is in the foreground: {:?}", self.terminal.foreground());
    }

    /// Is its prompt back, and the terminal its own?
    #[track_caller]
    fn is_back(&mut self) {
        self.sees("$ ");
        let leader = self.leader();
        let terminal = &self.terminal;
        let foreground = || terminal.foreground() == Some(leader);
        assert!(wait_until(PATIENCE, foreground), "the terminal is the shell's again: {:?}", terminal.foreground());
        self.answers();
    }

    /// It reads what is typed, and answers.
    #[track_caller]
    fn answers(&mut self) {
        self.types("echo still $((40 + 2))\n");
        self.sees("still 42");
        self.sees("$ ");
    }
}

/// The pids that a script wrote down.
fn noted(root: &Root, file: &str) -> Pid {
    let path = root.outside().join(file);
    let read = || fs::read_to_string(&path).ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
    assert!(wait_until(PATIENCE, || read().is_some()), "{file} is written");
    read().expect("it was there")
}

#[track_caller]
fn becomes(pid: Pid, states: &str, sentence: &str) {
    let fits = || state(pid).is_some_and(|state| states.contains(state));
    assert!(wait_until(PATIENCE, fits), "{sentence}: state {:?}", state(pid));
}

/// Reads two lines from the terminal, and says so.
const READS_TWO: &str =
    "echo $$ > command; echo $PPID > guard; read a; echo \"first <$a>\"; read b; echo \"second <$b>\"; exit 6";

/// Shows what is written to `end`, and ends. One process: a shell that is stopped while it starts another one may not be stopped at all.
const ENDS_WHEN_TOLD: &str = "mkfifo end; echo $$ > command; echo $PPID > guard; exec cat end";

#[test]
fn ctrl_z_stops_guard_and_command_and_fg_continues_both() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let mut shell = Shell::new(&root);
        shell.types(&format!("{LOKT} guard x --on-lost {on_lost} -- sh -c '{READS_TWO}'; echo code-$?\n"));
        let (command, guard) = (noted(&root, "command"), noted(&root, "guard"));
        shell.has_given_to(command);
        assert_eq!(group(command) == group(guard), on_lost != "stop", "only --on-lost stop makes it a group");
        shell.types("one\n");
        shell.sees("first <one>");
        for round in 0..2 {
            shell.types(CTRL_Z);
            shell.sees("Stopped");
            becomes(guard, "T", "Ctrl-Z stops the guard");
            becomes(command, "T", "Ctrl-Z stops the command");
            if round == 0 {
                shell.is_back();
            }
            assert!(root.has_record("x"), "the lock is kept");
            shell.types("fg\n");
            becomes(guard, "SRD", "fg continues the guard");
            becomes(command, "SRD", "fg continues the command");
        }
        shell.types("two\n");
        shell.sees("second <two>");
        // The rest of the line was left out when its first command stopped.
        shell.sees("$ ");
        shell.types("echo code-$?\n");
        shell.sees("code-6");
        shell.is_back();
        assert!(!root.has_record("x"), "the lock is released");
    }
}

#[test]
fn ctrl_z_stops_everyone_in_the_job_of_a_guard() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let mut shell = Shell::new(&root);
        let script = ENDS_WHEN_TOLD;
        shell.types(&format!(
            "{LOKT} guard x --on-lost {on_lost} -- sh -c '{script}' | (echo $BASHPID > beside; exec cat)\n"
        ));
        let members = ["command", "guard", "beside"].map(|file| noted(&root, file));
        shell.has_given_to(members[0]);
        shell.types(CTRL_Z);
        shell.sees("Stopped");
        for member in members {
            becomes(member, "T", "Ctrl-Z stops all of the job");
        }
        shell.is_back();
        shell.types("fg\n");
        for member in members {
            becomes(member, "SRD", "fg continues all of the job");
        }
        put(&root.outside().join("end"), "the end\n");
        shell.sees("the end");
        shell.is_back();
    }
}

#[test]
fn a_job_that_goes_on_in_the_background_leaves_the_terminal_to_the_shell() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let mut shell = Shell::new(&root);
        let script = ENDS_WHEN_TOLD;
        shell.types(&format!("{LOKT} guard x --on-lost {on_lost} -- sh -c '{script}'\n"));
        let (command, guard) = (noted(&root, "command"), noted(&root, "guard"));
        shell.has_given_to(command);
        shell.types(CTRL_Z);
        shell.sees("Stopped");
        shell.is_back();
        shell.types("bg\n");
        becomes(guard, "SR", "bg continues the guard");
        becomes(command, "SR", "bg continues the command");
        shell.is_back();
        shell.answers();
        put(&root.outside().join("end"), "\n");
        let leader = shell.leader();
        let looks = |times: usize| (0..times).all(|_| shell.terminal.foreground() == Some(leader));
        // A shell that reads takes the terminal back when it notices; others don't.
        let mut left_alone = true;
        let ended = wait_until(PATIENCE, || {
            left_alone &= looks(5_000);
            state(guard).is_none()
        });
        assert!(ended, "it ends in the background");
        assert!(left_alone, "and leaves the terminal alone");
        shell.answers();
        assert!(!root.has_record("x"), "the lock is released");
        shell.types("exit 3\n");
        assert_eq!(shell.terminal.ends(), 3, "the shell never noticed: {:?}", shell.terminal.screen());
    }
}

#[test]
fn a_job_that_is_started_in_the_background_does_not_take_the_terminal() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let mut shell = Shell::new(&root);
        let script = ENDS_WHEN_TOLD;
        shell.types(&format!("{LOKT} guard x --ttl 1s --on-lost {on_lost} -- sh -c '{script}' &\n"));
        let guard = noted(&root, "guard");
        shell.is_back();
        // Longer than the guard's look, once a second.
        pause(Duration::from_millis(1_300));
        shell.answers();
        shell.types("echo > end\n");
        assert!(wait_until(PATIENCE, || state(guard).is_none()), "it ends in the background");
        shell.is_back();
    }
}

#[test]
fn a_job_of_the_background_that_wants_to_read_stops_until_it_is_in_the_foreground() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let mut shell = Shell::new(&root);
        shell.types(&format!("{LOKT} guard x --on-lost {on_lost} -- sh -c '{READS_TWO}' &\n"));
        let (command, guard) = (noted(&root, "command"), noted(&root, "guard"));
        becomes(command, "T", "the background can't read from the terminal");
        becomes(guard, "T", "the shell's job is stopped, as it would be without a guard");
        shell.is_back();
        shell.types("fg\n");
        becomes(command, "SRD", "fg continues the command");
        shell.types("one\n");
        shell.sees("first <one>");
        shell.types("two\n");
        shell.sees("second <two>");
        shell.is_back();
        assert!(!root.has_record("x"), "the lock is released");
    }
}

#[test]
fn a_running_job_that_is_brought_to_the_foreground_gets_what_is_typed() {
    for on_lost in EVERY_ON_LOST {
        let root = Root::new();
        let counter = Counter::new(&root);
        let mut shell = Shell::new(&root);
        shell.types(&format!("{LOKT} guard x --on-lost {on_lost} -- {} &\n", counter.words("1").join(" ")));
        let command = counter.ready();
        shell.is_back();
        shell.types("fg\n");
        shell.sees("guard x");
        let leader = shell.leader();
        let terminal = &shell.terminal;
        assert!(wait_until(PATIENCE, || terminal.foreground() != Some(leader)), "the shell gives it the terminal");
        shell.types(CTRL_C);
        counter.gets("SIGINT", 1);
        shell.has_given_to(command);
        shell.types(CTRL_C);
        counter.gets("SIGINT", 2);
        shell.types(CTRL_Z);
        shell.sees("Stopped");
        becomes(command, "T", "Ctrl-Z stops the command");
        shell.is_back();
        shell.types("kill %1; fg\n");
        counter.gets("SIGTERM", 1);
        shell.is_back();
        assert_eq!(counter.count("SIGINT"), 2, "each Ctrl-C arrived once (--on-lost {on_lost})");
        drop(Stray(command));
    }
}

#[test]
fn a_wait_on_a_terminal_is_one_line_that_is_kept_up_to_date_and_cleared_at_the_end() {
    let root = Root::used();
    root.run("bob-with-a-rather-long-name", "lock x").exits(0, "it is free");
    let guard = [LOKT, "guard", "x", "--wait", "--", "echo", "the command"];
    let mut terminal = started(&root, "alice", &guard).terminal(60);
    terminal.shows_after(0, "waiting for \"x\": next, held by bob-wi…g-name, timeout ");
    // Once a second it says how long it has waited.
    let frames = |terminal: &mut Terminal| terminal.screen().matches("\r\x1b[K").count();
    assert!(wait_until(PATIENCE, || frames(&mut terminal) >= 3), "it is shown again: {:?}", terminal.screen());
    terminal.resize(40);
    let before = frames(&mut terminal);
    assert!(wait_until(PATIENCE, || frames(&mut terminal) >= before + 2), "and again: {:?}", terminal.screen());
    root.run("bob-with-a-rather-long-name", "unlock x").exits(0, "it is bob's");
    assert_eq!(terminal.ends(), 0);
    let screen = terminal.screen();
    let (wait, rest) = screen.rsplit_once("\r\x1b[K").expect("the line is cleared");
    let (got, printed) = rest.split_once("\r\n").expect("a line that stays");
    assert!(got.starts_with("got lock \"x\" after "), "a long wait is told of at its end: {rest:?}");
    assert_eq!(printed, "the command\r\n", "nothing else is left when the command prints");
    assert!(!wait.contains('\n'), "it stays on one line: {screen:?}");
    let lines: Vec<&str> = wait.split("\r\x1b[K").collect();
    assert_eq!(lines[0], "", "nothing was said before it");
    assert!(
        lines[1..].iter().all(|line| line.chars().count() < 60 && line.starts_with("waiting for \"x\"")),
        "{lines:?}"
    );
    assert!(
        lines.last().is_some_and(|line| line.chars().count() < 40),
        "it fits the window that got smaller: {lines:?}"
    );
}

#[test]
fn at_eighty_columns_a_wait_shows_name_place_holder_and_what_is_left() {
    let root = Root::used();
    root.run("the-owner-of-the-build", "lock build-and-deploy --ttl 50m").exits(0, "it is free");
    let mut terminal = started(&root, "alice", &[LOKT, "lock", "build-and-deploy", "--wait"]).terminal(80);
    let place = terminal.shows_after(0, "waiting for \"build-and-deploy\": next, held by the-o");
    terminal.shows_after(place, "build (49m");
    let leases = |terminal: &mut Terminal| {
        let screen = terminal.screen();
        let mut leases: Vec<String> =
            screen.split("build (").skip(1).map(|rest| rest.chars().take(6).collect()).collect();
        leases.dedup();
        leases.len()
    };
    assert!(wait_until(PATIENCE, || leases(&mut terminal) >= 3), "the lease runs: {:?}", terminal.screen());
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends(), 130, "{:?}", terminal.screen());
    root.put_freeze("x", &super::common::go_lease("x", "ops", 600, 600));
    let mut terminal = started(&root, "alice", &[LOKT, "lock", "x", "--wait"]).terminal(80);
    terminal.shows_after(0, "waiting for \"x\": next, frozen by ops (9m5");
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends(), 130, "{:?}", terminal.screen());
}

#[test]
fn a_short_wait_on_a_terminal_leaves_nothing() {
    let root = Root::used();
    root.run("bob", "lock x --ttl 1s").exits(0, "it is free");
    let mut terminal = on_terminal(&root, "alice", &[LOKT, "guard", "x", "--wait", "--", "echo", "the command"]);
    assert_eq!(terminal.ends(), 0, "{:?}", terminal.screen());
    let screen = terminal.screen();
    // On a slow machine it may have been longer.
    let short = ["after 1s\r", "ms\r"].iter().any(|text| screen.contains(text));
    assert!(!short, "less than two seconds are not worth a line: {screen:?}");
}

#[test]
fn a_wait_on_a_terminal_shows_how_the_place_in_line_changes() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let mut before = started(&root, "carol", &[LOKT, "lock", "x", "--wait"]).session();
    let line = root.path().join("state/line/x");
    assert!(wait_until(PATIENCE, || names_in(&line).len() == 1), "carol is in line");
    let mut terminal = on_terminal(&root, "alice", &[LOKT, "guard", "x", "--wait", "--", "true"]);
    let place = terminal.shows_after(0, "1 ahead; held by bob");
    before.signal(Signal::TERM);
    assert_eq!(before.ends(), 143);
    let place = terminal.shows_after(place, "first in line; held by bob");
    terminal.shows_after(place, "waited ");
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends(), 130, "Ctrl-C ends the wait");
    let screen = terminal.screen();
    let (_, rest) = screen.rsplit_once("\r\x1b[K").expect("the line is cleared");
    assert_eq!(rest, "interrupted while waiting for lock \"x\"\r\nlokt: not run\r\n", "and the terminal is left clean");
    assert_eq!(names_in(&root.path().join("state/line")).len(), 0, "no ticket is left");
}

#[test]
fn a_wait_off_a_terminal_is_a_line_at_the_start_and_one_at_the_end() {
    let root = Root::used();
    root.run("bob", "lock x").exits(0, "it is free");
    let mut session = started(&root, "alice", &[LOKT, "guard", "x", "--wait", "--", "echo", "the command"]).session();
    assert!(wait_until(PATIENCE, || session.err().ends_with('\n')), "it says that it waits");
    // Longer than it takes a terminal's line to change twice.
    pause(Duration::from_millis(2_300));
    root.run("bob", "unlock x").exits(0, "it is bob's");
    assert_eq!(session.ends(), 0);
    let err = session.err();
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "a line at the start, one at the end: {err:?}");
    assert!(lines[0].starts_with("waiting for lock \"x\": first in line; held by bob@"), "{err:?}");
    assert!(lines[1].starts_with("got lock \"x\" after "), "the end says how long it took: {err:?}");
    assert!(err.chars().all(|c| c == '\n' || !c.is_control()), "no escape codes off a terminal: {err:?}");
    assert_eq!(session.out(), "the command\n", "stdout is the command's alone");
}

#[test]
fn a_command_reads_all_that_the_guard_is_given() {
    let root = Root::new();
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| u8::try_from(at * 31 % 251).expect("below 251")).collect();
    put(&root.outside().join("in"), &bytes);
    for on_lost in EVERY_ON_LOST {
        let input = fs::File::open(root.outside().join("in")).expect("it was just written");
        let guard = [LOKT, "guard", "x", "--on-lost", on_lost, "--", "cat"];
        let mut session = started(&root, "alice", &guard).reading(input);
        assert_eq!(session.ends(), 0, "{}", session.err());
        let out = fs::read(root.outside().join("out")).expect("it printed");
        assert!(out == bytes, "what went in came out: {} of {} bytes", out.len(), bytes.len());
    }
    let mut session = started(&root, "alice", &["sh", "-c", "cat in | \"$0\" guard x -- cat | cat", LOKT]).session();
    assert_eq!(session.ends(), 0);
    assert!(fs::read(root.outside().join("out")).expect("it printed") == bytes, "through pipes too");
}
