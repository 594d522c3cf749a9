//! Thousands of grants, in order and without a gap; and a thousand cycles before a reader's eyes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use lokt_testkit::swarm::{in_parallel, now_ms};
use lokt_testkit::tenancy::{LONG, Tenancy, token_in, whole_in_every_look};

use crate::{LOKT, say};

#[test]
fn three_thousand_grants_by_six_are_in_order_and_without_a_gap() {
    const WORKERS: usize = 6;
    const GRANTS: usize = 500;
    // In memory: a disk would only make it longer.
    let tenancy = Tenancy::within(LOKT, Path::new("/dev/shm"));
    let (seen, began_ms) = (Mutex::new(Vec::new()), now_ms());
    in_parallel(WORKERS, 0..WORKERS, |nth| {
        let owner = format!("w{nth}");
        let mut last = 0;
        for _ in 0..GRANTS {
            let taken = tenancy.says(&owner, &format!("lease acquire {LONG} --timeout 60s"), 0);
            let token = token_in(&taken);
            assert!(token > last, "token-order: {owner}: {token} after {last}");
            last = token;
            let seq = taken["lock"]["acquire_seq"].as_u64().unwrap_or_else(|| panic!("{taken}"));
            seen.lock().expect("no thread panicked with it").push((seq, token));
            tenancy.says(&owner, "lease release", 0);
        }
    });
    say(&format!("{} grants took {} ms", WORKERS * GRANTS, now_ms() - began_ms));
    let mut seen = seen.into_inner().expect("no thread panicked with it");
    seen.sort_unstable();
    let expected = u64::try_from(WORKERS * GRANTS).expect("small");
    assert!(seen.iter().map(|(seq, _)| *seq).eq(1..=expected), "acquire_seq has no gap");
    assert!(seen.windows(2).all(|two| two[0].1 < two[1].1), "token-order: tokens grow with it");
    tenancy.log_is_whole("after all grants");
    // The log has every link's number: each is one above the one before, unless that was a jump to another block.
    let mut next = 1;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in tenancy.events() {
        let operation = event["operation"].as_str().unwrap_or_default().to_owned();
        let number = event["event_id"].as_str().and_then(|id| id.rsplit('/').next()?.parse::<u64>().ok());
        let Some(number) = number.filter(|_| event["target"] == "main" && operation != "worktree_create") else {
            continue;
        };
        assert_eq!(number, next, "no link is lost or there twice: {event}");
        next = event["details"]["next"].as_u64().filter(|_| operation == "rebase").unwrap_or(number + 1);
        *counts.entry(operation).or_default() += 1;
    }
    assert_eq!((counts["lock_acquire"], counts["lock_release"]), (expected, expected), "{counts:?}");
    assert!(counts["rebase"] >= 5, "blocks of numbers were used up: {counts:?}");
}

#[test]
fn check_10_a_reader_never_sees_an_empty_or_torn_record_in_1000_cycles() {
    let looks = whole_in_every_look(LOKT, 16, 63);
    assert!(looks > 10_000, "the reader looked often enough to mean something: {looks} times");
}
