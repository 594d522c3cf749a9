//! `lokt audit`: what happened, read back.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::{Command, Stdio};

use lokt_testkit::session::{PATIENCE, Session};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

use super::guard_signals::started;
use crate::common::{Call, LOKT, Root, Said, chmod, from_now, put};

/// An event as a line, without its newline.
fn line(event: &str, name: &str, owner: &str) -> String {
    line_at("2026-01-01T00:00:00Z", event, name, owner)
}

fn line_at(ts: &str, event: &str, name: &str, owner: &str) -> String {
    format!(r#"{{"ts":"{ts}","event":"{event}","name":"{name}","owner":"{owner}","host":"h","pid":7}}"#)
}

/// A root with `lines` in its log.
fn root_with(lines: &[String]) -> Root {
    let root = Root::new();
    root.put("audit.log", lines.join("\n") + "\n");
    root
}

/// The names in the events that were shown, in order.
fn names(said: &Said) -> Vec<String> {
    let events = said.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    events.map(|event| event["name"].as_str().expect("an event has a name").to_owned()).collect()
}

// --- listing

#[test]
fn off_a_terminal_it_shows_the_log_byte_for_byte() {
    let root = Root::new();
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    root.run("b", "lock x").exits(2, "it is held");
    root.run("a", "unlock x").exits(0, "it is ours");
    let log = fs::read_to_string(root.path().join("audit.log")).expect("it is there");
    for words in ["audit", "audit --json", "audit --since 1h"] {
        let said = root.run("c", words).exits(0, "anybody may look");
        assert_eq!(said.stdout, log, "{words}");
        assert_eq!(said.stderr, "", "{words}: there is nothing to complain about");
    }
}

#[test]
fn rotated_logs_come_first_and_the_oldest_before_them() {
    let root = root_with(&[line("acquire", "n3", "a")]);
    for (file, name) in [("audit.log.1", "n2"), ("audit.log.2", "n1"), ("audit.log.9", "n0")] {
        root.put(file, format!("{}\n", line("acquire", name, "a")));
    }
    root.put("audit.log.10", format!("{}\n", line("acquire", "never", "a")));
    for words in ["audit", "audit --json"] {
        assert_eq!(names(&root.run("a", words).exits(0, "anybody may look")), ["n0", "n1", "n2", "n3"], "{words}");
    }
}

#[test]
fn since_takes_a_duration_or_a_time() {
    let at = |secs| from_now(secs).to_string();
    let root = root_with(&[
        line_at(&at(-7200), "acquire", "old", "a"),
        line_at(&at(-60), "acquire", "new", "a"),
        line_at("2026-01-01T05:00:00+05:00", "acquire", "newyear", "a"),
    ]);
    for (since, shown) in [
        ("1h", vec!["new"]),
        ("3h", vec!["old", "new"]),
        ("3600", vec!["new"]),
        ("0", vec![]),
        ("2026-01-01T00:00:00Z", vec!["old", "new", "newyear"]),
        ("2026-01-01T00:00:01Z", vec!["old", "new"]),
        ("2026-01-01T01:00:00+01:00", vec!["old", "new", "newyear"]),
    ] {
        let said = root.run("a", &format!("audit --since {since} --json")).exits(0, "it is a moment");
        assert_eq!(names(&said), shown, "since {since}");
    }
    for (since, why) in [
        ("yesterday", "neither a duration (90s, 5m, 1h30m, 2d) nor a time (2026-11-16T08:00:00Z)"),
        ("2026-01-01", "neither a duration"),
        ("2026-01-01T00:00:00", "neither a duration"),
        ("-1h", "a duration cannot be negative"),
        ("5x", "neither a duration"),
    ] {
        root.run("a", &format!("audit --since {since}")).exits(64, "it is no moment").notes(why, since);
        let said = root.run("a", &format!("audit --since {since} --json")).exits(64, "it is no moment");
        assert_eq!(said.failure(), "E_USAGE", "{since}");
    }
}

#[test]
fn since_and_tail_exclude_each_other() {
    let root = Root::used();
    let text = "--since and --tail are mutually exclusive";
    root.run("a", "audit --since 1h --tail").exits(64, "which one?").notes(text, "it says so");
    let said = root.run("a", "audit --tail --since 1h --json").exits(64, "which one?");
    assert_eq!((said.failure().as_str(), said.json()["message"].as_str()), ("E_USAGE", Some(text)));
}

#[test]
fn filters_may_be_given_several_times_and_combined() {
    let root = root_with(&[
        line("acquire", "x", "alice"),
        line("release", "y", "bob"),
        line("auto-prune", "z", "carol sue"),
        r#"{"ts":"2026-01-01T00:00:00Z","event":"force-break","name":"v","owner":"eve","extra":{"pruned_owner":"bob"}}"#
            .to_owned(),
    ]);
    for (words, shown) in [
        (vec!["--name", "x"], vec!["x"]),
        (vec!["--name", "x", "--name", "y"], vec!["x", "y"]),
        (vec!["--name", "nobody"], vec![]),
        (vec!["--owner", "bob"], vec!["y"]),
        (vec!["--owner", "carol sue", "--owner=alice"], vec!["x", "z"]),
        (vec!["--event", "acquire", "--event", "auto-prune"], vec!["x", "z"]),
        (vec!["--event", "release", "--owner", "alice"], vec![]),
        (vec!["--event", "release", "--owner", "bob", "--name", "y"], vec!["y"]),
    ] {
        for json in [&[][..], &["--json"][..]] {
            let said = root.lokt("a").args(["audit"]).args(&words).args(json).run().exits(0, "anybody may look");
            assert_eq!(names(&said), shown, "{words:?}");
        }
    }
}

#[test]
fn an_unknown_event_is_refused_with_the_list_and_a_bad_name_as_everywhere() {
    let root = Root::used();
    let said = root.run("a", "audit --event acquired").exits(64, "there is no such event");
    for event in ["acquire", "corrupt-break", "force-unfreeze", "token-rebase", "publish"] {
        assert!(said.stderr.contains(event), "{event} is in the list{said}");
        root.run("a", &format!("audit --event {event}")).exits(0, "a known event");
    }
    let said = root.run("a", "audit --event acquired --json").exits(64, "there is no such event");
    assert_eq!(said.failure(), "E_USAGE");
    assert!(said.json()["message"].as_str().is_some_and(|text| text.contains("freeze-deny")), "the list too{said}");
    root.run("a", "audit --name ../x").exits(64, "a bad name").notes("error: invalid lock name: ", "it says so");
    let said = root.run("a", "audit --name ../x --json").exits(64, "a bad name");
    assert_eq!(said.failure(), "E_BAD_NAME");
    root.run("a", "audit x").exits(64, "names are given with --name");
}

#[test]
fn without_a_log_or_a_root_nothing_is_shown_and_nothing_made() {
    let root = Root::new();
    for words in ["audit", "audit --json", "audit --since 1h --name x"] {
        let said = root.run("a", words).exits(0, "nothing happened");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "{words}");
        assert!(!root.path().exists(), "{words}: whoever looks makes nothing");
    }
    fs::create_dir(root.path()).expect("a temp directory is writable");
    let said = root.run("a", "audit").exits(0, "nothing happened");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""));
    assert_eq!(root.snapshot().len(), 1, "whoever looks makes nothing");
}

#[test]
fn what_is_no_event_is_skipped_and_counted() {
    let root = root_with(&[
        line("acquire", "n0", "a"),
        String::new(),
        "not JSON".to_owned(),
        "  ".to_owned(),
        "{}".to_owned(),
        "[1]".to_owned(),
        line("acquire", "n1", "a"),
    ]);
    let said = root.run("a", "audit").exits(0, "the rest is fine");
    assert_eq!(names(&said), ["n0", "n1"]);
    let log = root.path().join("audit.log");
    let text = format!("warning: 3 lines that are no events were skipped in {} and its older files\n", log.display());
    assert_eq!(said.stderr, text, "blank lines are nobody's business");
    let whole = fs::read(&log).expect("it is there");
    put(&log, [whole.as_slice(), line("acquire", "n2", "a").as_bytes()].concat());
    assert_eq!(names(&root.run("a", "audit --json")), ["n0", "n1", "n2"], "the last one needs no newline");
    put(&log, [whole.as_slice(), &line("acquire", "n2", "a").as_bytes()[..40], b"\xff\xfe"].concat());
    let said = root.run("a", "audit --json").exits(0, "the rest is fine");
    assert_eq!(names(&said), ["n0", "n1"], "what is torn is no event");
    said.notes("warning: 4 lines", "and is counted");
}

#[test]
fn a_line_of_seventy_kilobytes_is_shown_and_one_beyond_a_mebibyte_is_named() {
    let owner = "o".repeat(70_000);
    let root = Root::new();
    root.run(&owner, "lock big").exits(0, "it is free");
    let before = fs::metadata(root.path().join("audit.log")).expect("it is there").len();
    let log = fs::read_to_string(root.path().join("audit.log")).expect("it is there");
    let monster = line("acquire", "monster", &"m".repeat(1 << 20));
    put(&root.path().join("audit.log"), format!("{log}{monster}\n{}\n", line("acquire", "after", "a")));
    let said = root.run("a", "audit").exits(0, "the rest is fine");
    assert_eq!(names(&said), ["big", "after"]);
    assert!(said.stdout.starts_with(&log), "nothing is cut");
    let path = root.path().join("audit.log");
    let text = format!("{}: the line at byte {before} is longer than 1048576 bytes", path.display());
    said.notes(&text, "it says where");
    let said = root.lokt("a").args(["audit", "--owner", &owner, "--json"]).run().exits(0, "it is an owner");
    assert_eq!(names(&said), ["big"]);
}

#[test]
fn unknown_members_survive_and_nothing_reaches_the_terminal_raw() {
    let hostile = "{\"ts\":\"2026-01-01T00:00:00Z\",\t\"event\":\"from-the-future\" ,\"name\":\"x\",\
        \"owner\":\"a\u{7f}\u{9b}31m\u{202e}Zoë\\u001b[2J\",\"new\":{\"deep\":[1.50,null]}}\r";
    let root = root_with(&[hostile.to_owned()]);
    for words in ["audit", "audit --json"] {
        // That no control character is printed is checked for every call.
        let said = root.run("a", words).exits(0, "anybody may look");
        assert!(!said.stdout.contains('\u{202e}'), "nothing turns the text around{said}");
        assert!(said.stdout.contains("\"new\":{\"deep\":[1.50,null]}"), "what nobody knows stays as it is{said}");
        let shown: Value = serde_json::from_str(&said.stdout).expect("it is JSON");
        let stored: Value = serde_json::from_str(hostile.trim_end()).expect("it is JSON");
        assert_eq!(shown, stored, "it means the same");
    }
}

#[test]
fn a_log_that_is_no_file_is_an_error_that_names_it_and_no_hang() {
    for file in ["audit.log", "audit.log.3"] {
        for kind in ["a directory", "a FIFO", "a symbolic link"] {
            let root = Root::new();
            fs::create_dir(root.path()).expect("a temp directory is writable");
            let path = root.path().join(file);
            match kind {
                "a directory" => fs::create_dir(&path).expect("a temp directory is writable"),
                "a FIFO" => mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a temp directory is writable"),
                _ => symlink("/etc/passwd", &path).expect("a temp directory is writable"),
            }
            let text = format!("{} is {kind}, not an audit log", path.display());
            for words in ["audit", "audit --tail"] {
                root.run("a", words).exits(65, "it can't be read").notes(&text, words);
                let said = root.run("a", &format!("{words} --json")).exits(65, "it can't be read");
                assert_eq!(said.failure(), "E_NOT_A_RECORD", "{words}: {file} is {kind}");
            }
        }
    }
}

#[test]
fn a_log_that_may_not_be_read_is_an_error_that_names_it() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as another user: run it as root, as CI does");
    let root = root_with(&[line("acquire", "x", "a")]);
    for path in [root.outside(), &root.path()] {
        chmod(path, 0o755);
    }
    chown(root.path().join("audit.log"), Some(0), Some(0)).expect("root may");
    chmod(&root.path().join("audit.log"), 0o600);
    let copy = root.outside().join("lokt");
    Call::new("install").args(["-m", "755", LOKT]).args([&copy]).run().exits(0, "a temp directory is writable");
    for tail in [&[][..], &["--tail"][..]] {
        let call = Call::new("setpriv").args(["--reuid=20001", "--regid=20001", "--clear-groups", "--"]).args([&copy]);
        let said = call.args(["audit", "--json"]).args(tail).env("LOKT_ROOT", root.path()).cwd(root.outside()).run();
        assert_eq!(said.code, 1, "the system said no{said}");
        assert_eq!(said.failure(), "E_IO");
        let message = said.json()["message"].to_string();
        assert!(message.contains("audit.log: Permission denied"), "it names the path{said}");
    }
}

#[test]
fn whoever_reads_does_not_wait_for_the_mutex() {
    let root = Root::used();
    let directory = fs::File::open(root.path()).expect("it is there");
    flock(&directory, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    let said = root.run("a", "audit").exits(0, "reading needs no mutex");
    assert_eq!(names(&said), ["setup", "setup"]);
    flock(&directory, FlockOperation::Unlock).expect("it is ours");
}

#[test]
fn a_long_log_is_never_in_memory_at_once() {
    let root = Root::new();
    let many = format!("{}\n", line("acquire", "x", &"o".repeat(900))).repeat(16_000);
    for file in ["audit.log.2", "audit.log.1", "audit.log"] {
        root.put(file, &many);
    }
    let script = "ulimit -v 24000; \"$0\" version > /dev/null || exit 9; \"$0\" audit | tail -c 2000";
    let said = Call::new("sh").args(["-c", script, LOKT]).env("LOKT_ROOT", root.path()).run();
    assert_eq!(said.stdout.lines().last(), Some(line("acquire", "x", &"o".repeat(900)).as_str()), "to the end{said}");
    assert_eq!(said.stderr, "", "{} MB fit 24", 3 * many.len() / 1_000_000);
}

#[test]
fn an_answer_that_is_lost_is_an_error_and_a_reader_that_left_is_none() {
    let root = root_with(&vec![line("acquire", "x", "a"); 5_000]);
    let run = |script: &str| Call::new("sh").args(["-c", script, LOKT]).env("LOKT_ROOT", root.path()).run();
    let said = run("\"$0\" audit > /dev/full").exits(1, "half a log is no answer");
    said.notes("error: the answer could not be written to stdout: No space left on device", "it says so");
    let said = run("{ \"$0\" audit; echo $? >&2; } | head -n 1").exits(0, "head has what it wants");
    assert_eq!(said.stderr, "0\n", "whoever closed it doesn't want it");
}

// --- on a terminal

/// What a terminal of `columns` shows after `lokt audit WORDS`, line by line.
fn on_terminal(root: &Root, columns: u16, words: &[&str]) -> Vec<String> {
    // The width is set after the start.
    let columns_text = columns.to_string();
    let script = "stty cols \"$1\"; shift; exec \"$@\"";
    let words = [&["sh", "-c", script, "sh", columns_text.as_str(), LOKT, "audit"], words].concat();
    let mut terminal = started(root, "alice", &words).terminal(columns);
    assert_eq!(terminal.ends(), 0, "{:?}", terminal.screen());
    terminal.screen().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn on_a_terminal_it_is_a_table_that_fits() {
    let root = Root::new();
    root.run("alice", "lock build --ttl 5m").exits(0, "it is free");
    root.run("bob", "lock build").exits(2, "it is held");
    root.run("bob", "unlock build --force").exits(0, "force takes it");
    root.run("a-rather-long-owner-name-that-nobody-has", "lock a-rather-long-lock-name-for-a-narrow-table")
        .exits(0, "free");
    let wide = on_terminal(&root, 220, &[]);
    assert!(wide[0].starts_with("TIME                  EVENT           NAME "), "{wide:?}");
    assert_eq!(wide.len(), 5, "a heading and four events: {wide:?}");
    for (row, parts) in wide[1..].iter().zip([
        &["Z  acquire         build ", "alice@", "token 1, ttl 5m0s"][..],
        &["Z  deny            build ", "bob@", "held by alice@"],
        &["Z  force-break     build ", "bob@", "of alice@", "token 1"],
        &["Z  acquire         a-rather-long-lock-name… ", "a-rather-long-owner-name-that-nobody-", "token 2"],
    ]) {
        for part in parts {
            assert!(row.contains(part), "{part:?} is in {row:?}");
        }
    }
    for columns in [40, 80, 120] {
        let rows = on_terminal(&root, columns, &[]);
        assert_eq!(rows.len(), 5, "{columns} columns, one row each: {rows:?}");
        for row in rows {
            assert!(row.chars().count() <= usize::from(columns), "{columns} columns are enough for {row:?}");
        }
    }
    assert_eq!(on_terminal(&root, 80, &["--name", "nobody"]), [""; 0], "no row, no heading");
    let log = fs::read_to_string(root.path().join("audit.log")).expect("it is there");
    assert_eq!(on_terminal(&root, 80, &["--json"]), log.lines().collect::<Vec<_>>(), "--json is JSON anywhere");
}

#[test]
fn no_text_of_an_event_moves_the_cursor() {
    let hostile = r#"{"ts":"2026-01-01T00:00:00Z","event":"a\nb","name":"\u001b[2J","owner":"o\u009b1m\u202e","host":"\u0007","pid":7,"agent_id":"\t","extra":{"reason":"\r\n\u001b]0;x","aside":"\u007f"}}"#;
    let root = root_with(&[hostile.to_owned()]);
    let rows = on_terminal(&root, 250, &[]);
    assert_eq!(rows.len(), 2, "one event, one row: {rows:?}");
    let row = rows[1].trim_end_matches('\r');
    assert!(row.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{row:?}");
    assert!(row.contains("a\\nb") && row.contains("\\u{1b}[2J"), "it is shown as what it is: {row:?}");
}

// --- following

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
