//! Reading a ledger in which anything may be.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::ledgers::{append, fifo, file, fresh, put_new, reopened, rm, seq, with_events};
use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::seq::{Oddity, Style};
use lokt_ledger::Slot;

#[test]
fn an_event_is_read_as_it_is_stored() {
    let (_dir, ledger) = with_events(2, false);
    let Slot::Event(bytes) = ledger.read(seq(2)).expect("read") else { panic!("there is an event") };
    assert_eq!(bytes, crate::ledgers::bytes(&file(&ledger, 2)));
    assert_eq!(ledger.read(seq(3)).expect("read"), Slot::Missing);
}

#[test]
fn whatever_is_no_event_is_damaged_and_nothing_makes_a_reader_wait() {
    let (_dir, ledger) = with_events(1, false);
    fs::create_dir(file(&ledger, 2)).expect("made");
    fifo(&file(&ledger, 3));
    symlink("event-000001.json", file(&ledger, 4)).expect("made");
    put_new(&file(&ledger, 5), vec![b' '; EVENT_BYTES_MAX + 1]);
    put_new(&file(&ledger, 6), b"");
    put_new(&file(&ledger, 7), b"{\"type\":\"a\"");
    put_new(&file(&ledger, 8), b"\xEF\xBB\xBF{\"type\":\"a\"}");
    put_new(&file(&ledger, 9), b"{\"type\":\"\xFF\"}");
    put_new(&file(&ledger, 10), b"{\"type\":\"a\",\"timestamp\":\"soon\"}");
    let says = [
        "a directory",
        "a FIFO",
        "a symbolic link",
        "1048577 bytes",
        "empty",
        "not JSON",
        "byte order",
        "UTF-8",
        "soon",
    ];
    for (number, says) in (2..).zip(says) {
        match ledger.read(seq(number)).expect("read") {
            Slot::Damaged(damage) => {
                assert!(damage.0.to_lowercase().contains(&says.to_lowercase()), "event {number} {damage}, not {says}");
            }
            other => panic!("event {number} is no event, but {other:?}"),
        }
    }
    assert!(matches!(ledger.read(seq(1)), Ok(Slot::Event(_))), "the rest can be read");
    let census = ledger.census().expect("listed");
    assert_eq!((census.head, census.events), (10, 10), "they have their numbers all the same");
}

#[test]
fn a_census_tells_gaps_and_strays() {
    let (_dir, ledger) = with_events(6, false);
    for number in [1, 3, 4] {
        rm(&file(&ledger, number));
    }
    for name in ["000001.json", "event-7.json", "event-000000.json", "event-9223372036854775807.json", "notes.json"] {
        put_new(&ledger.path().join(name), b"{}");
    }
    let census = ledger.census().expect("listed");
    assert_eq!((census.head, census.events), (6, 3));
    assert_eq!(census.gaps, [(1, 1), (3, 4)]);
    let strays: Vec<_> = census.strays.iter().map(|(name, oddity)| (name.as_str(), *oddity)).collect();
    let expected = [
        ("000001.json", Oddity::OtherStyle),
        ("event-000000.json", Oddity::OutOfRange),
        ("event-7.json", Oddity::NotCanonical),
        ("event-9223372036854775807.json", Oddity::OutOfRange),
    ];
    assert_eq!(strays, expected);
    assert_eq!(census.strays_count, 4);
}

#[test]
fn numbers_grow_past_six_digits() {
    let (_dir, ledger) = fresh(Style::Native, false);
    put_new(&file(&ledger, 999_999), b"{\"type\":\"nodes_released\",\"node_ids\":[]}");
    assert_eq!(append(&ledger, r#"{"type":"x"}"#), 1_000_000);
    assert!(ledger.path().join("1000000.json").exists());
    assert_eq!(ledger.census().expect("listed").gaps, [(1, 999_998)]);
}

/// **no-overwrite** from the readers' side: while four write, nobody sees a gap.
#[test]
fn readers_beside_writers_see_no_gap() {
    let (dir, ledger) = with_events(1, false);
    let (over, reads) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let ledger = reopened(&dir);
                    while !reads.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                    for _ in 0..60 {
                        append(&ledger, r#"{"type":"note"}"#);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut heads = BTreeSet::new();
            while !over.load(Ordering::SeqCst) {
                let census = ledger.census().expect("listed");
                assert_eq!(census.gaps, [], "a gap that there never was, at head {}", census.head);
                assert!(
                    matches!(ledger.read(seq(census.head)), Ok(Slot::Event(_))),
                    "half an event at {}",
                    census.head
                );
                heads.insert(census.head);
                reads.store(true, Ordering::SeqCst);
            }
            heads.insert(ledger.census().expect("listed").head);
            heads.len()
        });
        for writer in writers {
            writer.join().expect("it wrote");
        }
        over.store(true, Ordering::SeqCst);
        assert!(reader.join().expect("it read") > 1, "the reader read beside the writers");
    });
    assert_eq!(ledger.census().expect("listed").head, 241);
}
