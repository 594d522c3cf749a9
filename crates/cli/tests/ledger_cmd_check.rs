//! `lokt ledger init`, `verify`, `checkpoint` and `doctor`.

use std::fs;

use serde_json::{Value, json};

use crate::common::ledgers::Book;
use crate::common::{Said, from_now, names_in, put, remove};

#[test]
fn init_makes_a_ledger_once() {
    let book = Book::none();
    let said = book.run("a", "ledger init").exits(0, "there was none");
    let path = fs::canonicalize(book.ledger()).expect("it is there");
    assert_eq!(said.stdout, format!("made documented ledger {}\n", path.display()), "the answer");
    let said = book.run("a", "ledger init").exits(0, "once is enough");
    assert_eq!(said.stdout, format!("already there: documented ledger {}\n", path.display()), "the answer");
    let expected = json!({"status": "exists", "path": path, "style": "documented", "chain": false});
    assert_eq!(book.run("a", "ledger init --json").exits(0, "it is there").json(), expected);
    assert_eq!(book.run("a", "ledger init --style documented --json").exits(0, "as it is").json(), expected);
    assert_eq!(book.numbers(), [0; 0], "an empty ledger has no events");
    let dir = book.dir().join("sub");
    fs::create_dir(&dir).expect("a temp directory is writable");
    let json = book.run("a", "ledger init --style native --chain --json -d sub").exits(0, "a new one").json();
    assert_eq!((&json["status"], &json["style"], &json["chain"]), (&json!("created"), &json!("native"), &json!(true)));
    assert!(dir.join("ledger").is_dir(), "it is where it should be");
    book.run("a", "ledger append -d sub {\"type\":\"x\"}").exits(0, "it works");
    assert!(dir.join("ledger/000001.json").exists(), "in its style");
}

#[test]
fn a_ledger_keeps_its_style() {
    let book = Book::with(1);
    let said = book.run("a", "ledger init --style native").exits(64, "it has one");
    said.notes("is a ledger of the documented style", "it says so");
    assert_eq!(book.run("a", "ledger init --style native --json").exits(64, "it has one").failure(), "E_USAGE");
    book.run("a", "ledger init --style other")
        .exits(64, "there is no such style")
        .notes("documented, native", "those that are");
    book.append(r#"{"type":"x"}"#).exits(0, "it works on");
    assert_eq!(book.numbers(), [1, 2], "in its style");
    let native = Book::native();
    native.run("a", "ledger init").exits(0, "it is one").says("already there: native ledger", "it is seen as one");
    native.run("a", "ledger init --style documented").exits(64, "it is native");
}

#[test]
fn a_chained_ledger_chains_every_event() {
    let book = Book::none();
    book.run("a", "ledger init --chain").exits(0, "a new one").says("made chained documented ledger ", "it says so");
    for _ in 0..3 {
        book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
    }
    for seq in 1..=3 {
        assert_eq!(book.event(seq)["chain"].as_str().map(str::len), Some(64), "event {seq} carries the chain");
    }
    let json = book.run("a", "ledger verify --json").exits(0, "it is whole").json();
    assert_eq!((&json["events"], &json["chained"]), (&json!(3), &json!(3)), "{json}");
}

#[test]
fn a_ledger_that_cannot_be_made_is_named() {
    let book = Book::none();
    put(&book.dir().join("file"), "a file");
    for words in ["ledger init -d file", "ledger init -d file --json"] {
        let said = book.run("a", words);
        assert!([1, 65, 69].contains(&said.code), "a file is no directory{said}");
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(
            all.contains("file") && all.contains("`-d DIR` names the directory"),
            "it is named, and what to do{said}"
        );
    }
    put(&book.dir().join("ledger"), "a file");
    for command in ["init", "head", "show"] {
        let said = book.run("a", &format!("ledger {command}"));
        assert!([1, 65, 69].contains(&said.code), "a file is no ledger{said}");
        said.notes("ledger", "it is named");
    }
    assert_eq!(fs::read(book.dir().join("ledger")).expect("it is there"), b"a file", "it is left alone");
}

fn problems(said: &Said) -> Vec<Value> {
    said.json()["problems"].as_array().unwrap_or_else(|| panic!("a list{said}")).clone()
}

#[test]
fn verify_says_that_nothing_is_wrong_or_what() {
    let book = Book::with(4);
    let point = book.run("a", "ledger checkpoint").exits(0, "a digest").stdout;
    let said = book.run("a", "ledger verify").exits(0, "nothing is wrong");
    said.says("4 events, 0 of them chained", "what was read")
        .says(&format!("nothing is wrong; checkpoint {point}"), "so it is");
    let json = book.run("a", "ledger verify --json").exits(0, "nothing is wrong").json();
    assert_eq!((&json["status"], &json["problems"], &json["head"]), (&json!("sound"), &json!([]), &json!(4)), "{json}");
    assert_eq!(json["checkpoint"], point.trim_end(), "the same as printed alone");
    put(&book.path(2), "garbage");
    remove(&book.path(3));
    let said = book.run("a", "ledger verify").exits(65, "something is wrong");
    said.says("[FAIL]", "it is marked")
        .says("event-000002.json", "the file is named")
        .says("event-000003.json", "and the other");
    let said = book.run("a", "ledger verify --json").exits(65, "something is wrong");
    assert_eq!(said.json()["status"], "damaged");
    let places: Vec<_> = problems(&said).iter().filter_map(|problem| problem["seq"].as_u64()).collect();
    assert!(places.contains(&2) && places.contains(&3), "both places are named{said}");
    for problem in problems(&said) {
        assert!(problem["code"].as_str().is_some_and(|code| !code.is_empty()), "a code{said}");
        assert!(problem["message"].as_str().is_some_and(|text| !text.is_empty()), "a message{said}");
        assert!(problem["fix"].is_string(), "what can be done{said}");
    }
}

#[test]
fn a_checkpoint_finds_a_cut_tail_and_a_changed_event() {
    let book = Book::with(3);
    let point = book.run("a", "ledger checkpoint").exits(0, "a digest").stdout.trim_end().to_owned();
    assert!(point.starts_with("3:") && point.len() == 66, "N:HEX: {point}");
    let json = book.run("a", "ledger checkpoint --json").exits(0, "a digest").json();
    assert_eq!((&json["checkpoint"], &json["head"]), (&json!(point), &json!(3)), "{json}");
    assert_eq!(json["chain"], point[2..], "the digest alone");
    let verify = format!("ledger verify --checkpoint {point}");
    book.run("a", &verify).exits(0, "it is as it was");
    book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
    book.run("a", &verify).exits(0, "what came later doesn't matter");
    remove(&book.path(4));
    remove(&book.path(3));
    let said = book.run("a", &verify).exits(65, "it was cut");
    said.says("3", "the place is named");
    assert!(!problems(&book.run("a", &format!("{verify} --json")).exits(65, "it was cut")).is_empty(), "in JSON too");
    for bad in ["3", "3:ff", "x:00", ""] {
        book.lokt("a")
            .args(["ledger", "verify", "--checkpoint", bad])
            .run()
            .exits(64, "no checkpoint")
            .notes("not a checkpoint", bad);
    }
    assert_eq!(
        Book::new().run("a", "ledger checkpoint").exits(0, "an empty ledger has one").stdout,
        format!("0:{}\n", "0".repeat(64)),
        "nothing has no digest"
    );
}

#[test]
fn doctor_says_what_is_wrong_and_what_fix_would_do_and_does_it() {
    let book = Book::native();
    let said = book.run("a", "ledger doctor").exits(0, "nothing is wrong");
    said.says("lokt ledger doctor\n", "whose report it is").says("Result: PASS\n", "the result");
    assert_eq!(book.run("a", "ledger doctor --json").exits(0, "nothing is wrong").json()["status"], "sound");
    // A release of what nobody has: the native program would refuse the whole ledger.
    book.put(5, &json!({"type": "nodes_released", "timestamp": from_now(-5).to_string(), "node_ids": ["1"]}));
    let before = book.events();
    let said = book.run("a", "ledger doctor").exits(65, "something is wrong");
    said.says("[FAIL]", "it is marked")
        .says("000005.json", "the file is named")
        .says("with `lokt ledger doctor --fix`: ", "what could be done")
        .says("Result: FAIL\n", "the result");
    for words in ["ledger doctor --fix --dry-run", "ledger doctor --dry-run"] {
        let said = book.run("a", words).exits(65, "it is still wrong");
        said.says("would fix: ", "it says what it would do");
        assert_eq!(book.events(), before, "and does nothing");
    }
    let json = book.run("a", "ledger doctor --json --fix --dry-run").exits(65, "it is still wrong").json();
    assert_eq!((&json["dry_run"], &json["fixed"]), (&json!(true), &json!(0)), "{json}");
    let said = book.run("a", "ledger doctor --fix").exits(0, "it was repaired");
    said.says("[FIXED]", "it is marked").says("Result: PASS, all of it fixed\n", "the result");
    assert_eq!(book.event(5)["node_ids"], json!([]), "a no-op is there now");
    let aside = names_in(&book.ledger().join(".lokt/aside"));
    let kept: Vec<_> = aside.iter().map(|path| fs::read(path).expect("it is there")).collect();
    assert!(kept.contains(&before[4].1), "the original is kept, byte for byte: {aside:?}");
    assert_eq!(book.run("a", "ledger doctor --json").exits(0, "it is well").json()["problems"], json!([]));
}

#[test]
fn a_doctor_in_json_lists_what_was_fixed() {
    let book = Book::native();
    book.put(5, &json!({"type": "nodes_released", "timestamp": from_now(-5).to_string(), "node_ids": ["1"]}));
    let said = book.run("a", "ledger doctor --fix --json").exits(0, "it was repaired");
    let json = said.json();
    assert_eq!((&json["status"], &json["fixed"]), (&json!("fixed"), &json!(problems(&said).len())), "{said}");
    assert!(problems(&said).iter().all(|problem| problem["fix"] == "done"), "{said}");
}

#[test]
fn where_there_is_no_ledger_every_command_says_so() {
    let book = Book::none();
    for command in [
        "append {\"type\":\"x\"}",
        "show",
        "head",
        "follow",
        "verify",
        "checkpoint",
        "doctor",
        "doctor --fix",
        "export",
    ] {
        book.run("a", &format!("ledger {command}")).exits(3, "there is none").notes("`lokt ledger init`", command);
        let said = book.run("a", &format!("ledger {command} --json")).exits(3, "there is none");
        assert_eq!(said.failure(), "E_NOT_FOUND", "{command}");
    }
    assert!(!book.ledger().exists(), "nothing was made");
}

#[test]
fn an_event_in_a_fillers_place_is_told_in_text_and_json() {
    let book = Book::with(1);
    book.put(2, &json!({"type": "pay", "amount": 1}));
    book.put(3, &json!({"type": "x", "filler": 2}));
    let told = "event 2 came into a filler's place; the chain doesn't vouch for it";
    let said = book.run("a", "ledger verify").exits(0, "it may be as it should");
    said.notes(&format!("warning: {told}\n"), "it is told");
    let json = book.run("a", "ledger verify --json").exits(0, "it may be as it should").json();
    assert_eq!((&json["status"], &json["warnings"]), (&json!("sound"), &json!([told])), "{json}");
    let json = Book::with(1).run("a", "ledger verify --json").exits(0, "it is whole").json();
    assert_eq!(json["warnings"], json!([]), "{json}");
}

#[test]
fn second_names_that_are_no_directory_stop_nobody() {
    let book = Book::with(2);
    let kept = book.ledger().join(".lokt/kept");
    fs::remove_dir_all(&kept).expect("it is there");
    put(&kept, "a file");
    for command in ["verify", "verify --json", "doctor", "doctor --fix --json"] {
        let said = book.run("a", &format!("ledger {command}")).exits(0, "the events are whole");
        said.notes(".lokt/kept can't be listed", "what can't be said is told");
    }
    book.append(r#"{"type":"x"}"#).exits(0, "it works on");
}
