//! `lokt ledger follow`: events as they come, and how it ends.

use std::fs;

use lokt_testkit::session::{PATIENCE, Session};
use lokt_testkit::swarm::wait_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::ledgers::Book;
use crate::common::{LOKT, put, remove};

/// A running `lokt ledger follow --json WORDS`.
struct Follower(Session);

impl Follower {
    fn start(book: &Book, words: &[&str]) -> Self {
        // What it prints must not be where the ledger is looked for.
        let dir = book.dir().join("watcher");
        fs::create_dir_all(&dir).expect("a temp directory is writable");
        let start = lokt_testkit::session::Start {
            words: [&[LOKT, "ledger", "follow", "--json", "-d", ".."], words].concat(),
            env: vec![("LOKT_OWNER", "watcher".to_owned())],
            dir: &dir,
        };
        let follower = Self(start.session());
        let syscall = format!("/proc/{}/wchan", follower.0.pid().as_raw_nonzero());
        let sleeps = || fs::read_to_string(&syscall).is_ok_and(|text| text.contains("poll"));
        assert!(wait_until(PATIENCE, sleeps), "it waits for events: {}", follower.0.err());
        follower
    }

    fn shown(&self) -> Vec<Value> {
        let out = self.0.out();
        let whole = out.rfind('\n').map_or("", |end| &out[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("whole lines of JSON")).collect()
    }

    /// Waits until exactly these numbers have been shown.
    #[track_caller]
    fn shows(&self, expected: &[u64]) {
        wait_until(PATIENCE, || self.shown().len() >= expected.len());
        let shown: Vec<u64> = self.shown().iter().map(|event| event["seq"].as_u64().expect("its number")).collect();
        assert_eq!(shown, expected, "{}", self.0.err());
    }

    #[track_caller]
    fn ends_by(mut self, signal: Signal) {
        self.0.signal(signal);
        assert_eq!(self.0.ends(), 128 + signal.as_raw(), "that is how it ends: {}", self.0.err());
        assert_eq!(self.0.err(), "", "there is nothing to complain about");
    }
}

#[test]
fn follow_shows_what_comes_until_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let book = Book::with(2);
        let follower = Follower::start(&book, &[]);
        book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
        follower.shows(&[3]);
        book.append(r#"{"type":"y"}"#).exits(0, "it is appended");
        book.append(r#"{"type":"z"}"#).exits(0, "it is appended");
        follower.shows(&[3, 4, 5]);
        assert_eq!(follower.shown()[2]["type"], "z", "the members are there");
        follower.ends_by(signal);
    }
}

#[test]
fn follow_begins_where_it_is_told_to() {
    let book = Book::with(3);
    let follower = Follower::start(&book, &["--after", "1"]);
    follower.shows(&[2, 3]);
    book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
    follower.shows(&[2, 3, 4]);
    follower.ends_by(Signal::TERM);
    let follower = Follower::start(&book, &["--after=0", "--type", "x", "--type=y"]);
    follower.shows(&[4]);
    book.append(r#"{"type":"note"}"#).exits(0, "it is appended");
    book.append(r#"{"type":"y"}"#).exits(0, "it is appended");
    follower.shows(&[4, 6]);
    follower.ends_by(Signal::INT);
}

#[test]
fn follow_sees_what_other_programs_write() {
    let book = Book::with(1);
    let follower = Follower::start(&book, &[]);
    // As the shell example does it.
    let write = |seq: u64, text: &str| {
        put(&book.ledger().join(".event-1.tmp"), text);
        let script = format!("mv ledger/.event-1.tmp ledger/event-{seq:06}.json");
        crate::common::Call::new("sh").args(["-c", &script]).cwd(book.dir()).run().exits(0, "it is renamed");
    };
    write(2, r#"{"type":"foreign","timestamp":"2026-01-01T00:00:00Z"}"#);
    follower.shows(&[2]);
    write(3, "garbage");
    follower.shows(&[2, 3]);
    assert_eq!(follower.shown()[1]["status"], "damaged", "what is none is shown as that");
    book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
    follower.shows(&[2, 3, 4]);
    follower.ends_by(Signal::TERM);
}

#[test]
fn follow_tells_that_an_earlier_state_was_put_back() {
    let book = Book::with(3);
    let follower = Follower::start(&book, &["--after", "0"]);
    follower.shows(&[1, 2, 3]);
    remove(&book.path(3));
    remove(&book.path(2));
    // It may look between the two, and tells of both then.
    let ends_at = |told: &Value| told["status"] == "rewound" && told["head"] == 1;
    let is_told = wait_until(PATIENCE, || follower.shown().last().is_some_and(ends_at));
    assert!(is_told, "it tells where the ledger ends now: {:?}", follower.shown());
    follower.ends_by(Signal::TERM);
}

#[test]
fn follow_in_text_has_a_line_per_event_and_ends_when_nobody_reads() {
    let book = Book::with(2);
    let script = "set -o pipefail; timeout 60 \"$0\" ledger follow --after 0 | head -2";
    let said = crate::common::Call::new("bash").args(["-c", script, LOKT]).cwd(book.dir()).start();
    // The third is written to nobody.
    wait_until(PATIENCE, || {
        book.append(r#"{"type":"x"}"#).exits(0, "it is appended");
        said.has_ended()
    });
    let said = said.wait().exits(0, "it had enough");
    assert_eq!(said.stdout.lines().count(), 2, "{said}");
    assert!(said.stdout.starts_with("1  "), "the number first{said}");
}
