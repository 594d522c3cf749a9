//! A register that is read and written inside of a lock. It only ever grows, so it is a witness that needs no clock: two who saw the same
//! value were there at once. With a clock it is also a witness of what was lost in between: whoever entered after a value was known to be
//! there and saw a smaller one.

use core::fmt;
use std::collections::BTreeMap;
use std::string::{String, ToString as _};
use std::vec::Vec;

use super::super::holds::{Seconds, in_time};
use super::super::{Deed, Entry};

/// A write that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// By whom.
    pub who: u64,
    /// When it was known.
    pub at: u64,
    /// Under which token.
    pub token: Option<u64>,
    /// What it wrote.
    pub made: u64,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.who)?;
        if let Some(token) = self.token {
            write!(f, " (token {token})")?;
        }
        write!(f, " made it {} by {}", self.made, Seconds(self.at))
    }
}

/// A write that was taken is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LostUpdate {
    /// Two writes that were taken saw the same value.
    Twice {
        /// Of which register.
        register: String,
        /// What both saw.
        seen: u64,
        /// One of them.
        first: Write,
        /// The other.
        second: Write,
    },
    /// A write that was taken saw less than what was there before its writer entered.
    WentBack {
        /// Of which register.
        register: String,
        /// What it saw.
        seen: u64,
        /// What was there before.
        known: Write,
        /// The one that saw less.
        late: Write,
    },
}

impl fmt::Display for LostUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { register, seen, first, second } => {
                write!(f, "{register}: {first}, and {second}; both had read {seen}, so one update is lost")
            }
            Self::WentBack { register, seen, known, late } => {
                write!(
                    f,
                    "{register}: {known}; {late}, and had read {seen}, though it came after that: updates are lost"
                )
            }
        }
    }
}

/// What became of one register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// Which.
    pub name: String,
    /// Writes that were taken.
    pub acknowledged: u64,
    /// Writes that were refused.
    pub refused: u64,
    /// Writes that were taken and are lost; a write is the reason for one of them at most.
    pub lost: Vec<LostUpdate>,
    /// The greatest that was made, earlier histories included.
    pub greatest: Option<Write>,
}

/// What is known of one register on the way through a history.
#[derive(Default)]
struct Seen {
    acknowledged: u64,
    refused: u64,
    lost: Vec<LostUpdate>,
    /// Who saw a value first.
    first: BTreeMap<u64, Write>,
    /// The greatest of earlier histories.
    earlier: Option<Write>,
    /// Each that was greater than all before it, in the order in which they were known.
    records: Vec<Write>,
}

impl Seen {
    /// The greatest that was known before a moment.
    fn known_before(&self, moment: u64) -> Option<Write> {
        match self.records.partition_point(|write| write.at < moment) {
            0 => self.earlier,
            records => Some(self.records[records - 1]),
        }
    }

    fn greatest(&self) -> Option<Write> {
        self.records.last().copied().or(self.earlier)
    }

    /// One that was taken, by somebody who read at this moment or later.
    fn take(&mut self, register: &str, seen: u64, write: Write, read_after: u64) {
        self.acknowledged += 1;
        let register = register.to_string();
        match (self.first.get(&seen), self.known_before(read_after)) {
            (Some(first), _) => self.lost.push(LostUpdate::Twice { register, seen, first: *first, second: write }),
            (None, Some(known)) if known.made > seen => {
                self.lost.push(LostUpdate::WentBack { register, seen, known, late: write });
            }
            (None, _) => {}
        }
        self.first.entry(seen).or_insert(write);
        if self.greatest().is_none_or(|greatest| greatest.made < write.made) {
            self.records.push(write);
        }
    }
}

/// Every register of a history that has none before it.
pub fn registers(entries: &[Entry]) -> Vec<Register> {
    registers_after(&BTreeMap::new(), entries)
}

/// Every register that was written, or is in `earlier`: the greatest that was made of each, in histories that were over before this one
/// began.
///
/// Which values had to be seen? A writer says so after its write, and a reader reads after it said that it entered. So whatever was known
/// before somebody entered was there when it read, and as the register only grows under a lock, it saw at least that much. Writers that
/// were killed before they said so, or say so late, make it greater than is known, never smaller. Of holds inside of each other the first
/// counts: what was read may have been read in each of them.
pub fn registers_after(earlier: &BTreeMap<String, Write>, entries: &[Entry]) -> Vec<Register> {
    let start = |write: &Write| Seen { earlier: Some(*write), ..Seen::default() };
    let mut registers: BTreeMap<&str, Seen> =
        earlier.iter().map(|(name, write)| (name.as_str(), start(write))).collect();
    let mut inside: BTreeMap<u64, BTreeMap<&str, u64>> = BTreeMap::new();
    for entry in in_time(entries) {
        match &entry.deed {
            Deed::Entered { name, .. } => {
                inside.entry(entry.who).or_default().insert(name, entry.at);
            }
            Deed::Left { name } => {
                inside.entry(entry.who).or_default().remove(name.as_str());
            }
            Deed::Wrote { register, taken: false, .. } => registers.entry(register).or_default().refused += 1,
            Deed::Wrote { register, token, seen, made, taken: true } => {
                // Whoever didn't say when it entered was there after earlier histories, that is all.
                let read_after = inside.get(&entry.who).and_then(|holds| holds.values().min()).copied().unwrap_or(0);
                let write = Write { who: entry.who, at: entry.at, token: *token, made: *made };
                registers.entry(register).or_default().take(register, *seen, write, read_after);
            }
            _ => {}
        }
    }
    let told = |(name, of): (&str, Seen)| Register {
        name: name.to_string(),
        acknowledged: of.acknowledged,
        refused: of.refused,
        greatest: of.greatest(),
        lost: of.lost,
    };
    registers.into_iter().map(told).collect()
}

/// The writes of all registers that were taken and are lost.
pub fn lost_updates(entries: &[Entry]) -> Vec<LostUpdate> {
    registers(entries).into_iter().flat_map(|register| register.lost).collect()
}
