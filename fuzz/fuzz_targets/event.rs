//! Any bytes where an event should be, typed or stored: never a panic, and what is written means what was typed.
#![cfg_attr(fuzzing, no_main)]

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use lokt_core::ledger::chain::{Digest, Leaf};
use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::{Stored, line, misread};
use serde_json::{Map, Value};

fuzz_target!(|bytes: &[u8]| {
    stored(bytes);
    let Ok(draft) = Draft::parse(bytes) else { return };
    for style in [Style::Documented, Style::Native] {
        written(&draft, style, bytes);
    }
});

/// What another program wrote.
fn stored(bytes: &[u8]) {
    let seq = Seq::new(7).expect("not zero");
    let shown = line(seq, bytes);
    let _ = misread(bytes);
    let Ok(event) = Stored::parse(bytes) else {
        assert!(shown.is_err(), "what is no event has no line");
        return;
    };
    let shown = shown.expect("an event has a line");
    assert!(shown.starts_with("{\"seq\":7") && !shown.contains('\n'), "with its number first: {shown}");
    // What others carry needn't be one.
    if event.carried().is_none() {
        let again = Stored::parse(shown.as_bytes()).expect("its line is an event");
        assert_eq!((&again.kind, again.timestamp), (&event.kind, event.timestamp), "the same one: {shown}");
    }
    let _ = (event.id(), event.filler(), event.chain(), Leaf::event(&event, bytes));
    assert!(!event.is_filler() || event.repaired().is_none(), "no filler is a repair");
}

/// What somebody typed, as lokt writes it.
fn written(draft: &Draft, style: Style, typed: &[u8]) {
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    let Ok(bytes) = draft.render(style, now, Added::default()) else { return };
    let event = Stored::parse(&bytes).expect("what was written is an event");
    // Who types a carrier means what is in it.
    if draft.kind() == "nodes_released" && event.carried().is_some() {
        return;
    }
    assert_eq!(event.shown_kind(), draft.kind(), "of the type that was typed");
    assert!(style == Style::Documented || !misread(&bytes), "the native program finds its type");
    assert!(event.timestamp.is_some(), "it has a time");
    // Numbers that nobody can hold are kept as text, and can't be compared.
    if let Ok(mut typed) = serde_json::from_slice::<Map<String, Value>>(typed) {
        let text = line(Seq::FIRST, &bytes).expect("it is an event");
        let mut shown: Map<String, Value> = serde_json::from_str(&text).expect("a line is JSON");
        shown.remove("seq");
        typed.remove("seq");
        if !typed.contains_key("timestamp") {
            shown.remove("timestamp");
        }
        assert_eq!(shown, typed, "with all of its members: {text}");
    }
    let chain = Digest::of(&bytes);
    let added = Added { id: Some("k"), token: Seq::new(3), filler: Seq::new(4), chain: Some(&chain) };
    let Ok(bytes) = draft.render(style, now, added) else { return };
    let event = Stored::parse(&bytes).expect("what was written is an event");
    assert_eq!((event.id(), event.filler(), event.chain()), (Some("k"), Seq::new(4), Some(chain)), "what was added");
}
