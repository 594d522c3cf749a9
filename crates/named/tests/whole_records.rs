//! **whole-records**: a reader in a loop over 10,000 cycles of lock, refresh and unlock never sees an empty or invalid file.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lokt_core::decide::{Breaking, Terms};
use lokt_core::name::LockName;
use lokt_core::record::{Parsed, parse};
use lokt_named::{Condition, End, Grant, Lokt};

const CYCLES: usize = 10_000;

#[test]
fn no_reader_ever_sees_an_empty_or_half_written_record() {
    let dir = tempfile::tempdir().expect("a temp directory can be made");
    let root = dir.path().join("root");
    let lokt = Lokt::create(&root, lokt_sys::machine::identity("writer".into(), None)).expect("a new root");
    let name = LockName::new("x").expect("a good name");
    let done = AtomicBool::new(false);
    let whole = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = root.join("locks/x.json");
            while !done.load(Ordering::SeqCst) {
                // Missing is fine: it is unlocked half of the time.
                if let Ok(bytes) = std::fs::read(&path) {
                    assert!(matches!(parse(&bytes), Parsed::Hold(_)), "whole-records: a reader saw {bytes:?}");
                    whole.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        for cycle in 0..CYCLES {
            for ttl_sec in [Some(60), None] {
                let said = lokt.take(&name, Terms { ttl_sec, reason: None }).expect("the disk works");
                assert!(matches!(said.value, Grant::Granted(_)), "cycle {cycle}: nobody else is there");
            }
            let said = lokt.unlock(&name, Breaking::No, Condition::default()).expect("the disk works");
            assert!(matches!(said.value, End::Ended(_)), "cycle {cycle}: it is ours");
        }
        done.store(true, Ordering::SeqCst);
    });
    let whole = whole.load(Ordering::SeqCst);
    assert!(whole > CYCLES, "the reader looked often enough to mean something: {whole} times");
}
