//! `lokt ledger append`: every way to give events, every condition, every answer.

use std::fs;
use std::path::Path;

use lokt_testkit::chronicle::Chronicle;
use lokt_testkit::strace::{Call, stopped_after};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::common::ledgers::Book;
use crate::common::{LOKT, mode, put, remove, time};

#[test]
fn an_event_is_appended_and_the_answer_says_where() {
    let book = Book::new();
    let said = book.append(r#"{"type":"note","text":"hello"}"#).exits(0, "it is appended");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("appended event 1\n", ""), "the answer");
    let said =
        book.lokt("a").args(["ledger", "append", "--json", r#"{"type":"note"}"#]).run().exits(0, "it is appended");
    let path = fs::canonicalize(book.path(2)).expect("it is there");
    assert_eq!(
        said.json(),
        json!({
            "status": "appended", "seq": 2, "first": 2, "last": 2, "count": 1, "path": path, "head": 2, "duplicate": false,
        }),
        "the answer in JSON"
    );
    let text = String::from_utf8(book.bytes(1)).expect("an event is text");
    assert!(text.starts_with(r#"{"type":"note","timestamp":""#), "type first, timestamp second: {text}");
    assert!(text.trim_end().ends_with(r#","text":"hello"}"#), "then the members as they were given: {text}");
    time(&book.event(1)["timestamp"]);
    assert_eq!(mode(&book.path(1)), 0o644, "anybody may read it");
    assert_eq!(book.numbers(), [1, 2], "nothing else was written");
    assert!(!book.ledger().join("ledger.lock").exists(), "the lock was given back");
}

#[test]
fn what_another_program_wrote_in_between_is_not_called_ours() {
    lokt_testkit::need!("strace");
    for json in [false, true] {
        let chronicle = Chronicle::new(LOKT, &[], 0);
        let events: Vec<String> = (0..20).map(|nth| format!(r#"{{"type":"note","text":"{nth}"}}"#)).collect();
        put(&chronicle.place.beside("batch.jsonl"), events.join("\n"));
        let args = ["ledger", "append", "--file", "batch.jsonl", if json { "--json" } else { "--chain" }];
        // From sixteen on events get their names by a rename each.
        let tenth = Call { name: "renameat2".into(), nth: 10 };
        let stopped = stopped_after(&chronicle.place, "a", &args, &tenth).expect("it is met in between");
        let is_there = |number: &u32| chronicle.path().join(format!("event-{number:06}.json")).exists();
        let there = (1..=20).take_while(is_there).count();
        assert!((1..18).contains(&there), "some are there and some aren't: {there}");
        put(&chronicle.path().join(format!("event-{:06}.json", there + 2)), r#"{"type":"rude"}"#);
        let ended = stopped.goes_on();
        assert_eq!(ended.code, Some(0), "it goes on behind it: {ended:?}");
        if json {
            let answer: Value = serde_json::from_str(&ended.stdout).expect("an answer is JSON");
            let told = ["first", "last", "count"].map(|member| answer[member].as_u64());
            assert_eq!(told, [Some(1), Some(21), Some(20)], "twenty of them are ours: {answer}");
        } else {
            let text = "appended 20 events from 1 to 21, with 1 of another program among them\n";
            assert_eq!(ended.stdout, text, "twenty of them are ours: {ended:?}");
        }
    }
}

#[test]
fn events_come_from_a_file_or_from_standard_input_and_several_are_one_batch() {
    let book = Book::new();
    let file = book.dir().join("events.jsonl");
    put(&file, "{\"type\":\"a\"}\n\n  \n{\"type\":\"b\"}\r\n{\"type\":\"c\"}");
    let said = book.run("a", "ledger append --file events.jsonl").exits(0, "three events");
    assert_eq!(said.stdout, "appended events 1 to 3\n", "blank lines are none");
    for (first, words) in
        [(4, "ledger append --json"), (7, "ledger append - --json"), (10, "ledger append --file - --json")]
    {
        let said = book.lokt("a").args(words.split(' ')).reads(&file).run().exits(0, "three events");
        let json = said.json();
        assert_eq!(
            (&json["first"], &json["last"], &json["count"]),
            (&json!(first), &json!(first + 2), &json!(3)),
            "{said}"
        );
        assert_eq!((&json["seq"], &json["head"]), (&json!(first), &json!(first + 2)), "{said}");
    }
    let kinds: Vec<_> = (1..=12).map(|seq| book.event(seq)["type"].as_str().expect("a type").to_owned()).collect();
    assert_eq!(kinds.concat(), "abc".repeat(4), "in their order");
}

#[test]
fn a_bad_line_refuses_the_whole_batch_and_is_named() {
    let book = Book::new();
    let file = book.dir().join("events.jsonl");
    for (bad, why) in
        [("{\"type\":}", "line 3"), ("[1]", "line 3"), ("{\"text\":\"x\"}", "line 3"), ("{} {}", "line 3")]
    {
        put(&file, format!("{{\"type\":\"a\"}}\n\n{bad}\n{{\"type\":\"b\"}}\n"));
        let said = book.run("a", "ledger append --file events.jsonl").exits(64, "one of them is none");
        said.notes(why, bad).notes("events.jsonl", "the file is named").notes("hint: nothing was appended", "so it is");
        let said = book.lokt("a").args(["ledger", "append", "--json"]).reads(&file).run().exits(64, "in JSON too");
        assert_eq!(said.failure(), "E_BAD_EVENT", "the code is stable");
        assert!(said.json()["message"].as_str().is_some_and(|text| text.contains(why)), "the line is named{said}");
    }
    assert_eq!(book.numbers(), [0; 0], "nothing was appended");
}

#[test]
fn what_is_no_event_is_refused_as_an_argument_too() {
    let book = Book::new();
    for bad in ["", "{", "[]", "7", "{}", r#"{"type":7}"#, r#"{"type":""}"#, "{\"type\":\"a\"}{\"type\":\"b\"}"] {
        let said = book.append(bad).exits(64, "it is no event");
        assert!(said.stderr.starts_with("error: "), "{bad}: it says so{said}");
        let said = book.lokt("a").args(["ledger", "append", "--json", bad]).run().exits(64, "it is no event");
        assert_eq!(said.failure(), "E_BAD_EVENT", "{bad}{said}");
    }
    let long = format!(r#"{{"type":"a","text":"{}"}}"#, "x".repeat(1 << 20));
    put(&book.dir().join("long"), long);
    book.run("a", "ledger append --file long").exits(64, "longer than an event may be").notes("line 1", "it is named");
    put(&book.dir().join("endless"), "x".repeat(5 << 20));
    book.run("a", "ledger append --file endless").exits(64, "no event is that long").notes("line 1", "it is named");
    assert_eq!(book.numbers(), [0; 0], "nothing was appended");
}

#[test]
fn no_events_or_no_file_is_an_error_that_says_so() {
    let book = Book::new();
    put(&book.dir().join("empty"), "\n \n");
    book.run("a", "ledger append --file empty").exits(64, "there is none").notes("no event in empty", "it says so");
    assert_eq!(book.run("a", "ledger append --file empty --json").exits(64, "there is none").failure(), "E_USAGE");
    book.run("a", "ledger append").exits(64, "there is none").notes("no event in standard input", "it says so");
    book.run("a", "ledger append --file missing").exits(1, "there is no file").notes("missing", "it is named");
    assert_eq!(book.run("a", "ledger append --file missing --json").exits(1, "no file").failure(), "E_IO");
    let said = book.lokt("a").args(["ledger", "append", "{}", "--file", "empty"]).run().exits(64, "which one?");
    said.notes("cannot be used with", "it says so");
    assert_eq!(book.numbers(), [0; 0], "nothing was appended");
}

#[test]
fn somebody_who_sits_at_a_terminal_is_told_how_to_give_events() {
    let book = Book::new();
    let start = lokt_testkit::session::Start {
        words: vec![LOKT, "ledger", "append"],
        env: vec![("LOKT_OWNER", "a".to_owned())],
        dir: book.dir(),
    };
    let mut terminal = start.terminal(200);
    assert_eq!(terminal.ends(), 64, "there is nothing to read: {:?}", terminal.screen());
    assert!(terminal.screen().contains("no event is given"), "{:?}", terminal.screen());
    assert_eq!(book.numbers(), [0; 0], "nothing was appended");
}

#[test]
fn append_if_sequence_loses_with_75_and_both_numbers() {
    let book = Book::with(2);
    let call = |words: &[&str]| book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#]).args(words).run();
    let said = call(&["--expect-seq", "1"]).exits(75, "somebody was faster");
    said.notes("error: expected sequence 1, but the ledger is at 2\n", "the text that is documented");
    let said = call(&["--expect-seq", "3", "--json"]).exits(75, "nobody was that fast");
    assert_eq!(said.failure(), "E_SEQUENCE_MISMATCH");
    assert_eq!((&said.json()["expected"], &said.json()["head"]), (&json!(3), &json!(2)), "both numbers{said}");
    assert_eq!(said.stderr, "", "JSON is all there is");
    call(&["--expect-seq", "2"]).exits(0, "that is the head").says("appended event 3\n", "it is appended");
    assert_eq!(book.numbers(), [1, 2, 3], "only the one that was right");
    let empty = Book::new();
    let first = |book: &Book| book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#, "--expect-seq", "0"]).run();
    first(&empty).exits(0, "0 is an empty ledger's");
    first(&empty)
        .exits(75, "it isn't empty any more")
        .notes("expected sequence 0, but the ledger is at 1", "it says so");
    for bad in ["-1", "x", "9007199254740992"] {
        book.run("a", &format!("ledger append {{}} --expect-seq={bad}")).exits(64, "no number of an event");
    }
}

#[test]
fn the_same_key_twice_is_one_event() {
    let book = Book::with(1);
    let call =
        |words: &[&str]| book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#, "--id", "k 1"]).args(words).run();
    call(&[]).exits(0, "it is new").says("appended event 2\n", "its number");
    book.append(r#"{"type":"y"}"#).exits(0, "another one");
    call(&[]).exits(0, "it is there").says("event 2 has the key \"k 1\" already\n", "its number");
    let json = call(&["--json"]).exits(0, "it is there").json();
    assert_eq!(
        (&json["status"], &json["seq"], &json["duplicate"]),
        (&json!("duplicate"), &json!(2), &json!(true)),
        "{json}"
    );
    assert_eq!(json["head"], 3, "the head is the ledger's");
    assert_eq!(book.numbers(), [1, 2, 3], "nothing was appended again");
    assert_eq!(book.event(2)["idempotency_key"], "k 1", "the key is in the event");
    put(&book.dir().join("two"), "{\"type\":\"a\"}\n{\"type\":\"b\"}\n");
    let said = book.run("a", "ledger append --file two --id k2").exits(64, "one key for two events");
    said.notes("one key, but 2 events", "it says so");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_writes_nothing() {
    let book = Book::with(1);
    let before = book.events();
    let call =
        |words: &[&str]| book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#, "--dry-run"]).args(words).run();
    assert_eq!(call(&[]).exits(0, "it could be").stdout, "would append event 2\n");
    let json = call(&["--json"]).exits(0, "it could be").json();
    assert_eq!(
        (&json["status"], &json["seq"], &json["head"]),
        (&json!("would_append"), &json!(2), &json!(1)),
        "{json}"
    );
    call(&["--expect-seq", "0"]).exits(75, "it couldn't");
    put(&book.dir().join("two"), "{\"type\":\"a\"}\n{\"type\":\"b\"}\n");
    book.run("a", "ledger append --file two --dry-run")
        .exits(0, "they could be")
        .says("would append events 2 to 3\n", "both");
    assert_eq!(book.events(), before, "nothing was written");
    assert!(!book.ledger().join("ledger.lock").exists(), "nor is anything left");
}

#[test]
fn with_the_chain_an_event_carries_a_digest_of_those_before_it() {
    let book = Book::with(1);
    let call = |words: &[&str]| book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#]).args(words).run();
    call(&["--chain"]).exits(0, "it is appended");
    call(&[]).exits(0, "it is appended");
    assert_eq!(book.event(2)["chain"].as_str().map(str::len), Some(64), "64 hex digits");
    assert_eq!(book.event(3)["chain"], json!(null), "only where it was asked for");
}

#[test]
fn a_lock_of_another_program_is_waited_for_as_long_as_asked() {
    let book = Book::with(1);
    fs::create_dir(book.ledger().join("ledger.lock")).expect("a temp directory is writable");
    let call = |words: &[&str]| book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#]).args(words).run();
    let said = call(&["--timeout", "100ms", "--poll", "5ms"]).exits(75, "it is busy");
    said.notes("timeout waiting for lock", "the text that is documented").notes("ledger.lock", "the lock is named");
    let said = call(&["--timeout=100ms", "--json"]).exits(75, "it is busy");
    assert_eq!(said.failure(), "E_BUSY");
    assert!(book.ledger().join("ledger.lock").is_dir(), "it is left alone");
    for bad in ["0", "-1s", "x"] {
        book.run("a", &format!("ledger append {{}} --poll={bad}")).exits(64, "not an interval");
    }
    fs::remove_dir(book.ledger().join("ledger.lock")).expect("it is ours");
    call(&[]).exits(0, "it is free").says("appended event 2\n", "the next number");
}

#[test]
fn in_a_native_ledger_an_unknown_type_travels_in_a_carrier() {
    let book = Book::native();
    book.append(r#"{"type":"note","text":"hello"}"#)
        .exits(0, "it is appended")
        .says("appended event 5\n", "its number");
    let stored = book.event(5);
    assert_eq!(
        (&stored["type"], &stored["node_ids"]),
        (&json!("nodes_released"), &json!([])),
        "a no-op to that program"
    );
    let shown = book.run("a", "ledger show 5 --json").exits(0, "it is there").json();
    assert_eq!((&shown["type"], &shown["text"]), (&json!("note"), &json!("hello")), "what was appended is shown");
    for kind in ["lock_acquired", "lock_released", "lock_reaped"] {
        let said = book
            .append(&format!(r#"{{"type":"{kind}","node_id":"1","owner":"a"}}"#))
            .exits(64, "it would end that program");
        said.notes("lokt claim take", "it says what to do");
    }
}

#[test]
fn where_there_is_no_ledger_it_says_how_to_make_one() {
    let book = Book::none();
    let said = book.append(r#"{"type":"x"}"#).exits(3, "there is no ledger");
    said.notes("there is no ledger in ", "it says so").notes("`lokt ledger init` makes one", "and what to do");
    let said = book.run("a", "ledger append -d sub {} --json").exits(3, "there is no directory either");
    assert_eq!(said.failure(), "E_NOT_FOUND");
    assert!(said.json()["hint"].as_str().is_some_and(|hint| hint.contains("`lokt ledger init -d sub`")), "{said}");
    assert!(!book.ledger().exists(), "nothing was made");
    let book = Book::with(1);
    for dir in ["ledger", "./ledger/"] {
        let said = book.run("a", &format!("ledger head -d {dir}")).exits(3, "that is the ledger itself");
        said.notes("is a ledger, and contains none", "it says so")
            .notes("hint: `-d` takes the directory that contains", "and why");
    }
    let other = Book::none();
    let dir = book.dir().to_str().expect("temp paths are text").to_owned();
    other.lokt("a").args(["ledger", "append", "-d", &dir, r#"{"type":"x"}"#]).run().exits(0, "from anywhere");
    assert_eq!(book.numbers(), [1, 2], "in the ledger that was named");
}

#[test]
fn a_directory_that_cannot_be_written_to_fails_at_once() {
    lokt_testkit::need!(root);
    let book = Book::with(1);
    let script = r#"mount --bind ledger ledger && mount -o remount,bind,ro ledger && exec "$0" ledger append '{"type":"x"}' "$@""#;
    for words in [&[][..], &["--json"]] {
        let call = crate::common::Call::new("unshare").args(["--mount", "sh", "-c", script, LOKT]);
        let said = call.args(words).cwd(book.dir()).run().exits(1, "the system says no");
        assert!(format!("{}{}", said.stdout, said.stderr).contains("Read-only file system"), "it says why{said}");
    }
    assert_eq!(book.numbers(), [1], "nothing was appended");
}

#[test]
fn a_key_that_may_be_in_what_cannot_be_read_is_told() {
    let append = |book: &Book, key: &str, more: &[&str]| {
        book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#, "--id", key]).args(more).run()
    };
    let told = "warning: the key may have been used in what can't be read: event 2 is ";
    for (damage, why) in [(Some(""), "damaged: is empty"), (None, "missing")] {
        let book = Book::with(1);
        append(&book, "k", &[]).exits(0, "it is new");
        book.append(r#"{"type":"y"}"#).exits(0, "one more");
        remove(&book.path(2));
        if let Some(bytes) = damage {
            put(&book.path(2), bytes);
        }
        for more in [&["--dry-run"][..], &["--dry-run", "--json"], &[]] {
            append(&book, "k", more).exits(0, "nobody knows").notes(&format!("{told}{why}\n"), "that is told");
        }
        let said = append(&book, "k", &[]).exits(0, "it is there now");
        assert!(!said.stderr.contains("the key may"), "what was found was found{said}");
        let said = book.append(r#"{"type":"y"}"#).exits(0, "there is no key");
        assert!(!said.stderr.contains("the key may"), "so nothing is said of it{said}");
    }
    let book = Book::with(1);
    book.put(2, &json!({"type": "lock_acquired", "node_id": 7}));
    let said = append(&book, "k", &[]).exits(0, "it is new");
    assert!(!said.stderr.contains("the key may"), "what only makes no sense as a claim was read{said}");
}

/// Nothing but speed depends on the list of keys, whatever somebody puts there.
#[test]
fn an_odd_list_of_keys_costs_neither_memory_nor_truth() {
    type Spoil = fn(&Path);
    let odd: [(&str, Spoil); 4] = [
        ("gigabytes of holes", |path| {
            let file = fs::File::options().append(true).open(path).expect("it is there");
            file.set_len(4 << 30).expect("holes cost nothing");
        }),
        ("a FIFO", |path| {
            remove(path);
            mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).expect("a temp directory is writable");
        }),
        ("a directory", |path| {
            remove(path);
            fs::create_dir_all(path.join("sub")).expect("a temp directory is writable");
        }),
        ("nothing", remove),
    ];
    for (what, spoil) in odd {
        let book = Book::with(1);
        let append = |key: &str| {
            // What is needed for a small ledger is far less than this, and the holes are far more.
            let script = format!("ulimit -v 500000; exec {LOKT} ledger append '{{\"type\":\"x\"}}' --id {key}");
            book.call("sh").args(["-c", &script]).run()
        };
        append("k").exits(0, "it is new");
        spoil(&book.ledger().join(".lokt/ids"));
        append("k").exits(0, what).says("event 2 has the key \"k\" already\n", what);
        append("l").exits(0, what).says("appended event 3\n", what);
        append("l").exits(0, what).says("event 3 has the key \"l\" already\n", what);
        append("k").exits(0, what).says("event 2 has the key \"k\" already\n", what);
    }
}
