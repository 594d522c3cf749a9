//! The lines of a repository's audit log, which prove each other.

use lokt_core::lease::audit::{Anchor, Event, Head, read_line};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::any::any_event;
use super::one::at;

/// Computed by another program (Python's json and hashlib) from the recipe alone.
const STEAL: &str = r#"{"event_id":"main/00112233445566778899aabbccddeeff/7","timestamp":"2026-11-15T18:00:00.250Z","operation":"lock_steal","actor":"vm:alice:100:1000","target":"main","fencing_token":7,"session_id":"0000000000000000000000000000abcd","reason":"\u003clate\u003e \u0026 \"gone\"\u2028\né","details":{"evidence":"boot_clock","new_token":7,"old_holder":"vm:b%3Ao:5:6","old_token":3},"prev_hash":"","record_hash":"34dd1074bfa5bc2e301fee743d32a17443f237275a9a48a012ba8b10331542fa"}"#;
const STEAL_HASH: &str = "34dd1074bfa5bc2e301fee743d32a17443f237275a9a48a012ba8b10331542fa";
const CREATE: &str = r#"{"event_id":"x","timestamp":"2026-11-15T18:00:01.000Z","operation":"worktree_create","actor":"vm:alice:100:1000","target":"main","fencing_token":null,"session_id":null,"reason":null,"prev_hash":"34dd1074bfa5bc2e301fee743d32a17443f237275a9a48a012ba8b10331542fa","record_hash":"505e15176e184dbdb7cf26d50cd774b4c36854442d12457b4e4895f39c4df640"}"#;
const CREATE_HASH: &str = "505e15176e184dbdb7cf26d50cd774b4c36854442d12457b4e4895f39c4df640";
/// As `jvs` writes it.
const NATIVE: &str = r#"{"timestamp":"2026-02-19T00:00:00.123456789Z","event_type":"snapshot_create","snapshot_id":"1708300800000-a3f7c1b2","worktree_name":"main","details":{"engine":"copy","note":"a\u0026b"},"prev_hash":"505e15176e184dbdb7cf26d50cd774b4c36854442d12457b4e4895f39c4df640","record_hash":"38468dda3e4e4470b5b966ae01289ae11727fae8ef4d78c9665cb428eaf41384"}"#;

fn steal() -> Event {
    let details = json!({"evidence": "boot_clock", "new_token": 7, "old_holder": "vm:b%3Ao:5:6", "old_token": 3});
    Event {
        event_id: "main/00112233445566778899aabbccddeeff/7".into(),
        // Finer than what is written.
        timestamp: at("2026-11-15T18:00:00.250999Z"),
        operation: "lock_steal".into(),
        actor: "vm:alice:100:1000".into(),
        target: "main".into(),
        token: Some(7),
        session_id: Some("0000000000000000000000000000abcd".into()),
        reason: Some("<late> & \"gone\"\u{2028}\n\u{e9}".into()),
        details: details.as_object().cloned().unwrap_or_default(),
    }
}

fn create() -> Event {
    Event {
        event_id: "x".into(),
        timestamp: at("2026-11-15T18:00:01Z"),
        operation: "worktree_create".into(),
        token: None,
        session_id: None,
        reason: None,
        details: Map::new(),
        ..steal()
    }
}

#[test]
fn a_line_is_what_the_recipe_says() {
    let (line, hash) = steal().line("");
    assert_eq!(String::from_utf8(line), Ok(format!("{STEAL}\n")));
    assert_eq!(hash, STEAL_HASH);
    let (line, hash) = create().line(&hash);
    assert_eq!(String::from_utf8(line), Ok(format!("{CREATE}\n")));
    assert_eq!(hash, CREATE_HASH);
}

#[test]
fn lines_of_ours_and_of_jvs_are_one_chain() {
    let written = Event { timestamp: at("2026-11-15T18:00:00.250Z"), ..steal() };
    assert_eq!(read_line(STEAL.as_bytes(), 1, ""), Ok((written, STEAL_HASH.into())));
    assert_eq!(read_line(format!("{CREATE}\n").as_bytes(), 2, STEAL_HASH), Ok((create(), CREATE_HASH.into())));
    let (native, _) = read_line(NATIVE.as_bytes(), 3, CREATE_HASH).expect("its hashes are right");
    assert_eq!((native.operation.as_str(), native.target.as_str()), ("snapshot_create", "main"));
    assert_eq!(native.details["snapshot_id"], "1708300800000-a3f7c1b2");
}

#[test]
fn a_line_that_was_changed_or_moved_is_told() {
    let twice = STEAL.replacen("\"reason\"", "\"reason\":\"nothing\",\"reason\"", 1);
    for (line, prev_hash, why) in [
        (STEAL.replace("alice", "mallory"), "", "it was changed"),
        (STEAL.replace("\"fencing_token\":7", "\"fencing_token\":8"), "", "it was changed"),
        (STEAL.replace("\"old_token\":3", "\"old_token\":4"), "", "it was changed"),
        (STEAL.replace("\"actor\"", "\"x\":1,\"actor\""), "", "it was changed"),
        (twice, "", "twice"),
        (STEAL.into(), CREATE_HASH, "doesn't follow"),
        (CREATE.into(), "", "doesn't follow"),
        (CREATE.replace("\"prev_hash\"", "\"prev\""), "", "no prev_hash"),
        (CREATE.replace("\"record_hash\"", "\"hash\""), "", "no record_hash"),
        (STEAL[..90].into(), "", "no event"),
        (String::new(), "", "no event"),
        ("[]".into(), "", "no event"),
    ] {
        let broken = read_line(line.as_bytes(), 5, prev_hash).expect_err("that is no line of this log");
        assert_eq!(broken.line, 5);
        assert!(broken.why.contains(why), "{line}: {}", broken.why);
    }
}

#[test]
fn heads_and_anchors_read_back() {
    let head = Head { count: 2, hash: CREATE_HASH.into(), size: 900, boot_id: "boot-1".into() };
    assert_eq!(Head::parse(&head.to_bytes()), Some(head.clone()));
    assert_eq!(Head::parse(&Head::default().to_bytes()), Some(Head::default()));
    for bad in [
        Head { hash: String::new(), ..head.clone() },
        Head { hash: "g".repeat(64), ..head.clone() },
        Head { count: 0, ..head.clone() },
        // The next line would have no number.
        Head { count: u64::MAX, ..head.clone() },
        Head { size: u64::MAX, ..head.clone() },
    ] {
        assert_eq!(Head::parse(&bad.to_bytes()), None, "{bad:?}");
    }
    for bad in ["", "{}", "[]", r#"{"count":-1,"hash":"","size":0,"boot_id":""}"#] {
        assert_eq!(Head::parse(bad.as_bytes()), None, "{bad}");
    }
    let bytes = head.to_bytes();
    assert!((0..bytes.len() - 2).all(|cut| Head::parse(&bytes[..cut]).is_none()), "half a head is none");
    let anchor = Anchor { count: 1, hash: STEAL_HASH.into(), size: 500, logged: 7, boot_id: Some("boot-1".into()) };
    assert_eq!(Anchor::from_value(&anchor.to_value()), Some(anchor.clone()));
    for far in [Anchor { count: u64::MAX, ..anchor.clone() }, Anchor { logged: u64::MAX, ..anchor.clone() }] {
        assert_eq!(Anchor::from_value(&far.to_value()), None, "no link comes after that: {far:?}");
    }
    let old = serde_json::json!({"count": 1, "hash": STEAL_HASH, "size": 500, "logged": 7});
    assert_eq!(Anchor::from_value(&old), Some(Anchor { boot_id: None, ..anchor }), "who doesn't say when is believed");
    assert_eq!(Anchor::from_value(&Anchor::default().to_value()), Some(Anchor::default()));
    assert_eq!(Anchor::from_value(&Value::Null), None);
}

proptest! {
    #[test]
    fn every_event_reads_back_from_a_link_and_from_the_log(event in any_event(), prev in any::<Option<u128>>()) {
        let prev_hash = prev.map_or_else(String::new, |prev| format!("{prev:064x}"));
        prop_assert_eq!(Event::from_value(&event.to_value()), Some(event.clone()));
        let (line, hash) = event.line(&prev_hash);
        prop_assert_eq!(line.split(|byte| *byte == b'\n').count(), 2, "one line");
        prop_assert_eq!(read_line(&line, 1, &prev_hash), Ok((event.clone(), hash)));
        let again = Event::from_value(&event.to_value()).expect("it was kept in a link");
        prop_assert_eq!(again.line(&prev_hash).0, line, "a line that is made anew has the same bytes");
    }

    #[test]
    fn no_byte_of_a_line_can_be_changed_unseen(cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = STEAL.as_bytes().to_vec();
        let at = cut.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        if let Ok((event, hash)) = read_line(&bytes, 1, "") {
            // Another spelling of the same line: the case of a digit in an escape.
            prop_assert_eq!(event.line("").0, format!("{STEAL}\n").into_bytes());
            prop_assert_eq!(hash, STEAL_HASH);
        }
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read_line(&bytes, 1, "").is_err());
        prop_assert_eq!(Head::parse(&bytes), None);
    }
}
