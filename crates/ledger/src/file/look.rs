//! The event under a number and its second name, for checks.

use std::collections::BTreeSet;
use std::io;

use lokt_core::ledger::chain::{Digest, Leaf};
use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::{Damage, Stored, misread};

use super::FileLog;
use super::backups;
use super::read::Raw;
use lokt_sys::disk::{Content, Entry};
use lokt_sys::warnings::Warning;

/// Directory for originals of repaired events.
pub(crate) const ASIDE: &str = ".lokt/aside";

/// Inspects events, from any thread.
pub(crate) struct Look<'a> {
    log: &'a FileLog,
    kept: BTreeSet<u64>,
    /// A warning if second names can't be compared.
    pub(crate) warning: Option<Warning>,
}

/// An inspected number.
pub(crate) struct Seen {
    pub(crate) seq: Seq,
    pub(crate) what: What,
    /// Its part of the chain.
    pub(crate) leaf: Leaf,
    pub(crate) kept: Backup,
    /// True if the af program would misread its type.
    pub(crate) misread: bool,
}

/// The content of a number.
pub(crate) enum What {
    Event(Box<Stored>),
    Damaged(Damage),
    /// It exists, but can't be read.
    Unreadable(String),
    /// It was removed in this instant.
    Gone,
}

/// The comparison of an event with its second name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backup {
    /// There is no second name.
    Unknown,
    Same,
    /// The event is another one.
    Other,
    /// The event is another one, in the place of a filler.
    Late,
}

impl<'a> Look<'a> {
    /// Lists second names now. A caller that compares them with the events must list those later,
    /// so that an event that is appended in between isn't missed.
    pub(crate) fn new(log: &'a FileLog) -> Self {
        let mut all = BTreeSet::new();
        let listed = log.disk.each_name(backups::DIR, &mut |name| all.extend(name.parse::<u64>()));
        let warning = match listed {
            Ok(()) => None,
            // It is another user's state; the events can be read anyway.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => {
                let dir = log.at(backups::DIR);
                Some(Warning::Unreadable(format!(
                    "whether another program replaced an event isn't known: {} can't be listed: {error}",
                    dir.display()
                )))
            }
        };
        Self { log, kept: all, warning }
    }

    /// The highest number that has a second name.
    pub(crate) fn last_kept(&self) -> Option<u64> {
        self.kept.last().copied()
    }

    /// The event that we wrote under a number, if its second name still is one.
    pub(crate) fn ours(&self, seq: Seq) -> Option<(Vec<u8>, Stored)> {
        if !self.kept.contains(&seq.get()) {
            return None;
        }
        match self.log.disk.read(&backups::name(seq.get()), EVENT_BYTES_MAX) {
            Ok(Entry::File(ours)) => Stored::parse(&ours.bytes).ok().map(|event| (ours.bytes, event)),
            _ => None,
        }
    }

    /// The path of a repaired event's original, if it exists.
    pub(crate) fn original(&self, seq: Seq, digest: Digest) -> Option<String> {
        let names = self.log.disk.list(ASIDE).unwrap_or_default();
        let of_it = names.into_iter().filter(|name| name.starts_with(&format!("{seq:06}-")));
        of_it.map(|name| format!("{ASIDE}/{name}")).find(|path| {
            let counted = match self.log.disk.read(path, EVENT_BYTES_MAX) {
                Ok(Entry::File(content)) => Digest::of(&content.bytes),
                // What was not a file, or too long, counts as empty.
                Ok(Entry::NotRegular(_) | Entry::TooBig(_)) => Digest::of(b""),
                Ok(Entry::Missing) | Err(_) => return false,
            };
            counted == digest
        })
    }

    pub(crate) fn at(&self, number: u64) -> Seen {
        let seq = Seq::new(number).expect("a listing has only numbers of events");
        let seen = |what, leaf| Seen { seq, what, leaf, kept: Backup::Unknown, misread: false };
        match self.log.raw(seq) {
            Err(error) => seen(What::Unreadable(error.to_string()), Leaf::damaged(b"")),
            Ok(Raw::Missing) => seen(What::Gone, Leaf::missing()),
            Ok(Raw::Odd(damage)) => {
                let kept = if self.ours(seq).is_some() { Backup::Other } else { Backup::Unknown };
                Seen { kept, ..seen(What::Damaged(damage), Leaf::damaged(b"")) }
            }
            Ok(Raw::File(content)) => self.file(seq, &content),
        }
    }

    fn file(&self, seq: Seq, content: &Content) -> Seen {
        let bytes = &content.bytes;
        let is_native = self.log.settings.style == Style::Native;
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

    /// Compares an event with its second name. The same bytes in another file are the same event:
    /// the ledger was copied.
    fn compare(&self, seq: Seq, content: &Content, what: &What) -> Backup {
        let Some((ours, event)) = self.ours(seq) else { return Backup::Unknown };
        let repaired = matches!(what, What::Event(event) if event.repaired().is_some());
        if ours == content.bytes || repaired {
            Backup::Same
        } else if event.is_filler() {
            Backup::Late
        } else {
            Backup::Other
        }
    }
}
