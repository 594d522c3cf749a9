//! no-overwrite, as far as numbers tell: none is given twice, and an append that begins later gets a greater one.

use core::fmt;
use std::collections::BTreeMap;
use std::string::{String, ToString as _};
use std::vec::Vec;

use super::super::holds::{Seconds, in_time};
use super::super::{Deed, Entry};
use super::numbers::{Drawn, Wrong, judge};

/// An append that was acknowledged. Repeated ones are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// By whom it was first begun.
    pub who: u64,
    /// Its key.
    pub key: String,
    /// Its number.
    pub number: u64,
    /// When it began, if that was said.
    pub began: Option<u64>,
    /// When it was acknowledged first.
    pub known: u64,
}

impl fmt::Display for Append {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of process {} (number {}, known at {})", self.key, self.who, self.number, Seconds(self.known))
    }
}

/// Two answers about a ledger that can't both be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerFault {
    /// Two appends got one number.
    Twice {
        /// Of which ledger.
        ledger: String,
        /// Known first.
        first: Append,
        /// The other.
        second: Append,
    },
    /// An append that began after another was acknowledged got a smaller number.
    Smaller {
        /// Of which ledger.
        ledger: String,
        /// Known before the other began.
        first: Append,
        /// The other.
        second: Append,
    },
    /// One append, repeated, got two numbers.
    Moved {
        /// Of which ledger.
        ledger: String,
        /// As it was acknowledged first.
        first: Append,
        /// The other number.
        number: u64,
    },
}

impl fmt::Display for LedgerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { ledger, first, second } => write!(f, "{ledger}: {first} and {second} got the same number"),
            Self::Smaller { ledger, first, second } => {
                let began = Seconds(second.began.unwrap_or(second.known));
                write!(f, "{ledger}: {second} began at {began} and got a smaller number than {first}")
            }
            Self::Moved { ledger, first, number } => {
                write!(f, "{ledger}: {first} was acknowledged once more as number {number}")
            }
        }
    }
}

/// Judges the numbers of all ledgers.
pub fn ledger(entries: &[Entry]) -> Vec<LedgerFault> {
    let mut begun: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    let mut appends: BTreeMap<&str, BTreeMap<&str, Append>> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in in_time(entries) {
        match &entry.deed {
            Deed::Appending { ledger, key } => {
                begun.entry((ledger, key)).or_insert((entry.at, entry.who));
            }
            Deed::Appended { ledger, key, number } => {
                let began = begun.get(&(ledger.as_str(), key.as_str()));
                let who = began.map_or(entry.who, |(_, who)| *who);
                let began = began.map(|(at, _)| *at);
                let append = Append { who, key: key.clone(), number: *number, began, known: entry.at };
                let known = appends.entry(ledger).or_default();
                let first = known.entry(key).or_insert(append);
                if first.number != *number {
                    let (ledger, first) = (ledger.clone(), first.clone());
                    found.push(LedgerFault::Moved { ledger, first, number: *number });
                }
            }
            _ => {}
        }
    }
    for (name, appends) in &appends {
        let mut drawn: Vec<Drawn<&Append>> = Vec::new();
        for append in appends.values() {
            let Append { number, began, known, .. } = *append;
            drawn.push(Drawn { asked: began, known, number, of: append });
        }
        found.extend(judge(&drawn).into_iter().map(|wrong| {
            let ledger = name.to_string();
            match wrong {
                Wrong::Twice(first, second) => {
                    LedgerFault::Twice { ledger, first: first.clone(), second: second.clone() }
                }
                Wrong::Smaller(first, second) => {
                    LedgerFault::Smaller { ledger, first: first.clone(), second: second.clone() }
                }
            }
        }));
    }
    found
}
