//! `lokt status --watch`: a live view on a terminal, which is left as it was; snapshots and JSON lines elsewhere.

use std::fs;
use std::time::Duration;

use lokt_testkit::session::{PATIENCE, Session, Start, Terminal};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::common::{LOKT, Pulse, Root, alive, elsewhere, go_lease, go_record, remove};
use super::guard_signals::started;

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const TAKEN: &str = "\x1b[?1049h\x1b[?25l";
const GIVEN_BACK: &str = "\x1b[?25h\x1b[?1049l";

fn start<'a>(root: &'a Root, words: &[&'a str]) -> Start<'a> {
    let mut start = started(root, "watcher", words);
    start.env.extend([("TERM", "xterm".to_owned()), ("NO_COLOR", "1".to_owned())]);
    start
}

fn watching(root: &Root, columns: u16) -> Terminal {
    start(root, &[LOKT, "status", "--watch"]).terminal(columns)
}

/// The last frame that is complete, line by line.
fn frame(terminal: &mut Terminal) -> Option<Vec<String>> {
    let screen = terminal.screen();
    let frames = screen.split("\x1b[H").skip(1).map(|frame| frame.split("\r\n").collect::<Vec<_>>());
    let last = frames.filter(|lines| lines.len() == 24).last()?;
    Some(
        last.iter()
            .map(|line| line.replace("\x1b[2K", "").replace(GIVEN_BACK, ""))
            // The terminal adds one of its own.
            .map(|line| line.trim_end_matches('\r').to_owned())
            .collect(),
    )
}

/// Waits for a frame of which `is_true`.
#[track_caller]
fn shows(terminal: &mut Terminal, sentence: &str, is_true: impl Fn(&[String]) -> bool) -> Vec<String> {
    let mut last = None;
    let shown = wait_until(PATIENCE, || {
        last = frame(terminal);
        last.as_deref().is_some_and(&is_true)
    });
    assert!(shown, "{sentence}: {last:#?}");
    last.unwrap_or_default()
}

/// Is there a line that begins with a name and has all these words?
fn has(lines: &[String], name: &str, words: &[&str]) -> bool {
    lines.iter().any(|line| line.starts_with(name) && words.iter().all(|word| line.contains(word)))
}

#[test]
fn locks_freezes_and_waiters_are_shown_as_they_come_and_go() {
    let root = Root::used();
    let mut terminal = watching(&root, 120);
    // The first frame may be of the terminal as it was before it got its size.
    let wide = |lines: &[String]| lines[0].width() == 120;
    let lines = shows(&mut terminal, "nothing is locked", |lines| has(lines, "no locks", &[]) && wide(lines));
    assert!(lines[0].starts_with(&root.path().display().to_string()), "the root: {lines:#?}");
    assert!(lines[0].ends_with('Z'), "the time, at the edge: {lines:#?}");
    assert!(lines[1].starts_with("0 held, 0 frozen, 0 waiting"), "the counts: {lines:#?}");
    root.run("alice", "lock build --ttl 5m --reason release").exits(0, "it is free");
    // The record is there before the log says why.
    let lines = shows(&mut terminal, "a lock that is taken is shown, and what happened", |lines| {
        has(lines, "build ", &["HELD", "alice@", " ago", "in 4m", "release"])
            && lines.iter().any(|line| line.contains(" ago  acquire  build"))
    });
    assert!(has(&lines, "NAME ", &["STATE", "HOLDER", "SINCE", "UNTIL"]), "with titles: {lines:#?}");
    assert!(lines[1].starts_with("1 held, 0 frozen, 0 waiting"), "it is counted: {lines:#?}");
    let pulse = Pulse::waiting(&root, "build", "early");
    shows(&mut terminal, "who waits is counted", |lines| lines[1].starts_with("1 held, 0 frozen, 1 waiting"));
    drop(pulse);
    root.put_freeze("deploy", &go_lease("deploy", "ops", 600, 600));
    shows(&mut terminal, "a freeze is shown", |lines| {
        has(lines, "deploy ", &["FROZEN", "ops@", "in 9m"]) && lines[1].starts_with("1 held, 1 frozen")
    });
    root.run("alice", "unlock build").exits(0, "it is hers");
    // The record is gone before the log says why.
    shows(&mut terminal, "a lock that is released is gone, and what happened is there", |lines| {
        !has(lines, "build ", &[]) && lines.iter().any(|line| line.contains(" ago  release  build"))
    });
    remove(&root.path().join("freezes/deploy.json"));
    shows(&mut terminal, "nothing is left", |lines| has(lines, "no locks", &[]));
    terminal.types("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn a_process_that_ends_and_a_lease_that_runs_out_are_seen_though_no_file_changes() {
    let root = Root::used();
    let mut sleeper = super::common::Sleeper::new();
    root.run("a", &format!("lock bound --bind {}", sleeper.pid())).exits(0, "it is free");
    root.run("a", "lock short --ttl 2s").exits(0, "it is free");
    let mut terminal = watching(&root, 100);
    let ends = format!("pid {} ends", sleeper.pid());
    shows(&mut terminal, "it lives", |lines| has(lines, "bound", &["HELD", &ends]));
    sleeper.end();
    shows(&mut terminal, "it is dead", |lines| has(lines, "bound", &["DEAD"]));
    shows(&mut terminal, "it is over", |lines| has(lines, "short", &["EXPIRED", "s ago"]));
}

#[test]
fn every_end_leaves_the_terminal_as_it_was() {
    type End = (&'static str, fn(&mut Terminal), i32);
    let ends: [End; 7] = [
        ("q", |terminal| terminal.types("q"), 0),
        ("Q", |terminal| terminal.types("xyzQ"), 0),
        ("Ctrl-C", |terminal| terminal.types(CTRL_C), 0),
        ("SIGINT", |terminal| terminal.session().signal(Signal::INT), 0),
        ("SIGTERM", |terminal| terminal.session().signal(Signal::TERM), 0),
        ("SIGHUP", |terminal| terminal.session().signal(Signal::HUP), 129),
        ("SIGQUIT", |terminal| terminal.types("\x1c"), 131),
    ];
    for (name, end, code) in ends {
        let root = Root::used();
        let mut terminal = watching(&root, 80);
        shows(&mut terminal, "it runs", |lines| has(lines, "no locks", &[]));
        assert!(!terminal.is_cooked(), "keys are read one by one");
        assert!(terminal.screen().starts_with(TAKEN), "it has a screen of its own: {:?}", terminal.screen());
        end(&mut terminal);
        assert_eq!(terminal.ends(), code, "{name}: {:?}", terminal.screen());
        assert!(terminal.screen().ends_with(GIVEN_BACK), "{name} gives the screen back: {:?}", terminal.screen());
        assert!(terminal.is_cooked(), "{name} gives the keys back");
        assert_eq!(terminal.screen().matches(TAKEN).count(), 1, "{name}: once");
    }
}

#[test]
fn in_the_background_of_a_terminal_there_is_no_screen_to_take_and_a_signal_ends_it() {
    let root = Root::used();
    // As `timeout` does: the command is in a group of its own, and the terminal isn't given to it.
    let script = format!(
        "set -m; {LOKT} status --watch & until [ -e go ]; do sleep 0.05; done; kill %1; wait %1; echo ended $?"
    );
    let mut terminal = start(&root, &["bash", "-c", &script]).terminal(100);
    terminal.shows_after(0, "no locks");
    super::common::put(&root.outside().join("go"), "");
    terminal.shows_after(0, "ended 0");
    assert!(!terminal.screen().contains(TAKEN), "the screen isn't its own: {:?}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again() {
    let root = Root::used();
    let mut shell = start(&root, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    shell.env.extend([("PS1", "$ ".to_owned()), ("HISTFILE", String::new())]);
    let mut terminal = shell.terminal(100);
    let place = terminal.shows_after(0, "$ ");
    terminal.types(&format!("{LOKT} status --watch\n"));
    let place = terminal.shows_after(place, "no locks");
    terminal.types(CTRL_Z);
    let place = terminal.shows_after(place, GIVEN_BACK);
    let place = terminal.shows_after(place, "Stopped");
    let place = terminal.shows_after(place, "$ ");
    terminal.types("echo $((40 + 2))\n");
    let place = terminal.shows_after(place, "42");
    terminal.types("fg\n");
    let place = terminal.shows_after(place, TAKEN);
    let place = terminal.shows_after(place, "no locks");
    terminal.types("q");
    let place = terminal.shows_after(place, GIVEN_BACK);
    terminal.types("echo code $?\n");
    let place = terminal.shows_after(place, "code 0");
    terminal.types("exit\n");
    terminal.shows_after(place, "exit");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn every_frame_fits_the_window_and_follows_it() {
    let root = Root::used();
    root.put_record("wide", &alive(go_record("wide", "日本語の所有者の名前はとても長いので切らなければならない")));
    root.put_record("a-lock-with-a-rather-long-name-for-a-lock", &elsewhere(go_lease("x", "somebody-else", 600, 300)));
    root.put("locks/odd.json", "no record");
    root.run("alice", "lock build").exits(0, "it is free");
    let mut terminal = watching(&root, 200);
    shows(&mut terminal, "it runs", |lines| has(lines, "wide", &["ならない"]));
    for columns in [80_u16, 40, 10, 200] {
        terminal.resize(columns);
        let widest = |lines: &[String]| lines.iter().map(|line| line.width()).max().unwrap_or(0);
        // The first line reaches the edge, or is all that there is room for.
        let lines = shows(&mut terminal, "it follows the window", |lines| widest(lines) == usize::from(columns));
        assert_eq!(lines.len(), 24, "every line of the window: {lines:#?}");
        assert!(has(&lines, "build", &[]) && has(&lines, "wide", &[]), "at {columns}: {lines:#?}");
    }
    terminal.types("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn more_locks_than_lines_are_counted() {
    let root = Root::used();
    for n in 0..40 {
        root.put_record(&format!("lock-{n:02}"), &alive(go_record("x", "a")));
    }
    let mut terminal = watching(&root, 80);
    let lines = shows(&mut terminal, "it runs", |lines| has(lines, "lock-00", &[]));
    assert_eq!(lines[23], "… and 21 more", "{lines:#?}");
    assert!(has(&lines, "lock-18", &[]) && lines[1].starts_with("40 held"), "{lines:#?}");
}

#[test]
fn a_root_that_does_not_exist_yet_is_waited_for_and_not_made() {
    let root = Root::new();
    let mut terminal = watching(&root, 100);
    shows(&mut terminal, "no root, no locks", |lines| has(lines, "no locks", &[]));
    assert!(!root.path().exists(), "looking makes no root");
    root.run("alice", "lock build").exits(0, "it is free");
    shows(&mut terminal, "it is found when it is there", |lines| has(lines, "build ", &["HELD"]));
    move_away(&root);
    shows(&mut terminal, "and missed when it is gone", |lines| has(lines, "no locks", &[]));
    root.run("bob", "lock deploy").exits(0, "it is free");
    shows(&mut terminal, "and found again", |lines| has(lines, "deploy ", &["bob@"]));
}

#[expect(clippy::disallowed_methods, reason = "a test moves what a user would")]
fn move_away(root: &Root) {
    fs::rename(root.path(), root.outside().join("elsewhere")).expect("it is ours");
}

#[test]
fn one_name_is_watched_alone() {
    let root = Root::used();
    root.run("alice", "lock other").exits(0, "it is free");
    let mut terminal = start(&root, &[LOKT, "status", "build", "--watch"]).terminal(100);
    let lines = shows(&mut terminal, "it is free", |lines| has(lines, "lock \"build\" is free", &[]));
    assert!(!lines.iter().any(|line| line.contains("other")), "nothing about others: {lines:#?}");
    root.run("alice", "lock build").exits(0, "it is free");
    shows(&mut terminal, "it is held", |lines| has(lines, "build ", &["HELD", "alice@"]));
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    let lines = shows(&mut terminal, "and frozen", |lines| has(lines, "build ", &["FROZEN", "ops@"]));
    assert!(has(&lines, "build ", &["HELD"]), "both are shown: {lines:#?}");
}

#[test]
fn it_never_takes_the_mutex() {
    let root = Root::used();
    let mutex = fs::File::open(root.path()).expect("a used root is there");
    flock(&mutex, FlockOperation::NonBlockingLockExclusive).expect("nobody else is here");
    let mut terminal = watching(&root, 100);
    shows(&mut terminal, "it looks", |lines| has(lines, "no locks", &[]));
    root.put_record("build", &alive(go_record("build", "a")));
    shows(&mut terminal, "it looks again", |lines| has(lines, "build ", &["HELD"]));
}

#[test]
fn without_keys_it_runs_until_a_signal_ends_it() {
    let root = Root::used();
    let mut terminal = start(&root, &["sh", "-c", "exec \"$0\" status --watch < /dev/null", LOKT]).terminal(80);
    shows(&mut terminal, "it runs", |lines| has(lines, "no locks", &[]));
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends(), 0);
    assert!(terminal.screen().ends_with(GIVEN_BACK), "{:?}", terminal.screen());
}

#[test]
fn a_terminal_that_can_only_print_gets_snapshots() {
    let root = Root::used();
    let mut dumb = start(&root, &[LOKT, "status", "--watch"]);
    dumb.env.push(("TERM", "dumb".to_owned()));
    let mut terminal = dumb.terminal(80);
    terminal.shows_after(0, "Z\r\nno locks\r\n");
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends(), 0);
    assert!(!terminal.screen().contains('\x1b'), "{:?}", terminal.screen());
}

/// Waits until `text` was printed so often.
#[track_caller]
fn prints(session: &Session, text: &str, times: usize) {
    let printed = wait_until(PATIENCE, || session.out().matches(text).count() == times);
    assert!(printed, "{text:?} is printed {times} times: {}{}", session.out(), session.err());
}

#[test]
fn off_a_terminal_there_is_a_snapshot_whenever_something_changes() {
    for signal in [Signal::INT, Signal::TERM] {
        let root = Root::used();
        let mut session = start(&root, &[LOKT, "status", "--watch", "--interval", "100ms"]).session();
        prints(&session, "Z\nno locks\n", 1);
        root.run("alice", "lock build --ttl 1h").exits(0, "it is free");
        prints(&session, "\n\n", 1);
        prints(&session, "  expires in ", 1);
        // Time passes and leases are renewed, but nobody's lock has changed.
        pause(Duration::from_millis(1_500));
        root.run("alice", "lock build --ttl 1h").exits(0, "it is hers");
        pause(Duration::from_millis(300));
        prints(&session, "  expires in ", 1);
        root.run("alice", "unlock build").exits(0, "it is hers");
        prints(&session, "Z\nno locks\n", 2);
        session.signal(signal);
        assert_eq!(session.ends(), 0, "{}", session.err());
        let out = session.out();
        let snapshots: Vec<&str> = out.split("\n\n").collect();
        assert_eq!(snapshots.len(), 3, "{out}");
        assert!(snapshots[1].contains("Z\nbuild                 alice@"), "rows as `status` has them: {out}");
        assert!(!out.contains('\x1b') && session.err().is_empty(), "{out:?} {}", session.err());
    }
}

/// The JSON lines so far.
fn lines(session: &Session) -> Vec<Value> {
    let out = session.out();
    let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn json_is_one_object_per_line_and_change() {
    for (words, signal) in [(vec![], Signal::INT), (vec!["build"], Signal::TERM)] {
        let root = Root::new();
        let command = [&[LOKT, "status", "--json", "--watch", "--color", "always"], words.as_slice()].concat();
        let mut session = start(&root, &command).session();
        let has_lines = |times| wait_until(PATIENCE, || lines(&session).len() == times);
        assert!(has_lines(1), "the first at once: {}", session.out());
        root.run("alice", "lock build --ttl 5m").exits(0, "it is free");
        assert!(has_lines(2), "one for the lock: {}", session.out());
        let status = root.run("watcher", "status --json").json();
        root.run("alice", "unlock build").exits(0, "it is hers");
        assert!(has_lines(3), "one for its end: {}", session.out());
        session.signal(signal);
        assert_eq!(session.ends(), 0, "{}", session.err());
        let lines = lines(&session);
        assert_eq!(lines[0]["locks"], json!([]), "nothing is locked");
        assert_eq!(lines[2]["locks"], json!([]), "nothing is locked any more");
        assert_eq!(lines[1]["locks"][0]["lock_id"], status[0]["lock_id"], "the objects of status");
        let members = |value: &Value| value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>());
        assert_eq!(members(&lines[1]["locks"][0]), members(&status[0]), "with the same members");
        assert!(lines.iter().all(|line| line["ts"].as_str().is_some_and(|ts| ts.ends_with('Z'))), "{lines:#?}");
    }
}

#[test]
fn a_closed_stdout_ends_it_though_nothing_changes() {
    let root = Root::used();
    for words in ["status --watch", "status --watch --json"] {
        // The shell waits for both ends of the pipe.
        let script = format!("{{ \"$0\" {words}; echo \"code $?\" >&2; }} | head -n 1");
        let mut session = start(&root, &["sh", "-c", &script, LOKT]).session();
        assert_eq!(session.ends(), 0);
        assert_eq!(session.err(), "code 0\n", "`{words}` ends quietly");
    }
}

/// Does the process catch this signal, or block it to read it later?
fn minds(pid: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigCgt:").or(line.strip_prefix("SigBlk:")));
    let masks = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    masks.fold(0, |all, mask| all | mask) >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn a_reader_that_stopped_reading_doesnt_keep_it_from_ending() {
    let root = Root::used();
    for n in 0..400 {
        root.put_record(&format!("lock-{n}"), &alive(go_record("x", "a")));
    }
    // More than a pipe takes.
    let script = "\"$0\" status --watch --json & echo $! > pid; wait $!; echo \"code $?\" >&2";
    let script = format!("{{ {script}; }} | {{ while [ ! -e enough ]; do sleep 0.05; done; }}");
    let mut session = start(&root, &["sh", "-c", &script, LOKT]).session();
    let pid = root.outside().join("pid");
    let number = || fs::read_to_string(&pid).ok()?.trim().parse::<i32>().ok();
    assert!(wait_until(PATIENCE, || number().is_some()), "it runs");
    let pid = number().and_then(Pid::from_raw).expect("a pid");
    assert!(wait_until(PATIENCE, || minds(pid, Signal::TERM)), "it is ready for signals");
    // By then it has written what the pipe takes, mostly.
    pause(Duration::from_millis(500));
    rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
    assert!(wait_until(PATIENCE, || session.err() == "code 0\n"), "SIGTERM ends it: {}", session.err());
    super::common::put(&root.outside().join("enough"), "");
    session.ends();
}

#[test]
fn while_nothing_happens_it_does_next_to_nothing() {
    let root = Root::used();
    root.run("alice", "lock build").exits(0, "it is free");
    let session = start(&root, &[LOKT, "status", "--watch"]).session();
    prints(&session, "build", 1);
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", session.pid().as_raw_nonzero())).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("the command is in parentheses");
        let fields: Vec<u64> = fields.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // User and system time; the state is no number.
        fields[10] + fields[11]
    };
    let before = ticks();
    pause(Duration::from_secs(3));
    let spent = ticks() - before;
    assert!(spent <= 15, "three seconds cost {spent} hundredths of one");
    prints(&session, "build", 1);
}

#[test]
fn what_is_wrong_is_said_before_the_screen_is_taken() {
    let root = Root::used();
    for (words, text) in [
        ("status --interval 5s", "--watch"),
        ("status --watch --interval 0", "--interval must be positive"),
        ("status --watch --interval -5s", "--interval must be positive"),
        ("status --watch --prune-expired", "cannot be used with"),
        ("status a/b --watch", "invalid lock name"),
    ] {
        root.run("a", words).exits(64, "it can't be done").notes(text, "why");
    }
    super::common::put(&root.outside().join("file"), "");
    let mut nowhere = start(&root, &[LOKT, "status", "--watch"]);
    nowhere.env.push(("LOKT_ROOT", root.outside().join("file").display().to_string()));
    let mut terminal = nowhere.terminal(80);
    assert_eq!(terminal.ends(), 69, "{:?}", terminal.screen());
    assert!(terminal.screen().starts_with("error: "), "{:?}", terminal.screen());
}
