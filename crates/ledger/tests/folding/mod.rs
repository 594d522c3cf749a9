//! What was read once is kept, and void as soon as it isn't what the ledger says: nobody reads fifty thousand events to claim a node, and
//! nobody is told of a ledger that was.

use std::fs;
use std::path::{Path, PathBuf};

use crate::yard::{self, Yard, take};
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_ledger::{AppendTerms, Appending, Ledger};
use lokt_sys::error::ErrorKind;
use lokt_sys::machine::identity;
use lokt_testkit::swarm::put;

const EVENT: &str = r#"{"type":"custom_event","timestamp":"2026-01-01T00:00:00Z"}"#;

fn acquired(node: &str, owner: &str) -> String {
    format!(
        r#"{{"type":"lock_acquired","timestamp":"2026-01-01T00:00:00Z","node_id":"{node}","owner":"{owner}","expires_at":"2099-01-01T00:00:00Z"}}"#
    )
}

/// A ledger with `count` events of somebody else's.
fn yard_with(count: u64) -> Yard {
    let yard = Yard::new(Style::Documented);
    for number in 1..=count {
        put(&yard.event(number), EVENT);
    }
    yard
}

fn cache(yard: &Yard) -> PathBuf {
    yard.events_dir().join(".lokt/fold.json")
}

/// Who has a node, as a new command finds it.
fn holder(yard: &Yard, node: &str) -> Option<String> {
    let entries = yard.ledger("reader").claims().expect("it can be read").value;
    entries.into_iter().find(|entry| entry.node == node).map(|entry| entry.holder.hold.owner)
}

#[test]
fn what_was_read_is_not_read_again() {
    let yard = yard_with(300);
    take(&yard.ledger("alice"), "n").expect("it is free");
    assert!(cache(&yard).exists(), "what was read is kept");
    // Somebody changes an event that was read: whoever trusts the cache doesn't notice, which `verify` does.
    put(&yard.event(7), acquired("m", "z"));
    assert_eq!(holder(&yard, "m"), None);
    assert_eq!(holder(&yard, "n").as_deref(), Some("alice"));
    // What is added is read on.
    yard.foreign(&acquired("m", "y"));
    assert_eq!(holder(&yard, "m").as_deref(), Some("y"));
}

#[test]
fn a_cache_that_does_not_fit_is_void() {
    type Spoil = fn(&Yard);
    let spoils: [(&str, Spoil); 8] = [
        ("the last event is another one", |yard| put(&yard.event(11), acquired("n", "alicf"))),
        ("the ledger is shorter", |yard| remove(&yard.event(11))),
        ("the last event is a directory", |yard| {
            remove(&yard.event(11));
            fs::create_dir(yard.event(11)).expect("nothing is there");
        }),
        ("a bit was flipped", |yard| {
            let mut bytes = fs::read(cache(yard)).expect("it is there");
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            put(&cache(yard), bytes);
        }),
        ("it was cut", |yard| {
            let bytes = fs::read(cache(yard)).expect("it is there");
            put(&cache(yard), &bytes[..bytes.len() - 5]);
        }),
        ("it is empty", |yard| put(&cache(yard), "")),
        ("it is zeros", |yard| {
            let length = fs::read(cache(yard)).expect("it is there").len();
            put(&cache(yard), vec![0; length]);
        }),
        ("it is a directory", |yard| {
            remove(&cache(yard));
            fs::create_dir(cache(yard)).expect("nothing is there");
        }),
    ];
    for (what, spoil) in spoils {
        let yard = yard_with(10);
        take(&yard.ledger("alice"), "n").expect("it is free");
        // The cache doesn't know this one.
        put(&yard.event(7), acquired("m", "z"));
        assert_eq!(holder(&yard, "m"), None, "the cache is used");
        spoil(&yard);
        assert_eq!(holder(&yard, "m").as_deref(), Some("z"), "everything is read again: {what}");
    }
}

/// Another program removes a file.
#[expect(clippy::disallowed_methods, reason = "it stands for what another program does")]
fn remove(path: &Path) {
    fs::remove_file(path).expect("it is there");
}

#[test]
fn an_event_that_comes_late_into_a_fillers_place_counts() {
    for named in [true, false] {
        let yard = yard_with(3);
        let filler = if named {
            EVENT.to_owned()
        } else {
            r#"{"type":"lock_takeover","timestamp":"2026-01-01T00:00:00Z"}"#.to_owned()
        };
        yard.foreign(&filler);
        yard.foreign(r#"{"type":"custom_event","timestamp":"2026-01-01T00:00:00Z","filler":4}"#);
        take(&yard.ledger("alice"), "n").expect("it is free");
        assert_eq!(holder(&yard, "m"), None);
        put(&yard.event(4), acquired("m", "late"));
        assert_eq!(holder(&yard, "m").as_deref(), Some("late"), "the late writer's event may be a claim");
        assert!(matches!(take(&yard.ledger("bob"), "m"), Err(Refused::Hold(_))));
    }
}

#[test]
fn a_gap_that_is_filled_and_an_event_that_is_mended_count() {
    let yard = yard_with(10);
    put(&yard.event(4), "{");
    remove(&yard.event(6));
    let alice = yard.ledger("alice");
    let force = lokt_ledger::ClaimTerms { force: true, ..yard::terms() };
    alice.take(&["n".to_owned()], &force, &mut lokt_sys::wait_policy::WaitPolicy::none()).expect("by force");
    assert!(cache(&yard).exists(), "a damaged ledger has a cache, too");
    put(&yard.event(6), acquired("m", "back"));
    assert_eq!(holder(&yard, "m").as_deref(), Some("back"));
    let refused = alice
        .take(&["x".to_owned()], &yard::terms(), &mut lokt_sys::wait_policy::WaitPolicy::none())
        .expect_err("damaged");
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    put(&yard.event(4), acquired("o", "mended"));
    assert_eq!(holder(&yard, "o").as_deref(), Some("mended"));
    take(&alice, "x").expect("all is well again");
}

#[test]
fn numbers_that_are_far_apart_are_not_counted_through() {
    let yard = yard_with(3);
    put(&yard.event(Seq::MAX.get() - 5), acquired("far", "z"));
    put(&yard.event(1 << 40), acquired("half", "y"));
    assert_eq!(holder(&yard, "far").as_deref(), Some("z"));
    assert_eq!(holder(&yard, "half").as_deref(), Some("y"));
}

fn append(ledger: &Ledger, id: &str) -> (u64, bool) {
    let event = Draft::parse(EVENT.as_bytes()).expect("an event");
    let terms = AppendTerms { id: Some(id), ..AppendTerms::default() };
    match ledger.append(&event, &terms).expect("it can be appended").value {
        Appending::Appended(done) => (done.first.get(), done.duplicate),
        Appending::Denied(unmet) => panic!("it was denied: {unmet:?}"),
    }
}

#[test]
fn a_key_is_known_again_whatever_became_of_the_cache() {
    type Spoil = fn(&Yard);
    let ids = |yard: &Yard| yard.events_dir().join(".lokt/ids");
    let spoils: [(&str, Spoil); 6] = [
        ("nothing", |_| {}),
        ("the cache is gone", |yard| remove(&cache(yard))),
        ("the keys are gone", |yard| remove(&yard.events_dir().join(".lokt/ids"))),
        ("the keys are zeros", |yard| {
            let path = yard.events_dir().join(".lokt/ids");
            let length = fs::read(&path).expect("it is there").len();
            put(&path, vec![0; length]);
        }),
        ("the keys were cut", |yard| {
            let path = yard.events_dir().join(".lokt/ids");
            let bytes = fs::read(&path).expect("it is there");
            put(&path, &bytes[..bytes.len() - 3]);
        }),
        ("somebody added to the keys", |yard| {
            let path = yard.events_dir().join(".lokt/ids");
            let bytes = fs::read(&path).expect("it is there");
            put(&path, [bytes.as_slice(), b"1 torn"].concat());
        }),
    ];
    for (what, spoil) in spoils {
        let yard = yard_with(3);
        let ledger = yard.ledger("alice");
        for number in 0..5 {
            assert_eq!(append(&ledger, &format!("key-{number}")), (4 + number, false));
        }
        assert!(ids(&yard).exists());
        spoil(&yard);
        for number in (0..5).rev() {
            assert_eq!(append(&ledger, &format!("key-{number}")), (4 + number, true), "{what}: key-{number}");
        }
        assert_eq!(append(&ledger, "another"), (9, false), "{what}");
        assert_eq!(append(&yard.ledger("bob"), "another"), (9, true), "{what}");
        assert_eq!(append(&yard.ledger("bob"), "key-2"), (6, true), "{what}");
    }
}

#[test]
fn a_ledger_that_went_back_has_the_keys_that_it_had_then() {
    let yard = yard_with(3);
    let ledger = yard.ledger("alice");
    append(&ledger, "one");
    append(&ledger, "two");
    remove(&yard.event(5));
    assert_eq!(append(&ledger, "two"), (5, false), "that it was there before counts for nothing");
    assert_eq!(append(&ledger, "one"), (4, true));
}

#[test]
fn a_cache_of_the_other_style_is_void() {
    let yard = yard_with(3);
    take(&yard.ledger("alice"), "n").expect("it is free");
    put(&yard.events_dir().join(".lokt/settings.json"), r#"{"version":1,"style":"native","chain":false}"#);
    let native = Ledger::existing(yard.path(), identity("bob".into(), None)).expect("it can be opened");
    assert!(native.expect("it is there").claims().expect("it can be read").value.is_empty());
}
