//! `lokt ledger show`, `head` and `export`: what is there, also beside what can't be read.

use std::fs;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use crate::common::ledgers::{Book, objects, seqs};
use crate::common::{mode, put, remove};

#[test]
fn show_has_a_line_per_event() {
    let book = Book::with(3);
    let said = book.run("a", "ledger show --json").exits(0, "anybody may look");
    assert_eq!(seqs(&said), [1, 2, 3], "oldest first");
    assert!(said.stdout.starts_with(r#"{"seq":1,"type":"note","timestamp":""#), "seq first, then as stored{said}");
    assert_eq!(objects(&said)[1]["n"], 2, "the members");
    let at = |seq| book.event(seq)["timestamp"].as_str().expect("a time").to_owned();
    let said = book.run("a", "ledger show").exits(0, "anybody may look");
    let expected = [1, 2, 3].map(|n| format!("{n}  {}  note  {{\"n\":{n}}}\n", at(n))).concat();
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (expected.as_str(), ""), "in text");
    let raw = [1, 2, 3].map(|n| format!("{}\n", String::from_utf8(book.bytes(n)).expect("text").trim_end())).concat();
    assert_eq!(book.run("a", "ledger show --raw").exits(0, "anybody may look").stdout, raw, "as stored");
    assert_eq!(book.run("a", "ledger show --raw --json").exits(0, "anybody may look").stdout, raw, "that is JSON too");
    let empty = Book::new();
    let said = empty.run("a", "ledger show").exits(0, "there is nothing");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "nothing to show");
}

#[test]
fn show_shows_what_is_asked_for() {
    let book = Book::with(3);
    book.append(r#"{"type":"other"}"#).exits(0, "it is appended");
    book.append(r#"{"type":"third"}"#).exits(0, "it is appended");
    for (words, expected) in [
        ("2", vec![2]),
        ("--after 3", vec![4, 5]),
        ("--after 0", vec![1, 2, 3, 4, 5]),
        ("--after 5", vec![]),
        ("--after 500", vec![]),
        ("--type note", vec![1, 2, 3]),
        ("--type other --type third", vec![4, 5]),
        ("--type nothing", vec![]),
        ("--reverse", vec![5, 4, 3, 2, 1]),
        ("--limit 2", vec![1, 2]),
        ("--limit 0", vec![]),
        ("--reverse --limit 2", vec![5, 4]),
        ("--reverse --after 2 --type note", vec![3]),
        ("--type note --limit 1 --after 1", vec![2]),
    ] {
        let said = book.run("a", &format!("ledger show {words} --json")).exits(0, words);
        assert_eq!(seqs(&said), expected, "{words}");
        let text = book.run("a", &format!("ledger show {words}")).exits(0, words);
        assert_eq!(text.stdout.lines().count(), expected.len(), "{words}{text}");
    }
    for words in ["0", "x", "-1", "2 --after 1", "2 --reverse", "1 2", "--after x", "--limit x"] {
        book.run("a", &format!("ledger show {words}")).exits(64, words);
    }
    let said = book.run("a", "ledger show 6").exits(3, "there is none");
    said.notes("there is no event 6: ", "it says so").notes("event-000006.json", "the file is named");
    assert_eq!(book.run("a", "ledger show 6 --json").exits(3, "there is none").failure(), "E_NOT_FOUND");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let book = Book::with(6);
    put(&book.path(2), "{\"type\":");
    remove(&book.path(4));
    remove(&book.path(5));
    mkfifoat(CWD, book.path(5), Mode::from_raw_mode(0o644)).expect("a temp directory is writable");
    let said = book.run("a", "ledger show").exits(65, "not everything can be shown");
    assert_eq!(said.stdout.lines().map(|line| &line[..1]).collect::<String>(), "136", "the rest is shown{said}");
    let lines: Vec<&str> = said.stderr.lines().filter(|line| line.starts_with("error: event ")).collect();
    assert_eq!(lines.len(), 3, "one line for each{said}");
    for (line, file) in lines.iter().zip(["event-000002.json", "event-000004.json", "event-000005.json"]) {
        assert!(line.contains(file), "{line} names {file}");
    }
    let said = book.run("a", "ledger show --json").exits(65, "not everything can be shown");
    assert_eq!(seqs(&said), [1, 2, 3, 4, 5, 6], "in their order");
    for object in objects(&said).iter().filter(|object| [2, 4, 5].contains(&object["seq"].as_u64().expect("a number")))
    {
        assert_eq!((&object["status"], &object["code"]), (&json!("damaged"), &json!("E_CORRUPT")), "{object}");
        let file = format!("event-{:06}.json", object["seq"].as_u64().expect("a number"));
        assert!(object["path"].as_str().is_some_and(|path| path.ends_with(&file)), "{object}");
        assert!(object["message"].as_str().is_some_and(|text| text.contains(&file)), "{object}");
    }
    book.run("a", "ledger show 2").exits(65, "it can't be shown").notes("event-000002.json", "it is named");
    book.run("a", "ledger show 5").exits(65, "it can't be shown, and nobody hangs").notes("event-000005.json", "named");
    book.run("a", "ledger show 4").exits(3, "there is none");
    book.run("a", "ledger show --after 5").exits(0, "that one is whole");
}

#[test]
fn a_hole_of_any_size_is_one_line_and_no_wait() {
    let book = Book::with(2);
    put(&book.ledger().join("event-9007199254740991.json"), r#"{"type":"last","timestamp":"2026-01-01T00:00:00Z"}"#);
    for words in ["ledger show", "ledger show --reverse", "ledger export"] {
        let said = book.run("a", words).exits(65, "there is a hole");
        said.notes("events 3 to 9007199254740990 are missing", words);
    }
    let said = book.run("a", "ledger show --json").exits(65, "there is a hole");
    assert_eq!(seqs(&said), [1, 2, 3, 9_007_199_254_740_991], "three events and a hole");
    let said = book.run("a", "ledger show --json --reverse").exits(65, "there is a hole");
    assert_eq!(seqs(&said), [9_007_199_254_740_991, 3, 2, 1], "the other way round");
    assert_eq!(
        seqs(&book.run("a", "ledger show --json --after 7 --limit 1").exits(65, "in it")),
        [8, 9_007_199_254_740_991]
    );
}

#[test]
fn files_of_the_other_style_are_not_shown() {
    let book = Book::with(1);
    for stray in ["000002.json", "event-2.json", "event-0000002.json", "event-000000.json", "9223372036854775807.json"]
    {
        put(&book.ledger().join(stray), r#"{"type":"stray","timestamp":"2026-01-01T00:00:00Z"}"#);
    }
    assert_eq!(seqs(&book.run("a", "ledger show --json").exits(0, "they are none")), [1], "one event");
    assert_eq!(book.run("a", "ledger head").exits(0, "they don't count").stdout, "1\n");
    book.append(r#"{"type":"x"}"#).exits(0, "they are in nobody's way").says("appended event 2\n", "the next number");
}

#[test]
fn head_is_the_number_of_the_last_event() {
    let book = Book::new();
    assert_eq!(book.run("a", "ledger head").exits(0, "it is empty").stdout, "0\n");
    book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
    assert_eq!(book.run("a", "ledger head").exits(0, "one event").stdout, "1\n");
    let path = fs::canonicalize(book.ledger()).expect("it is there");
    let json = book.run("a", "ledger head --json").exits(0, "one event").json();
    assert_eq!(json, json!({"head": 1, "style": "documented", "chain": false, "path": path}), "in JSON");
    let json = Book::native().run("a", "ledger head --json").exits(0, "four events").json();
    assert_eq!((&json["head"], &json["style"]), (&json!(4), &json!("native")), "{json}");
    let book = Book::new();
    put(&book.ledger().join("event-999999.json"), r#"{"type":"x","timestamp":"2026-01-01T00:00:00Z"}"#);
    book.append(r#"{"type":"y"}"#).exits(0, "numbers grow").says("appended event 1000000\n", "past six digits");
    assert!(book.ledger().join("event-1000000.json").exists(), "so do names");
}

#[test]
fn export_writes_everything_as_lines_or_as_an_array() {
    let book = Book::with(3);
    let lines = book.run("a", "ledger show --json").stdout;
    for words in ["ledger export", "ledger export --format jsonl", "ledger export --json"] {
        assert_eq!(book.run("a", words).exits(0, words).stdout, lines, "{words}");
    }
    let json = book.run("a", "ledger export --format json").exits(0, "an array").json();
    assert_eq!(json.as_array().map(Vec::len), Some(3), "{json}");
    assert_eq!(json[2]["n"], 3, "in their order");
    assert_eq!(seqs(&book.run("a", "ledger export --after 1").exits(0, "the rest")), [2, 3]);
    assert_eq!(Book::new().run("a", "ledger export --format json").exits(0, "nothing").json(), json!([]));
    assert_eq!(Book::new().run("a", "ledger export").exits(0, "nothing").stdout, "");
    assert_eq!(
        book.run("a", "ledger export --format json --after 2").exits(0, "one").json().as_array().map(Vec::len),
        Some(1)
    );
    book.run("a", "ledger export --format csv").exits(64, "not that");
}

#[test]
fn export_replaces_a_file_in_one_step() {
    let book = Book::with(2);
    let file = book.dir().join("all.jsonl");
    let said = book.run("a", "ledger export --output all.jsonl").exits(0, "it is made");
    assert_eq!(said.stdout, "exported 2 events to all.jsonl\n");
    let lines = book.run("a", "ledger show --json").stdout;
    assert_eq!(fs::read_to_string(&file).expect("it is there"), lines, "all of it");
    assert_eq!(mode(&file), 0o644, "anybody may read it");
    crate::common::chmod(&file, 0o600);
    let said = book.run("a", "ledger export --output all.jsonl --format json --json").exits(0, "it is replaced");
    let text = fs::read_to_string(&file).expect("it is there");
    let expected = json!({"status": "exported", "path": "all.jsonl", "events": 2, "bytes": text.len(), "damaged": 0});
    assert_eq!(said.json(), expected, "the answer");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON").as_array().map(Vec::len), Some(2));
    assert_eq!(mode(&file), 0o600, "permissions stay");
    put(&book.path(1), "garbage");
    let said = book.run("a", "ledger export --output all.jsonl").exits(65, "one can't be read");
    said.notes("event-000001.json", "it is named").says("exported 1 events", "the rest is written");
    assert_eq!(fs::read_to_string(&file).expect("it is there").lines().count(), 1, "the rest");
    let before = fs::read(&file).expect("it is there");
    for (output, named) in [("missing/x", "missing/x"), ("ledger", "ledger"), ("all.jsonl/x", "all.jsonl/x")] {
        book.run("a", &format!("ledger export --output {output}"))
            .exits(1, "it can't be written")
            .notes(named, "named");
    }
    assert_eq!(fs::read(&file).expect("it is there"), before, "what was there is unchanged");
    let left: Vec<_> = crate::common::names_in(book.dir());
    assert_eq!(left.len(), 2, "nothing else is left: {left:?}");
}

#[test]
fn nothing_in_an_event_moves_the_cursor() {
    let book = Book::new();
    put(
        &book.path(1),
        "{\"type\":\"a\\u001b[2J\\n\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"x\\u009b\":\"\\u202e\u{9b}1m\u{202e}\"}",
    );
    for words in ["ledger show", "ledger show --json", "ledger show --raw", "ledger export"] {
        let said = book.run("a", words).exits(0, words);
        assert_eq!(said.stdout.lines().count(), 1, "{words}: one event, one line{said}");
        assert!(!said.stdout.contains('\u{202e}'), "{words}: nothing turns text around{said}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let book = Book::with(3);
    let call = crate::common::Call::new("bash").args([
        "-c",
        "set -o pipefail; \"$0\" ledger show | head -1",
        crate::common::LOKT,
    ]);
    let said = call.cwd(book.dir()).run().exits(0, "it had enough");
    assert_eq!(said.stdout.lines().count(), 1, "one line{said}");
}

#[test]
fn long_work_shows_how_far_it_has_come_on_a_terminal() {
    let book = Book::new();
    for seq in 1..=6 {
        let text = "x".repeat(100_000);
        put(&book.path(seq), format!(r#"{{"type":"long","timestamp":"2026-01-01T00:00:00Z","text":"{text}"}}"#));
    }
    // The reader comes late: what was written by then fills the pipe, and takes longer than a second.
    let script = "\"$0\" ledger export | { sleep 4; cat > /dev/null; }";
    let start = lokt_testkit::session::Start {
        words: vec!["bash", "-c", script, crate::common::LOKT],
        env: vec![("TERM", "xterm".to_owned())],
        dir: book.dir(),
    };
    let mut terminal = start.terminal(80);
    assert_eq!(terminal.ends(), 0, "{:?}", terminal.screen());
    let screen = terminal.screen();
    assert!(screen.contains("exporting: ") && screen.contains(" of 6 ("), "it says how far it is: {screen:?}");
    assert!(screen.ends_with("\r\u{1b}[K"), "and takes the line away when it is done: {screen:?}");
    let quick = lokt_testkit::session::Start {
        words: vec!["bash", "-c", "\"$0\" ledger export > /dev/null", crate::common::LOKT],
        ..start
    };
    let mut terminal = quick.terminal(80);
    assert_eq!(terminal.ends(), 0, "{:?}", terminal.screen());
    assert_eq!(terminal.screen(), "", "what is over at once says nothing");
}

/// Other programs read ten thousand levels, half a surrogate pair, and numbers beyond all numbers.
#[test]
fn what_other_programs_can_read_is_shown_however_odd_it_is() {
    let book = Book::new();
    let time = "2026-11-16T05:00:00Z";
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(9_990), close.repeat(9_990));
    let odd = [
        ("lists", deep("[", "]")),
        ("objects", deep("{\"a\":", "}").replace(":}", ":1}")),
        ("half", r#""\ud800""#.to_owned()),
        ("far", "1e999999".to_owned()),
    ];
    for (seq, (name, value)) in (1..).zip(&odd) {
        put(&book.path(seq), format!(r#"{{"type":"x","timestamp":"{time}","{name}":{value}}}"#));
    }
    book.run("a", "ledger verify").exits(0, "nothing is wrong with them");
    let said = book.run("a", "ledger show").exits(0, "they are shown");
    let text = |(seq, (name, value)): (u64, &(&str, String))| format!("{seq}  {time}  x  {{\"{name}\":{value}}}\n");
    assert_eq!(said.stdout, (1..).zip(&odd).map(text).collect::<String>(), "as they are stored");
    let json = |(seq, (name, value)): (u64, &(&str, String))| {
        format!("{{\"seq\":{seq},\"type\":\"x\",\"timestamp\":\"{time}\",\"{name}\":{value}}}\n")
    };
    let lines: String = (1..).zip(&odd).map(json).collect();
    for command in ["ledger show --json", "ledger export"] {
        assert_eq!(book.run("a", command).exits(0, "they are shown").stdout, lines, "{command}");
    }
    let said = book.run("a", "ledger export --format json").exits(0, "they are shown");
    assert!(said.stdout.contains(&odd[0].1), "in an array, too");
}
