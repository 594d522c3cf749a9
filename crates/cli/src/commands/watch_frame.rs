//! One frame of `lokt status --watch`: what the whole screen shows at one moment.

use std::path::Path;

use jiff::Timestamp;
use lokt_core::audit::Event;
use lokt_core::name::LockName;
use lokt_core::time::{parse_wall, show_wall_seconds};
use lokt_named::{Entry, Lokt};
use lokt_sys::terminal::Size;

use super::status_table;
use crate::show::{ago, clean, seconds_since};
use crate::table::{self, Cell, Column, Row, Style};
use crate::width;

/// The first place of the screen.
const HOME: &str = "\x1b[H";
/// Clears a line before it is written: after a line that ends at the edge it is too late.
const CLEAR_LINE: &str = "\x1b[2K";
/// Root and time, counts, an empty line.
const HEAD_LINES: usize = 3;
/// Between the locks and what happened last: an empty line and the titles.
const EVENT_HEAD_LINES: usize = 2;
/// More of the past is in the audit log.
const EVENTS_MAX: usize = 8;

const EVENT_COLUMNS: [Column; 4] = [
    Column { title: "LAST", cut_to: None, rank: 0 },
    Column { title: "EVENT", cut_to: None, rank: 1 },
    Column { title: "NAME", cut_to: Some(8), rank: 2 },
    Column { title: "BY", cut_to: Some(8), rank: 3 },
];

/// What there is to show.
pub(super) struct Frame<'a> {
    pub(super) root: &'a Path,
    pub(super) name: Option<&'a LockName>,
    pub(super) lokt: Option<&'a Lokt>,
    pub(super) entries: &'a [Entry],
    /// What is said if there is nothing.
    pub(super) nothing: &'a str,
    pub(super) now: Timestamp,
    pub(super) size: Size,
}

/// The frame as one text: every line of the screen is written anew, none is wider than it.
pub(super) fn frame(frame: &Frame<'_>) -> String {
    let Size { columns, rows } = frame.size;
    let mut lines = vec![title(frame), width::cut(&counts(frame.entries), columns), String::new()];
    lines.extend(locks(frame, rows.saturating_sub(HEAD_LINES)));
    let room = rows.saturating_sub(lines.len() + EVENT_HEAD_LINES).min(EVENTS_MAX);
    let events =
        frame.lokt.filter(|_| room > 0).map(|lokt| lokt.inspect().last_events(frame.name, room)).unwrap_or_default();
    if !events.is_empty() {
        let events: Vec<Row> = events.iter().map(|event| event_row(event, frame.now)).collect();
        lines.push(String::new());
        lines.extend(table::lines(&EVENT_COLUMNS, &events, columns));
    }
    lines.resize(rows, String::new());
    let lines: Vec<String> = lines.into_iter().map(|line| format!("{CLEAR_LINE}{line}")).collect();
    format!("{HOME}{}", lines.join("\r\n"))
}

/// Where, and when.
fn title(frame: &Frame<'_>) -> String {
    let columns = frame.size.columns;
    let time = show_wall_seconds(frame.now);
    let root = clean(&frame.root.to_string_lossy());
    let rest = columns.saturating_sub(time.len() + 2);
    if rest < 8 {
        return width::cut_middle(&root, columns);
    }
    let root = width::cut_middle(&root, rest);
    format!("{root}{}{time}", " ".repeat(columns - width::of(&root) - time.len()))
}

fn counts(entries: &[Entry]) -> String {
    let live = |is_freeze| entries.iter().filter(|entry| entry.is_freeze == is_freeze && entry.is_live()).count();
    let waiting: usize = entries.iter().map(|entry| entry.waiters).sum();
    format!("{} held, {} frozen, {waiting} waiting  (q quits)", live(false), live(true))
}

/// The table, as much of it as fits.
fn locks(frame: &Frame<'_>, room: usize) -> Vec<String> {
    let columns = frame.size.columns;
    if frame.entries.is_empty() {
        return vec![width::cut(frame.nothing, columns)];
    }
    let rows: Vec<Row> = frame.entries.iter().map(|entry| status_table::row(entry, frame.now)).collect();
    // A title line, and perhaps one that says how many are left out.
    let fits = if rows.len() < room { rows.len() } else { room.saturating_sub(2) };
    let mut lines = status_table::lines(&rows[..fits], columns);
    if fits < rows.len() {
        lines.push(width::cut(&format!("… and {} more", rows.len() - fits), columns));
    }
    lines
}

fn event_row(event: &Event, now: Timestamp) -> Row {
    let when = parse_wall(&event.ts).map(|at| ago(seconds_since(Some(at), now))).unwrap_or_default();
    let cells = vec![
        Cell::plain(when),
        Cell::plain(clean(&event.event)),
        Cell::new(Style::Name, clean(&event.name)),
        Cell::plain(format!("{}@{}", clean(&event.owner), clean(&event.host))),
    ];
    Row { cells, sentence: None }
}
