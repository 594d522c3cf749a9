//! What may be tried without harm: dry runs, directories that can't be written to, and the same key again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lokt_testkit::chronicle::{Chronicle, Deed, number_of};
use lokt_testkit::strace::killed_at;
use lokt_testkit::swarm::{Swarm, in_parallel, now_ms};
use serde_json::Value;

use crate::common::ledgers::Book;
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, LOKT, chmod, names_in, put};

/// Everything below a directory with what would tell that it was touched: inode, size, and the times of the last change.
fn traces(dir: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        if meta.is_dir() {
            left.extend(names_in(&path));
        }
        let (modified, changed) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        found.insert(path, (meta.ino(), meta.len(), modified.0, modified.1, changed.0, changed.1));
    }
    found
}

/// A ledger in which everything can be tried: an expired claim, one of `a`'s own, a damaged event.
fn eventful(damaged: bool) -> Book {
    let book = Book::with(2);
    book.put_claim(3, "old", "gone", -60);
    book.run("a", "claim take mine").exits(0, "it is free");
    if damaged {
        put(&book.path(5), "{");
        put(&book.ledger().join(".event-left.tmp"), "x");
    }
    book
}

#[test]
fn a_dry_run_of_any_command_writes_nothing() {
    let many = "many.jsonl";
    let runs: [&[&str]; 14] = [
        &["ledger", "append", r#"{"type":"note"}"#],
        &["ledger", "append", "--chain", r#"{"type":"note"}"#],
        &["ledger", "append", "--id", "k", r#"{"type":"note"}"#],
        &["ledger", "append", "--token", "4", r#"{"type":"note"}"#],
        &["ledger", "append", "--expect-seq", "4", r#"{"type":"note"}"#],
        &["ledger", "append", "--file", many],
        &["claim", "take", "new"],
        &["claim", "take", "old"],
        &["claim", "take", "mine"],
        &["claim", "take", "--any", "mine", "new"],
        &["claim", "extend", "mine"],
        &["claim", "release", "mine"],
        &["claim", "reap"],
        &["ledger", "doctor", "--fix"],
    ];
    for caches in [true, false] {
        let book = eventful(false);
        put(&book.dir().join(many), "{\"type\":\"note\"}\n".repeat(20));
        if !caches {
            fs::remove_dir_all(book.ledger().join(".lokt")).expect("it is there");
        }
        let before = traces(book.dir());
        for words in runs {
            for flags in [&["--dry-run"][..], &["--dry-run", "--json"]] {
                let said = book.lokt("a").args(words).args(flags).run();
                let said = said.exits(0, &format!("{words:?}: it would work"));
                assert_eq!(traces(book.dir()), before, "{words:?}, caches: {caches}: nothing was touched{said}");
            }
        }
    }
    // What it would refuse it refuses, and what it would mend it leaves alone.
    let book = eventful(true);
    let before = traces(book.dir());
    for (words, code) in [
        (&["ledger", "doctor", "--fix", "--dry-run"][..], 65),
        (&["claim", "take", "new", "--dry-run"], 65),
        (&["ledger", "append", "--expect-seq", "1", r#"{"type":"note"}"#, "--dry-run"], 75),
    ] {
        book.lokt("a").args(words).run().exits(code, &format!("{words:?}: it says how it would end"));
        assert_eq!(traces(book.dir()), before, "{words:?}: nothing was touched");
    }
}

// --- directories that can't be written to

/// Nobody in particular.
const NOBODY: u32 = 20_009;
/// A lock would be waited for for five seconds.
const AT_ONCE_MS: u64 = 3_000;

#[test]
fn a_directory_that_cannot_be_written_to_fails_at_once() {
    lokt_testkit::need!(root);
    let book = eventful(false);
    chmod(book.dir(), 0o755);
    let lokt = copy_of_lokt(book.dir());
    let before = traces(&book.ledger());
    for words in [
        &["ledger", "append", r#"{"type":"note"}"#][..],
        &["ledger", "append", "--chain", r#"{"type":"note"}"#],
        &["claim", "take", "new"],
        &["claim", "take", "old"],
        &["claim", "reap"],
    ] {
        let user = || {
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into(), "--".into()];
            Call::new("setpriv").args(ids).args([&lokt]).args(words).cwd(book.dir()).env("LOKT_OWNER", "a")
        };
        let began_ms = now_ms();
        let text = user().run().exits(1, &format!("{words:?}: it can't be done"));
        let took_ms = now_ms() - began_ms;
        assert!(took_ms < AT_ONCE_MS, "{words:?}: it fails at once, not after {took_ms} ms{text}");
        let text = text.notes("Permission denied", &format!("{words:?}: it says why"));
        text.notes("/ledger", &format!("{words:?}: and where"));
        let json = user().args(["--json"]).run().exits(1, &format!("{words:?}: it can't be done")).json();
        let message = json["message"].as_str().unwrap_or_default();
        assert!(json["status"] == "error" && message.contains("Permission denied"), "{words:?}: {json}");
    }
    assert_eq!(traces(&book.ledger()), before, "nothing was touched");
}

#[test]
fn a_read_only_file_system_fails_at_once_and_can_be_read() {
    lokt_testkit::need!(root);
    let book = eventful(false);
    let script = r#"
        mount --bind ledger ledger && mount -o remount,ro,bind ledger && cd "$PWD" || exit 99
        "$0" ledger show --json || exit 98
        "$0" ledger verify >&2 || exit 97
        "$0" claim list >&2 || exit 96
        "$0" claim take new && exit 95
        "$0" ledger append '{"type":"note"}'"#;
    let began_ms = now_ms();
    let said = Call::new("unshare").args(["--mount", "sh", "-c", script, LOKT]).cwd(book.dir()).env("LOKT_OWNER", "a");
    let said = said.run().exits(1, "it can be read, and not be written");
    let took_ms = now_ms() - began_ms;
    assert!(took_ms < 2 * AT_ONCE_MS, "it fails at once, not after {took_ms} ms{said}");
    assert_eq!(said.stderr.matches("Read-only file system").count(), 2, "both say why{said}");
}

// --- the same key again

/// How many events have this key.
fn with_key(chronicle: &Chronicle, key: &str, context: &str) -> usize {
    let has_key = |bytes: &Vec<u8>| {
        let event: Value = serde_json::from_slice(bytes).expect("an event is JSON");
        event["idempotency_key"] == key
    };
    chronicle.events(context).iter().filter(|bytes| has_key(bytes)).count()
}

#[test]
fn eight_appends_of_one_key_at_once_give_one_event() {
    for round in 0..6 {
        let chronicle = Chronicle::new(LOKT, &[], 1);
        let place = &chronicle.place;
        let dir = place.dir().to_str().expect("a plain path");
        let event = r#"{"type":"note","text":"once"}"#;
        let words = ["ledger", "append", "--id", "key", "--json", "-d", dir, event];
        let each = (0..8).map(|_| (place.words(&words), place.env("a")));
        let ended = Swarm::at_gate(each).and_then(Swarm::release).expect("they run");
        let answers: Vec<Value> =
            ended.iter().map(|ended| serde_json::from_str(&ended.stdout).expect("an answer is JSON")).collect();
        assert!(ended.iter().all(|ended| ended.code == Some(0)), "round {round}: {ended:?}");
        assert!(answers.iter().all(|answer| answer["seq"] == 2), "round {round}: all get its number: {answers:?}");
        let first = answers.iter().filter(|answer| answer["duplicate"] == false).count();
        assert_eq!(first, 1, "round {round}: one of them wrote it: {answers:?}");
        assert_eq!(with_key(&chronicle, "key", "eight at once"), 1, "round {round}: it is there once");
        assert_eq!(chronicle.events("eight at once").len(), 2, "round {round}: and nothing else is");
    }
}

#[test]
fn an_append_with_a_key_that_was_killed_at_any_system_call_may_be_repeated() {
    const APPEND: Deed = Deed {
        title: "append with a key",
        prepare: |_| {},
        args: &["ledger", "append", "--id", "key", r#"{"type":"note","text":"once"}"#, "--json"],
        takes_over: false,
    };
    lokt_testkit::need!("strace");
    let cases = APPEND.calls(LOKT).into_iter().filter(|call| {
        ["linkat", "unlinkat", "flock", "fsync", "openat", "write", "close"].contains(&call.name.as_str())
    });
    in_parallel(8, cases, |call| {
        let context = format!("append with a key, killed at {}#{}", call.name, call.nth);
        let chronicle = Chronicle::new(LOKT, &[], 2);
        killed_at(&chronicle.place, "a", APPEND.args, &call);
        let first = with_key(&chronicle, "key", &context);
        let again = chronicle.run("a", APPEND.args);
        assert_eq!(again.code, Some(0), "{context}: it can be repeated: {again:?}");
        assert_eq!(number_of(&again), 3, "{context}: and has its number");
        let answer: Value = serde_json::from_str(&again.stdout).expect("an answer is JSON");
        assert_eq!(answer["duplicate"], first == 1, "{context}: {answer}");
        assert_eq!(with_key(&chronicle, "key", &context), 1, "{context}: it is there once");
    });
}
