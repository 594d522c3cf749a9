//! **no-overwrite** beside writers that were stopped inside the lock, lost it, and come back. The long tests of `ledger_shared` stop everybody
//! at every step; here are a few.

use std::fs;

use lokt_testkit::swarm::in_parallel;
use serde_json::Value;

use crate::common::peers::{SharedLedger, Style};
use crate::common::stopped::{Stopped, comes_back_beside_ours, comes_back_harmlessly};
use crate::common::{put, remove};

/// Row 21 of the conformance checks.
#[test]
fn a_stopped_writer_that_comes_back_after_a_take_over_changes_no_event_of_ours() {
    let few =
        [Stopped::Shell("count"), Stopped::Shell("mktemp"), Stopped::Sample("listing"), Stopped::NativeBlind("synced")];
    in_parallel(4, few, comes_back_harmlessly);
}

#[test]
fn a_late_release_does_not_free_the_lock_of_a_writer_of_ours_that_is_inside() {
    in_parallel(2, [Stopped::Shell("write"), Stopped::Native("compared")], comes_back_beside_ours);
}

/// Row 18.
#[test]
fn a_writer_of_ours_that_was_killed_inside_is_replaced_at_once() {
    for shared in [SharedLedger::documented(), SharedLedger::native()] {
        let before = shared.numbers().len() as u64;
        shared.lokt_inside("killed-").dies();
        assert!(shared.is_locked(), "it left its lock");
        // Less than another program's lock is looked at. A machine that stands still for as long doesn't do so every time.
        let mut appends = (0..5).map(|_| shared.append("next", "--timeout 500ms"));
        let said = appends.find(|said| said.code != 75).expect("crash-frees: nobody waits for the dead");
        let said = said.exits(0, "crash-frees: nobody waits for the dead");
        assert_eq!(said.json().get("filler"), None, "the dead don't come back: no number is filled{said}");
        let head = *shared.numbers().last().expect("there are events");
        assert!(head > before, "what it had published stays");
        shared.is_contiguous(head);
        shared.lokt("b", "ledger verify -d DIR").exits(0, "nothing is wrong with it");
        if shared.style() == Style::Native {
            shared.pleases_af();
        }
    }
}

/// Row 22.
#[test]
fn ours_never_replaces_an_event_when_somebody_broke_its_lock() {
    for shared in [SharedLedger::documented(), SharedLedger::native()] {
        let style = if shared.style() == Style::Documented { "--documented" } else { "" };
        let inside = shared.lokt_inside("inside-");
        break_lock(&shared);
        let intruders = shared.af(&format!("append DIR 5 {style} --payload intruder-"));
        let numbers: Vec<u64> = intruders.exits(0, "the lock is gone").stdout.lines().flat_map(str::parse).collect();
        let bytes: Vec<_> = numbers.iter().map(|number| shared.event_bytes(*number)).collect();
        let ending = inside.finishes();
        for (number, bytes) in numbers.iter().zip(&bytes) {
            assert_eq!(&shared.event_bytes(*number), bytes, "no-overwrite: event {number} is as it was: {ending:?}");
        }
        let payloads = shared.payloads();
        assert!(payloads.values().all(|times| *times == 1), "nothing is there twice: {payloads:?}");
        if ending.code == Some(0) {
            let answer: Value = serde_json::from_str(&ending.stdout).expect("an answer is JSON");
            let batch = payloads.keys().filter(|payload| payload.starts_with("inside-")).count();
            assert!(
                batch as u64 >= answer["count"].as_u64().expect("it says how many"),
                "what was acknowledged is there, and what others wrote isn't counted: {answer}, {batch}"
            );
        }
        assert!(!shared.is_locked(), "no lock is left: {ending:?}");
        shared.append("next", "").exits(0, "everybody goes on");
        shared.is_contiguous(*shared.numbers().last().expect("there are events"));
        if shared.style() == Style::Native {
            shared.pleases_af();
        }
    }
}

/// What somebody does who deletes a lock by hand.
fn break_lock(shared: &SharedLedger) {
    if shared.lock().is_dir() {
        fs::remove_dir_all(shared.lock()).expect("it is ours");
    } else {
        remove(&shared.lock());
    }
}

/// Row 23.
#[test]
fn ours_releases_only_its_own_lock() {
    let foreign = "{\"agent_id\":\"append-operation\",\"acquired_at\":\"2026-11-15T23:21:14.658897752+05:30\"}\n";
    for as_directory in [false, true] {
        let shared = SharedLedger::native();
        let inside = shared.lokt_inside("inside-");
        break_lock(&shared);
        if as_directory {
            fs::create_dir(shared.lock()).expect("the name is free");
        } else {
            put(&shared.lock(), foreign);
        }
        let ending = inside.finishes();
        assert!(shared.is_locked(), "the other one's lock stays (directory: {as_directory}): {ending:?}");
        if as_directory {
            assert!(shared.lock().is_dir(), "as it was: {ending:?}");
        } else {
            let left = fs::read_to_string(shared.lock()).expect("it is there");
            assert_eq!(left, foreign, "as it was: {ending:?}");
        }
        assert!(ending.code != Some(0) || ending.stderr.contains("warning"), "and it says so: {ending:?}");
    }
}
