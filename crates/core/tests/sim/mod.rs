//! A simulated world around `decide`, whose books are kept apart from the records. Random histories drive it in `decide_properties.rs`,
//! and whatever a fuzzer finds in `fuzz/fuzz_targets/intents.rs`.

pub(crate) mod act;
pub(crate) mod ledger;
pub(crate) mod machines;
pub(crate) mod steps;
pub(crate) mod world;
