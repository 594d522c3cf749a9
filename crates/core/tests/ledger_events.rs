//! Events as bytes: what people type is written as they typed it, what other programs write is read as they mean it, and what is no event
//! is never taken for one.

use lokt_core::ledger::chain::Digest;
use lokt_core::ledger::draft::{Added, Draft, EVENT_BYTES_MAX, EVENT_DEPTH_MAX};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::{Stored, line, misread, shown};
use proptest::prelude::*;
use serde_json::{Value, json};

const BOTH: [Style; 2] = [Style::Documented, Style::Native];

fn seq(number: u64) -> Seq {
    Seq::new(number).expect("the number of an event")
}

fn now() -> jiff::Timestamp {
    "2026-11-16T05:00:00.25Z".parse().expect("a time")
}

fn draft(json: &str) -> Draft {
    Draft::parse(json.as_bytes()).unwrap_or_else(|bad| panic!("{json} should be an event: {bad}"))
}

fn refusal(json: &[u8]) -> String {
    let shown = String::from_utf8_lossy(json);
    let shown = shown.chars().take(80).collect::<String>();
    Draft::parse(json).err().unwrap_or_else(|| panic!("{shown} should be refused")).0
}

fn rendered(draft: &Draft, style: Style, added: Added<'_>) -> String {
    let bytes = draft.render(style, now(), added).unwrap_or_else(|bad| panic!("{draft:?} should be written: {bad}"));
    String::from_utf8(bytes).expect("an event is text")
}

#[test]
fn an_event_is_written_with_its_type_and_time_first_and_all_else_as_typed() {
    let typed = "{ \"a\" : 1.50 , \"big\": 123456789012345678901234567890, \"type\":\"note\",\n \"x\":{\"b\":[ ],\"a\":1e999} }\n";
    let written = rendered(&draft(typed), Style::Documented, Added::default());
    let expected = "{\"type\":\"note\",\"timestamp\":\"2026-11-16T05:00:00.25Z\",\"a\":1.50,\
                    \"big\":123456789012345678901234567890,\"x\":{\"b\":[],\"a\":1e999}}";
    assert_eq!(written, expected);
}

#[test]
fn a_timestamp_that_was_given_is_kept_as_it_is() {
    let written = rendered(
        &draft(r#"{"timestamp":"2026-11-15T18:15:16,50+02:00","type":"note"}"#),
        Style::Documented,
        Added::default(),
    );
    assert_eq!(written, r#"{"type":"note","timestamp":"2026-11-15T18:15:16,50+02:00"}"#);
}

#[test]
fn a_type_and_a_body_are_the_event_that_has_both() {
    for (kind, body, whole) in [
        ("note", "{}", r#"{"type":"note"}"#),
        ("note", " { } \n", r#"{"type":"note"}"#),
        ("a \"b\"\n", r#"{"x":1.50,"y":{}}"#, r#"{"type":"a \"b\"\n","x":1.50,"y":{}}"#),
    ] {
        assert_eq!(Draft::with_body(kind, body), Ok(draft(whole)), "{kind:?} {body:?}");
    }
    for (kind, body) in [
        ("", "{}"),
        ("note", ""),
        ("note", "1"),
        ("note", "}"),
        ("note", "{"),
        ("note", "{}{}"),
        ("note", "{,}"),
        ("note", r#"{"x":1},{"y":2}"#),
        ("note", r#"{"type":"other"}"#),
        ("note", r#"{"seq":1}"#),
    ] {
        assert!(Draft::with_body(kind, body).is_err(), "{kind:?} {body:?} should be refused");
    }
}

#[test]
fn what_is_no_event_is_refused_with_the_reason() {
    let deep = format!("{{\"type\":\"a\",\"x\":{}{}}}", "[".repeat(EVENT_DEPTH_MAX), "]".repeat(EVENT_DEPTH_MAX));
    for (json, says) in [
        (&b""[..], "nothing"),
        (b" \n", "nothing"),
        (b"\xEF\xBB\xBF{\"type\":\"a\"}", "byte order mark"),
        (b"{\"type\":\"\xFF\"}", "UTF-8"),
        (b"[]", "an array"),
        (b"\"type\"", "a string"),
        (b"17", "a number"),
        (b"null", "null"),
        (b"{\"type\":\"a\"", "EOF"),
        (b"{\"type\":\"a\"} x", "trailing"),
        (b"{\"type\":\"a\"}{\"type\":\"b\"}", "trailing"),
        (b"{\"type\":\"a\",}", "key must be"),
        (b"{}", "needs a member `type`"),
        (b"{\"Type\":\"a\"}", "taken for `type`"),
        (b"{\"type\":\"a\",\"TIMESTAMP\":\"2026-11-16T05:00:00Z\"}", "taken for `timestamp`"),
        (b"{\"type\":\"a\",\"type\":\"a\"}", "`type` twice"),
        (b"{\"type\":\"a\",\"x\":1,\"\\u0078\":2}", "`x` twice"),
        (b"{\"type\":\"\"}", "must not be empty"),
        (b"{\"type\":7}", "a string, not a number"),
        (b"{\"type\":null}", "a string, not null"),
        (b"{\"type\":\"a\",\"timestamp\":null}", "a string, not null"),
        (b"{\"type\":\"a\",\"timestamp\":1763230516}", "a string, not a number"),
        (b"{\"type\":\"a\",\"timestamp\":\"soon\"}", "\"soon\" is no time"),
        (b"{\"type\":\"a\",\"timestamp\":\"2026-11-16T05:00:00z\"}", "is no time"),
        (b"{\"type\":\"a\",\"x\":\"\\ud800\"}", "surrogate"),
        (b"{\"type\":\"a\",\"filler\":3}", "`filler` is lokt's own"),
        (deep.as_bytes(), "nested deeper"),
    ] {
        let why = refusal(json);
        assert!(why.contains(says), "{} is refused with {why:?}, not with {says:?}", String::from_utf8_lossy(json));
    }
    let digest = Digest::of(b"x");
    for member in ["chain", "repaired"] {
        assert!(refusal(format!(r#"{{"type":"a","{member}":"{digest}"}}"#).as_bytes()).contains("lokt's own"));
    }
}

#[test]
fn members_that_only_look_like_lokts_own_are_fine() {
    let typed = r#"{"type":"a","filler":"words","chain":"of shops"}"#;
    let written = rendered(&draft(typed), Style::Documented, Added::default());
    let event = Stored::parse(written.as_bytes()).expect("we wrote it");
    assert_eq!((event.filler(), event.chain()), (None, None));
}

#[test]
fn nesting_up_to_the_limit_is_read_again_in_both_styles() {
    let levels = EVENT_DEPTH_MAX - 1;
    let deep = draft(&format!("{{\"type\":\"a\",\"x\":{}{}}}", "[".repeat(levels), "]".repeat(levels)));
    for style in BOTH {
        let written = rendered(&deep, style, Added::default());
        assert!(serde_json::from_str::<Value>(&written).is_ok(), "every reader can follow a {} event", style.as_str());
    }
}

#[test]
fn an_event_of_more_than_a_mebibyte_is_refused_when_it_is_written() {
    let frame = rendered(&draft(r#"{"type":"a","x":""}"#), Style::Documented, Added::default()).len();
    let of = |bytes: usize| draft(&format!(r#"{{"type":"a","x":"{}"}}"#, "x".repeat(bytes - frame)));
    assert_eq!(rendered(&of(EVENT_BYTES_MAX), Style::Documented, Added::default()).len(), EVENT_BYTES_MAX);
    let why = of(EVENT_BYTES_MAX + 1).render(Style::Documented, now(), Added::default()).expect_err("one byte more");
    assert!(why.0.contains("1048577 bytes"), "{why}");
    let added = Added { token: Some(seq(7)), ..Added::default() };
    assert!(of(EVENT_BYTES_MAX).render(Style::Documented, now(), added).is_err(), "what is added counts too");
}

#[test]
fn what_lokt_adds_comes_last_and_in_its_order() {
    let chain = Digest::of(b"x");
    let added = Added { id: Some("k\"1"), token: Some(seq(7)), filler: Some(seq(8)), chain: Some(&chain) };
    let end = format!(r#""idempotency_key":"k\"1","claim_token":7,"filler":8,"chain":"{chain}"}}"#);
    for style in BOTH {
        for kind in ["note", "nodes_released"] {
            let written = rendered(&draft(&format!(r#"{{"type":"{kind}","node_ids":[]}}"#)), style, added);
            assert!(written.ends_with(&end), "{written}");
            let event = Stored::parse(written.as_bytes()).expect("we wrote it");
            assert_eq!(event.id(), Some("k\"1"));
            assert_eq!((event.filler(), event.chain()), (Some(seq(8)), Some(chain)));
        }
    }
}

#[test]
fn what_is_to_be_added_must_not_be_there_with_another_value() {
    let own = draft(r#"{"type":"a","idempotency_key":"k1","claim_token":7,"x":1}"#);
    let same = Added { id: Some("k1"), token: Some(seq(7)), ..Added::default() };
    assert_eq!(rendered(&own, Style::Documented, same), rendered(&own, Style::Documented, Added::default()));
    for style in BOTH {
        let other = Added { id: Some("k2"), ..Added::default() };
        let why = own.render(style, now(), other).expect_err("another key");
        assert!(why.0.contains("`idempotency_key`") && why.0.contains("k1") && why.0.contains("k2"), "{why}");
        assert!(own.render(style, now(), Added { token: Some(seq(8)), ..Added::default() }).is_err());
    }
}

#[test]
fn in_a_native_ledger_foreign_types_travel_in_a_carrier() {
    let foreign =
        draft(r#"{"x":1.0,"type":"deploy","Owner":"eve","node_ids":["1"],"timestamp":"2026-11-16T04:00:00Z"}"#);
    let written = rendered(&foreign, Style::Native, Added { id: Some("k"), ..Added::default() });
    let inside = r#""type":"deploy","timestamp":"2026-11-16T04:00:00Z","x":1.0,"Owner":"eve","node_ids":["1"]"#;
    let expected = format!(
        r#"{{"type":"nodes_released","timestamp":"2026-11-16T04:00:00Z","node_ids":[],"event":{{{inside}}},"idempotency_key":"k"}}"#
    );
    assert_eq!(written, expected);
    assert!(!misread(written.as_bytes()));
    let event = Stored::parse(written.as_bytes()).expect("we wrote it");
    assert_eq!((event.kind.as_str(), event.shown_kind()), ("nodes_released", "deploy"));
    let shown = line(seq(5), written.as_bytes()).expect("we wrote it");
    assert_eq!(shown, format!(r#"{{"seq":5,{inside},"idempotency_key":"k"}}"#));
    let documented = rendered(&foreign, Style::Documented, Added { id: Some("k"), ..Added::default() });
    assert_eq!(line(seq(5), documented.as_bytes()).expect("we wrote it"), shown, "both styles show the same");
}

#[test]
fn members_that_a_native_program_would_take_for_others_are_refused_where_it_reads_them() {
    for name in ["Owner", "NODE_IDS", "node_id\u{17F}", "TimeOut"] {
        let event = draft(&format!(r#"{{"type":"nodes_released","node_ids":[],"{name}":["1"]}}"#));
        let why = event.render(Style::Native, now(), Added::default()).expect_err(name);
        assert!(why.0.contains(name) && why.0.contains("taken for"), "{why}");
        assert!(event.render(Style::Documented, now(), Added::default()).is_ok(), "{name}: nobody is misled");
    }
}

#[test]
fn documented_claims_are_refused_in_a_native_ledger() {
    for kind in ["lock_acquired", "lock_released", "lock_reaped"] {
        let claim = draft(&format!(r#"{{"type":"{kind}","node_id":"1","owner":"a"}}"#));
        let why = claim.render(Style::Native, now(), Added::default()).expect_err(kind);
        assert!(why.0.contains("lokt claim take"), "{why}");
        assert!(claim.render(Style::Documented, now(), Added::default()).is_ok());
    }
}

#[test]
fn every_variant_that_the_native_program_takes_for_an_event_is_one() {
    let deep = format!("{{\"type\":\"a\",\"x\":{}{}}}", "[".repeat(9_999), "]".repeat(9_999));
    for text in [
        r#"{"type":"a"}"#,
        r#"{"type":"a","timestamp":null}"#,
        r#"{"type":"a","extra":1e999,"y":{"type":"b"}}"#,
        "{\n  \"type\": \"a\",\n  \"timestamp\": \"2026-11-16T05:00:00Z\"\n}\n",
        r#"{"type":"a","timestamp":"2026-11-16T05:00:00+02:00"}"#,
        r#"{"type":"a","timestamp":"2026-11-16T05:00:00.123456789012Z"}"#,
        r#"{"type":"a","timestamp":"2026-11-16T05:00:00,5Z"}"#,
        r#"{"type":"a","type":"b"}"#,
        r#"{"type":"a","x":"\ud800"}"#,
        r#"{"type":"a","\udc00":-1e999}"#,
        deep.as_str(),
    ] {
        let event = Stored::parse(text.as_bytes()).unwrap_or_else(|damage| panic!("{text:.60} is an event: {damage}"));
        assert_eq!(event.kind, "a", "{text:.60}");
    }
}

#[test]
fn every_variant_that_the_native_program_refuses_is_damage() {
    let deep = format!("{{\"type\":\"a\",\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!(r#"{{"type":"a","x":"{}"}}"#, "x".repeat(EVENT_BYTES_MAX));
    for (bytes, says) in [
        (&b""[..], "empty"),
        (b"\xEF\xBB\xBF{\"type\":\"a\"}", "byte order mark"),
        (b"{\"type\":\"\xFFa\"}", "UTF-8"),
        (b"{\"type\":\"a\"", "not JSON"),
        (b"{\"type\":\"a\"}x", "not JSON"),
        (b"{\"type\":\"a\"}{\"type\":\"a\"}", "not JSON"),
        (b"{\"type\":\"a\"}\0", "not JSON"),
        (b"[{\"type\":\"a\"}]", "an array"),
        (b"null", "null, not an object"),
        (b"{}", "no member `type`"),
        (b"{\"Type\":\"a\"}", "`type`"),
        (b"{\"type\":1}", "no string"),
        (b"{\"type\":\"\"}", "empty `type`"),
        (b"{\"type\":\"a\",\"timestamp\":1}", "`timestamp`"),
        (b"{\"type\":\"a\",\"timestamp\":\"\"}", "`timestamp`"),
        (b"{\"type\":\"a\",\"timestamp\":\"2026-11-16T05:00:00z\"}", "`timestamp`"),
        (b"{\"type\":\"a\",\"timestamp\":\"2026-11-16 05:00:00Z\"}", "`timestamp`"),
        (b"{\"type\":\"a\",\"timestamp\":\"2026-11-16T05:00:00\"}", "`timestamp`"),
        (b"{\"type\":\"a\",\"timestamp\":\"2026-11-16T05:00:60Z\"}", "`timestamp`"),
        (b"{\"type\":\"a\",\"Timestamp\":\"never\"}", "`timestamp`"),
        (deep.as_bytes(), "nested"),
        (long.as_bytes(), "at most"),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let damage = Stored::parse(bytes).err().unwrap_or_else(|| panic!("{shown} is no event"));
        assert!(damage.0.contains(says), "{shown} is damaged because it {damage}, not {says:?}");
        assert_eq!(line(seq(1), bytes), Err(damage), "{shown}");
    }
}

#[test]
fn members_are_read_as_the_native_program_takes_them() {
    let text = r#"{"type":"nodes_claimed","owner":"a","Owner":"b","NODE_IDS":["1"],"node_ids":["2"],"Type":"x","mine":1,"mine":2,"Mine":3}"#;
    let event = Stored::parse(text.as_bytes()).expect("an event");
    let expected = json!({"type": "nodes_claimed", "owner": "b", "node_ids": ["2"], "mine": 2, "Mine": 3, "Type": "x"});
    assert_eq!(Value::Object(event.members), expected);
    let text = "{\"type\":\"nodes_released\",\"node_id\u{17F}\":[\"1\"],\"to\u{212A}en\":5,\"owner\":\"\\ud800x\"}";
    let event = Stored::parse(text.as_bytes()).expect("an event");
    assert_eq!(event.members.get("node_ids"), Some(&json!(["1"])), "the long s is an s");
    assert_eq!(event.members.get("owner"), Some(&json!("\u{FFFD}x")), "half a pair is replaced");
    assert_eq!(event.members.get("token"), None, "only members that the native program knows");
}

#[test]
fn a_type_that_the_native_program_overlooks_is_told() {
    for (text, expected) in [
        (r#"{"type":"a","x":{"type":"b"}}"#, false),
        (r#" { "timestamp" : null , "type" : "a" }"#, false),
        (r#"{"x":{"type":"b"},"type":"a"}"#, true),
        (r#"{"x":"type","type":"a"}"#, true),
        (r#"{"x\"type":1,"type":"a"}"#, true),
        (r#"{"ty\u0070e":"a"}"#, true),
        (r#"{"type":"\u0061"}"#, true),
    ] {
        assert!(Stored::parse(text.as_bytes()).is_ok(), "{text}");
        assert_eq!(misread(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn fillers_are_known_by_all_of_their_members() {
    for style in BOTH {
        let chain = Digest::of(b"x");
        for added in [Added::default(), Added { filler: Some(seq(3)), chain: Some(&chain), ..Added::default() }] {
            let filler = rendered(&Draft::filler(style), style, added);
            assert!(Stored::parse(filler.as_bytes()).expect("we wrote it").is_filler(), "{filler}");
        }
        let repair = rendered(&Draft::repair(style, b"{"), style, Added::default());
        let repair = Stored::parse(repair.as_bytes()).expect("we wrote it");
        assert!(!repair.is_filler());
        assert_eq!(repair.repaired(), Some(Digest::of(b"{")));
        let added =
            [("amount", json!(1000)), ("filler", json!(1)), ("event", json!({"type": "a"})), ("owner", json!("b"))];
        for (name, value) in added {
            let mut more = repair.clone();
            more.members.insert(name.to_owned(), value);
            assert_eq!(more.repaired(), None, "a repair has no `{name}`: what says more must count with its own bytes");
        }
    }
    for text in [
        r#"{"type":"lock_takeover","note":"mine"}"#,
        r#"{"type":"nodes_released","node_ids":[]}"#,
        r#"{"type":"nodes_released","node_ids":["1"],"takeover":true}"#,
        r#"{"type":"nodes_released","node_ids":[],"takeover":true,"event":{"type":"a"}}"#,
        r#"{"type":"note","takeover":true}"#,
    ] {
        let event = Stored::parse(text.as_bytes()).expect("an event");
        assert!(!event.is_filler() && event.repaired().is_none(), "{text}");
    }
    assert_eq!(
        rendered(&Draft::filler(Style::Native), Style::Native, Added::default()),
        r#"{"type":"nodes_released","timestamp":"2026-11-16T05:00:00.25Z","node_ids":[],"takeover":true}"#
    );
    assert_eq!(
        rendered(&Draft::filler(Style::Documented), Style::Documented, Added::default()),
        r#"{"type":"lock_takeover","timestamp":"2026-11-16T05:00:00.25Z"}"#
    );
}

#[test]
fn a_line_has_the_number_first_and_every_member_as_it_is_stored() {
    let pretty = "{\n \"type\": \"a\",\n \"n\": 1.0e+2, \"seq\": 99,\n \"x\": { \"b\": \"  \" } }\n";
    assert_eq!(line(seq(12), pretty.as_bytes()).as_deref(), Ok(r#"{"seq":12,"type":"a","n":1.0e+2,"x":{"b":"  "}}"#));
    assert_eq!(line(seq(1), br#"{"type":"a"}"#).as_deref(), Ok(r#"{"seq":1,"type":"a"}"#));
}

#[test]
fn what_nobody_computes_with_is_shown_as_it_is_stored() {
    let (open, close) = ("[".repeat(9_990), "]".repeat(9_990));
    for member in [format!("\"deep\":{open}{close}"), r#""half":"\ud800""#.to_owned(), r#""far":1e999999"#.to_owned()] {
        let stored = format!("{{\"type\":\"a\",{member}}}");
        assert_eq!(line(seq(7), stored.as_bytes()), Ok(format!("{{\"seq\":7,\"type\":\"a\",{member}}}")));
        let (name, value) = member.split_once(':').expect("a member");
        let expected = vec![("\"type\"", "\"a\"".to_owned()), (name, value.to_owned())];
        assert_eq!(shown(stored.as_bytes()), Ok(expected));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        kind in ".{1,12}",
        members in prop::collection::btree_map("[a-z]{1,3}", any_value(), 0..6),
        pretty in any::<bool>(),
        native in any::<bool>(),
    ) {
        let mut typed: serde_json::Map<String, Value> = members.into_iter().collect();
        typed.insert("type".into(), Value::from(kind.as_str()));
        let json = if pretty { serde_json::to_string_pretty(&typed) } else { serde_json::to_string(&typed) };
        let draft = Draft::parse(json.expect("JSON is JSON").as_bytes()).expect("an event");
        let style = if native { Style::Native } else { Style::Documented };
        let bytes = draft.render(style, now(), Added::default()).expect("short enough");
        prop_assert!(bytes.starts_with(b"{\"type\":"), "the type is first");
        let event = Stored::parse(&bytes).expect("we wrote it");
        prop_assert_eq!(event.timestamp, Some(now()));
        prop_assert_eq!(event.shown_kind(), kind.as_str());
        prop_assert!(style == Style::Documented || !misread(&bytes));
        let mut read = event.carried().cloned().unwrap_or_else(|| event.members.clone());
        read.remove("timestamp");
        prop_assert_eq!(&read, &typed);
        let mut shown: serde_json::Map<String, Value> =
            serde_json::from_str(&line(seq(3), &bytes).expect("we wrote it")).expect("a line is JSON");
        shown.remove("timestamp");
        typed.insert("seq".into(), Value::from(3));
        prop_assert_eq!(shown, typed);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Stored::parse(&bytes);
        let _ = Draft::parse(&bytes);
        misread(&bytes);
    }

    #[test]
    fn nothing_like_json_makes_a_reader_panic(text in "[\\[\\]{}\":,\\\\ud80abc1 .e-]{0,60}") {
        let _ = Stored::parse(text.as_bytes());
        let _ = Draft::parse(text.as_bytes());
        misread(text.as_bytes());
    }

    #[test]
    fn whatever_can_be_written_is_an_event(text in "\\{\"type\":\"a\",\"[a-zT]{1,2}\":[\\[\\]{}\":,\\\\ud80abc1 .e-]{0,20}\\}") {
        if let Ok(draft) = Draft::parse(text.as_bytes()) {
            for style in BOTH {
                let bytes = draft.render(style, now(), Added::default()).expect("short enough");
                prop_assert!(Stored::parse(&bytes).is_ok(), "{}", text);
            }
        }
    }
}
