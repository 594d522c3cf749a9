//! Any bytes where a link of a chain, its birth, or a line of the repository's log should be: never a panic, and what is one reads back.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::hold::Fence;
use lokt_core::lease::audit::{Head, read_line};
use lokt_core::lease::slot::{Base, Kind, Slot, tag};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(slot) = Slot::parse(bytes) {
        assert!(slot.number < slot.next && slot.next <= slot.ceiling && slot.ceiling < Fence::LIMIT, "numbers follow");
        assert!(slot.kind == Kind::Rebase || slot.next == slot.number + 1, "and only a rebase leaves some out");
        let written = slot.to_bytes();
        let again = Slot::parse(&written).expect("what was written is a link");
        assert_eq!(again.to_bytes(), written, "a rewrite changes nothing more");
        let tag = tag(bytes).expect("a link has a tag");
        assert_eq!((tag.chain, tag.number), (slot.chain, slot.number), "which is its own");
        let (line, hash) = slot.event.line("");
        let (_, read) = read_line(&line, 1, "").expect("its event is a line");
        assert_eq!(read, hash, "whose hash is right");
        assert_eq!(again.event.line("").0, line, "and which can be made anew");
    }
    let _ = tag(bytes);
    if let Ok(base) = Base::parse(bytes) {
        assert_eq!(Base::parse(&base.to_bytes()), Ok(base), "a birth reads back");
    }
    if let Some(head) = Head::parse(bytes) {
        assert_eq!(Head::parse(&head.to_bytes()), Some(head), "a head reads back");
    }
    let _ = read_line(bytes, 1, "");
});
