//! Any bytes in the small files around a ledger, and in the names of its events: never a panic, and what was understood reads back.
#![cfg_attr(fuzzing, no_main)]

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use lokt_core::hold::Identity;
use lokt_core::ledger::chain::Digest;
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_core::ledger::claiming::check_node;
use lokt_core::ledger::lock_file::LockFile;
use lokt_core::ledger::meta::{LOCK_TIMEOUT_SEC_MAX, lock_timeout_sec};
use lokt_core::ledger::moment;
use lokt_core::ledger::proof::is_canonical_id;
use lokt_core::ledger::seq::{Named, Style};
use lokt_core::ledger::writer_lock::{Note, Sight, Verdict, judge};
use lokt_core::liveness::Process;
use lokt_core::time::Moment;

fuzz_target!(|bytes: &[u8]| {
    note(bytes);
    let (seconds, _) = lock_timeout_sec(bytes);
    assert!((1..=LOCK_TIMEOUT_SEC_MAX).contains(&seconds), "claims last between a second and an hour");
    if let Ok(file) = LockFile::parse(bytes) {
        let now = Moment { wall: file.expires_at, monotonic_ms: 1, boottime_ms: 1 };
        let holder = file.holder(&now, &Identity::default());
        assert_eq!((&holder.hold.name, &holder.hold.owner), (&file.node, &file.owner), "it says whose the node is");
        assert!(holder.lives(), "its last moment is still its owner's");
    }
    if let Ok(text) = core::str::from_utf8(bytes) {
        named(text);
    }
});

/// The lock that all programs share.
fn note(bytes: &[u8]) {
    let note = Note::parse(bytes);
    assert_eq!(Note::parse(&note.render()), note, "a note reads back");
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    for writer in [None, Some(Process::Alive), Some(Process::Unseen), Some(Process::Dead)] {
        let seen = |unchanged_ms| judge(&Sight { note: &note, modified: now, writer, unchanged_ms, now });
        assert_eq!(seen(0) == Verdict::Dead, writer == Some(Process::Dead), "who is dead has left");
        assert_ne!(seen(0), Verdict::Stale, "what was changed just now is nobody's to take");
    }
}

fn named(text: &str) {
    if let Ok(checkpoint) = text.parse::<Checkpoint>() {
        assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint), "a checkpoint reads back");
    }
    for style in [Style::Documented, Style::Native] {
        if let Named::Event(seq) = style.named(text) {
            assert_eq!(style.file_name(seq), text, "an event has one name");
        }
        if check_node(style, text).is_ok() {
            assert!(!text.is_empty() && !text.contains('\n'), "a node fits into a line");
        }
    }
    if is_canonical_id(text) {
        let numbers: Vec<u64> = text.split('.').filter_map(|number| number.parse().ok()).collect();
        let again: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        assert_eq!(again.join("."), text, "a node of the proof is numbers, written in one way");
    }
    if let Some(at) = moment::parse(text) {
        assert_eq!(moment::parse(&moment::show(at)), Some(at), "a time reads back");
    }
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.to_string().parse(), Ok(digest), "a digest reads back");
    }
}
