//! `lokt audit`: what happened, read back.

use std::fs;
use std::os::unix::fs::{chown, symlink};

use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use serde_json::Value;

use super::guard_signals::started;
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, LOKT, Root, Said, chmod, from_now, put};

/// An event as a line, without its newline.
pub(crate) fn line(event: &str, name: &str, owner: &str) -> String {
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
    lokt_testkit::need!(root);
    let root = root_with(&[line("acquire", "x", "a")]);
    for path in [root.outside(), &root.path()] {
        chmod(path, 0o755);
    }
    chown(root.path().join("audit.log"), Some(0), Some(0)).expect("root may");
    chmod(&root.path().join("audit.log"), 0o600);
    let copy = copy_of_lokt(root.outside());
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
    let many = format!("{}\n", line("acquire", "x", &"o".repeat(900))).repeat(6_000);
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
fn the_table_shows_the_wait_the_program_and_how_it_ended() {
    let root = Root::new();
    let event = |event: &str, extra: &str| {
        let head = "{\"ts\":\"2026-11-16T08:00:00Z\",\"event\":";
        format!("{head}\"{event}\",\"name\":\"x\",\"owner\":\"a\",\"host\":\"h\",\"pid\":1,\"extra\":{extra}}}\n")
    };
    let lines = [
        event("acquire", "{\"program\":\"make\",\"queue_position\":3,\"waited_ms\":90500}"),
        event("release", "{\"exit_code\":2,\"held_ms\":250,\"part\":\"process\"}"),
        event("release", "{\"held_ms\":61000,\"part\":\"process\",\"signal\":9}"),
    ];
    root.put("audit.log", lines.concat());
    let shown = on_terminal(&root, 200, &[]).join("\n");
    for text in [
        "runs make, waited 1m30s, from place 3 in line",
        "process part, exit code 2, held 250ms",
        "process part, ended by signal 9, held 1m1s",
    ] {
        assert!(shown.contains(text), "{text} is in\n{shown}");
    }
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
