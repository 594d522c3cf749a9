//! token-order: no token twice, and whoever asks after a token was known gets a greater one.

use core::fmt;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::super::Entry;
use super::super::holds::{Hold, Seconds, holds};
use super::numbers::{Drawn, Wrong, judge};

/// Two tokens that can't both be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenFault {
    /// Two holds got the same.
    Twice {
        /// Who entered first.
        first: Hold,
        /// The other.
        second: Hold,
    },
    /// A later one is smaller.
    Smaller {
        /// Had its token already.
        first: Hold,
        /// Asked after that.
        second: Hold,
    },
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { first, second } => {
                write!(f, "{} of {} and {} of {} got the same token", first, first.name, second, second.name)
            }
            Self::Smaller { first, second } => {
                let (known, asked) = (Seconds(first.entered), Seconds(second.asked.unwrap_or(second.entered)));
                let (one, other) = (&first.name, &second.name);
                write!(
                    f,
                    "{second} of {other} asked at {asked} and got a smaller token than {first} of {one}, which was inside by {known}"
                )
            }
        }
    }
}

/// Judges all tokens. Names that share a counter have the same `scope`.
pub fn tokens(entries: &[Entry], scope: impl Fn(&str) -> &str) -> Vec<TokenFault> {
    let holds = holds(entries);
    let mut counters: BTreeMap<&str, Vec<Drawn<&Hold>>> = BTreeMap::new();
    for hold in &holds {
        let Some(number) = hold.token else { continue };
        let drawn = Drawn { asked: hold.asked, known: hold.entered, number, of: hold };
        counters.entry(scope(&hold.name)).or_default().push(drawn);
    }
    let fault = |wrong: Wrong<&Hold>| match wrong {
        Wrong::Twice(first, second) => TokenFault::Twice { first: first.clone(), second: second.clone() },
        Wrong::Smaller(first, second) => TokenFault::Smaller { first: first.clone(), second: second.clone() },
    };
    counters.values().flat_map(|drawn| judge(drawn)).map(fault).collect()
}
