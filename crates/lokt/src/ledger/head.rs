//! Which number is the highest, without listing the ledger each time.
//!
//! The last of us to leave noted the head, how to know its file again, and when the directory was last changed. If the file is the same
//! and so is that time, nothing has been added; otherwise others may have written, and the numbers above are tried one by one. The note is
//! a hint and never the truth: a `git checkout` may have made the ledger shorter, and what is published goes only where nothing is.

use std::io;

use jiff::Timestamp;
use lokt_core::fnv::fnv1a_32;
use lokt_core::ledger::seq::Seq;
use serde_json::{Value, json};

use super::Ledger;
use crate::error::{At as _, Error};
use crate::locks::Said;
use crate::sys::disk::{Entry, Stamp};

const HINT: &str = ".lokt/head";
/// No hint is longer.
const HINT_BYTES_MAX: usize = 4096;
/// So many numbers past the last one that is there are tried before it is taken for the head.
const PROBES: u64 = 64;
/// A ledger of so few events is listed whenever others have changed it: that takes no time, and finds what they removed.
const SHORT: u64 = 2_048;
/// So often everything is listed all the same: a number far above the head is found by nothing else.
const LISTED_EVERY: u64 = 1_024;

/// What is known of a ledger's end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Head {
    /// The highest number; 0 of an empty ledger.
    pub(crate) seq: u64,
    /// The lowest number that is missing below it, as of the last listing.
    pub(crate) gap: Option<u64>,
    /// The event that the last of us left as the head is missing, or another one: its number.
    pub(super) other_than: Option<u64>,
    /// How many appends there were since everything was listed.
    since_listing: u64,
}

/// What the last of us noted.
struct Hint {
    head: Head,
    /// The head's file.
    file: Option<Stamp>,
    /// The last change of the directory.
    changed: Timestamp,
}

impl Ledger {
    /// The highest number; 0 of an empty ledger.
    pub fn head(&self) -> Result<Said<u64>, Error> {
        let head = self.catch_up()?;
        let warnings = head.warning(self).into_iter().collect();
        Ok(Said { value: head.seq, warnings })
    }

    /// Finds the head. Without the mutex it may be overtaken at once.
    pub(crate) fn catch_up(&self) -> Result<Head, Error> {
        // The directory's time may be that of the hint although somebody was faster than its clock ticks: only whoever publishes
        // notices that.
        self.catch_up_since(None)
    }

    /// The same, for somebody who knows when the directory was last changed by others.
    pub(super) fn catch_up_since(&self, changed: Option<Timestamp>) -> Result<Head, Error> {
        let Some(hint) = self.hint()? else { return self.listed() };
        if !self.is_there(&hint)? {
            return Ok(Head { other_than: Some(hint.head.seq), ..self.listed()? });
        }
        // Of an empty ledger there is no event to know it by.
        if hint.head.since_listing >= LISTED_EVERY || hint.head.seq == 0 {
            return self.listed();
        }
        if changed == Some(hint.changed) {
            return Ok(hint.head);
        }
        if hint.head.seq <= SHORT { self.listed() } else { self.probe(hint.head) }
    }

    /// Goes up from a head that may be too low.
    pub(super) fn probe(&self, mut head: Head) -> Result<Head, Error> {
        let mut misses = 0;
        let mut next = head.seq;
        while misses < PROBES {
            next += 1;
            let Some(seq) = Seq::new(next) else { break };
            let file = self.file(seq);
            if self.disk.stamp(&file).at("look at", &self.path, &file)?.is_none() {
                misses += 1;
                continue;
            }
            if misses > 0 {
                head.gap = head.gap.or(Some(head.seq + 1));
            }
            head.seq = next;
            misses = 0;
        }
        Ok(head)
    }

    /// Lists everything.
    pub(super) fn listed(&self) -> Result<Head, Error> {
        let names = self.names()?;
        let gap = names.gaps().next().map(|(first, _)| first);
        Ok(Head { seq: names.head(), gap, ..Head::default() })
    }

    /// Notes the head, for the next. Under the mutex, after everything else; a hint that can't be written is none.
    pub(super) fn note_head(&self, head: &Head, appended: u64) {
        let file = Seq::new(head.seq).and_then(|seq| self.disk.stamp(&self.file(seq)).ok().flatten());
        let Ok(changed) = self.changed() else { return };
        let mut head = head.clone();
        head.since_listing += appended;
        let text = Hint { head, file, changed }.render();
        let _ = self.disk.overwrite(HINT, text.as_bytes());
    }

    fn hint(&self) -> Result<Option<Hint>, Error> {
        let read = match self.disk.read(HINT, HINT_BYTES_MAX) {
            // Another user's.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            done => done.at("read", &self.path, HINT)?,
        };
        Ok(match read {
            Entry::File(content) => Hint::parse(&content.bytes),
            // Not of our making; it is only a hint.
            _ => None,
        })
    }

    /// Is the head that was noted still the one that is there?
    fn is_there(&self, hint: &Hint) -> Result<bool, Error> {
        let Some(seq) = Seq::new(hint.head.seq) else { return Ok(true) };
        let file = self.file(seq);
        let stamp = self.disk.stamp(&file).at("look at", &self.path, &file)?;
        Ok(stamp.is_some() && stamp == hint.file)
    }

    /// When a name in the directory was last changed.
    pub(super) fn changed(&self) -> Result<Timestamp, Error> {
        let stamp = self.disk.stamp(".").at("look at", &self.path, "")?;
        Ok(stamp.map_or(Timestamp::MAX, |stamp| stamp.modified))
    }
}

impl Head {
    /// It was found by listing everything.
    pub(super) fn is_listed(&self) -> bool {
        self.since_listing == 0
    }

    /// What to say about a ledger with a gap.
    pub(crate) fn warning(&self, ledger: &Ledger) -> Option<String> {
        let gap = Seq::new(self.gap?)?;
        let file = ledger.at(&ledger.file(gap));
        Some(format!("event {gap} is missing: {} is not there, but event {} is", file.display(), self.seq))
    }
}

impl Hint {
    /// One line with a checksum; what an earlier, longer one left behind it doesn't count.
    fn render(&self) -> String {
        let stamp =
            self.file.map(|file| json!([file.dev, file.ino, file.size, file.modified.as_nanosecond().to_string()]));
        let text = json!({
            "head": self.head.seq,
            "gap": self.head.gap,
            "since_listing": self.head.since_listing,
            "file": stamp,
            "changed": self.changed.as_nanosecond().to_string(),
        });
        let text = text.to_string();
        format!("{:08x} {text}\n", fnv1a_32(text.as_bytes()))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let (sum, text) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        if u32::from_str_radix(sum, 16).ok()? != fnv1a_32(text.as_bytes()) {
            return None;
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let time = |value: &Value| Timestamp::from_nanosecond(value.as_str()?.parse().ok()?).ok();
        let number = |name: &str| value[name].as_u64();
        let file = || {
            let stamp = value["file"].as_array()?;
            let [dev, ino, size, modified] = stamp.as_slice() else { return None };
            Some(Stamp { dev: dev.as_u64()?, ino: ino.as_u64()?, size: size.as_u64()?, modified: time(modified)? })
        };
        let seq = number("head").filter(|seq| *seq <= Seq::MAX.get())?;
        let head = Head { seq, gap: number("gap"), other_than: None, since_listing: number("since_listing")? };
        Some(Self { head, file: file(), changed: time(&value["changed"])? })
    }
}
