//! Links of a chain as bytes.

use lokt_core::hold::{Fence, LockId};
use lokt_core::lease::audit::{Anchor, Event};
use lokt_core::lease::record::{Parsed, Record, parse};
use lokt_core::lease::slot::{Base, Kind, Slot, Tag, tag};
use lokt_core::lease::state::{Head, Published, Restore, State};
use lokt_core::snapshot::id::SnapshotId;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::any::{any_json, any_slot};
use super::one::{at, fence, leased};

const CHAIN: &str = "00112233445566778899aabbccddeeff";

fn granted() -> Slot {
    let record = Record { token: Some(fence(7)), ..leased() };
    Slot {
        chain: CHAIN.into(),
        number: 7,
        kind: Kind::Grant,
        record: Some(Box::new(record)),
        acquire_seq: 3,
        next: 8,
        ceiling: 1024,
        state: State::default(),
        snapshot: None,
        anchor: Anchor { count: 2, hash: "ab".repeat(32), size: 700, logged: 6, boot_id: Some("boot-1".into()) },
        event: Event {
            event_id: format!("main/{CHAIN}/7"),
            timestamp: at("2026-11-15T18:00:00.25Z"),
            operation: "lock_acquire".into(),
            actor: "vm:alice:100:1000".into(),
            target: "main".into(),
            token: Some(7),
            session_id: None,
            reason: None,
            details: Map::new(),
        },
    }
}

fn base() -> Base {
    Base { chain: CHAIN.into(), first: 1, block: 1024, acquire_seq: 0 }
}

/// The link's members, some of its `chain` changed.
fn with(slot: &Slot, changes: &Value) -> Vec<u8> {
    let mut members: Value = serde_json::from_slice(&slot.to_bytes()).expect("a link is JSON");
    for (name, value) in changes.as_object().expect("tests write objects") {
        members["chain"][name] = value.clone();
    }
    members.to_string().into_bytes()
}

#[test]
fn a_link_reads_back_and_who_knows_only_leases_sees_one() {
    let slot = granted();
    let bytes = slot.to_bytes();
    assert_eq!(Slot::parse(&bytes), Ok(slot.clone()));
    assert_eq!(parse(&bytes), Parsed::Record(slot.record.clone().expect("it grants one")));
    assert_eq!(tag(&bytes), Some(Tag { chain: CHAIN.into(), number: 7 }));
    let text = String::from_utf8(bytes).expect("JSON is text");
    assert!(text.starts_with("{\"lock_id\":") && text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
    let free = Slot { kind: Kind::Release, record: None, ..slot };
    assert_eq!(Slot::parse(&free.to_bytes()), Ok(free.clone()));
    assert!(matches!(parse(&free.to_bytes()), Parsed::Corrupt(_)), "nobody holds it");
}

#[test]
fn a_link_that_contradicts_itself_is_none() {
    let held = |token| Some(Box::new(Record { token, lock_id: LockId::from_bits(1), ..leased() }));
    let next = |kind, record| Slot { kind, record, number: 9, next: 10, ..granted() };
    for good in [
        next(Kind::Renew, held(Some(fence(7)))),
        next(Kind::Publish, held(Some(fence(7)))),
        next(Kind::Rebase, held(Some(fence(7)))),
        next(Kind::Rebase, None),
        next(Kind::Release, None),
        Slot { next: 5_000, ceiling: 6_000, ..next(Kind::Rebase, None) },
        Slot { number: 1024, next: 2_049, ceiling: 3_072, ..next(Kind::Rebase, None) },
        Slot { number: 1023, next: 1024, ..next(Kind::Release, None) },
    ] {
        assert_eq!(Slot::parse(&good.to_bytes()), Ok(good.clone()));
    }
    for (why, bad) in [
        ("its token is its number", Slot { record: held(Some(fence(6))), ..granted() }),
        ("a grant has a token", Slot { record: held(None), ..granted() }),
        ("a grant grants something", Slot { record: None, ..granted() }),
        ("nothing is left after a release", next(Kind::Release, held(Some(fence(7))))),
        ("who renews has something", next(Kind::Renew, None)),
        ("who publishes has something", next(Kind::Publish, None)),
        ("a token was given before", next(Kind::Renew, held(Some(fence(9))))),
        ("a token was given before", next(Kind::Rebase, held(None))),
        ("numbers follow each other", Slot { next: 9, ..granted() }),
        ("numbers follow each other", Slot { next: 7, ..granted() }),
        ("numbers grow", Slot { next: 9, ..next(Kind::Rebase, None) }),
        ("the last number of a block is a rebase's", Slot { number: 1024, next: 1025, ..next(Kind::Release, None) }),
        ("a rebase leads into a block", Slot { next: 1025, ..next(Kind::Rebase, None) }),
        ("chains have ids", Slot { chain: "main".into(), ..granted() }),
        (
            "numbers end",
            Slot { number: Fence::LIMIT, next: Fence::LIMIT + 1, ceiling: u64::MAX, ..next(Kind::Release, None) },
        ),
        ("numbers begin at 1", Slot { number: 0, next: 1, ..next(Kind::Release, None) }),
    ] {
        assert!(Slot::parse(&bad.to_bytes()).is_err(), "{why}: {bad:?}");
    }
}

fn snapshot_id(number: u32) -> SnapshotId {
    SnapshotId::new(1_708_300_800_000, number)
}

/// A link after which everything is known of snapshots that can be.
fn published() -> Slot {
    let restore = Restore {
        snapshot_id: snapshot_id(1),
        tree: "main.7.00112233445566778899aabbccddeeff".into(),
        dev: Some(66),
        ino: 4321,
        was_head: Head::Snapshot(snapshot_id(2)),
        in_parts: false,
    };
    let state = State {
        head: Head::Snapshot(snapshot_id(3)),
        pending: vec![snapshot_id(2), snapshot_id(3)],
        restore: Some(restore),
    };
    let snapshot = Some(Published { id: snapshot_id(3), parent: Some(snapshot_id(2)) });
    Slot { kind: Kind::Publish, number: 9, next: 10, state, snapshot, ..granted() }
}

#[test]
fn what_is_known_of_snapshots_is_carried_as_it_was() {
    let text = String::from_utf8(granted().to_bytes()).expect("JSON is text");
    for member in ["head", "pending", "restore", "snapshot"] {
        assert!(!text.contains(&format!("\"{member}\":")), "a link without snapshots is as it always was: {text}");
    }
    let slot = published();
    assert_eq!(Slot::parse(&slot.to_bytes()), Ok(slot.clone()));
    let members: Value = serde_json::from_slice(&slot.to_bytes()).expect("JSON");
    let id = |number: u32| format!("1708300800000-{number:08x}");
    assert_eq!(members["chain"]["head"], json!(id(3)));
    assert_eq!(members["chain"]["pending"], json!([id(2), id(3)]));
    assert_eq!(members["chain"]["snapshot"], json!({"id": id(3), "parent": id(2)}));
    let tree = "main.7.00112233445566778899aabbccddeeff";
    let restore = json!({"snapshot_id": id(1), "tree": tree, "dev": 66, "ino": 4321, "was_head": id(2)});
    assert_eq!(members["chain"]["restore"], restore);

    let none = Slot { state: State { head: Head::None, ..State::default() }, ..granted() };
    assert_eq!(
        Slot::parse(&none.to_bytes()),
        Ok(none.clone()),
        "that there is none is something else than not to know"
    );
    assert_ne!(none.to_bytes(), granted().to_bytes());
    let nulls = with(&granted(), &json!({"pending": null, "restore": null, "snapshot": null}));
    assert_eq!(Slot::parse(&nulls), Ok(granted()), "null is nothing");
}

#[test]
fn links_of_snapshots_that_contradict_themselves_are_none() {
    let restoring = Slot { kind: Kind::Restore, snapshot: None, ..published() };
    let without_head = |head| Slot { state: State { head, ..published().state }, ..published() };
    for good in [
        published(),
        Slot { record: None, ..published() },
        restoring.clone(),
        Slot { record: None, ..restoring.clone() },
        Slot { kind: Kind::Renew, snapshot: None, ..published() },
        Slot { snapshot: Some(Published { id: snapshot_id(3), parent: None }), ..published() },
    ] {
        assert_eq!(Slot::parse(&good.to_bytes()), Ok(good.clone()));
    }
    for (why, bad) in [
        ("a file is published under a lease", Slot { record: None, snapshot: None, ..published() }),
        ("a restore has a tree", Slot { state: State::default(), ..restoring.clone() }),
        ("only a publish publishes", Slot { kind: Kind::Renew, ..published() }),
        ("only a publish publishes", Slot { kind: Kind::Restore, ..published() }),
        ("what is published is the head", without_head(Head::None)),
        ("what is published is the head", without_head(Head::Unknown)),
        ("what is published is the head", without_head(Head::Snapshot(snapshot_id(2)))),
        ("its receipt is to be written", Slot { state: State { pending: vec![], ..published().state }, ..published() }),
    ] {
        assert!(Slot::parse(&bad.to_bytes()).is_err(), "{why}: {bad:?}");
    }
}

#[test]
fn members_that_make_no_sense_are_told() {
    for changes in [
        json!({"version": 2}),
        json!({"version": null}),
        json!({"id": "00112233445566778899AABBCCDDEEFF"}),
        json!({"number": "7"}),
        json!({"number": -7}),
        json!({"number": 7.5}),
        json!({"kind": "swap"}),
        json!({"kind": "restore"}),
        json!({"head": 7}),
        json!({"head": ""}),
        json!({"head": "latest"}),
        json!({"pending": "1708300800000-a3f7c1b2"}),
        json!({"pending": ["1708300800000-a3f7c1b2", null]}),
        json!({"pending": ["../1708300800000-a3f7c1b2"]}),
        json!({"restore": "1708300800000-a3f7c1b2"}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "main.7.ab"}}),
        json!({"restore": {"snapshot_id": "latest", "tree": "main.7.ab", "ino": 9}}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "../main", "ino": 9}}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "..", "ino": 9}}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "", "ino": 9}}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "a".repeat(256), "ino": 9}}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "main.7.ab", "dev": "x", "ino": 9}}),
        json!({"restore": {"snapshot_id": "1708300800000-a3f7c1b2", "tree": "main.7.ab", "ino": 9, "was_head": 1}}),
        json!({"snapshot": {"id": "1708300800000-a3f7c1b2", "parent": null}}),
        json!({"snapshot": {"parent": null}}),
        json!({"acquire_seq": 9_007_199_254_740_992_u64}),
        json!({"acquire_seq": -1}),
        json!({"next": u64::MAX}),
        json!({"ceiling": u64::MAX}),
        json!({"anchor": null}),
        json!({"anchor": {"count": 1, "hash": "", "size": 1, "logged": 0}}),
        json!({"anchor": {"count": 0, "hash": "ab".repeat(32), "size": 1, "logged": 0}}),
        json!({"event": {}}),
        json!({"event": 7}),
    ] {
        let why = Slot::parse(&with(&granted(), &changes)).expect_err("that is no link");
        assert!(!why.is_empty(), "{changes}");
    }
    for bad in ["", "{}", "[]", "{\"chain\":7}", "{\"chain\":{}}"] {
        assert!(Slot::parse(bad.as_bytes()).is_err(), "{bad}");
        assert_eq!(tag(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn a_birth_reads_back() {
    assert_eq!(Base::parse(&base().to_bytes()), Ok(base()));
    for bad in [
        Base { chain: String::new(), ..base() },
        Base { first: 0, ..base() },
        Base { first: 1025, ..base() },
        Base { block: u64::MAX, ..base() },
        Base { acquire_seq: u64::MAX, ..base() },
    ] {
        assert!(Base::parse(&bad.to_bytes()).is_err(), "{bad:?}");
    }
    let newer = String::from_utf8(base().to_bytes()).expect("JSON").replace("\"version\":1", "\"version\":2");
    assert!(Base::parse(newer.as_bytes()).is_err_and(|why| why.contains('2')));
}

proptest! {
    #[test]
    fn every_link_reads_back(slot in any_slot()) {
        let bytes = slot.to_bytes();
        prop_assert_eq!(Slot::parse(&bytes), Ok(slot.clone()));
        prop_assert_eq!(tag(&bytes), Some(Tag { chain: slot.chain, number: slot.number }));
    }

    #[test]
    fn no_member_makes_reading_panic(
        name in prop::sample::select(vec!["version", "id", "number", "kind", "acquire_seq", "next", "ceiling", "anchor", "event", "head", "pending", "restore", "snapshot"]),
        value in any_json(),
    ) {
        let mut changes = json!({});
        changes[name] = value;
        let bytes = with(&granted(), &changes);
        if let Ok(slot) = Slot::parse(&bytes) {
            prop_assert_eq!(Slot::parse(&slot.to_bytes()), Ok(slot));
        }
        let _ = tag(&bytes);
    }

    #[test]
    fn half_a_link_is_none(cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = granted().to_bytes();
        let whole = bytes.len() - 2;
        let at = cut.index(whole);
        prop_assert!(Slot::parse(&bytes[..at]).is_err());
        prop_assert_eq!(tag(&bytes[..at]), None);
        bytes[at] = byte;
        let _ = (Slot::parse(&bytes), tag(&bytes), Base::parse(&bytes));
    }
}
