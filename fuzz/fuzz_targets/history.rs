//! Any bytes as a history of what processes did, one deed per line: never a panic, a deed reads back, and the judges say the same of it in
//! whatever order its lines are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lokt_core::history::judge::{ledger, line, lost_updates, overlaps, registers, tokens};
use lokt_core::history::{Entry, figures};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut entries: Vec<Entry> = text.lines().filter_map(|line| Entry::parse(line).ok()).collect();
    for entry in &entries {
        assert_eq!(Entry::parse(&entry.encode()).ok().as_ref(), Some(entry), "a deed reads back");
    }
    entries.sort_by_key(|entry| entry.at);
    let verdict = judged(&entries);
    // Of two deeds at one time, the order of the lines is all that there is.
    if entries.is_sorted_by(|one, next| one.at < next.at) {
        entries.reverse();
        assert_eq!(judged(&entries), verdict, "a history is judged in the order in which it happened");
    }
});

fn judged(entries: &[Entry]) -> String {
    let all = (overlaps(entries), tokens(entries, |name| name), line(entries), lost_updates(entries), ledger(entries));
    format!("{all:?} {:?} {:?}", registers(entries), figures(entries))
}
