//! Any bytes as a history of what processes did, one deed per line: never a panic, a deed reads back, and the judges say the same of it in
//! whatever order its lines are.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_torture::Orders;
use lokt_torture::history::judge::{ledger, line, lost_updates, overlaps, registers, tokens};
use lokt_torture::history::{Entry, Told, figures};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    text.lines().for_each(told);
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

/// A line that a child tells, or is told.
fn told(line: &str) {
    match Told::parse(line) {
        Told::Did(entry) => assert_eq!(Entry::parse(line).ok(), Some(entry), "a deed is an entry"),
        Told::Odd(why) | Told::Trouble(why) => assert_eq!(why.len() + 1, line.len(), "all of it is told"),
        Told::Nothing(why) => assert!(!why.is_empty(), "why it is nothing"),
    }
    if let Ok(orders) = line.parse::<Orders>() {
        assert_eq!(orders.to_string().parse(), Ok(orders), "orders read back");
    }
}

fn judged(entries: &[Entry]) -> String {
    let all = (overlaps(entries), tokens(entries, |name| name), line(entries), lost_updates(entries), ledger(entries));
    format!("{all:?} {:?} {:?}", registers(entries), figures(entries))
}
