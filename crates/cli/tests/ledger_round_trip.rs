//! What goes in comes out, in both styles, and the native program reads whatever lokt has written.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::Value;

use crate::common::peers::{SharedLedger, Style};
use crate::common::{Said, mode, put};

fn both() -> [SharedLedger; 2] {
    [SharedLedger::documented(), SharedLedger::native()]
}

/// Events with everything that a JSON writer may get wrong. `timestamp` is second: that is where it goes.
const EVENTS: [&str; 10] = [
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00Z","text":"plain"}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00.123456789+05:30","a":1}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00,5Z","zulu":null,"alpha":true,"mike":[]}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00Z","owner":"<a & b>","line":"\u2028\u2029","tab":"\t"}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00Z","big":9007199254740993,"tiny":1e-7,"neg":-0.5}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00Z","o":{"type":"inner","seq":7,"b":{"a":{}}}}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00Z","status":"damaged"}"#,
    r#"{"type":"ä\"\\ö","timestamp":"2026-11-15T12:00:00Z","emoji":"🦀"}"#,
    r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00Z","node_ids":[]}"#,
    r#"{"type":"note","timestamp":"2026-11-15T12:00:00Z","":"","node_ids":["1"],"event":{"type":"x"}}"#,
];

/// The members of an event that people gave it: without what lokt adds when it shows or carries it.
fn given(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Row 35 of the conformance checks.
#[test]
fn what_is_appended_is_shown_and_exported_with_the_same_members() {
    for shared in both() {
        let before = shared.numbers().len();
        for event in EVENTS {
            shared.call("b").args(["ledger", "append", event]).run().exits(0, "it is an event");
        }
        for words in ["ledger show -d DIR --json", "ledger export -d DIR"] {
            let said = shared.lokt("b", words).exits(0, "they can be read");
            let lines: Vec<&str> = said.stdout.lines().skip(before).collect();
            assert_eq!(lines.len(), EVENTS.len(), "{words}: one line for each{said}");
            for ((event, line), number) in EVENTS.iter().zip(lines).zip(before + 1..) {
                let (mut event, line) = (given(event), given(line));
                if words.contains("show") {
                    event["seq"] = number.into();
                }
                assert_eq!(with_seq(&line, &event), event, "{words}: event {number}");
            }
        }
        for number in shared.numbers() {
            let text = String::from_utf8(shared.event_bytes(number)).expect("an event is text");
            assert!(text.starts_with("{\"type\":\""), "the type is first: {text}");
            assert!(!text.contains('\n'), "in one line: {text}");
            assert_eq!(mode(&shared.event_path(number)), 0o644, "for everybody to read");
        }
        if shared.style() == Style::Native {
            shared.pleases_af();
            let log = shared.af("log DIR").exits(0, "the native program reads them").stdout;
            let carried: Vec<Value> = log
                .lines()
                .skip(before)
                .map(given)
                .map(|event| match event.get("event") {
                    Some(inside) if event["type"] == "nodes_released" && inside.is_object() => inside.clone(),
                    _ => event,
                })
                .collect();
            for (event, carried) in EVENTS.iter().zip(carried) {
                for (name, value) in given(event).as_object().expect("an event is an object") {
                    assert_eq!(&carried[name], value, "the native program sees {name} of {event}");
                }
            }
        }
    }
}

/// An export may number its lines or not; the members are what counts.
fn with_seq(line: &Value, event: &Value) -> Value {
    let mut line = line.clone();
    if event.get("seq").is_none() {
        line.as_object_mut().expect("a line is an object").remove("seq");
    }
    line
}

#[test]
fn a_foreign_event_keeps_its_bytes_whatever_is_done_beside_it() {
    for shared in both() {
        let number = shared.numbers().len() as u64 + 1;
        let pretty = "{\n  \"type\": \"nodes_released\",\n  \"timestamp\": \"2026-11-15T12:00:00,5+02:00\",\n  \"node_ids\": []\n}\n";
        shared.put_event(number, pretty);
        shared.append("ours", "").exits(0, "it goes on");
        shared.lokt("a", "claim take 1 -d DIR").exits(0, "the node is free");
        shared.lokt("b", "ledger doctor --fix -d DIR");
        assert_eq!(shared.event_bytes(number), pretty.as_bytes(), "nobody rewrites it");
        let said = shared.lokt("b", &format!("ledger show -d DIR --json {number}")).exits(0, "it can be read");
        assert_eq!(said.json()["type"], "nodes_released", "{said}");
    }
}

/// Row 1, as far as it is about ledgers.
#[test]
fn a_native_ledger_that_lokt_made_is_one_for_the_native_program() {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let shared = SharedLedger::native();
    let other = |words: &str| shared.call("a").cwd(dir.path()).args(words.split_whitespace()).run();
    other("ledger init --style native").exits(0, "a ledger can be made");
    for payload in ["one", "two"] {
        other(&format!("ledger append {{\"type\":\"note\",\"payload\":\"{payload}\"}}")).exits(0, "and appended to");
    }
    let names: Vec<_> = crate::common::names_in(&dir.path().join("ledger"))
        .into_iter()
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .collect();
    assert_eq!(names, [".lokt", "000001.json", "000002.json"], "no lock and no temporary file is left");
    shared
        .af(&format!("check {} --verify", dir.path().display()))
        .exits(0, "the native program reads it")
        .says("ok 2\n", "all of it");
}

/// Row 40.
#[test]
fn of_eight_who_make_a_ledger_at_once_one_does() {
    for style in ["documented", "native"] {
        let dir = tempfile::tempdir().expect("there is room for a temp directory");
        let shared = SharedLedger::documented();
        let said: Vec<Value> = thread::scope(|scope| {
            let init = || {
                let call = shared.call("a").cwd(dir.path()).args(["ledger", "init", "--json", "--style", style]);
                call.run().exits(0, "there is a ledger afterwards").json()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(init)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ran")).collect()
        });
        let made = said.iter().filter(|answer| answer["status"] == "created").count();
        assert_eq!(made, 1, "one of them made it: {said:?}");
        assert!(said.iter().all(|answer| answer["style"] == style), "and all agree what it is: {said:?}");
    }
}

/// Row 38.
#[test]
fn a_dry_run_writes_nothing() {
    for shared in both() {
        shared.append("before", "").exits(0, "it can be appended to");
        shared.lokt("a", "claim take 1 -d DIR --ttl 1h").exits(0, "the node is free");
        let list = || {
            let mut found = Vec::new();
            let mut todo = vec![shared.path().to_owned()];
            while let Some(path) = todo.pop() {
                use std::os::unix::fs::MetadataExt as _;
                let meta = fs::symlink_metadata(&path).expect("it is there");
                found.push((path.clone(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()));
                if meta.is_dir() {
                    todo.extend(crate::common::names_in(&path));
                }
            }
            found.sort();
            found
        };
        let before = list();
        for words in [
            "ledger append -d DIR --dry-run {\"type\":\"x\"}",
            "ledger append -d DIR --dry-run --expect-seq 1 {\"type\":\"x\"}",
            "claim take 1.1 -d DIR --dry-run",
            "claim take 1 -d DIR --dry-run",
            "claim reap -d DIR --dry-run",
            "ledger doctor -d DIR",
            "ledger show -d DIR",
            "ledger verify -d DIR",
            "ledger checkpoint -d DIR",
            "ledger export -d DIR",
            "ledger head -d DIR",
        ] {
            let said = shared.lokt("b", words);
            assert_eq!(list(), before, "`lokt {words}` writes nothing{said}");
        }
    }
}

/// Row 41.
#[test]
fn an_event_is_synced_before_it_has_a_name_and_its_name_before_it_is_acknowledged() {
    lokt_testkit::need!("strace");
    let shared = SharedLedger::native();
    shared.append("before", "").exits(0, "its settings are made");
    let log = shared.path().join("calls");
    let words =
        ["-f", "-y", "-s", "200", "-e", "trace=fsync,fdatasync,syncfs,linkat,rename,renameat,renameat2,write", "-o"];
    let call = crate::common::Call::new("strace").args(words).args([&log]).args([crate::common::LOKT]);
    let said = call.args(["ledger", "append", r#"{"type":"x"}"#]).cwd(shared.path()).run().exits(0, "it is appended");
    let calls = fs::read_to_string(&log).expect("strace wrote its log");
    let lines: Vec<&str> = calls.lines().collect();
    let at = |what: &dyn Fn(&str) -> bool| lines.iter().position(|line| what(line));
    let name = shared.event_path(4).file_name().expect("it has one").to_string_lossy().into_owned();
    let published = at(&|line| (line.contains("linkat(") || line.contains("rename")) && line.contains(&name));
    let published =
        published.unwrap_or_else(|| panic!("the event gets its name by a call that replaces nothing: {calls}{said}"));
    assert!(
        lines[published].contains("linkat(") || lines[published].contains("RENAME_NOREPLACE"),
        "{}",
        lines[published]
    );
    let synced = |line: &str| line.contains("fsync(") || line.contains("fdatasync(") || line.contains("syncfs(");
    assert!(lines[..published].iter().any(|line| synced(line)), "its bytes are synced before: {calls}");
    let acknowledged = at(&|line| line.contains("write(1<")).unwrap_or_else(|| panic!("it says so: {calls}"));
    let between = &lines[published..acknowledged];
    assert!(
        between.iter().any(|line| synced(line) && line.contains("/ledger>")),
        "the directory is synced before the answer: {calls}"
    );
}

/// Row 44.
#[test]
fn doctor_makes_a_ledger_readable_again_and_keeps_what_it_replaced() {
    let claimed = r#"{"type":"nodes_claimed","timestamp":"2026-11-15T12:00:00Z","node_ids":["1"],"owner":"a","timeout":"2026-11-15T13:00:00Z"}"#;
    let freed = r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00Z","node_ids":["1"]}"#;
    for (name, events) in [
        ("released twice", vec![Some(claimed), Some(freed), Some(freed)]),
        ("claimed twice", vec![Some(claimed), Some(claimed)]),
        ("an unknown type", vec![Some(r#"{"type":"custom_event","timestamp":"2026-11-15T12:00:00Z"}"#)]),
        (
            "a documented claim",
            vec![Some(r#"{"type":"lock_reaped","timestamp":"2026-11-15T12:00:00Z","node_id":"1","owner":"a"}"#)],
        ),
        ("an empty file", vec![Some("")]),
        ("a gap", vec![None, Some(claimed)]),
    ] {
        let shared = SharedLedger::native();
        for (event, number) in events.iter().zip(3..) {
            if let Some(event) = event {
                shared.put_event(number, event);
            }
        }
        shared.af("check DIR").exits(1, name);
        let said = shared.lokt("b", "ledger doctor -d DIR --json");
        assert_eq!(said.code, 65, "{name}: doctor says so{said}");
        let fixed =
            shared.lokt("b", "ledger doctor -d DIR --fix --json").exits(0, &format!("{name}: it can be mended"));
        shared.af("check DIR --verify").exits(0, &format!("{name}: the native program reads it again{fixed}"));
        let kept = crate::common::names_in(&shared.ledger().join(".lokt/aside"));
        let bytes: Vec<Vec<u8>> = kept.iter().filter_map(|path| fs::read(path).ok()).collect();
        if events.iter().all(Option::is_some) {
            let last = events.last().copied().flatten().expect("there is one").as_bytes();
            assert!(bytes.iter().any(|bytes| bytes == last), "{name}: the original bytes are kept: {kept:?}");
        }
        shared.append("after", "").exits(0, "it goes on");
        shared.pleases_af();
    }
    // Nothing is wrong with what only lokt has: it isn't touched.
    let shared = SharedLedger::documented();
    put(&shared.event_path(1), r#"{"type":"custom_event","timestamp":"2026-11-15T12:00:00Z"}"#);
    shared.lokt("b", "ledger doctor -d DIR --fix").exits(0, "an own type is nothing wrong in a documented ledger");
}

/// What somebody may append to a native ledger by hand, be it refused, carried or written: never what the native program can't read.
#[test]
fn whatever_is_appended_the_native_program_still_reads_the_ledger() {
    let nested = |depth: usize| format!(r#"{{"type":"x","y":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let nested_known =
        |depth: usize| format!(r#"{{"type":"nodes_released","y":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let sized = |bytes: usize| format!(r#"{{"type":"x","y":"{}"}}"#, "<".repeat(bytes));
    let by_hand: Vec<String> = [
        r#"{"type":"nodes_released","node_ids":["1"]}"#,
        r#"{"type":"nodes_released","NODE_IDS":["1"]}"#,
        r#"{"type":"nodes_released","node_ids":[],"node_ids":["1"]}"#,
        r#"{"type":"nodes_released","node_ids":[],"Node_Ids":["1"]}"#,
        r#"{"type":"nodes_released","node_ids":"1"}"#,
        r#"{"type":"nodes_released","node_ids":[1]}"#,
        r#"{"type":"nodes_claimed","node_ids":["1.9"],"owner":"a"}"#,
        r#"{"type":"nodes_claimed","node_ids":["01"],"owner":"a"}"#,
        r#"{"type":"nodes_claimed","node_ids":["1","1"],"owner":"a"}"#,
        r#"{"type":"nodes_claimed","node_ids":["1"],"owner":7}"#,
        r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a","timeout":"tomorrow"}"#,
        r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a","TIMEOUT":"tomorrow"}"#,
        r#"{"type":"nodes_claimed","node_ids":["\u0031"],"owner":"a"}"#,
        r#"{"type":"claim_refreshed","node_id":"1","owner":"a"}"#,
        r#"{"type":"node_validated","node_id":"1.7"}"#,
        r#"{"type":"node_created","node":[]}"#,
        r#"{"type":"node_created","node":{"id":"2"}}"#,
        r#"{"type":"challenge_resolved","challenge_id":"none"}"#,
        r#"{"type":"proof_initialized","conjecture":7}"#,
        r#"{"type":"lock_acquired","node_id":"1","owner":"a","expires_at":"2030-01-01T00:00:00Z"}"#,
        r#"{"type":"lock_released","node_id":"1","owner":"a"}"#,
        r#"{"type":"lock_reaped","node_id":"1","owner":"a"}"#,
        r#"{"type":"lock_takeover"}"#,
        r#"{"type":"x","type":"nodes_released"}"#,
        r#"{"type":"nodes_released","type":"x"}"#,
        r#"{"Type":"nodes_released","type":"x"}"#,
        r#"{"type":"nodes_released","Type":7}"#,
        r#"{"type":"nodes_released","TYPE":"x","timestamp":"2026-11-15T12:00:00Z","TimeStamp":"never"}"#,
        r#"{"ty\u0070e":"x"}"#,
        r#"{"type":"nodes_\u0072eleased"}"#,
        r#"{"a":{"type":"nodes_released"},"type":"x"}"#,
        r#"{"a":"\"type\":\"y\"","type":"nodes_released"}"#,
        r#"{"type":"x","timestamp":"2026-11-15T12:00:60Z"}"#,
        r#"{"type":"x","timestamp":"2026-11-15t12:00:00z"}"#,
        r#"{"type":"x","timestamp":"2026-11-15 12:00:00+00:00"}"#,
        r#"{"type":"x","timestamp":"2026-11-15T12:00:00Z[Europe/Berlin]"}"#,
        r#"{"type":"x","timestamp":"20261115T120000Z"}"#,
        r#"{"type":"x","timestamp":"2026-11-15T12:00:00+02"}"#,
        r#"{"type":"x","timestamp":"2026-11-15T12:00:00+02:00:30"}"#,
        r#"{"type":"x","timestamp":"-002026-11-15T12:00:00Z"}"#,
        r#"{"type":"x","timestamp":1}"#,
        r#"{"type":"x","timestamp":null}"#,
        r#"{"type":"nodes_released","timestamp":"2026-11-15t12:00:00z"}"#,
        r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00.Z"}"#,
        r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00\u005a"}"#,
        r#"{"type":"x","y":"\ud800"}"#,
        r#"{"type":"\ud800"}"#,
        r#"{"type":""}"#,
        r#"{"type":"x","n":1e999}"#,
        r#"{"type":"x","n":123456789012345678901234567890}"#,
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([nested(100), nested(200), nested(5_000), nested(9_997), nested(9_998), nested(9_999), nested(10_000)])
    .chain([nested_known(9_998), nested_known(9_999), nested_known(10_000)])
    .chain([sized(1_000), sized((1 << 20) / 6), sized((1 << 20) - 60), sized((1 << 20) - 20)])
    .collect();
    let made = SharedLedger::native();
    let base = tempfile::tempdir().expect("there is room for a temp directory");
    let said: Vec<(String, Said)> = (0..)
        .zip(by_hand)
        .map(|(at, event)| {
            let dir = base.path().join(format!("{at}"));
            for number in 1..=2 {
                put(&dir.join(format!("ledger/{number:06}.json")), made.event_bytes(number));
            }
            put(&dir.join("input"), &event);
            let said = made.call("b").cwd(&dir).args(["ledger", "append", "--json", "--file", "input"]).run();
            (event.chars().take(100).collect(), said)
        })
        .collect();
    let dirs: Vec<String> = (0..said.len()).map(|at| base.path().join(at.to_string()).display().to_string()).collect();
    let seen = made.af(&format!("check --verify {}", dirs.join(" ")));
    let mut wrong = Vec::new();
    for ((event, said), (seen, dir)) in said.iter().zip(seen.stdout.lines().zip(&dirs)) {
        if !matches!(said.code, 0 | 64 | 65) {
            wrong.push(format!("{event} is neither taken nor refused{said}"));
        }
        // What is refused leaves nothing.
        if seen != format!("ok {}", 2 + u64::from(said.code == 0)) {
            wrong.push(format!("{event}, exit {}: the native program says {seen}", said.code));
        }
        let shown = made.call("b").cwd(Path::new(dir)).args(["ledger", "show", "--json"]).run();
        if shown.code != 0 || shown.stdout.lines().count() != 2 + usize::from(said.code == 0) {
            wrong.push(format!("{event} can't be shown{shown}"));
        }
    }
    assert!(wrong.is_empty(), "whatever is appended, both programs read it:\n{}", wrong.join("\n"));
}
