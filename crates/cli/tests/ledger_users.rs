//! A ledger that everybody may read, read by somebody who may not write it.
//!
//! These tests act as another user, so they run as root, as CI does.

use std::fs;
use std::path::PathBuf;

use lokt_testkit::session::{PATIENCE, Start};
use lokt_testkit::swarm::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::ledgers::{Book, seqs};
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, Said, chmod, mode, put};

const STRANGER: u32 = 65_534;

/// A ledger of root's, with events, keys and a claim, and a copy of the binary that everybody can run.
struct Shelf {
    book: Book,
    lokt: PathBuf,
}

impl Shelf {
    fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests act as another user: run them as root, as CI does");
        let book = Book::with(2);
        book.run("alice", "ledger append {\"type\":\"note\"} --id k --chain").exits(0, "it is appended");
        book.run("alice", "claim take n").exits(0, "it is free");
        chmod(book.dir(), 0o755);
        let lokt = copy_of_lokt(book.dir());
        Self { book, lokt }
    }

    /// Runs `words` as somebody who has nothing here.
    fn run(&self, words: &str) -> Said {
        Call::new("setpriv")
            .args([format!("--reuid={STRANGER}"), format!("--regid={STRANGER}"), "--clear-groups".into(), "--".into()])
            .args([&self.lokt])
            .args(words.split_whitespace())
            .env("LOKT_OWNER", "stranger")
            .cwd(self.book.dir())
            .run()
    }
}

#[test]
fn whoever_may_read_a_ledger_can_look_at_all_of_it() {
    lokt_testkit::need!(root);
    let shelf = Shelf::new();
    assert_eq!(mode(&shelf.book.ledger().join(".lokt")), 0o755, "what a ledger is can be read");
    let look = |words: &str| {
        let said = shelf.run(words).exits(0, "anybody may look");
        assert_eq!(said.stderr, "", "{words}: and nothing is to be said about it");
        said
    };
    assert_eq!(look("ledger head").stdout, "4\n", "the head");
    assert_eq!(look("ledger show").stdout.lines().count(), 4, "every event");
    assert_eq!(seqs(&look("ledger show --json")), [1, 2, 3, 4], "every event");
    assert_eq!(look("ledger export").stdout.lines().count(), 4, "every event");
    let json = look("ledger verify --json").json();
    assert_eq!(
        (&json["status"], &json["events"], &json["warnings"]),
        (&json!("sound"), &json!(4), &json!([])),
        "{json}"
    );
    look("ledger verify").says("nothing is wrong", "it is whole");
    let json = look("ledger doctor --json").json();
    assert_eq!((&json["status"], &json["problems"]), (&json!("sound"), &json!([])), "{json}");
    look("ledger doctor").says("Result: PASS\n", "it is whole");
    look("ledger checkpoint").says("4:", "its digest");
    let json: Value = look("claim list --json").json();
    assert_eq!((&json[0]["node"], &json[0]["owner"]), (&json!("n"), &json!("alice")), "{json}");
    look("claim list").says("n  alice", "who has what");
}

#[test]
fn whoever_may_read_a_ledger_can_follow_it() {
    lokt_testkit::need!(root);
    let shelf = Shelf::new();
    let dir = shelf.book.dir().join("watcher");
    fs::create_dir(&dir).expect("a temp directory is writable");
    let (id, lokt) = (STRANGER.to_string(), shelf.lokt.display().to_string());
    let user = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
    let follow = [&lokt, "ledger", "follow", "--after", "0", "--json", "-d", ".."];
    let words = user.into_iter().chain(follow).collect();
    let start = Start { words, env: vec![("LOKT_OWNER", "stranger".to_owned())], dir: &dir };
    let mut follower = start.session();
    let shows = |count: usize| wait_until(PATIENCE, || follower.out().lines().count() == count);
    assert!(shows(4), "all that are there: {}{}", follower.out(), follower.err());
    shelf.book.append(r#"{"type":"note"}"#).exits(0, "it is appended");
    assert!(shows(5), "and what comes: {}{}", follower.out(), follower.err());
    follower.signal(Signal::TERM);
    assert_eq!((follower.ends(), follower.err().as_str()), (128 + 15, ""), "nothing is to be said about it");
}

#[test]
fn whoever_may_not_write_is_told_so_and_changes_nothing() {
    lokt_testkit::need!(root);
    let shelf = Shelf::new();
    let before = shelf.book.events();
    for words in ["ledger append {\"type\":\"x\"}", "ledger append {\"type\":\"x\"} --id k2", "claim take m"] {
        shelf.run(words).exits(1, "the ledger is root's").notes("Permission denied", "that is said");
    }
    // The key is there, and so is the claim: that is known without writing anything.
    shelf.run("claim take n").exits(2, "alice has it");
    put(&shelf.book.path(6), r#"{"type":"x"}"#);
    let said = shelf.run("ledger doctor --fix").exits(65, "it can't be mended");
    said.says("event 5 is missing", "what is wrong is named all the same").says("not fixed: ", "and why it stays");
    shelf.run("ledger show").exits(65, "a gap").notes("event 5 is missing", "it is named");
    assert_eq!(shelf.book.events()[..4], before, "nothing changed");
}
