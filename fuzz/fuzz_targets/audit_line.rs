//! Any bytes where a line of the audit log should be.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::audit::{Event, Filter, LINE_BYTES_MAX, Line, may_be_of_a_token, token_in};

fuzz_target!(|bytes: &[u8]| {
    let token = token_in(bytes);
    assert!(token.is_none() || !bytes.is_empty(), "nothing has no token");
    let _ = may_be_of_a_token(bytes);
    shown(bytes);
    let Ok(event) = serde_json::from_slice::<Event>(bytes) else { return };
    let line = event.encode();
    assert_eq!(line.iter().position(|byte| *byte == b'\n'), line.len().checked_sub(1), "an event is one line");
    assert!(line.len() <= LINE_BYTES_MAX + 1, "and not too long for its readers");
    let again: Event = serde_json::from_slice(&line).expect("what was written is an event");
    assert_eq!(again.encode(), line, "writing it again changes nothing");
});

/// As `lokt audit` reads it: the line is what was there, and is wanted by whoever asks for what it says.
fn shown(bytes: &[u8]) {
    let Some(line) = Line::parse(bytes) else { return };
    assert!(bytes.windows(line.text.len()).any(|part| part == line.text.as_bytes()), "it is what was read");
    let again = Line::parse(line.text.as_bytes()).expect("it is a line without what surrounds it");
    assert_eq!((again.at, again.event(), again.name()), (line.at, line.event(), line.name()), "a line reads back");
    let _ = (line.number("ttl_sec"), line.extra("fencing_token"), line.text_of("reason"));
    let asked = Filter {
        since: Some(line.at),
        names: vec![line.name().to_owned()],
        owners: vec![line.text_of("owner").to_owned()],
        events: vec![line.event().to_owned()],
    };
    assert!(Filter::default().wants(&line) && asked.wants(&line), "it is wanted");
    let other = Filter { names: vec![format!("{}x", line.name())], ..asked };
    assert!(!other.wants(&line), "another lock's isn't");
}
