//! one-holder: no two were inside at the same moment.

use core::fmt;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::super::Entry;
use super::super::holds::{Hold, Seconds, holds};

/// Two were inside at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// Of which lock.
    pub name: String,
    /// Who was there first.
    pub first: Hold,
    /// Who came while the first was inside.
    pub second: Hold,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, first, second } = self;
        let (from, to, at) = (Seconds(first.entered), Seconds(first.ended), Seconds(second.entered));
        write!(f, "{name}: {second} entered at {at}, while {first} was inside, from {from} to {to}")
    }
}

/// Every hold that began inside of another of its name, each with the one that lasted longest. Whoever is killed before it says anything
/// more was inside for no moment that others could have come in, but when it entered it was.
pub fn overlaps(entries: &[Entry]) -> Vec<Overlap> {
    let mut longest: BTreeMap<String, Hold> = BTreeMap::new();
    let mut found = Vec::new();
    for hold in holds(entries).into_iter().filter(Hold::is_certain) {
        match longest.get_mut(&hold.name) {
            None => {
                longest.insert(hold.name.clone(), hold);
            }
            Some(first) => {
                if hold.entered < first.ended {
                    found.push(Overlap { name: hold.name.clone(), first: first.clone(), second: hold.clone() });
                }
                if hold.ended > first.ended {
                    *first = hold;
                }
            }
        }
    }
    found
}
