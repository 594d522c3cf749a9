//! The doctor: what is wrong is explained, what can be mended safely is mended, and nothing is lost by it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use crate::ledgers::{
    all_done, append, aside, bytes, codes, fifo, file, found, fresh, made_old, mended, put, put_new, reopened, rm,
    verified, with_events,
};
use lokt_core::ledger::seq::Style;
use lokt_core::ledger::stored::Stored;
use lokt_ledger::{Fix, Ledger, LockPatience};

/// A native ledger with one node, as the native program makes it.
fn native() -> (tempfile::TempDir, Ledger) {
    let (dir, ledger) = fresh(Style::Native, false);
    put_new(
        &file(&ledger, 1),
        br#"{"type":"proof_initialized","timestamp":"2026-01-01T00:00:00Z","conjecture":"c","author":"a"}"#,
    );
    let node = r#"{"id":"1","type":"claim","statement":"s","inference":"assumption","workflow_state":"available","epistemic_state":"pending","content_hash":"96febcb19e9936a822b59e40f2466c6059a3eb6b31760d696f0174a1beed9283"}"#;
    put_new(
        &file(&ledger, 2),
        format!(r#"{{"type":"node_created","timestamp":"2026-01-01T00:00:00Z","node":{node}}}"#),
    );
    (dir, ledger)
}

fn event(ledger: &Ledger, number: u64) -> Stored {
    Stored::parse(&bytes(&file(ledger, number))).expect("it is an event")
}

#[test]
fn a_sound_ledger_has_nothing_to_say_and_fixing_it_writes_nothing() {
    for (_dir, ledger) in [with_events(3, true), native()] {
        assert_eq!(codes(&found(&ledger)), []);
        let changed = || fs::metadata(ledger.path()).expect("there").modified().expect("a time");
        let before = changed();
        assert_eq!(codes(&mended(&ledger)), []);
        assert_eq!(changed(), before, "no lock was taken");
    }
}

#[test]
fn damaged_events_are_replaced_by_one_that_says_nothing_and_kept_aside() {
    let (dir, ledger) = with_events(5, true);
    for (number, damage) in [(2, &b""[..]), (4, b"\xFF")] {
        put_new(&file(&ledger, number), damage);
    }
    append(&reopened(&dir), r#"{"type":"after"}"#);
    assert_eq!(codes(&found(&ledger)), [("damaged", Some(2)), ("damaged", Some(4))]);
    assert_eq!(aside(&ledger), [], "looking changes nothing");
    let before = verified(&ledger);
    let problems = mended(&ledger);
    assert!(all_done(&problems), "{problems:?}");
    let kept: Vec<_> = aside(&ledger).into_iter().map(|(name, bytes)| (name[..6].to_owned(), bytes)).collect();
    assert_eq!(kept, [("000002".to_owned(), b"".to_vec()), ("000004".to_owned(), b"\xFF".to_vec())]);
    assert_eq!(codes(&found(&ledger)), []);
    let event = event(&ledger, 2);
    assert_eq!((event.kind.as_str(), event.repaired().is_some()), ("lock_takeover", true));
    let after = verified(&ledger);
    assert_eq!(after.checkpoint, before.checkpoint, "the chain goes on as if the originals were there");
    assert!(!ledger.path().join("ledger.lock").exists(), "the lock was given back");
}

#[test]
fn whatever_has_an_events_name_is_moved_aside() {
    let (_dir, ledger) = with_events(1, false);
    fs::create_dir(file(&ledger, 2)).expect("made");
    put_new(&file(&ledger, 2).join("inside"), b"precious");
    fifo(&file(&ledger, 3));
    symlink("/nowhere", file(&ledger, 4)).expect("made");
    assert_eq!(codes(&found(&ledger)), [("damaged", Some(2)), ("damaged", Some(3)), ("damaged", Some(4))]);
    assert!(all_done(&mended(&ledger)));
    assert_eq!(codes(&found(&ledger)), []);
    let mut kinds: Vec<String> = fs::read_dir(ledger.path().join(".lokt/aside"))
        .expect("there")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a type");
            let inside = fs::read(entry.path().join("inside")).unwrap_or_default();
            format!("{} {} {} {}", entry.file_name().display(), kind.is_dir(), kind.is_symlink(), inside.len())
        })
        .collect();
    kinds.sort();
    let kinds: Vec<_> = kinds.iter().map(|kind| (&kind[..6], &kind[21..])).collect();
    assert_eq!(kinds, [("000002", "true false 8"), ("000003", "false false 0"), ("000004", "false true 0")]);
    assert_eq!(append(&ledger, r#"{"type":"x"}"#), 5);
}

#[test]
fn gaps_are_filled_or_what_was_there_is_brought_back() {
    let (_dir, ledger) = with_events(6, true);
    let third = bytes(&file(&ledger, 3));
    for number in [2, 3, 4] {
        rm(&file(&ledger, number));
    }
    for number in [2, 4] {
        rm(&ledger.path().join(format!(".lokt/kept/{number:06}")));
    }
    assert_eq!(codes(&found(&ledger)), [("gap", Some(2)), ("gap", Some(3)), ("gap", Some(4))]);
    assert!(all_done(&mended(&ledger)));
    assert_eq!(bytes(&file(&ledger, 3)), third, "lokt had its second name");
    assert!(event(&ledger, 2).is_filler() && event(&ledger, 4).is_filler());
    assert_eq!(codes(&found(&ledger)), []);
    let census = ledger.census().expect("listed");
    assert_eq!((census.events, census.gaps), (6, vec![]));
}

#[test]
fn a_gap_that_nobody_wrote_is_not_filled() {
    let (_dir, ledger) = with_events(1, false);
    put_new(&file(&ledger, 9_000_000), br#"{"type":"x"}"#);
    let problems = mended(&ledger);
    assert_eq!(codes(&problems), [("gap", Some(2))]);
    assert_eq!(problems[0].fix, Fix::No);
    assert!(problems[0].hint.as_ref().is_some_and(|hint| hint.contains("event-9000000.json")));
}

#[test]
fn an_event_that_another_program_replaced_is_brought_back_and_the_other_kept() {
    let (_dir, ledger) = with_events(3, true);
    let ours = bytes(&file(&ledger, 1));
    put(&file(&ledger, 1), br#"{"type":"custom_event"}"#);
    assert_eq!(codes(&found(&ledger)), [("replaced", Some(1))]);
    assert!(all_done(&mended(&ledger)));
    assert_eq!(bytes(&file(&ledger, 1)), ours);
    assert_eq!(aside(&ledger)[0].1, br#"{"type":"custom_event"}"#);
    assert_eq!(codes(&verified(&ledger).problems), [], "the chain is whole again");
}

#[test]
fn another_branch_of_the_ledger_is_not_mended_into_the_old_one() {
    let (_dir, ledger) = with_events(4, false);
    for number in 3..=4 {
        put(&file(&ledger, number), br#"{"type":"other_branch"}"#);
    }
    let problems = mended(&ledger);
    assert_eq!(codes(&problems), [("replaced", Some(3)), ("replaced", Some(4))]);
    assert!(problems.iter().all(|problem| problem.fix == Fix::No), "nothing proves that it is the same ledger");
    assert_eq!(bytes(&file(&ledger, 4)), br#"{"type":"other_branch"}"#);
}

#[test]
fn what_the_native_program_refuses_is_neutralised_and_the_rest_stays() {
    let (_dir, ledger) = native();
    put_new(
        &file(&ledger, 3),
        br#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a","timeout":"2026-01-01T01:00:00Z"}"#,
    );
    put_new(&file(&ledger, 4), br#"{"type":"nodes_released","node_ids":["1"]}"#);
    put_new(&file(&ledger, 5), br#"{"type":"nodes_released","node_ids":["1"]}"#);
    put_new(&file(&ledger, 6), br#"{"type":"lock_acquired","node_id":"1","owner":"a"}"#);
    put_new(
        &file(&ledger, 7),
        br#"{"type":"nodes_claimed","node_ids":["1"],"owner":"b","timeout":"2026-01-01T01:00:00Z"}"#,
    );
    let before: Vec<_> = (1..=7).map(|number| bytes(&file(&ledger, number))).collect();
    assert_eq!(codes(&found(&ledger)), [("refused", Some(5)), ("refused", Some(6))]);
    assert!(all_done(&mended(&ledger)));
    assert_eq!(codes(&found(&ledger)), []);
    for (number, before) in (1..).zip(before) {
        let is_same = bytes(&file(&ledger, number)) == before;
        assert_eq!(is_same, !(5..=6).contains(&number), "event {number}");
    }
    let text = String::from_utf8(bytes(&file(&ledger, 5))).expect("text");
    assert!(
        text.starts_with(r#"{"type":"nodes_released","timestamp":""#) && text.contains(r#""node_ids":[],"repaired":""#)
    );
    let mode = fs::metadata(file(&ledger, 5)).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o644);
}

#[test]
fn an_event_whose_type_the_native_program_overlooks_is_told() {
    let (_dir, ledger) = native();
    put_new(&file(&ledger, 3), br#"{"x":{"type":"y"},"node_ids":[],"type":"nodes_released"}"#);
    let problems = mended(&ledger);
    assert_eq!(codes(&problems), [("misread", Some(3))]);
    assert_eq!(problems[0].fix, Fix::No);
}

#[test]
fn files_that_writers_left_behind_are_removed() {
    let (_dir, ledger) = with_events(1, false);
    for name in [".event-123.tmp", ".event-abc.tmp", ".lokt-0.tmp"] {
        put_new(&ledger.path().join(name), b"{}");
    }
    assert_eq!(codes(&found(&ledger)), [("temp", None), ("temp", None)]);
    assert!(all_done(&mended(&ledger)));
    assert_eq!(codes(&found(&ledger)), []);
    assert!(!ledger.path().join(".event-123.tmp").exists() && !ledger.path().join(".lokt-0.tmp").exists());
}

#[test]
fn files_that_somebody_is_writing_are_left_alone() {
    let (_dir, ledger) = with_events(1, false);
    let ours = ledger.path().join(".lokt-0.tmp");
    put_new(&ours, b"{}");
    let file = fs::File::open(&ours).expect("there");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let theirs = ledger.path().join(".event-123.tmp");
    put_new(&theirs, b"{}");
    let lock = ledger.path().join("ledger.lock");
    fs::create_dir(&lock).expect("made");
    assert_eq!(codes(&found(&ledger)), [], "one is locked, the other's writer is inside");
    fs::remove_dir(&lock).expect("removed");
    assert_eq!(codes(&mended(&ledger)), [("temp", None)]);
    assert!(ours.exists() && !theirs.exists());
}

#[test]
fn a_lock_that_was_left_behind_is_explained_and_taken_over() {
    let (_dir, ledger) = with_events(2, false);
    let lock = ledger.path().join("ledger.lock");
    put_new(&lock, br#"{"agent_id":"append-operation","acquired_at":"2020-01-01T00:00:00Z"}"#);
    made_old(&lock);
    let problems = found(&ledger);
    assert_eq!(codes(&problems), [("lock", None)]);
    assert!(problems[0].message.contains("append-operation"), "{}", problems[0].message);
    assert!(lock.exists(), "looking changes nothing");
    let problems = mended(&ledger);
    assert!(all_done(&problems), "{problems:?}");
    assert!(!lock.exists());
    assert!(event(&ledger, 3).is_filler(), "its writer may come back and write event 3");
    assert_eq!(
        event(&ledger, 4).filler().map(lokt_core::ledger::seq::Seq::get),
        Some(3),
        "the second filler names the first"
    );
    assert_eq!(append(&ledger, r#"{"type":"x"}"#), 5);
}

#[test]
fn a_lock_that_somebody_holds_is_respected_and_nothing_is_mended_then() {
    let (_dir, ledger) = with_events(3, false);
    let ledger = ledger.patient(LockPatience { timeout: Duration::from_millis(50), poll: Duration::from_millis(5) });
    put_new(&file(&ledger, 2), b"{");
    let lock = ledger.path().join("ledger.lock");
    fs::create_dir(&lock).expect("made");
    let said = ledger.doctor(true, &mut |_, _| {}).expect("looked at");
    assert_eq!(codes(&said.value), [("damaged", Some(2))]);
    assert!(matches!(&said.value[0].fix, Fix::Failed(why) if why.contains("timeout waiting for lock")));
    assert!(lock.exists());
    assert_eq!(bytes(&file(&ledger, 2)), b"{");
}

#[test]
fn events_that_others_cannot_read_are_opened_to_them() {
    let (_dir, ledger) = with_events(3, false);
    for (number, mode) in [(1, 0o600), (3, 0o666)] {
        fs::set_permissions(file(&ledger, number), fs::Permissions::from_mode(mode)).expect("ours");
    }
    let problems = found(&ledger);
    assert_eq!(codes(&problems), [("mode", Some(1))], "one for all of them");
    assert!(problems[0].message.contains("2 events") && problems[0].message.contains("600"), "{}", problems[0].message);
    assert!(all_done(&mended(&ledger)));
    for number in 1..=3 {
        let mode = fs::metadata(file(&ledger, number)).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "event {number}");
    }
}

#[test]
fn claims_as_files_and_strays_are_reported_and_left_alone() {
    let (dir, ledger) = with_events(1, false);
    let locks = dir.path().join("locks");
    fs::create_dir(&locks).expect("made");
    let claim = |end: &str| format!(r#"{{"node_id":"1","owner":"agentZ","acquired_at":"{end}","expires_at":"{end}"}}"#);
    put_new(&locks.join("a.lock"), claim("2020-01-01T00:00:00Z"));
    put_new(&locks.join("b.lock"), claim("9999-12-31T00:00:00Z"));
    put_new(&locks.join("c.lock"), b"");
    fifo(&locks.join("d.lock"));
    put_new(&ledger.path().join("000001.json"), b"{}");
    let problems = mended(&ledger);
    let expected =
        [("stray", None), ("lock-file", None), ("lock-file", None), ("lock-file", None), ("lock-file", None)];
    assert_eq!(codes(&problems), expected);
    for (problem, says) in problems.iter().zip(["other style", "ended at", "until 9999", "understood", "a FIFO"]) {
        assert!(problem.message.to_lowercase().contains(&says.to_lowercase()), "{}", problem.message);
        assert_eq!(problem.fix, Fix::No);
    }
    assert!(locks.join("a.lock").exists());
}
