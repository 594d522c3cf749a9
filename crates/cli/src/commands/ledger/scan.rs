//! The events that a command shows, one after the other; what can't be read is named, and the rest is shown all the same.

use std::path::PathBuf;

use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::{Stored, line as event_line, readable as readable_json, shown as shown_members};
use lokt_ledger::{Ledger, Slot};

use crate::report::{Failure, Format, say};
use crate::show::{clean, clean_json};

/// Which events.
#[derive(Debug, Default, Clone)]
pub(super) struct Wanted {
    /// Only those of one of these types; none means all.
    pub(super) types: Vec<String>,
}

/// What is at a number.
pub(super) enum Seen {
    /// An event that is wanted: its bytes.
    Event(Seq, Vec<u8>),
    /// Numbers without an event, from the first to the last one.
    Gap(u64, u64),
    /// Something that is no event; the text says why.
    Damaged(Seq, String),
    /// An event that isn't wanted.
    Unwanted,
}

impl Wanted {
    /// What is this to us?
    pub(super) fn judge(&self, seq: Seq, slot: Slot) -> Seen {
        match slot {
            // Only those who follow see a ledger become shorter, and they say so themselves.
            Slot::Rewound { .. } => Seen::Unwanted,
            Slot::Missing => Seen::Gap(seq.get(), seq.get()),
            Slot::Damaged(damage) => Seen::Damaged(seq, damage.0),
            Slot::Event(bytes) if self.types.is_empty() => Seen::Event(seq, bytes),
            Slot::Event(bytes) => match Stored::parse(&bytes) {
                Ok(stored) if self.types.iter().any(|kind| kind == stored.shown_kind()) => Seen::Event(seq, bytes),
                Ok(_) => Seen::Unwanted,
                Err(damage) => Seen::Damaged(seq, damage.0),
            },
        }
    }
}

/// The numbers from `after` to the highest there is, in order or from the last one back; a gap is one item.
pub(super) fn numbers(ledger: &Ledger, after: u64, reverse: bool) -> Result<Vec<Span>, Failure> {
    // A listing, whatever is known of the head: what is shown to be all must be all.
    let (head, gaps) = ledger.gaps()?;
    let mut spans = Vec::new();
    let mut next = after + 1;
    for (first, last) in gaps.into_iter().filter(|(_, last)| *last > after) {
        let first = first.max(next);
        if first > next {
            spans.push(Span { first: next, last: first - 1, is_gap: false });
        }
        spans.push(Span { first, last, is_gap: true });
        next = last + 1;
    }
    if next <= head {
        spans.push(Span { first: next, last: head, is_gap: false });
    }
    if reverse {
        spans.reverse();
    }
    Ok(spans)
}

/// Numbers in a row: of events, or of none.
pub(super) struct Span {
    first: u64,
    last: u64,
    pub(super) is_gap: bool,
}

impl Span {
    /// Its numbers, in order or back.
    pub(super) fn seqs(&self, reverse: bool) -> Box<dyn Iterator<Item = Seq>> {
        let seqs = (self.first..=self.last).filter_map(Seq::new);
        if reverse { Box::new(seqs.rev()) } else { Box::new(seqs) }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.last - self.first + 1
    }

    /// As what is seen there.
    pub(super) fn gap(&self) -> Seen {
        Seen::Gap(self.first, self.last)
    }
}

/// How an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// `7  2026-11-16T08:00:00Z  note  {"text":"hello"}`
    Text,
    /// One object, `seq` first.
    Json,
    /// As it is stored.
    Raw,
}

impl Look {
    pub(super) fn of(format: Format) -> Self {
        if format == Format::Json { Self::Json } else { Self::Text }
    }
}

/// The line of an event, or what is wrong with it.
pub(super) fn line(look: Look, seq: Seq, bytes: &[u8]) -> Result<String, String> {
    match look {
        Look::Raw => {
            // Indented by somebody else, it would be several lines.
            let text = String::from_utf8_lossy(bytes);
            Ok(clean_json(&text.trim_end().replace(['\n', '\r', '\t'], " ")))
        }
        Look::Json => event_line(seq, bytes).map(|line| clean_json(&line)).map_err(|damage| damage.0),
        Look::Text => text(seq, bytes),
    }
}

fn text(seq: Seq, bytes: &[u8]) -> Result<String, String> {
    let members = shown_members(bytes).map_err(|damage| damage.0)?;
    let text_of = |json: &str| serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
    let named = |name: &str| members.iter().find(|(member, _)| text_of(member) == name);
    let shown = |name: &str| named(name).map_or_else(|| "-".to_owned(), |(_, value)| clean(&text_of(value)));
    let rest = members.iter().filter(|(name, _)| !["seq", "type", "timestamp"].contains(&text_of(name).as_str()));
    let rest: Vec<String> =
        rest.map(|(name, value)| clean_json(&format!("{}:{}", readable_json(name), readable_json(value)))).collect();
    let rest = if rest.is_empty() { String::new() } else { format!("  {{{}}}", rest.join(",")) };
    Ok(format!("{seq}  {}  {}{rest}", shown("timestamp"), shown("type")))
}

/// Where an event's file is, or would be.
pub(super) fn path_of(ledger: &Ledger, seq: Seq) -> PathBuf {
    ledger.path().join(ledger.settings().style.file_name(seq))
}

/// What is wrong at a number.
pub(super) struct Wrong {
    pub(super) seq: u64,
    pub(super) path: String,
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn gap(ledger: &Ledger, first: u64, last: u64) -> Self {
        let path = Seq::new(first).map(|seq| path_of(ledger, seq)).unwrap_or_default();
        let path = path.to_string_lossy().into_owned();
        let message = match last - first {
            0 => format!("event {first} is missing: {path}"),
            more => format!("events {first} to {last} are missing: {path} and {more} more"),
        };
        Self { seq: first, path, message }
    }

    pub(super) fn damaged(ledger: &Ledger, seq: Seq, why: &str) -> Self {
        let path = path_of(ledger, seq).to_string_lossy().into_owned();
        let message = format!("event {seq} can't be read: {why}: {path}");
        Self { seq: seq.get(), path, message }
    }

    /// As a line of JSON among events.
    pub(super) fn json(&self) -> String {
        let value = serde_json::json!({
            "seq": self.seq,
            "status": "damaged",
            "code": "E_CORRUPT",
            "path": self.path,
            "message": self.message,
        });
        clean_json(&value.to_string())
    }

    /// Says it beside the answer.
    pub(super) fn say(&self) {
        say(&format!("error: {}\n", clean(&self.message)));
    }
}
