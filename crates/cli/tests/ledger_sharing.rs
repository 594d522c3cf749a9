//! Writers of every kind at once on one ledger. The long tests of `ledger_shared` give them more to do.

use std::fs;

use crate::common::kinds::three_of_each_kind;
use crate::common::peers::SharedLedger;

#[test]
fn three_kinds_of_writers_on_a_documented_ledger_lose_nothing() {
    let shared = SharedLedger::documented();
    three_of_each_kind(&shared, 10);
    let leftovers: Vec<_> = fs::read_dir(shared.ledger())
        .expect("it is there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with("event-") && name != ".lokt")
        .collect();
    assert_eq!(leftovers, Vec::<String>::new(), "nothing else is left in the ledger");
}

/// Row 17 of the conformance checks.
#[test]
fn three_kinds_of_writers_on_a_native_ledger_lose_nothing() {
    three_of_each_kind(&SharedLedger::native(), 10);
}

/// Row 16.
#[test]
fn while_ours_holds_the_lock_others_wait_and_then_succeed() {
    let shared = SharedLedger::native();
    let ours = shared.lokt_inside("ours-");
    shared
        .af("append DIR 1 --timeout 0.1")
        .exits(1, "the lock is held")
        .notes("timeout waiting for lock", "it says so");
    let shell = shared.start_seed(1, "shell-", "");
    let python = shared.start_af("append DIR 1 --timeout 60 --payload python-").waits();
    assert_eq!(ours.finishes().code, Some(0), "ours goes on");
    for (peer, name) in [(shell, "shell"), (python, "python")] {
        let ending = peer.ends();
        assert_eq!((ending.code, ending.stderr.as_str()), (Some(0), ""), "{name} succeeds when ours is done");
    }
    let payloads = shared.payloads();
    assert_eq!((payloads.get("shell-1"), payloads.get("python-1")), (Some(&1), Some(&1)), "both events are there");
    assert!(payloads.values().all(|times| *times == 1), "no-overwrite: and each of ours once");
    shared.is_contiguous(*shared.numbers().last().expect("there are events"));
    shared.pleases_af();
}
