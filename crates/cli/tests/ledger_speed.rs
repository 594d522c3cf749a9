//! What must not grow with a ledger: bounds with tenfold slack. `docs/performance.md` has the figures.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lokt_testkit::cmd::Place;

/// A ledger of so many events.
fn ledger(place: &Place, name: &str, count: u64) -> PathBuf {
    let dir = place.beside(name);
    let made = place.run("alice", &["ledger", "init", "-d", name]);
    assert_eq!(made.code, Some(0), "a ledger can be made: {}", made.stderr);
    for number in 1..=count {
        let event = format!(r#"{{"type":"note","timestamp":"2026-01-01T00:00:00Z","number":{number}}}"#);
        write(&dir.join(format!("ledger/event-{number:06}.json")), &event);
    }
    dir
}

#[expect(clippy::disallowed_methods, reason = "nobody reads it before it is whole")]
fn write(path: &std::path::Path, text: &str) {
    fs::write(path, text).expect("the directory is there");
}

#[expect(clippy::disallowed_methods, reason = "this test is about time")]
fn append(place: &Place, dir: &str) -> Duration {
    let start = Instant::now();
    let ended = place.run("alice", &["ledger", "append", "-d", dir, r#"{"type":"note"}"#]);
    assert_eq!(ended.code, Some(0), "the append works: {}", ended.stderr);
    start.elapsed()
}

#[test]
fn an_append_to_fifty_thousand_events_takes_about_as_long_as_one_to_a_thousand() {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    ledger(&place, "short", 1_000);
    ledger(&place, "long", 50_000);
    // The first append of each lists the ledger, and notes its head.
    let (mut short, mut long): (Vec<_>, Vec<_>) =
        (0..22).map(|_| (append(&place, "short"), append(&place, "long"))).skip(1).unzip();
    short.sort_unstable();
    long.sort_unstable();
    let (short, long) = (short[short.len() / 2], long[long.len() / 2]);
    assert!(
        long < short * 13,
        "an append doesn't depend on the ledger's length: {short:?} at 1,000, {long:?} at 50,000"
    );
}

#[test]
fn a_claim_with_a_warm_cache_opens_a_handful_of_events() {
    lokt_testkit::need!("strace");
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    ledger(&place, "long", 5_000);
    let opened = |node: &str| {
        let log = place.beside(&format!("{node}.log"));
        let trace = ["strace", "-f", "-e", "trace=openat", "-o", log.to_str().expect("a plain path")];
        let words = [&trace, place.words(&["claim", "take", node, "-d", "long"]).as_slice()].concat();
        let ended = place.run_words("alice", &words);
        assert_eq!(ended.code, Some(0), "the claim is made under strace: {}", ended.stderr);
        let text = fs::read_to_string(&log).expect("strace wrote its log");
        text.lines().filter(|line| line.contains("\"event-")).count()
    };
    let (cold, warm) = (opened("first"), opened("second"));
    assert!(cold >= 5_000, "without a cache every event is read: {cold}");
    assert!(warm < 100, "with one, only the end of the ledger is: {warm}");
}
