//! A ledger that others share, for longer: every kind of writer at once, stopped at every step, and readers beside them.

#[expect(dead_code, reason = "this program needs a part of what the tests of the commands share")]
mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::kinds::three_of_each_kind;
use common::peers::{SharedLedger, Style, date};
use common::stopped::{Stopped, comes_back_beside_ours, comes_back_harmlessly};
use common::{Said, put};
use lokt_testkit::swarm::{in_parallel, now_ms};
use serde_json::Value;

const READS: u64 = 10_000;
const READERS: u64 = 4;
/// So far back a reader looks: every number in there was used before it began.
const WINDOW: u64 = 40;

fn numbers(said: &Said) -> Vec<u64> {
    let line = |line| -> Value { serde_json::from_str(line).expect("a line is JSON") };
    said.stdout.lines().map(line).map(|line| line["seq"].as_u64().expect("a line has a number")).collect()
}

/// Four writers append until the readers have had enough: one of each foreign kind and two of ours.
fn ten_thousand_reads(shared: &SharedLedger) {
    let (done, reads, head) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let af = if shared.style() == Style::Documented { "--documented" } else { "" };
    let shell = shared.start_seed(1_000_000, "shell-", "");
    let python = shared.start_af(&format!("append DIR 1000000 {af} --timeout 60 --payload python-"));
    thread::scope(|scope| {
        for writer in 0..2 {
            let (done, shared) = (&done, &shared);
            scope.spawn(move || {
                for at in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    shared.append(&format!("lokt-{writer}-{at}"), "--timeout 60s").exits(0, "every append succeeds");
                }
            });
        }
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (reads, head, shared) = (&reads, &head, &shared);
                scope.spawn(move || {
                    while reads.fetch_add(1, Ordering::Relaxed) < READS {
                        let seen = head.load(Ordering::Relaxed);
                        let after = seen.saturating_sub(WINDOW);
                        let said = shared.lokt("r", &format!("ledger show -d DIR --json --after {after}"));
                        let said = said.exits(0, "no reader finds a gap or a torn event");
                        let found = numbers(&said);
                        let expected: Vec<u64> = (after + 1..).take(found.len()).collect();
                        assert_eq!(found, expected, "reader {reader} sees every number once, in order");
                        let last = found.last().copied().unwrap_or(after);
                        assert!(last >= seen, "what one reader saw the next sees too: {last} after {seen}");
                        head.fetch_max(last, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        for reader in ended {
            reader.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    shell.dies();
    python.dies();
    assert!(head.into_inner() > 500, "there was something to read");
}

#[test]
fn ten_thousand_reads_beside_four_writers_find_no_gap_in_a_documented_ledger() {
    ten_thousand_reads(&SharedLedger::documented());
}

/// Row 33 of the conformance checks.
#[test]
fn ten_thousand_reads_beside_four_writers_find_no_gap_in_a_native_ledger() {
    let shared = SharedLedger::native();
    ten_thousand_reads(&shared);
    shared.pleases_af();
}

#[test]
fn a_lock_dated_in_the_future_is_taken_over_when_it_was_seen_unchanged_for_half_a_minute() {
    let shared = SharedLedger::native();
    put(&shared.lock(), "");
    date(&shared.lock(), 3_600);
    shared.append("early", "--timeout 3s").exits(75, "it may be somebody's");
    let started = now_ms();
    let said = shared.append("ours", "--timeout 120s").exits(0, "it has been the same for long enough");
    let waited = now_ms() - started;
    assert!((20_000..60_000).contains(&waited), "the first sighting counts too: {waited} ms{said}");
    assert_eq!(said.json()["filler"], 3, "{said}");
    shared.pleases_af();
}

#[test]
fn three_of_each_kind_with_150_appends_each_make_1350_events_in_a_documented_ledger() {
    three_of_each_kind(&SharedLedger::documented(), 150);
}

/// Row 17.
#[test]
fn three_of_each_kind_with_150_appends_each_make_1350_events_in_a_native_ledger() {
    three_of_each_kind(&SharedLedger::native(), 150);
}

/// Everybody, at every step.
fn everybody() -> Vec<Stopped> {
    let native = ["created", "lock", "listing", "temp", "written", "synced", "renamed", "compared"];
    let mut all: Vec<Stopped> = ["lock", "count", "mktemp", "write", "mv"].map(Stopped::Shell).into();
    all.extend(["created", "lock", "listing", "temp", "written", "synced", "renamed"].map(Stopped::Sample));
    all.extend(native.map(Stopped::Native));
    all.extend(native[..7].iter().map(|step| Stopped::NativeBlind(step)));
    all
}

/// Row 21.
#[test]
fn whoever_was_stopped_wherever_comes_back_and_changes_no_event_of_ours() {
    in_parallel(6, everybody(), comes_back_harmlessly);
}

#[test]
fn whoever_was_stopped_wherever_comes_back_and_frees_no_lock_of_ours() {
    in_parallel(3, everybody(), comes_back_beside_ours);
}
