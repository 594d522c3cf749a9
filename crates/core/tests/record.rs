//! The record as bytes: what other programs write is read, what we write is exact to the byte, and what is no record is never taken
//! for one.

mod common {
    pub(crate) mod arbitrary;
    pub(crate) mod holds;
    pub(crate) mod texts;
}

use common::arbitrary::{any_hold, any_json};
use common::holds::{at, fence, stored};
use common::texts::{ENDLESS_LOCK, GO_LOCK, GO_LOCK_OF_2025, GUARD_AND_OWNER};
use lokt_core::hold::{Hold, LockId, Part, Parts, PulseRef};
use lokt_core::record::{Parsed, encode, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Reads `text`, which must be a hold.
fn hold_of(text: &str) -> Hold {
    match parse(text.as_bytes()) {
        Parsed::Hold(hold) => *hold,
        other => panic!("{text} should be a hold, but is {other:?}"),
    }
}

fn is_corrupt(bytes: &[u8]) -> bool {
    matches!(parse(bytes), Parsed::Corrupt(why) if !why.is_empty())
}

/// The Go-written record with some members changed, added, or (`null` given as `Value::Null`) set to null.
fn go_lock_with(changes: &[(&str, Value)]) -> String {
    let mut record: serde_json::Map<String, Value> = serde_json::from_str(GO_LOCK).expect("the fixture is JSON");
    for (member, value) in changes {
        record.insert((*member).into(), value.clone());
    }
    serde_json::to_string(&record).expect("JSON is JSON")
}

fn text_of(hold: &Hold) -> String {
    String::from_utf8(encode(hold)).expect("a record is UTF-8")
}

#[test]
fn a_record_of_the_go_program_is_read_member_by_member() {
    let hold = hold_of(GO_LOCK);
    assert_eq!(hold.version, 1);
    assert_eq!(hold.name, "foo");
    assert_eq!(hold.lock_id, LockId::from_text("cdc1a4f09be24b4d8e3f5a6b7c8d0e68"));
    assert_eq!((hold.owner.as_str(), hold.host.as_str()), ("alice", "vm"));
    assert_eq!((hold.pid, hold.pid_start), (19491, 44508));
    assert_eq!(hold.agent_id, "agent-de35");
    assert_eq!(hold.acquired, Some(at("2026-11-15T18:15:16.22130836Z")), "a local offset is a time like any other");
    assert_eq!((hold.ttl_sec, hold.expires_at), (300, Some(at("2026-11-15T18:20:16.22130836Z"))));
    assert!(hold.is_foreign(), "it has none of our members");
    assert_eq!((hold.token, hold.pulse, hold.boot_id), (None, None, None));
    assert!(hold.extra.is_empty());
}

#[test]
fn a_record_from_before_expires_at_and_version_is_read() {
    let hold = hold_of(GO_LOCK_OF_2025);
    assert_eq!((hold.version, hold.ttl_sec, hold.expires_at), (0, 600, None));
    assert!(hold.lock_id.is_empty());
    assert_eq!((hold.pid_start, hold.agent_id.as_str()), (0, ""));
}

#[test]
fn a_record_of_the_go_program_is_written_back_with_the_same_members_in_the_same_order() {
    // Only the offset of its times changes: on disk we write UTC.
    let utc = GO_LOCK
        .replace("2026-11-15T13:15:16.22130836-05:00", "2026-11-15T18:15:16.22130836Z")
        .replace("2026-11-15T13:20:16.22130836-05:00", "2026-11-15T18:20:16.22130836Z");
    assert_eq!(text_of(&hold_of(GO_LOCK)), utc);
}

#[test]
fn our_record_is_exact_to_the_byte() {
    let since = at("2026-11-15T18:00:00.5Z");
    let hold = Hold {
        acquired: Some(since),
        ttl_sec: 300,
        expires_at: Some(at("2026-11-15T18:05:00.5Z")),
        parts: Some(Parts {
            process: Some(Part { since, ttl_sec: Some(60), clock_ms: Some(500_000) }),
            owner: Some(Part { since, ttl_sec: Some(300), clock_ms: Some(700_000) }),
            edited: false,
        }),
        pulse: Some(PulseRef { number: 12, dev: 66, ino: 1234 }),
        extra: [("zeta".to_owned(), json!([1, null])), ("alpha".to_owned(), json!({"b": 1}))].into_iter().collect(),
        ..stored("alice")
    };
    assert_eq!(text_of(&hold), GUARD_AND_OWNER);
    assert_eq!(hold_of(GUARD_AND_OWNER), hold);
}

#[test]
fn what_is_empty_is_left_out() {
    let since = at("2026-11-15T18:00:00Z");
    let hold = Hold {
        lock_id: LockId::default(),
        pid_start: 0,
        agent_id: String::new(),
        acquired: Some(since),
        token: None,
        parts: Some(Parts { process: None, owner: Some(Part { since, ttl_sec: None, clock_ms: None }), edited: false }),
        pulse: None,
        boot_id: None,
        pid_ns: None,
        fs: None,
        held_since: None,
        reason: None,
        ..stored("alice")
    };
    assert_eq!(text_of(&hold), ENDLESS_LOCK);
    assert_eq!(hold_of(ENDLESS_LOCK), hold);
}

#[test]
fn text_that_json_must_escape_survives() {
    let hold = Hold { owner: "a\"b\\c\nd\u{7}<&>é\u{1f512}".into(), name: String::new(), ..stored("") };
    assert_eq!(hold_of(&text_of(&hold)), hold);
    assert_eq!(hold_of(&go_lock_with(&[]).replace("alice", "\\u003cbob\\u003e")).owner, "<bob>");
}

#[test]
fn members_are_read_in_any_case() {
    let shouted: Value = serde_json::from_str(GUARD_AND_OWNER).expect("the golden text is JSON");
    let members = shouted.as_object().expect("a record is an object");
    let shouted: serde_json::Map<String, Value> = members
        .iter()
        .map(|(member, value)| match member.as_str() {
            "alpha" | "zeta" => (member.clone(), value.clone()),
            known => (known.to_ascii_uppercase(), value.clone()),
        })
        .collect();
    let text = serde_json::to_string(&shouted).expect("JSON is JSON");
    assert_eq!(hold_of(&text), hold_of(GUARD_AND_OWNER));
}

#[test]
fn of_a_member_that_comes_twice_the_last_counts() {
    let text = r#"{"owner":"alice","OWNER":"bob","pid":1,"pid":2}"#;
    let hold = hold_of(text);
    assert_eq!((hold.owner.as_str(), hold.pid), ("bob", 2));
}

#[test]
fn a_null_member_is_an_absent_one() {
    for member in [
        "version",
        "name",
        "lock_id",
        "host",
        "pid",
        "pid_start_ns",
        "agent_id",
        "acquired_ts",
        "ttl_sec",
        "expires_at",
        "fencing_token",
        "parts",
        "pulse",
        "boot_id",
        "pid_ns",
        "fs",
        "held_since",
        "reason",
    ] {
        let nulled = hold_of(&go_lock_with(&[(member, Value::Null)]));
        let mut without: serde_json::Map<String, Value> = serde_json::from_str(GO_LOCK).expect("the fixture is JSON");
        without.remove(member);
        let without = hold_of(&serde_json::to_string(&without).expect("JSON is JSON"));
        assert_eq!(nulled, without, "{member}: null differs from an absent member");
    }
}

#[test]
fn members_we_do_not_know_are_kept() {
    let foreign = json!({"deep": [{"er": null}, 1.5, -7, true, "text"], "Mixed Case": {}});
    let hold = hold_of(&go_lock_with(&[("x_team", foreign.clone()), ("Ünknown", json!(1))]));
    assert_eq!(hold.extra.get("x_team"), Some(&foreign));
    let again = hold_of(&text_of(&hold));
    assert_eq!(again.extra, hold.extra, "a rewrite lost what it did not know");
    assert!(again.extra.contains_key("Ünknown"));
}

#[test]
fn numbers_we_do_not_know_are_kept_to_the_last_digit() {
    for number in [
        "0.1",
        "-122.42140000000001",
        "9.313225746154785e-10",
        "5e-324",
        "1.7976931348623157e308",
        "18446744073709551615",
    ] {
        let text = format!(r#"{{"owner":"alice","x":{number}}}"#);
        let hold = hold_of(&text);
        let again = hold_of(&text_of(&hold));
        assert_eq!(again.extra, hold.extra, "{number} changed in a rewrite");
        let exact: f64 = number.parse().expect("a number");
        assert_eq!(hold.extra["x"].as_f64(), Some(exact), "{number} was not read exactly");
    }
}

#[test]
fn a_lease_that_is_no_whole_number_of_seconds_is_corrupt() {
    for ttl in [json!(1.5), json!(300.0), json!("300"), json!([300]), json!(true)] {
        assert!(is_corrupt(go_lock_with(&[("ttl_sec", ttl.clone())]).as_bytes()), "ttl_sec {ttl} passed");
    }
}

#[test]
fn what_is_no_time_is_corrupt() {
    for member in ["acquired_ts", "expires_at", "held_since"] {
        for time in [json!(""), json!("soon"), json!("2026-11-15"), json!("2026-11-15T10:00:00"), json!(1_700_000_000)]
        {
            assert!(is_corrupt(go_lock_with(&[(member, time.clone())]).as_bytes()), "{member} {time} passed");
        }
    }
}

#[test]
fn a_token_that_is_none_of_ours_leaves_the_hold_standing_without_one() {
    for token in [json!(0), json!(-1), json!(1_u64 << 53), json!("7"), json!(1.5), json!({})] {
        match parse(go_lock_with(&[("fencing_token", token.clone())]).as_bytes()) {
            Parsed::Hold(hold) => assert_eq!(hold.token, None, "{token} is no token of ours"),
            other => panic!("{token} made a live hold {other:?}"),
        }
    }
}

#[test]
fn a_member_of_the_wrong_type_is_corrupt() {
    for (member, value) in [
        ("version", json!("1")),
        ("name", json!(7)),
        ("lock_id", json!({})),
        ("owner", json!(["alice"])),
        ("host", json!(false)),
        ("pid", json!("19491")),
        ("pid", json!(9_223_372_036_854_775_808_u64)),
        ("pid_start_ns", json!(1.5)),
        ("agent_id", json!(1)),
        ("parts", json!("process")),
        ("parts", json!({"process": {}})),
        ("parts", json!({"process": {"since": "soon"}})),
        ("parts", json!({"owner": {"since": "2026-11-15T10:00:00Z", "ttl_sec": -1}})),
        ("pulse", json!(12)),
        ("pulse", json!({"n": 12})),
        ("boot_id", json!(1)),
        ("pid_ns", json!(-1)),
        ("fs", json!("ext4")),
        ("reason", json!(0)),
    ] {
        assert!(is_corrupt(go_lock_with(&[(member, value.clone())]).as_bytes()), "{member}: {value} passed");
    }
}

#[test]
fn what_is_no_record_is_corrupt() {
    let with_bom = format!("\u{feff}{GO_LOCK}");
    let twice = format!("{GO_LOCK}{GO_LOCK}");
    let trailing = format!("{GO_LOCK}x");
    let zeroed = format!("{GO_LOCK}\0\0\0");
    let cut = &GO_LOCK[..GO_LOCK.len() / 2];
    for text in [
        "",
        " ",
        "\n",
        "{}",
        "null",
        "[]",
        "[{}]",
        "0",
        "1.5",
        "true",
        "\"lock\"",
        "{",
        "}",
        "{\"owner\"}",
        "{\"owner\":null}",
        "{\"version\":1}",
        "{'owner':'a'}",
        "{\"owner\":\"a\",}",
        "{\"owner\":\"\\ud800\"}",
        "\0\0\0\0",
        &with_bom,
        &twice,
        &trailing,
        &zeroed,
        cut,
    ] {
        assert!(is_corrupt(text.as_bytes()), "{text:?} passed for a record");
    }
    assert!(is_corrupt(b"{\"owner\":\"\xff\"}"), "invalid UTF-8 passed");
    assert!(is_corrupt(b"\xff\xfe{\x00}\x00"), "UTF-16 passed");
}

#[test]
fn an_owner_without_a_name_is_still_an_owner() {
    assert_eq!(hold_of(r#"{"owner":""}"#).owner, "");
}

#[test]
fn a_later_version_is_recognised_whatever_else_it_changed() {
    for (text, version) in [
        (r#"{"version":2}"#, 2),
        (r#"{"version":2,"owner":{"id":7},"pid":"none","acquired_ts":12.5}"#, 2),
        (r#"{"parts":[1,2],"ttl_sec":1.5,"version":17}"#, 17),
        (r#"{"VERSION":2,"owner":["a","b"]}"#, 2),
        (r#"{"Version":3,"ttl_sec":"5m"}"#, 3),
        (r#"{"version":1,"owner":[],"version":2}"#, 2),
        (r#"{"version":9223372036854775807}"#, i64::MAX),
    ] {
        assert_eq!(parse(text.as_bytes()), Parsed::Newer(version), "{text}");
    }
}

#[test]
fn a_later_version_that_is_no_json_is_corrupt() {
    for text in [
        r#"{"version":2"#,
        r#"{"version":2}x"#,
        r#"[{"version":2}]"#,
        "[2]",
        "2",
        r#"{"version":"2"}"#,
        r#"{"version":[2]}"#,
    ] {
        assert!(is_corrupt(text.as_bytes()), "{text}");
    }
}

#[test]
fn a_version_that_is_absent_or_below_ours_is_ours_to_read() {
    for (text, version) in [
        (r#"{"owner":"a"}"#, 0),
        (r#"{"owner":"a","version":null}"#, 0),
        (r#"{"owner":"a","version":0}"#, 0),
        (r#"{"owner":"a","version":-1}"#, -1),
    ] {
        assert_eq!(hold_of(text).version, version, "{text}");
    }
}

#[test]
fn negative_and_huge_numbers_are_read_as_they_are() {
    let hold = hold_of(&go_lock_with(&[
        ("pid", json!(-1)),
        ("pid_start_ns", json!(i64::MAX)),
        ("ttl_sec", json!(i64::MIN)),
        ("fencing_token", json!((1_u64 << 53) - 1)),
        ("fs", json!(u64::MAX)),
    ]));
    assert_eq!((hold.pid, hold.pid_start, hold.ttl_sec), (-1, i64::MAX, i64::MIN));
    assert_eq!((hold.token, hold.fs), (Some(fence((1 << 53) - 1)), Some(u64::MAX)));
    assert_eq!(hold_of(&text_of(&hold)), hold);
}

#[test]
fn the_end_of_the_year_9999_is_a_time_and_not_damage() {
    for end in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999+14:00", "9999-12-30T22:00:00Z"] {
        let hold = hold_of(&go_lock_with(&[("expires_at", json!(end))]));
        assert!(hold.expires_at >= Some(at("9999-12-30T00:00:00Z")), "{end} was read as {:?}", hold.expires_at);
        assert_eq!(hold_of(&text_of(&hold)), hold);
    }
    assert!(is_corrupt(go_lock_with(&[("expires_at", json!("10000-01-01T00:00:00Z"))]).as_bytes()));
}

#[test]
fn the_zero_time_of_go_is_a_time() {
    let hold = hold_of(&go_lock_with(&[("acquired_ts", json!("0001-01-01T00:00:00Z"))]));
    assert_eq!(hold.acquired, Some(at("0001-01-01T00:00:00Z")));
}

#[test]
fn nesting_that_would_exhaust_the_stack_is_corrupt() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = 200_000;
        let deep = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        assert!(is_corrupt(deep.as_bytes()), "{open} nested {depth} times passed");
        assert!(is_corrupt(format!(r#"{{"owner":"a","x":{deep}}}"#).as_bytes()));
        assert!(is_corrupt(format!(r#"{{"owner":"a","reason":{deep}}}"#).as_bytes()));
        assert!(is_corrupt(open.repeat(depth).as_bytes()), "never closed");
        let newer = format!(r#"{{"version":2,"x":{deep}}}"#);
        assert_eq!(parse(newer.as_bytes()), Parsed::Newer(2), "a later version may nest as it likes");
    }
}

#[test]
fn a_hold_knows_whether_its_times_were_edited() {
    let edited = |from: &str, to: &str| {
        let text = GUARD_AND_OWNER.replacen(from, to, 1);
        assert_ne!(text, GUARD_AND_OWNER, "the edit changes something");
        hold_of(&text).parts.expect("the parts are still there").edited
    };
    assert!(!hold_of(GUARD_AND_OWNER).parts.expect("it has parts").edited);
    assert!(edited("\"expires_at\": \"2026-11-15T18:05", "\"expires_at\": \"2026-11-15T19:05"), "a later end");
    assert!(edited("  \"expires_at\": \"2026-11-15T18:05:00.5Z\",\n", ""), "no end");
    assert!(edited("\"expires_at\": \"2026-11-15T18:05:00.5Z\"", "\"expires_at\": null"), "no end, as null");
    assert!(
        edited("\"acquired_ts\": \"2026-11-15T18:00", "\"acquired_ts\": \"2026-11-15T18:01"),
        "another time of writing"
    );
    assert!(edited("\"for\": \"2026", "\"for\": \"2025"), "parts of another write");
    assert!(
        !edited("\"reason\": \"nightly build\"", "\"reason\": \"hourly build\""),
        "other members are free to change"
    );
}

#[test]
fn parts_without_the_times_they_were_written_for_count_as_edited() {
    let parts = json!({"process": {"since": "2026-11-15T18:00:00Z"}});
    let hold = hold_of(&go_lock_with(&[("parts", parts)]));
    assert!(hold.parts.expect("there is a part").edited);
}

#[test]
fn a_part_with_a_lease_of_zero_has_no_end_like_the_top_level() {
    let parts = json!({"process": {"since": "2026-11-15T18:00:00Z", "ttl_sec": 0}, "owner": {"since": "2026-11-15T18:00:00Z", "ttl_sec": 0}});
    let parts = hold_of(&go_lock_with(&[("parts", parts)])).parts.expect("there are parts");
    assert_eq!(parts.process.map(|part| part.ttl_sec), Some(None));
    assert_eq!(parts.owner.map(|part| part.ttl_sec), Some(None));
}

#[test]
fn parts_of_which_there_are_none_are_a_record_without_parts() {
    for parts in [json!({}), json!({"for": "x -"}), json!({"process": null, "owner": null})] {
        assert!(hold_of(&go_lock_with(&[("parts", parts.clone())])).is_foreign(), "{parts}");
    }
}

#[test]
fn an_endless_hold_that_is_given_an_end_by_hand_counts_as_edited() {
    let text = ENDLESS_LOCK.replacen("  \"parts\"", "  \"expires_at\": \"2026-11-15T18:05:00Z\",\n  \"parts\"", 1);
    let hold = hold_of(&text);
    assert_eq!(hold.expires_at, Some(at("2026-11-15T18:05:00Z")));
    assert!(hold.parts.expect("the parts are still there").edited);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_hold_reads_back_as_it_was_written(hold in any_hold()) {
        prop_assert_eq!(parse(&encode(&hold)), Parsed::Hold(Box::new(hold)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn no_json_panics(json in any_json()) {
        let _ = parse(json.to_string().as_bytes());
    }

    /// Damage is either noticed or harmless: what is still a record is one that a rewrite keeps.
    #[test]
    fn a_damaged_record_is_corrupt_or_reads_the_same_after_a_rewrite(
        text in prop::sample::select(vec![GO_LOCK, GO_LOCK_OF_2025, GUARD_AND_OWNER, ENDLESS_LOCK]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (place, byte, kind) in damage {
            let place = place.index(bytes.len());
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => bytes[place] ^= 1 << (byte % 8),
                _ => bytes.truncate(place + 1),
            }
        }
        if let Parsed::Hold(mut hold) = parse(&bytes) {
            let again = parse(&encode(&hold));
            // What we write was written for the times beside it.
            if let Some(parts) = &mut hold.parts {
                parts.edited = false;
            }
            prop_assert_eq!(again, Parsed::Hold(hold));
        }
    }
}
