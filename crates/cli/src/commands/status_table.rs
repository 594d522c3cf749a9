//! `lokt status` on a terminal: the same entries as a table that fits.

use jiff::Timestamp;
use lokt_core::denial::Holder;
use lokt_core::liveness::Liveness;
use lokt_core::time::millis_between;
use lokt_named::{Entry, EntryState};

use super::status::{damage, ends_with_process};
use crate::show::{ago, clean, owner_at, reason, renews, rough, seconds, seconds_since};
use crate::table::{self, Cell, Column, Row, Style};

const COLUMNS: [Column; 7] = [
    Column { title: "NAME", cut_to: Some(8), rank: 0 },
    Column { title: "STATE", cut_to: None, rank: 1 },
    Column { title: "HOLDER", cut_to: Some(8), rank: 2 },
    Column { title: "SINCE", cut_to: None, rank: 5 },
    Column { title: "UNTIL", cut_to: None, rank: 3 },
    Column { title: "WAITING", cut_to: None, rank: 4 },
    Column { title: "REASON", cut_to: Some(12), rank: 6 },
];

/// The table, title line first.
pub(super) fn lines(rows: &[Row], columns: usize) -> Vec<String> {
    table::lines(&COLUMNS, rows, columns)
}

/// The row of one entry.
pub(super) fn row(entry: &Entry, now: Timestamp) -> Row {
    let name = Cell::new(Style::Name, clean(&entry.name));
    let EntryState::Held(holder) = &entry.state else {
        let damage = damage(entry);
        let frozen = if entry.is_freeze { "FROZEN " } else { "" };
        let state = Cell::new(Style::Tag, format!("{frozen}{}", damage.state.to_uppercase()));
        return Row { cells: vec![name, state], sentence: Some(clean(&damage.message)) };
    };
    let hold = &holder.hold;
    let waiting = if entry.waiters > 0 { entry.waiters.to_string() } else { String::new() };
    let cells = vec![
        name,
        Cell::new(Style::Tag, state(entry, holder)),
        Cell::plain(owner_at(hold)),
        Cell::plain(hold.began().map(|began| ago(seconds_since(Some(began), now))).unwrap_or_default()),
        Cell::plain(until(entry, holder, now)),
        Cell::plain(waiting),
        Cell::plain(reason(hold).map(clean).unwrap_or_default()),
    ];
    Row { cells, sentence: None }
}

fn state(entry: &Entry, holder: &Holder) -> &'static str {
    match (entry.is_freeze, holder.elapsed.is_expired()) {
        (true, true) => "FROZEN EXPIRED",
        (true, false) => "FROZEN",
        (false, true) => "EXPIRED",
        (false, false) if !holder.lives() => "DEAD",
        (false, false) if holder.liveness == Liveness::Orphan => "ORPHAN",
        (false, false) => "HELD",
    }
}

/// What ends it, or ended it when.
fn until(entry: &Entry, holder: &Holder, now: Timestamp) -> String {
    let hold = &holder.hold;
    let left_ms = if entry.is_freeze { holder.elapsed.left_ms() } else { holder.left_ms() };
    match left_ms {
        _ if holder.elapsed.is_expired() => {
            hold.expires_at.map(|end| ago((millis_between(end, now) / 1000).max(0))).unwrap_or_default()
        }
        _ if !entry.is_live() => String::new(),
        // It renews its lease: the end of that isn't its end.
        _ if !entry.is_freeze && renews(holder) => format!("pid {} ends", hold.pid),
        Some(left_ms) => format!("in {}", rough(seconds(left_ms))),
        None if entry.is_freeze => "unfreeze".to_owned(),
        None if ends_with_process(holder) => format!("pid {} ends", hold.pid),
        None if holder.liveness == Liveness::Orphan => "its command ends".to_owned(),
        None => "unlock".to_owned(),
    }
}
