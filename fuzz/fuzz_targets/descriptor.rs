//! Any bytes where a descriptor should be: never a panic, and what is one reads back sealed, in its schema.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::snapshot::descriptor::{Consistency, Descriptor};

fuzz_target!(|bytes: &[u8]| {
    let Ok(descriptor) = Descriptor::parse(bytes) else { return };
    let members = descriptor.members();
    let is_at_risk = descriptor.consistency == Consistency::BestEffort;
    assert!(!is_at_risk || !members["risk"].is_null(), "what may have moved is told");
    let written = descriptor.to_bytes();
    // Indented, it may be longer than what may be read.
    let Ok(again) = Descriptor::parse(&written) else { return };
    assert!(again.checksum_valid, "what is written is sealed");
    assert_eq!(again, descriptor.sealed(), "it reads back");
    assert_eq!(again.to_bytes(), written, "a rewrite changes nothing more");
});
