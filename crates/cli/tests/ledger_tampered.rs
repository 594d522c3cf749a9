//! A chained ledger that somebody tampered with: `verify` names the place, in text and in JSON.

use std::fs;

use serde_json::Value;

use crate::common::ledgers::Book;
use crate::common::{put, remove};

const FOREIGN: &str = r#"{"type":"other","timestamp":"2026-01-01T00:00:00Z","n":4}"#;

/// Six events: all of ours carry the chain, the fourth is another program's. Also gives its checkpoint.
fn chained() -> (Book, String) {
    let book = Book::none();
    book.run("a", "ledger init --chain").exits(0, "a ledger is made");
    for n in 1..=6 {
        if n == 4 {
            put(&book.path(4), FOREIGN);
        } else {
            book.append(&format!(r#"{{"type":"note","n":{n}}}"#)).exits(0, "it is appended");
        }
    }
    let said = book.run("a", "ledger checkpoint").exits(0, "it has a digest");
    // Whoever tampers knows that lokt keeps second names of its events, and that they are only a cache.
    fs::remove_dir_all(book.ledger().join(".lokt/kept")).expect("it is there");
    (book, said.stdout.trim().to_owned())
}

fn rename(book: &Book, from: u64, to: u64) {
    rustix::fs::rename(book.path(from), book.path(to)).expect("it is there");
}

fn flip_one_bit(book: &Book, seq: u64, word: &str) {
    let mut bytes = book.bytes(seq);
    let at = String::from_utf8_lossy(&bytes).find(word).expect("it says so");
    bytes[at] ^= 1;
    put(&book.path(seq), bytes);
}

/// What was done, how, and what `verify` says about it: code and number of the first problem, and which events it names.
struct Case {
    title: &'static str,
    tamper: fn(&Book),
    code: &'static str,
    seq: u64,
    names: &'static str,
    /// It only shows with the checkpoint.
    needs_checkpoint: bool,
}

const CASES: [Case; 11] = [
    Case {
        title: "one bit of the first event is flipped",
        tamper: |book| flip_one_bit(book, 1, "note"),
        code: "chain-broken",
        seq: 2,
        names: "event 1 isn't the one that event 2 was chained to",
        needs_checkpoint: false,
    },
    Case {
        title: "one bit of a middle event is flipped",
        tamper: |book| flip_one_bit(book, 2, "note"),
        code: "chain-broken",
        seq: 3,
        names: "event 2 isn't the one that event 3 was chained to",
        needs_checkpoint: false,
    },
    Case {
        title: "one bit of the last event is flipped",
        tamper: |book| flip_one_bit(book, 6, "note"),
        code: "checkpoint",
        seq: 6,
        names: "events 1 to 6 aren't those of the checkpoint",
        needs_checkpoint: true,
    },
    Case {
        title: "an event just before a foreign one is edited",
        tamper: |book| flip_one_bit(book, 3, "note"),
        code: "chain-broken",
        seq: 5,
        names: "events 3 to 4 aren't the ones that event 5 was chained to",
        needs_checkpoint: false,
    },
    Case {
        title: "a foreign event is edited",
        tamper: |book| flip_one_bit(book, 4, "other"),
        code: "chain-broken",
        seq: 5,
        names: "events 3 to 4 aren't the ones that event 5 was chained to",
        needs_checkpoint: false,
    },
    Case {
        title: "the first event is deleted",
        tamper: |book| remove(&book.path(1)),
        code: "gap",
        seq: 1,
        names: "event 1 is missing",
        needs_checkpoint: false,
    },
    Case {
        title: "a middle event is deleted",
        tamper: |book| remove(&book.path(3)),
        code: "gap",
        seq: 3,
        names: "event 3 is missing",
        needs_checkpoint: false,
    },
    Case {
        title: "a middle event is deleted and the others move up",
        tamper: |book| (2..6).for_each(|seq| rename(book, seq + 1, seq)),
        code: "chain-broken",
        seq: 2,
        names: "event 1 isn't the one that event 2 was chained to",
        needs_checkpoint: false,
    },
    Case {
        title: "the last event is deleted",
        tamper: |book| remove(&book.path(6)),
        code: "checkpoint",
        seq: 5,
        names: "the checkpoint is of event 6, and the ledger ends with event 5",
        needs_checkpoint: true,
    },
    Case {
        title: "two events are swapped",
        tamper: |book| {
            rename(book, 2, 9);
            rename(book, 3, 2);
            rename(book, 9, 3);
        },
        code: "chain-broken",
        seq: 2,
        names: "event 1 isn't the one that event 2 was chained to",
        needs_checkpoint: false,
    },
    Case {
        title: "one event is inserted",
        tamper: |book| {
            (3..=6).rev().for_each(|seq| rename(book, seq, seq + 1));
            put(&book.path(3), FOREIGN);
        },
        code: "chain-broken",
        seq: 4,
        names: "events 2 to 3 aren't the ones that event 4 was chained to",
        needs_checkpoint: false,
    },
];

#[test]
fn verify_names_the_place_where_a_chain_was_tampered_with() {
    for case in &CASES {
        let title = case.title;
        let (book, checkpoint) = chained();
        for words in ["ledger verify", &format!("ledger verify --checkpoint {checkpoint}")] {
            book.run("a", words).exits(0, &format!("before {title} nothing is wrong"));
        }
        (case.tamper)(&book);
        let mut words = "ledger verify".to_owned();
        if case.needs_checkpoint {
            book.run("a", &words).exits(0, &format!("{title}: nothing shows without the checkpoint"));
            words = format!("{words} --checkpoint {checkpoint}");
        }
        let text = book.run("a", &words).exits(65, &format!("{title}: it is noticed"));
        let text = text.says(&format!("[FAIL]  {}: ", case.code), &format!("{title}: which check found it"));
        text.says(case.names, &format!("{title}: the place is named"));
        let json = book.run("a", &format!("{words} --json")).exits(65, &format!("{title}: it is noticed")).json();
        assert_eq!(json["status"], "damaged", "{title}: {json}");
        let first = &json["problems"][0];
        assert_eq!((&first["code"], &first["seq"]), (&case.code.into(), &case.seq.into()), "{title}: {json}");
        let message = first["message"].as_str().unwrap_or_default();
        assert!(message.contains(case.names), "{title}: the place is named: {json}");
        // Whatever it was, a checkpoint from before shows it, too.
        let with = book.run("a", &format!("ledger verify --json --checkpoint {checkpoint}"));
        let problems = with.exits(65, &format!("{title}: a checkpoint shows it")).json()["problems"].clone();
        let is_named = |problem: &Value| problem["code"] == "checkpoint";
        assert!(problems.as_array().expect("a list").iter().any(is_named), "{title}: {problems}");
    }
}
