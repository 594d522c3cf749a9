//! Claims that many want: who is late, who reaps, and what happens in one hold of the lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lokt_testkit::chronicle::{Chronicle, number_of};
use lokt_testkit::strace::{Call, calls, delayed_at};
use lokt_testkit::swarm::{Ended, Over, Swarm, in_parallel, pause};
use serde_json::Value;

use crate::common::LOKT;

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn event(chronicle: &Chronicle, number: u64) -> Value {
    let bytes = std::fs::read(chronicle.file(number)).unwrap_or_else(|error| panic!("event {number}: {error}"));
    serde_json::from_slice(&bytes).expect("an event is JSON")
}

/// Who has the node, with which token, of those whose time isn't over.
fn holder(chronicle: &Chronicle, node: &str) -> Option<(String, u64)> {
    let listed = chronicle.run("reader", &["claim", "list", "--json"]);
    let claims = json(&listed);
    let claims = claims.as_array().cloned().unwrap_or_else(|| panic!("a list: {claims}"));
    let claim = claims.into_iter().find(|claim| claim["node"] == node && claim["expired"] != true)?;
    Some((claim["owner"].as_str().expect("a name").to_owned(), claim["token"].as_u64().expect("a number")))
}

#[test]
fn an_expired_claim_is_ended_and_the_next_one_made_with_nobody_in_between() {
    const NODES: u64 = 12;
    let chronicle = Chronicle::new(LOKT, &[], 0);
    for number in 1..=NODES {
        chronicle.put_expired_claim(number, &format!("n{number}"), "gone");
    }
    let done = AtomicBool::new(false);
    let tokens = thread::scope(|scope| {
        let _over = Over(&done);
        for writer in 0..3 {
            let (chronicle, done) = (&chronicle, &done);
            scope.spawn(move || {
                for turn in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    chronicle.append(&format!("w{writer}-{turn}"));
                }
            });
        }
        let take = |number: u64| {
            let node = format!("n{number}");
            let ended = chronicle.run("b", &["claim", "take", &node, "--json"]);
            assert_eq!(ended.code, Some(0), "{node} is taken over: {ended:?}");
            assert_eq!(json(&ended)["previous_owner"], "gone", "{node}: from whom: {ended:?}");
            (number, number_of(&ended))
        };
        (1..=NODES).map(take).collect::<Vec<(u64, u64)>>()
    });
    for (number, token) in tokens {
        let (reaped, taken) = (event(&chronicle, token - 1), event(&chronicle, token));
        let node = format!("n{number}");
        assert_eq!((&reaped["type"], &reaped["node_id"]), (&"lock_reaped".into(), &node.as_str().into()), "{reaped}");
        assert_eq!(reaped["token"], number, "it says which claim ended: {reaped}");
        assert_eq!((&taken["type"], &taken["node_id"]), (&"lock_acquired".into(), &node.as_str().into()), "{taken}");
    }
    chronicle.is_sound("after the take-overs");
}

#[test]
fn whoever_was_overtaken_is_refused_and_frees_nothing() {
    let chronicle = Chronicle::new(LOKT, &[], 0);
    chronicle.put_expired_claim(1, "n", "old");
    let taken = chronicle.run("new", &["claim", "take", "n", "--json"]);
    let token = number_of(&taken);
    let before = chronicle.events("taken over");
    let late: [(&[&str], i32, &str); 6] = [
        (&["claim", "release", "n"], 4, "E_LOCK_NOT_HELD"),
        (&["claim", "extend", "n"], 4, "E_LOCK_NOT_HELD"),
        (&["claim", "release", "n", "--token", "1"], 6, "E_FENCING_MISMATCH"),
        (&["claim", "extend", "n", "--token", "1"], 6, "E_FENCING_MISMATCH"),
        (&["ledger", "append", "--token", "1", r#"{"type":"note"}"#], 6, "E_FENCING_MISMATCH"),
        (&["claim", "take", "n"], 2, "E_LOCK_CONFLICT"),
    ];
    for (args, code, word) in late {
        let text = chronicle.run("old", args);
        assert_eq!(text.code, Some(code), "{args:?}: {text:?}");
        assert!(text.stderr.starts_with("error: ") && text.stdout.is_empty(), "{args:?}: it says why: {text:?}");
        let ended = chronicle.run("old", &[args, &["--json"]].concat());
        assert_eq!((ended.code, &json(&ended)["code"]), (Some(code), &word.into()), "{args:?}: {ended:?}");
        assert_eq!(chronicle.events("refused"), before, "{args:?}: nothing was written");
        assert_eq!(holder(&chronicle, "n"), Some(("new".into(), token)), "{args:?}: nothing was freed");
    }
    chronicle.is_free("after all refusals");
}

#[test]
fn of_eight_reaps_at_once_one_writes_the_event() {
    for round in 0..8 {
        let chronicle = Chronicle::new(LOKT, &[], 1);
        chronicle.put_expired_claim(2, "n", "gone");
        let place = &chronicle.place;
        let dir = place.dir().to_str().expect("a plain path");
        let reap = || (place.words(&["claim", "reap", "--json", "-d", dir]), place.env("reaper"));
        let ended = Swarm::at_gate((0..8).map(|_| reap())).and_then(Swarm::release).expect("they run");
        let counts: Vec<u64> = ended.iter().map(|ended| json(ended)["count"].as_u64().expect("a number")).collect();
        assert!(ended.iter().all(|ended| ended.code == Some(0)), "round {round}: {ended:?}");
        assert_eq!(counts.iter().sum::<u64>(), 1, "round {round}: one of them ended it: {counts:?}");
        assert_eq!(chronicle.events("reaped").len(), 3, "round {round}: one event says so");
        assert_eq!(event(&chronicle, 3)["type"], "lock_reaped", "round {round}");
        chronicle.is_free("reaped");
    }
}

// --- late, by the system call

/// A claim has expired: somebody's reap and the next one's claim have both been decided, and one of them comes first. (An extension of an
/// expired claim is refused, so a claim that was just extended is to a reap what a new one is.)
#[test]
fn a_reap_delayed_at_any_system_call_never_ends_a_claim_that_lasts() {
    const REAP: [&str; 3] = ["claim", "reap", "--json"];
    lokt_testkit::need!("strace");
    let expired = || {
        let chronicle = Chronicle::new(LOKT, &[], 0);
        chronicle.put_expired_claim(1, "n", "gone");
        chronicle
    };
    let all = calls(&expired().place, "reaper", &REAP);
    let from = all.iter().position(|call| call.name == "getcwd").expect("it looks for the ledger");
    let names = ["openat", "flock", "linkat", "fsync", "newfstatat", "unlinkat", "write"];
    let cases: Vec<Call> = all[from..].iter().filter(|call| names.contains(&call.name.as_str())).cloned().collect();
    let reaped = Mutex::new(Vec::new());
    in_parallel(24, cases, |call| {
        let context = format!("reap delayed at {}#{}", call.name, call.nth);
        let chronicle = expired();
        let place = &chronicle.place;
        let (reap, taken) = thread::scope(|scope| {
            let reap = scope.spawn(|| delayed_at(place, "reaper", &REAP, &call, 2_500));
            pause(Duration::from_millis(500));
            let taken = chronicle.run("new", &["claim", "take", "n", "--ttl", "10m", "--timeout", "1m", "--json"]);
            (reap.join().expect("it ran"), taken)
        });
        assert_eq!(taken.code, Some(0), "{context}: an expired claim is in nobody's way: {taken:?}");
        let count = json(&reap)["count"].as_u64().unwrap_or_else(|| panic!("{context}: it has a count: {reap:?}"));
        let held = Some(("new".into(), number_of(&taken)));
        assert_eq!(holder(&chronicle, "n"), held, "{context}: a claim that lasts was ended: {reap:?} {taken:?}");
        assert_eq!(chronicle.events(&context).len(), 3, "{context}: one event ended it, whoever wrote it");
        reaped.lock().expect("no thread panicked with it").push(count > 0);
    });
    let reaped = reaped.into_inner().expect("no thread panicked with it");
    let count = reaped.iter().filter(|reaped| **reaped).count();
    assert!(count > 0 && count < reaped.len(), "both orders were seen: {count} of {}", reaped.len());
}

/// The owner comes back late, with a release, while the next one takes over.
#[test]
fn a_fenced_append_delayed_at_any_system_call_comes_before_the_next_claim_or_not_at_all() {
    const APPEND: [&str; 6] = ["ledger", "append", "--token", "1", "--json", r#"{"type":"note","text":"fenced"}"#];
    lokt_testkit::need!("strace");
    let claimed = |ttl: &str| {
        let chronicle = Chronicle::new(LOKT, &[], 0);
        let taken = chronicle.run("old", &["claim", "take", "n", "--ttl", ttl]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
        chronicle
    };
    let all = calls(&claimed("10m").place, "old", &APPEND);
    let from = all.iter().position(|call| call.name == "getcwd").expect("it looks for the ledger");
    let names = ["openat", "flock", "linkat", "fsync", "newfstatat", "unlinkat", "write"];
    let cases: Vec<Call> = all[from..].iter().filter(|call| names.contains(&call.name.as_str())).cloned().collect();
    let seen = Mutex::new(Vec::new());
    in_parallel(24, cases, |call| {
        let context = format!("fenced append delayed at {}#{}", call.name, call.nth);
        let chronicle = claimed("5s");
        let place = &chronicle.place;
        let (late, taken) = thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(place, "old", &APPEND, &call, 8_000));
            let taken = chronicle.run("new", &["claim", "take", "n", "--timeout", "1m", "--json"]);
            (late.join().expect("it ran"), taken)
        });
        assert_eq!(taken.code, Some(0), "{context}: the next one gets it: {taken:?}");
        let token = number_of(&taken);
        let appended = late.code == Some(0);
        if appended {
            assert!(number_of(&late) < token, "{context}: a stale token appended after the next claim: {late:?}");
        } else {
            assert!(matches!(late.code, Some(5 | 6)), "{context}: {late:?}");
        }
        let all = chronicle.events(&context);
        let there = all.iter().filter(|bytes| String::from_utf8_lossy(bytes).contains("fenced")).count();
        assert_eq!(there, usize::from(appended), "{context}: refused is not written");
        assert_eq!(holder(&chronicle, "n"), Some(("new".into(), token)), "{context}: it is the next one's");
        seen.lock().expect("no thread panicked with it").push(appended);
    });
    let seen = seen.into_inner().expect("no thread panicked with it");
    let count = seen.iter().filter(|appended| **appended).count();
    assert!(count > 0 && count < seen.len(), "both orders were seen: {count} of {}", seen.len());
}
