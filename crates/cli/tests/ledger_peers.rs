//! The stand-in for the native program reads as the original was seen to: what it accepts, and what stops it. Whatever is tested beside it is
//! worth as much as this.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::peers::SharedLedger;
use crate::common::put;

const T: &str = "2026-11-15T12:00:00.5Z";
const NO_OP: &str = r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00.5Z","node_ids":[]}"#;

/// A claim of the root node by a.
fn claim() -> String {
    format!(r#"{{"type":"nodes_claimed","timestamp":"{T}","node_ids":["1"],"owner":"a","timeout":"{T}"}}"#)
}

/// An event of the type that frees nodes, with other members than usual.
fn released(members: &str) -> String {
    format!(r#"{{"type":"nodes_released","timestamp":"{T}",{members}}}"#)
}

/// The same with this as its time.
fn timed(time: &str) -> String {
    format!(r#"{{"type":"nodes_released","timestamp":{time},"node_ids":[]}}"#)
}

/// What to add to a new proof, and whether the native program reads it then: the words that it refuses with, or nothing.
struct Case(&'static str, Vec<Vec<u8>>, Option<&'static str>);

fn case(name: &'static str, event: impl Into<Vec<u8>>, refusal: Option<&'static str>) -> Case {
    Case(name, vec![event.into()], refusal)
}

/// Every row of the table of what was seen to be accepted as an event.
fn encodings() -> Vec<Case> {
    let nested = |depth: usize| released(&format!(r#""node_ids":[],"x":{}{}"#, "[".repeat(depth), "]".repeat(depth)));
    let sized = |bytes: usize| {
        let frame = released(r#""node_ids":[],"x":"""#).len();
        released(&format!(r#""node_ids":[],"x":"{}""#, "y".repeat(bytes - frame)))
    };
    vec![
        case("a no-op", NO_OP, None),
        case("unknown members", released(r#""node_ids":[],"n":-1.5e3,"o":{"a":[1,{"b":null}],"c":true}"#), None),
        case("type inside, after the type", released(r#""node_ids":[],"event":{"type":"custom"}"#), None),
        case(
            "type inside, before the type",
            r#"{"event":{"type":"custom"},"type":"nodes_released","node_ids":[]}"#,
            Some("unknown event type: custom"),
        ),
        case(
            "sorted members",
            format!(r#"{{"node":{{"id":"1.1","type":"claim"}},"timestamp":"{T}","type":"node_created"}}"#),
            Some("unknown event type: claim"),
        ),
        case("indented, with a newline", "{\n  \"type\" : \"nodes_released\",\n\t\"node_ids\": [ ]\r\n}\n", None),
        case("byte order mark", format!("\u{feff}{NO_OP}"), Some("invalid JSON")),
        case("trailing garbage", format!("{NO_OP}x"), Some("invalid JSON")),
        case("two documents", format!("{NO_OP}\n{NO_OP}"), Some("invalid JSON")),
        case("empty", "", Some("invalid JSON")),
        case("truncated", &NO_OP[..NO_OP.len() - 1], Some("invalid JSON")),
        case("an array", format!("[{NO_OP}]"), Some("not an object")),
        case("no type", "{}", Some("missing type")),
        case("type is a number", r#"{"type":1}"#, Some("malformed type")),
        case("nested 10000 deep", nested(9_999), None),
        case("nested 10001 deep", nested(10_000), Some("invalid JSON")),
        case("no timestamp", r#"{"type":"nodes_released","node_ids":[]}"#, None),
        case("timestamp null", timed("null"), None),
        case("timestamp with an offset", timed(r#""2026-11-15T12:00:00+02:00""#), None),
        case("timestamp with 12 digits", timed(r#""2026-11-15T12:00:00.123456789012Z""#), None),
        case("timestamp with a comma", timed(r#""2026-11-15T12:00:00,5Z""#), None),
        case("timestamp with z", timed(r#""2026-11-15T12:00:00z""#), Some("parsing time")),
        case("timestamp with a blank", timed(r#""2026-11-15 12:00:00Z""#), Some("parsing time")),
        case("timestamp without a zone", timed(r#""2026-11-15T12:00:00""#), Some("parsing time")),
        case("timestamp at second 60", timed(r#""2026-11-15T12:00:60Z""#), Some("parsing time")),
        case("timestamp on 29 February 2026", timed(r#""2026-02-29T12:00:00Z""#), Some("parsing time")),
        case("timestamp is a number", timed("1763208000"), Some("not a string")),
        case("timestamp with an escape", timed(r#""2026\u002d11-15T12:00:00Z""#), Some("parsing time")),
        case("no timeout", r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a"}"#, None),
        case("no owner", format!(r#"{{"type":"nodes_claimed","node_ids":["1"],"timeout":"{T}"}}"#), None),
        case("owner empty", r#"{"type":"nodes_claimed","node_ids":["1"],"owner":""}"#, None),
        case("node_ids null", released(r#""node_ids":null"#), None),
        case("node_ids missing", released(r#""x":0"#), None),
        case("node_ids is text", released(r#""node_ids":"1""#), Some("not an array")),
        case("one node twice", r#"{"type":"nodes_claimed","node_ids":["1","1"]}"#, Some("invalid transition")),
        case("unknown node", r#"{"type":"nodes_claimed","node_ids":["1.9"]}"#, Some("not found in state")),
        case("alias of a node", r#"{"type":"nodes_claimed","node_ids":["01"]}"#, Some("not found in state")),
        case("a node without a name", r#"{"type":"nodes_claimed","node_ids":[""]}"#, Some("not found in state")),
        case("no id of a node", r#"{"type":"nodes_claimed","node_ids":["2"]}"#, Some("invalid node ID")),
        case("other case", r#"{"type":"nodes_claimed","NODE_IDS":["1"],"Owner":"a"}"#, None),
        case("other case of type", r#"{"Type":"nodes_released","node_ids":[]}"#, Some("missing type")),
        case("type twice, known first", released(r#""node_ids":[],"type":"custom""#), None),
        case("type twice, unknown first", r#"{"type":"custom","type":"nodes_released"}"#, Some("unknown event type")),
        case("invalid UTF-8", [&b"{\"type\":\"nodes_released\",\"x\":\"\xff\xc3\""[..], b"}"].concat(), None),
        case("lone surrogate", released(r#""x":"\ud800""#), None),
        case("control character", released("\"x\":\"\u{1}\""), Some("invalid JSON")),
        case("not a number", released("\"x\":NaN"), Some("invalid JSON")),
        case("1 MiB", sized(1 << 20), None),
        case("1 MiB and 1", sized((1 << 20) + 1), Some("exceeds maximum size")),
    ]
}

/// Every row of that table that is about what came before.
fn histories() -> Vec<Case> {
    let refreshed = |owner: &str| format!(r#"{{"type":"claim_refreshed","node_id":"1","owner":"{owner}"}}"#);
    let several = |name, events: Vec<String>, refusal| Case(name, events.into_iter().map(Vec::from).collect(), refusal);
    let about = |kind: &str| format!(r#"{{"type":"{kind}","timestamp":"{T}","node_id":"1","owner":"a"}}"#);
    let freed = || released(r#""node_ids":["1"]"#);
    vec![
        case("released, not claimed", freed(), Some("invalid transition")),
        case("refreshed, not claimed", refreshed("a"), Some("is not claimed")),
        several("claimed, refreshed, released, claimed", vec![claim(), refreshed("a"), freed(), claim()], None),
        several("refreshed by another", vec![claim(), refreshed("b")], Some("is claimed by a, not b")),
        several("claimed twice", vec![claim(), claim()], Some("invalid transition")),
        several(
            "claimed in other letters, and again",
            vec![r#"{"type":"nodes_claimed","NODE_IDS":["1"],"Owner":"a"}"#.to_owned(), claim()],
            Some("invalid transition"),
        ),
        several("released twice", vec![claim(), freed(), freed()], Some("invalid transition")),
        case("lock_acquired", about("lock_acquired"), Some("unknown event type")),
        case("lock_released", about("lock_released"), Some("unknown event type")),
        case("lock_reaped", about("lock_reaped"), Some("unknown event type")),
        case("custom_event", r#"{"type":"custom_event"}"#, Some("unknown event type")),
        several("validated twice", vec![about("node_validated"), about("node_validated")], Some("invalid transition")),
        several(
            "validated, to be refined, admitted",
            vec![about("node_validated"), about("refinement_requested"), about("node_admitted")],
            None,
        ),
        case("a challenge nobody raised", r#"{"type":"challenge_resolved","challenge_id":"c"}"#, Some("not found")),
    ]
}

#[test]
fn the_native_reader_accepts_and_refuses_what_the_original_does() {
    let cases: Vec<Case> = encodings().into_iter().chain(histories()).collect();
    let made = SharedLedger::native();
    let base = tempfile::tempdir().expect("there is room for a temp directory");
    let mut dirs = Vec::new();
    for (at, Case(_, events, _)) in cases.iter().enumerate() {
        let dir = base.path().join(at.to_string());
        let first_two = (1..=2).map(|number| made.event_bytes(number));
        for (number, bytes) in (1_u64..).zip(first_two.chain(events.iter().cloned())) {
            put(&dir.join(format!("ledger/{number:06}.json")), bytes);
        }
        dirs.push(dir.display().to_string());
    }
    let said = made.af(&format!("check {}", dirs.join(" "))).exits(1, "some can't be read");
    let answers: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(answers.len(), cases.len(), "every case has an answer{said}");
    for (Case(name, events, refusal), answer) in cases.iter().zip(answers) {
        match refusal {
            None => assert_eq!(answer, format!("ok {}", events.len() + 2), "{name} is accepted"),
            Some(words) => assert!(answer.contains(words), "{name} is refused with {words:?}: {answer}"),
        }
    }
}

#[test]
fn a_null_or_missing_member_leaves_a_claim_without_end_or_owner() {
    let shared = SharedLedger::native();
    shared.put_event(3, r#"{"type":"nodes_claimed","timestamp":null,"node_ids":["1"],"owner":null}"#);
    let said = shared.af("status DIR").exits(0, "that is a claim");
    let node = said.json();
    assert_eq!(node["workflow_state"], "claimed", "the node is claimed{said}");
    assert_eq!(node["claimed_by"], "", "by nobody{said}");
    assert_eq!(node["claimed_at"], "0001-01-01T00:00:00Z", "until the zero time{said}");
}

#[test]
fn gaps_and_odd_names_stop_the_native_reader_and_not_the_writer() {
    for (name, refusal, next) in [
        ("3.json", "event 3 not found", 4),
        ("0000003.json", "event 3 not found", 4),
        ("+3.json", "event 3 not found", 4),
        ("000000.json", "invalid sequence number: 0", 3),
        ("000004.json", "sequence gap detected: got 4, expected 3", 5),
        ("1000000.json", "sequence gap detected: got 1000000, expected 3", 1_000_001),
    ] {
        let shared = SharedLedger::native();
        put(&shared.ledger().join(name), NO_OP);
        shared.af("check DIR").exits(1, name).says(refusal, name);
        shared.af("append DIR 1").exits(0, name).says(&format!("{next}\n"), "the writer goes on after the highest");
    }
}

#[test]
fn names_that_are_no_numbers_are_not_seen() {
    let shared = SharedLedger::native();
    for name in ["event-000003.json", ".event-7.tmp", "ledger.lock.json", "-1.json", "3.JSON", "three.json", "1e3.json"]
    {
        put(&shared.ledger().join(name), "not an event");
    }
    put(&shared.ledger().join("92233720368547758070.json"), "too large for a number");
    shared.af("check DIR").exits(0, "they are ignored").says("ok 2\n", "and not counted");
}

#[test]
fn a_directory_is_skipped_a_link_is_followed_and_a_fifo_would_hang() {
    let shared = SharedLedger::native();
    fs::create_dir(shared.event_path(3)).expect("a temp directory is writable");
    shared.af("check DIR").exits(0, "a directory isn't seen").says("ok 2\n", "nor counted");
    shared.af("append DIR 1").exits(1, "but it is in the way");
    fs::remove_dir(shared.event_path(3)).expect("it is empty");
    put(&shared.path().join("elsewhere"), NO_OP);
    symlink(shared.path().join("elsewhere"), shared.event_path(3)).expect("a temp directory is writable");
    shared.af("check DIR").exits(0, "a link is followed").says("ok 3\n", "and counts");
    mknodat(CWD, shared.event_path(4), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("it can be made");
    shared.af("check DIR").exits(1, "the original would wait for ever").says("hangs for ever", "this one says so");
}

#[test]
fn the_highest_machine_integer_wraps_and_is_overwritten_from_then_on() {
    let shared = SharedLedger::native();
    put(&shared.ledger().join("9223372036854775807.json"), NO_OP);
    let wrapped = shared.ledger().join("-9223372036854775808.json");
    shared.af("append DIR 1 --payload first-").exits(0, "it is written").says("-9223372036854775808\n", "below zero");
    shared.af("append DIR 1 --payload second-").exits(0, "and once more");
    let text = fs::read_to_string(wrapped).expect("it was written");
    assert!(text.contains("second-1") && !text.contains("first-1"), "the first one is lost: {text}");
}
