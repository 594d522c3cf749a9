//! The highest number, found without listing the ledger each time.
//!
//! Our last writer noted the head, the identity of its file, and the time of the directory's last
//! change. If file and time are the same, nothing has been added. Otherwise other programs may have
//! written, and the numbers above are tried one by one. The note is only a hint: a `git checkout`
//! may have made the ledger shorter, and events are published only under names that don't exist.

use std::io;

use jiff::Timestamp;
use lokt_core::fnv::fnv1a_32;
use lokt_core::ledger::seq::Seq;
use serde_json::{Value, json};

use super::FileLog;
use super::inside::MutexHeld;
use lokt_sys::disk::{Entry, Stamp};
use lokt_sys::error::{At as _, Error};
use lokt_sys::warnings::{Warning, WithWarnings};

const HINT: &str = ".lokt/head";
/// Maximum size of a hint.
const HINT_BYTES_MAX: usize = 4096;
/// Number of missing numbers in a row after which the last existing one counts as the head.
const PROBES: u64 = 64;
/// Maximum number of events up to which a ledger is listed whenever other programs have changed it:
/// that is fast, and finds what they removed.
const SHORT: u64 = 2_048;
/// Number of appends after which everything is listed anyway: only that finds a number far above
/// the head.
const LISTED_EVERY: u64 = 1_024;

/// The end of a ledger, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// The highest number; 0 of an empty ledger.
    pub(super) seq: u64,
    /// The lowest missing number below the head, as of the last listing.
    pub(super) gap: Option<u64>,
    /// The number that our last writer left as the head, if its event is missing or another one.
    pub(super) other_than: Option<u64>,
    /// The number of appends since everything was listed.
    since_listing: u64,
}

/// Finds the head of a ledger.
#[derive(Clone, Copy)]
pub(super) struct Heads<'l> {
    log: &'l FileLog,
}

/// The note of our last writer.
struct Hint {
    head: Head,
    /// The identity of the head's file.
    file: Option<Stamp>,
    /// The time of the directory's last change.
    changed: Timestamp,
}

impl FileLog {
    /// Finds the head.
    pub(super) fn heads(&self) -> Heads<'_> {
        Heads { log: self }
    }
}

impl Heads<'_> {
    /// The highest number; 0 of an empty ledger.
    pub(super) fn head(self) -> Result<WithWarnings<u64>, Error> {
        let head = self.catch_up()?;
        let warnings = head.warning(self.log).into_iter().collect();
        Ok(WithWarnings { value: head.seq, warnings })
    }

    /// Finds the head. Without the mutex another writer may add events at once.
    pub(super) fn catch_up(self) -> Result<Head, Error> {
        // The directory's time may be the hint's even though another writer was faster than its
        // clock ticks. Only publishing notices that.
        self.catch_up_since(None)
    }

    /// Finds the head, given the time of the directory's last change by other programs.
    pub(super) fn catch_up_since(self, changed: Option<Timestamp>) -> Result<Head, Error> {
        let Some(hint) = self.hint()? else { return self.listed() };
        if !self.is_there(&hint)? {
            return Ok(Head { other_than: Some(hint.head.seq), ..self.listed()? });
        }
        // An empty ledger has no event to recognise it by.
        if hint.head.since_listing >= LISTED_EVERY || hint.head.seq == 0 {
            return self.listed();
        }
        if changed == Some(hint.changed) {
            return Ok(hint.head);
        }
        if hint.head.seq <= SHORT { self.listed() } else { self.probe(hint.head) }
    }

    /// Tries the numbers above a head that may be too low.
    pub(super) fn probe(self, mut head: Head) -> Result<Head, Error> {
        let mut misses = 0;
        let mut next = head.seq;
        while misses < PROBES {
            next += 1;
            let Some(seq) = Seq::new(next) else { break };
            let file = self.log.file(seq);
            if self.log.disk.stamp(&file).at("look at", &self.log.path, &file)?.is_none() {
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
    pub(super) fn listed(self) -> Result<Head, Error> {
        let names = self.log.names()?;
        let gap = names.gaps().next().map(|(first, _)| first);
        Ok(Head { seq: names.head(), gap, ..Head::default() })
    }

    /// Notes the head for the next writer, after everything else. Best effort; errors are ignored.
    pub(super) fn note(self, head: &Head, appended: u64, _mutex: &dyn MutexHeld) {
        let file = Seq::new(head.seq).and_then(|seq| self.log.disk.stamp(&self.log.file(seq)).ok().flatten());
        let Ok(changed) = self.changed() else { return };
        let mut head = head.clone();
        head.since_listing += appended;
        let text = Hint { head, file, changed }.render();
        let _ = self.log.disk.overwrite(HINT, text.as_bytes());
    }

    fn hint(self) -> Result<Option<Hint>, Error> {
        let read = match self.log.disk.read(HINT, HINT_BYTES_MAX) {
            // It is another user's.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            done => done.at("read", &self.log.path, HINT)?,
        };
        Ok(match read {
            Entry::File(content) => Hint::parse(&content.bytes),
            // Not written by us; it is only a hint.
            _ => None,
        })
    }

    /// Reports whether the noted head is still there.
    fn is_there(self, hint: &Hint) -> Result<bool, Error> {
        let Some(seq) = Seq::new(hint.head.seq) else { return Ok(true) };
        let file = self.log.file(seq);
        let stamp = self.log.disk.stamp(&file).at("look at", &self.log.path, &file)?;
        Ok(stamp.is_some() && stamp == hint.file)
    }

    /// The time of the last change of a name in the directory.
    pub(super) fn changed(self) -> Result<Timestamp, Error> {
        let stamp = self.log.disk.stamp(".").at("look at", &self.log.path, "")?;
        Ok(stamp.map_or(Timestamp::MAX, |stamp| stamp.modified))
    }
}

impl Head {
    /// Reports whether it was found by listing everything.
    pub(super) fn is_listed(&self) -> bool {
        self.since_listing == 0
    }

    /// A warning if the ledger has a gap.
    pub(super) fn warning(&self, log: &FileLog) -> Option<Warning> {
        let gap = Seq::new(self.gap?)?;
        let file = log.at(&log.file(gap));
        let missing = format!("event {gap} is missing: {} is not there, but event {} is", file.display(), self.seq);
        Some(Warning::Damaged(missing))
    }
}

impl Hint {
    /// One line with a checksum. What an earlier, longer hint left after it is ignored.
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
