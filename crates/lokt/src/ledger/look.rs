//! What is under a number, and under its second name, for those who judge it.

use std::collections::BTreeSet;
use std::io;

use lokt_core::ledger::chain::{Digest, Leaf};
use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::{Damage, Stored, misread};

use super::Ledger;
use super::kept;
use super::read::Raw;
use crate::sys::disk::{Content, Entry};

/// Where originals of repaired events are kept.
pub(super) const ASIDE: &str = ".lokt/aside";

/// Looks at events, from any thread.
pub(super) struct Look<'a> {
    ledger: &'a Ledger,
    kept: BTreeSet<u64>,
    /// Why second names tell nothing, if they should.
    pub(super) warning: Option<String>,
}

/// A number that was looked at.
pub(super) struct Seen {
    pub(super) seq: Seq,
    pub(super) what: What,
    /// What it adds to the chain.
    pub(super) leaf: Leaf,
    pub(super) kept: Kept,
    /// The native program, in whose ledger this is, would overlook its type.
    pub(super) misread: bool,
}

/// What is there.
pub(super) enum What {
    Event(Box<Stored>),
    Damaged(Damage),
    /// It is there, but we can't see what it is.
    Unreadable(String),
    /// It was there a moment ago.
    Gone,
}

/// How it compares with what lokt wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// There is nothing to compare with.
    Unknown,
    Same,
    /// It is another one.
    Other,
    /// It is another one, in the place of a filler.
    Late,
}

impl<'a> Look<'a> {
    /// Second names are listed here and now: whoever compares them with a listing of the events makes that one later, so that an event
    /// that is appended in between isn't missed.
    pub(super) fn new(ledger: &'a Ledger) -> Self {
        let mut all = BTreeSet::new();
        let listed = ledger.disk.each_name(kept::DIR, &mut |name| all.extend(name.parse::<u64>()));
        let warning = match listed {
            Ok(()) => None,
            // Another user's state; the events can be read all the same.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => {
                let dir = ledger.at(kept::DIR);
                Some(format!(
                    "whether another program replaced an event isn't known: {} can't be listed: {error}",
                    dir.display()
                ))
            }
        };
        Self { ledger, kept: all, warning }
    }

    /// The highest number of an event of ours that has a second name.
    pub(super) fn last_kept(&self) -> Option<u64> {
        self.kept.last().copied()
    }

    /// The event that we wrote under a number, if it has a second name and is one still.
    pub(super) fn ours(&self, seq: Seq) -> Option<(Vec<u8>, Stored)> {
        if !self.kept.contains(&seq.get()) {
            return None;
        }
        match self.ledger.disk.read(&kept::name(seq.get()), EVENT_BYTES_MAX) {
            Ok(Entry::File(ours)) => Stored::parse(&ours.bytes).ok().map(|event| (ours.bytes, event)),
            _ => None,
        }
    }

    /// Where the original of a repaired event is kept, if it is.
    pub(super) fn original(&self, seq: Seq, digest: Digest) -> Option<String> {
        let names = self.ledger.disk.list(ASIDE).unwrap_or_default();
        let of_it = names.into_iter().filter(|name| name.starts_with(&format!("{seq:06}-")));
        of_it.map(|name| format!("{ASIDE}/{name}")).find(|path| {
            let counted = match self.ledger.disk.read(path, EVENT_BYTES_MAX) {
                Ok(Entry::File(content)) => Digest::of(&content.bytes),
                // What was no file, or too long, counts as nothing.
                Ok(Entry::NotRegular(_) | Entry::TooBig(_)) => Digest::of(b""),
                Ok(Entry::Missing) | Err(_) => return false,
            };
            counted == digest
        })
    }

    pub(super) fn at(&self, number: u64) -> Seen {
        let seq = Seq::new(number).expect("a listing has only numbers of events");
        let seen = |what, leaf| Seen { seq, what, leaf, kept: Kept::Unknown, misread: false };
        match self.ledger.raw(seq) {
            Err(error) => seen(What::Unreadable(error.to_string()), Leaf::damaged(b"")),
            Ok(Raw::Missing) => seen(What::Gone, Leaf::missing()),
            Ok(Raw::Odd(damage)) => {
                let kept = if self.ours(seq).is_some() { Kept::Other } else { Kept::Unknown };
                Seen { kept, ..seen(What::Damaged(damage), Leaf::damaged(b"")) }
            }
            Ok(Raw::File(content)) => self.file(seq, &content),
        }
    }

    fn file(&self, seq: Seq, content: &Content) -> Seen {
        let bytes = &content.bytes;
        let is_native = self.ledger.settings.style == Style::Native;
        let (what, leaf) = match Stored::parse(bytes) {
            Ok(event) => {
                let leaf = Leaf::event(&event, bytes);
                (What::Event(Box::new(event)), leaf)
            }
            Err(damage) => (What::Damaged(damage), Leaf::damaged(bytes)),
        };
        let misread = is_native && matches!(what, What::Event(_)) && misread(bytes);
        let kept = self.compare(seq, content, &what);
        Seen { seq, what, leaf, kept, misread }
    }

    /// Compares it with its second name. The same bytes in another file are the same event: somebody copied the ledger.
    fn compare(&self, seq: Seq, content: &Content, what: &What) -> Kept {
        let Some((ours, event)) = self.ours(seq) else { return Kept::Unknown };
        let repaired = matches!(what, What::Event(event) if event.repaired().is_some());
        if ours == content.bytes || repaired {
            Kept::Same
        } else if event.is_filler() {
            Kept::Late
        } else {
            Kept::Other
        }
    }
}
