//! What tokens are for: a write that comes after the end of its lease is refused, whether or not another has entered since.

use core::fmt;
use std::collections::BTreeMap;
use std::string::{String, ToString as _};
use std::vec::Vec;

use super::super::holds::{Seconds, in_time};
use super::super::{Deed, Entry};
use super::updates::Write;

/// A late write was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateWrite {
    /// Of which register.
    pub register: String,
    /// The lock whose lease was over.
    pub name: String,
    /// By when it was over.
    pub over: u64,
    /// The write.
    pub write: Write,
}

impl fmt::Display for LateWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { register, name, over, write } = self;
        write!(
            f,
            "{register}: {write}, though its lease of {name} was over by {}: a late write was taken",
            Seconds(*over)
        )
    }
}

/// Every write that was taken though its writer had overslept.
pub fn late_writes(entries: &[Entry]) -> Vec<LateWrite> {
    let mut overslept: BTreeMap<(u64, u64), (u64, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in in_time(entries) {
        match &entry.deed {
            Deed::Overslept { name, token } => {
                overslept.insert((entry.who, *token), (entry.at, name));
            }
            Deed::Wrote { register, token: Some(token), made, taken: true, .. } => {
                if let Some((over, name)) = overslept.get(&(entry.who, *token)) {
                    let write = Write { who: entry.who, at: entry.at, token: Some(*token), made: *made };
                    found.push(LateWrite { register: register.clone(), name: (*name).to_string(), over: *over, write });
                }
            }
            _ => {}
        }
    }
    found
}
