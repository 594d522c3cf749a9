//! What is told about an event is exactly what is there: numbers as they are written, digests that fit, and who was faster.

use std::fs;

use serde_json::json;

use crate::common::ledgers::Book;
use crate::common::put;

const CLAIM: &str = r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"OWNER","timeout":"2030-01-01T00:00:00Z"}"#;

/// Interop 4: two decided about the same ledger, and what the loser wants doesn't fit any more after what the winner wrote.
#[test]
fn the_loser_of_a_race_is_told_that_it_lost_whatever_its_event_is() {
    let book = Book::native();
    let append = |owner: &str, words: &[&str]| {
        book.lokt(owner).args(["ledger", "append", &CLAIM.replace("OWNER", owner), "--json"]).args(words).run()
    };
    append("a", &["--expect-seq", "4"]).exits(0, "nobody was faster");
    for words in [&["--expect-seq", "4"][..], &["--expect-seq", "4", "--dry-run"], &["--expect-seq", "4", "--chain"]] {
        let said = append("b", words).exits(75, "a was faster");
        assert_eq!(said.failure(), "E_SEQUENCE_MISMATCH", "{said}");
        assert_eq!((&said.json()["expected"], &said.json()["head"]), (&json!(4), &json!(5)), "{said}");
    }
    let batch = format!("{}\n{}\n", r#"{"type":"note"}"#, CLAIM.replace("OWNER", "b"));
    put(&book.dir().join("batch"), batch);
    let said = book.run("b", "ledger append --file batch --expect-seq 4");
    said.exits(75, "the same for many").notes("expected sequence 4, but the ledger is at 5", "both numbers");
    let said = append("b", &["--expect-seq", "5"]).exits(64, "it knows what is there, and the event doesn't fit that");
    assert_eq!(said.failure(), "E_BAD_EVENT", "{said}");
    assert_eq!(book.numbers(), [1, 2, 3, 4, 5], "nothing else was written");
}

/// A foreign program may be faster than the clock of the directory ticks: then its time is that of our note of the head.
#[test]
fn nobody_is_refused_because_of_a_note_that_is_a_tick_old() {
    let book = Book::native();
    let dir = fs::File::open(book.ledger()).expect("it is there");
    let noted = || dir.metadata().and_then(|meta| meta.modified()).expect("a time");
    let behind = |seq: u64, event: &serde_json::Value| {
        let time = noted();
        book.put(seq, event);
        dir.set_modified(time).expect("it is ours");
    };
    book.lokt("a").args(["ledger", "append", &CLAIM.replace("OWNER", "a")]).run().exits(0, "the node is free");
    behind(6, &json!({"type": "nodes_released", "timestamp": "2026-01-01T00:00:00Z", "node_ids": ["1"]}));
    let said = book.lokt("b").args(["ledger", "append", &CLAIM.replace("OWNER", "b"), "--expect-seq", "6"]).run();
    said.exits(0, "that is the head, and the node is free").says("appended event 7\n", "so it is claimed");
    behind(8, &json!({"type": "nodes_released", "timestamp": "2026-01-01T00:00:00Z", "node_ids": ["1"]}));
    book.run("c", "claim take 1").exits(0, "the node is free");
}

#[test]
fn what_is_advised_about_a_wrong_number_is_true() {
    let book = Book::with(2);
    let append = |book: &Book, expected: &str| {
        book.lokt("a").args(["ledger", "append", r#"{"type":"x"}"#, "--expect-seq", expected]).run()
    };
    append(&book, "1").exits(75, "it isn't the last").notes("hint: somebody else appended", "that is what happened");
    let said = append(&book, "7").exits(75, "there is no such event");
    let said = said.notes("hint: the ledger has only 2 events", "nobody appended");
    assert!(!said.stderr.contains("somebody else"), "nobody did{said}");
    append(&Book::new(), "7").exits(75, "there is none").notes("hint: the ledger is empty", "as it is");
    for expected in ["1", "7"] {
        let said = append(&book, expected);
        assert!(!said.stderr.contains("Err"), "what a language calls it is no help{said}");
    }
}

/// Interop 10: what `af replay --verify` calls invalid.
#[test]
fn a_node_whose_digest_is_wrong_is_found_and_never_appended() {
    let book = Book::native();
    book.run("a", "ledger verify").exits(0, "the digests of a sound ledger fit");
    book.run("a", "ledger doctor").exits(0, "doctor agrees");
    let right = "96febcb19e9936a822b59e40f2466c6059a3eb6b31760d696f0174a1beed9283";
    let node = |statement: &str, hash: &str| {
        format!(
            r#"{{"type":"node_created","node":{{"id":"1.3","type":"claim","statement":"{statement}","inference":"assumption","workflow_state":"available","epistemic_state":"pending","content_hash":"{hash}"}}}}"#
        )
    };
    for bad in [node("other", right), node("s", &"0".repeat(64)), node("s", "")] {
        let said = book.lokt("a").args(["ledger", "append", &bad, "--json"]).run().exits(64, "it doesn't fit");
        assert_eq!(said.failure(), "E_BAD_EVENT", "{said}");
        assert!(said.json()["message"].to_string().contains("content_hash"), "it says why{said}");
    }
    let said = book.append(&node("s", "0")).exits(64, "it doesn't fit");
    said.notes(right, "it says which one would");
    book.append(&node("s", right)).exits(0, "that one is right");
    book.run("a", "ledger verify").exits(0, "and verified");

    // Somebody changes a statement in its file.
    let text = String::from_utf8(book.bytes(3)).expect("an event is text");
    put(&book.path(3), text.replace(r#""statement":"s""#, r#""statement":"t""#));
    for command in ["verify", "doctor", "doctor --fix"] {
        let said = book.run("a", &format!("ledger {command} --json")).exits(65, "it isn't what it was");
        let problem = said.json()["problems"][0].clone();
        assert_eq!((&problem["code"], &problem["seq"]), (&json!("content-hash"), &json!(3)), "{command}{said}");
        assert!(problem["message"].to_string().contains(right), "both digests{said}");
    }
    assert!(
        String::from_utf8_lossy(&book.bytes(3)).contains(r#""statement":"t""#),
        "which of the two is right isn't known"
    );
    book.append(r#"{"type":"nodes_claimed","node_ids":["1.1"],"owner":"a"}"#).exits(0, "its replay doesn't mind");
}

/// In a documented ledger such a name means nothing.
#[test]
fn what_other_ledgers_call_a_node_has_no_digest() {
    let book = Book::new();
    book.append(r#"{"type":"node_created","node":{"id":"1","content_hash":"mine"}}"#).exits(0, "it is anybody's event");
    book.run("a", "ledger verify").exits(0, "nothing is wrong");
    book.run("a", "ledger doctor").exits(0, "nothing is wrong");
}

#[test]
fn numbers_are_shown_as_they_are_written() {
    let book = Book::new();
    let members = r#""big":12345678901234567890123,"whole":1.0,"power":1e5,"small":-0,"exact":0.1000,"list":[9007199254740993,{"x":1E+2}]"#;
    book.append(&format!(r#"{{"type":"n",{members},"text":"\u0061 12345678901234567890123"}}"#))
        .exits(0, "all are JSON");
    let said = book.run("a", "ledger show 1").exits(0, "it is shown");
    said.says(&format!("n  {{{members},\"text\":\"a 12345678901234567890123\"}}\n"), "digit for digit");
    for words in ["ledger show 1 --json", "ledger show 1 --raw", "ledger export"] {
        book.run("a", words).exits(0, "it is shown").says(members, "as ever");
    }
}
