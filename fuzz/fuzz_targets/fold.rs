//! Any bytes as the events of a ledger, one per line: folded without a panic, and what is kept of it is what was read.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::ledger::chain::Leaf;
use lokt_core::ledger::fold::{Folded, Mark};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;

fuzz_target!(|bytes: &[u8]| {
    for style in [Style::Documented, Style::Native] {
        let _ = Folded::decode(bytes, style);
        folds(bytes, style);
    }
});

/// An empty line is a number that is missing; one of dots is a gap of as many numbers, squared.
fn folds(bytes: &[u8], style: Style) {
    let mut folded = Folded::new(style);
    for (event, ino) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        let Some(seq) = Seq::new(folded.through + 1) else { return };
        let mark = Mark { ino, modified_ns: 5, size: event.len() as u64 };
        if event.iter().all(|byte| *byte == b'.') {
            let more = (event.len() as u64).pow(2);
            folded.missing(Seq::new(seq.get() + more).unwrap_or(seq));
            continue;
        }
        match Stored::parse(event) {
            Ok(stored) => {
                let leaf = Leaf::event(&stored, event);
                let mut plainly = folded.clone();
                folded.event(seq, &stored, leaf, mark);
                if Folded::is_plain(style, &stored) {
                    plainly.plain(seq, leaf, mark);
                    assert_eq!(plainly, folded, "an event that says nothing adds nothing but its digest");
                }
                folded.identify(event);
                assert!(folded.ends_with(event), "the last event is known again");
            }
            Err(damage) => folded.damaged(seq, &damage.0, Leaf::damaged(event), Some(mark)),
        }
        is_kept(&folded, style);
    }
}

fn is_kept(folded: &Folded, style: Style) {
    let mut folded = folded.clone();
    // Keys are kept elsewhere.
    folded.fresh_ids.clear();
    let Some(cache) = folded.encode() else { return };
    let mut again = Folded::decode(&cache, style).expect("what was kept can be read");
    assert_eq!(again.kept, folded.through, "up to the last event");
    again.kept = folded.kept;
    assert_eq!(again, folded, "all of it");
    let other = if style == Style::Native { Style::Documented } else { Style::Native };
    assert!(Folded::decode(&cache, other).is_none(), "and only of such a ledger");
}
