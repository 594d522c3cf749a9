//! A register that is read and written inside of a lock: the witness that needs no clock. Two who saw the same value were there at once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

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

/// Two writes that were taken saw the same value: one of them is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostUpdate {
    /// Of which register.
    pub register: String,
    /// What both saw.
    pub seen: u64,
    /// One of them.
    pub first: Write,
    /// The other.
    pub second: Write,
}

impl fmt::Display for LostUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { register, seen, first, second } = self;
        write!(f, "{register}: {first}, and {second}; both had read {seen}, so one update is lost")
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
    /// Writes that were taken and are lost.
    pub lost: Vec<LostUpdate>,
    /// Values that were read, that nobody was told to have written, and that no killed process can have written. For people to look
    /// at: who gave up on an answer may have written one too.
    pub unexplained: u64,
}

/// Every register.
pub fn registers(entries: &[Entry]) -> Vec<Register> {
    #[derive(Default)]
    struct Seen {
        acknowledged: u64,
        refused: u64,
        first: BTreeMap<u64, Write>,
        lost: Vec<LostUpdate>,
        made: BTreeSet<u64>,
        /// What it was in the beginning.
        initial: Option<u64>,
    }
    let mut killed = BTreeSet::new();
    let mut registers: BTreeMap<&str, Seen> = BTreeMap::new();
    for entry in in_time(entries) {
        match &entry.deed {
            Deed::Killed => {
                killed.insert(entry.who);
            }
            Deed::Wrote { register, taken: false, .. } => registers.entry(register).or_default().refused += 1,
            Deed::Wrote { register, token, seen, made, taken: true } => {
                let (seen, made) = (*seen, *made);
                let of = registers.entry(register).or_default();
                let write = Write { who: entry.who, at: entry.at, token: *token, made };
                of.acknowledged += 1;
                of.initial.get_or_insert(seen);
                of.made.insert(made);
                match of.first.get(&seen) {
                    None => {
                        of.first.insert(seen, write);
                    }
                    Some(first) => {
                        let (register, first) = (register.clone(), *first);
                        of.lost.push(LostUpdate { register, seen, first, second: write });
                    }
                }
            }
            _ => {}
        }
    }
    let killed = killed.len() as u64;
    let told = |(name, of): (&str, Seen)| {
        let unknown =
            of.first.keys().filter(|seen| !of.made.contains(seen) && Some(**seen) != of.initial).count() as u64;
        Register {
            name: name.to_string(),
            acknowledged: of.acknowledged,
            refused: of.refused,
            lost: of.lost,
            unexplained: unknown.saturating_sub(killed),
        }
    };
    registers.into_iter().map(told).collect()
}

/// The writes of all registers that were taken and are lost.
pub fn lost_updates(entries: &[Entry]) -> Vec<LostUpdate> {
    registers(entries).into_iter().flat_map(|register| register.lost).collect()
}
