//! Any bytes where a line of the audit log should be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lokt_core::audit::{Event, LINE_BYTES_MAX, may_be_of_a_hold, token_in};

fuzz_target!(|bytes: &[u8]| {
    let token = token_in(bytes);
    assert!(token.is_none() || !bytes.is_empty(), "nothing has no token");
    let _ = may_be_of_a_hold(bytes);
    let Ok(event) = serde_json::from_slice::<Event>(bytes) else { return };
    let line = event.encode();
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "an event is one line");
    assert!(line.len() <= LINE_BYTES_MAX + 1, "and not too long for its readers");
    let again: Event = serde_json::from_slice(&line).expect("what was written is an event");
    assert_eq!(again.encode(), line, "writing it again changes nothing");
});
