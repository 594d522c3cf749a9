//! Any bytes where a receipt, an intent, a tombstone, a pin or a name should be: never a panic, and what is one reads back.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::intent::Intent;
use lokt_core::snapshot::pin::Pin;
use lokt_core::snapshot::receipt::Receipt;
use lokt_core::snapshot::reference::Reference;
use lokt_core::snapshot::tombstone::Tombstone;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(receipt) = Receipt::parse(bytes) {
        assert_eq!(Receipt::parse(&receipt.to_bytes()), Ok(receipt), "a receipt reads back");
    }
    if let Ok(intent) = Intent::parse(bytes) {
        assert_eq!(Intent::parse(&intent.to_bytes()), Ok(intent), "an intent reads back");
    }
    if let Ok(tombstone) = Tombstone::parse(bytes) {
        assert_eq!(Tombstone::parse(&tombstone.to_bytes()), Ok(tombstone), "a tombstone reads back");
    }
    if let Ok(pin) = Pin::parse(bytes) {
        assert_eq!(Pin::parse(&pin.to_bytes()), Ok(pin), "a pin reads back");
    }
    let _ = Reference::parse(bytes);
    if let Some(id) = core::str::from_utf8(bytes).ok().and_then(SnapshotId::parse) {
        assert_eq!(id.as_str().as_bytes(), bytes, "an id has one form");
        assert!(id.created_ms() < 10_000_000_000_000, "and a time");
    }
});
