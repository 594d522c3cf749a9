//! Writers of every kind at once on one ledger: nobody's event is lost, and the numbers have no gap.

use std::collections::BTreeMap;
use std::thread;

use super::peers::{Peer, SharedLedger, Style};

const WRITERS: u32 = 3;

/// Three processes of each kind, so many appends each. Every event of theirs is there afterwards, once.
pub(crate) fn three_of_each_kind(shared: &SharedLedger, appends: u32) {
    let before = shared.numbers().len() as u64;
    let af = match shared.style() {
        Style::Documented => "--documented",
        Style::Native => "",
    };
    let mut peers: Vec<Peer> = Vec::new();
    for writer in 0..WRITERS {
        peers.push(shared.start_seed(appends, &format!("shell-{writer}-"), ""));
        peers.push(shared.start_af(&format!("append DIR {appends} {af} --timeout 60 --payload python-{writer}-")));
    }
    let numbers = thread::scope(|scope| {
        let ours: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || -> Vec<u64> {
                    let append = |at| shared.append(&format!("lokt-{writer}-{at}"), "--timeout 60s");
                    let said = (1..=appends).map(|at| append(at).exits(0, "every append of ours succeeds"));
                    said.map(|said| said.json()["seq"].as_u64().expect("an append has a number")).collect()
                })
            })
            .collect();
        ours.into_iter().map(|ours| ours.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    for peer in peers {
        let ending = peer.ends();
        assert_eq!((ending.code, ending.stderr.as_str()), (Some(0), ""), "every append of the others succeeds");
    }
    shared.is_contiguous(before + u64::from(3 * WRITERS * appends));
    every_payload_is_there_once(shared, appends, numbers);
}

fn every_payload_is_there_once(shared: &SharedLedger, appends: u32, numbers: Vec<Vec<u64>>) {
    let expected: BTreeMap<String, usize> = ["shell", "python", "lokt"]
        .iter()
        .flat_map(|kind| (0..WRITERS).map(move |writer| format!("{kind}-{writer}-")))
        .flat_map(|prefix| (1..=appends).map(move |at| (format!("{prefix}{at}"), 1)))
        .collect();
    assert_eq!(shared.payloads(), expected, "no-overwrite: every payload is there exactly once");
    for (writer, numbers) in numbers.into_iter().enumerate() {
        for (at, number) in (1..).zip(numbers) {
            let text = String::from_utf8(shared.event_bytes(number)).expect("an event is text");
            assert!(
                text.contains(&format!("\"lokt-{writer}-{at}\"")),
                "event {number} is the one that was acknowledged: {text}"
            );
        }
    }
    shared.lokt("b", "ledger verify -d DIR").exits(0, "nothing is wrong with it");
    if shared.style() == Style::Native {
        shared.pleases_af();
    }
}
