//! Locks of other programs: respected while they may live, taken over when they are old, and never a reason to hang.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};

use lokt_testkit::swarm::{in_parallel, now_ms, wait_until};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::peers::{PATIENCE, SharedLedger, Style, date};
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, chmod, from_now, put};

/// What the lock is.
#[derive(Debug, Clone)]
enum Object {
    File(String),
    Directory,
    FullDirectory,
    Fifo,
    DanglingLink,
}

impl Object {
    fn make(&self, shared: &SharedLedger) {
        let path = shared.lock();
        match self {
            Self::File(text) => put(&path, text),
            Self::Directory => fs::create_dir(&path).expect("the name is free"),
            Self::FullDirectory => put(&path.join("something"), "else"),
            Self::Fifo => {
                mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("the name is free");
            }
            Self::DanglingLink => symlink(shared.path().join("nowhere"), &path).expect("the name is free"),
        }
    }
}

/// As the native program writes it, so many seconds from now, in a zone far away.
fn offset(secs: i64) -> Object {
    let there = from_now(secs + 19_800).to_string();
    let there = there.trim_end_matches('Z');
    Object::File(format!("{{\"agent_id\":\"append-operation\",\"acquired_at\":\"{there}+05:30\"}}\n"))
}

/// As the document's sample writes it.
fn utc(secs: i64) -> Object {
    Object::File(format!("{{\"agent_id\":\"tool\",\"acquired_at\":\"{}\"}}\n", from_now(secs)))
}

fn text(text: &str) -> Object {
    Object::File(text.to_owned())
}

/// Rows 15, 19 and 20 of the conformance checks: what the lock is, its date in the file system, and whether it is taken over.
#[test]
fn a_foreign_lock_is_taken_over_when_its_younger_date_is_thirty_seconds_old() {
    let cases = [
        ("as old as it says", offset(-3_600), -3_600, true),
        ("in UTC", utc(-40), -40, true),
        ("five seconds old", offset(-5), -3_600, false),
        ("old, but changed just now", offset(-3_600), 0, false),
        ("of the future, and old", offset(3_600), -60, true),
        ("of the future, and changed just now", offset(3_600), 0, false),
        ("dated in the future", offset(-3_600), 3_600, false),
        ("empty and fresh", text(""), 0, false),
        ("empty and old", text(""), -60, true),
        ("torn and fresh", text("{\"agent_id\":\"app"), 0, false),
        ("torn and old", text("{\"agent_id\":\"app"), -60, true),
        ("of another kind", text("{\"agent_id\":7,\"acquired_at\":[]}"), -60, true),
        ("very long", text(&"x".repeat(2 << 20)), -60, true),
        ("a fresh directory", Object::Directory, 0, false),
        ("an old directory", Object::Directory, -60, true),
        ("an old directory with something in it", Object::FullDirectory, -60, true),
        ("a fresh fifo", Object::Fifo, 0, false),
        ("an old fifo", Object::Fifo, -60, true),
        ("a fresh link to nothing", Object::DanglingLink, 0, false),
        ("an old link to nothing", Object::DanglingLink, -60, true),
    ];
    in_parallel(6, cases, |(name, object, dated, is_taken)| {
        let shared = SharedLedger::native();
        object.make(&shared);
        date(&shared.lock(), dated);
        let before = fs::symlink_metadata(shared.lock()).expect("it is there");
        // Longer than the second check takes, so that a takeover that comes too early is seen. A takeover that is due needs no more.
        let said = shared.append("ours", if is_taken { "--timeout 20s" } else { "--timeout 3s" });
        if is_taken {
            let said = said.exits(0, &format!("a lock that is {name} is taken over"));
            assert_eq!(
                (&said.json()["filler"], &said.json()["seq"]),
                (&3.into(), &4.into()),
                "{name}: a number is filled{said}"
            );
            assert!(!shared.is_locked(), "{name}: and the lock is free{said}");
            assert!(!said.stderr.is_empty(), "{name}: it says that it took a lock over{said}");
        } else {
            let said = said.exits(75, &format!("a lock that is {name} is held"));
            assert_eq!(said.failure(), "E_BUSY", "{name}{said}");
            let after = fs::symlink_metadata(shared.lock()).expect("it is still there");
            let identity = |meta: &fs::Metadata| (meta.ino(), meta.size(), meta.mtime(), meta.mode());
            assert_eq!(identity(&after), identity(&before), "{name}: nobody touched it");
            assert_eq!(shared.numbers(), [1, 2], "{name}: nothing was written");
        }
        assert!(!shared.path().join("nowhere").exists(), "{name}: no link is followed");
        shared.pleases_af();
    });
}

#[test]
fn a_live_foreign_lock_is_respected_for_five_seconds() {
    let shared = SharedLedger::native();
    let _holder = shared.start_af("append DIR 1 --pause-after listing").stops();
    let bytes = fs::read(shared.lock()).expect("it is there");
    let started = now_ms();
    let said = shared.append("ours", "").exits(75, "somebody is inside");
    let waited = now_ms() - started;
    assert!((5_000..50_000).contains(&waited), "it waits for five seconds, not {waited} ms");
    assert_eq!(said.failure(), "E_BUSY", "so that a program can tell{said}");
    let message = said.json()["message"].to_string();
    assert!(message.contains("timeout waiting for lock"), "in the words of the document{said}");
    assert!(message.contains("append-operation"), "and it says who{said}");
    assert_eq!(fs::read(shared.lock()).expect("it is there"), bytes, "the lock is as it was");
    assert_eq!(shared.numbers(), [1, 2], "and nothing was written");
}

/// Row 15, in text.
#[test]
fn a_directory_lock_is_named_in_the_message() {
    let shared = SharedLedger::documented();
    let _holder = shared.start_seed(1, "shell-", "count").stops();
    let started = now_ms();
    let said = shared.call("b").args(["ledger", "append", "--timeout", "1s", r#"{"type":"x"}"#]).run();
    let waited = now_ms() - started;
    assert!((1_000..10_000).contains(&waited), "it waits for a second, not {waited} ms{said}");
    said.exits(75, "somebody is inside")
        .notes("timeout waiting for lock", "in the words of the document")
        .notes("directory", "of what kind");
    assert!(shared.lock().is_dir(), "it is still there");
}

#[test]
fn a_foreign_lock_that_is_released_in_time_is_waited_for() {
    for style in [Style::Documented, Style::Native] {
        let (shared, holder) = match style {
            Style::Documented => {
                let shared = SharedLedger::documented();
                let holder = shared.start_seed(1, "shell-", "write").stops();
                (shared, holder)
            }
            Style::Native => {
                let shared = SharedLedger::native();
                let holder = shared.start_af("append DIR 1 --payload python- --pause-after synced").stops();
                (shared, holder)
            }
        };
        let ours =
            shared.start_lokt("ledger append -d DIR --timeout 60s {\"type\":\"custom_event\",\"payload\":\"ours\"}");
        assert!(wait_until(PATIENCE, || ours.naps()), "ours waits");
        assert_eq!(holder.finishes().code, Some(0), "the holder goes on");
        let ending = ours.ends();
        assert_eq!(ending.code, Some(0), "then ours succeeds: {ending:?}");
        let head = *shared.numbers().last().expect("there are events");
        let text = String::from_utf8(shared.event_bytes(head)).expect("it is text");
        assert!(text.contains("\"ours\"") && !text.contains("filler"), "after the other one, without a filler: {text}");
        shared.is_contiguous(head);
    }
}

/// Row 37.
#[test]
fn a_ledger_that_may_not_be_written_fails_at_once() {
    lokt_testkit::need!(root);
    let shared = SharedLedger::native();
    chmod(shared.path(), 0o755);
    let started = now_ms();
    let said = as_stranger(&shared, "40s").exits(1, "it isn't theirs");
    let waited = now_ms() - started;
    assert!(waited < 20_000, "nobody waits for a lock that can't be made: {waited} ms{said}");
    assert!(said.json()["message"].to_string().contains("ermission denied"), "it says why{said}");
    assert!(said.json()["message"].to_string().contains("ledger"), "and where{said}");
    assert_eq!(shared.numbers(), [1, 2], "nothing was written");
}

/// Ours can be read by all who may write, so it is another program's, and its file's time tells how old it is.
#[test]
fn a_lock_that_may_not_be_read_is_judged_by_its_files_time() {
    lokt_testkit::need!(root);
    in_parallel(
        4,
        [(offset(-3_600), 0), (text(""), 0), (offset(-3_600), -3_600), (text(""), -3_600)],
        |(object, dated)| {
            let shared = SharedLedger::native();
            chmod(shared.path(), 0o755);
            chown(shared.ledger(), Some(STRANGER), Some(STRANGER)).expect("root may");
            object.make(&shared);
            chmod(&shared.lock(), 0o600);
            date(&shared.lock(), dated);
            if dated == 0 {
                let said = as_stranger(&shared, "3s").exits(75, "it is held");
                assert_eq!(said.failure(), "E_BUSY", "{said}");
                assert!(said.json()["message"].to_string().contains("may not be read"), "it says why{said}");
                assert!(shared.is_locked(), "and it stays");
                assert_eq!(shared.numbers(), [1, 2], "nothing was written");
            } else {
                as_stranger(&shared, "20s").exits(0, "it was left behind");
                assert_eq!(shared.numbers(), [1, 2, 3, 4], "a filler, and the event");
            }
            shared.pleases_af();
        },
    );
}

const STRANGER: u32 = 20_004;

/// `lokt ledger append` as a user who owns nothing here.
fn as_stranger(shared: &SharedLedger, timeout: &str) -> crate::common::Said {
    let lokt = copy_of_lokt(shared.path());
    Call::new("setpriv")
        .args([format!("--reuid={STRANGER}"), format!("--regid={STRANGER}")])
        .args(["--clear-groups", "--"])
        .args([&lokt])
        .args(["ledger", "append", "--json", "--timeout", timeout, r#"{"type":"x"}"#])
        .env("LOKT_OWNER", "stranger")
        .cwd(shared.path())
        .run()
}
