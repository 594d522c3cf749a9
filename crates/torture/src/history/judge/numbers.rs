//! Numbers that are drawn from one counter: none twice, and none smaller than one that was known before it was asked for.

use std::collections::BTreeMap;
use std::vec::Vec;

/// A number that somebody got.
pub(super) struct Drawn<T> {
    /// When it was asked for, if that is known.
    pub(super) asked: Option<u64>,
    /// When it was known.
    pub(super) known: u64,
    /// The number.
    pub(super) number: u64,
    /// Whose it is.
    pub(super) of: T,
}

/// What is wrong with two of them. The first was known first.
pub(super) enum Wrong<T> {
    Twice(T, T),
    Smaller(T, T),
}

/// Judges all numbers of one counter.
pub(super) fn judge<T: Copy>(drawn: &[Drawn<T>]) -> Vec<Wrong<T>> {
    let mut wrong = Vec::new();
    let mut by_known: Vec<&Drawn<T>> = drawn.iter().collect();
    by_known.sort_by_key(|one| one.known);
    let mut seen: BTreeMap<u64, T> = BTreeMap::new();
    for one in &by_known {
        if let Some(first) = seen.insert(one.number, one.of) {
            wrong.push(Wrong::Twice(first, one.of));
        }
    }
    let mut by_asked: Vec<&Drawn<T>> = drawn.iter().filter(|one| one.asked.is_some()).collect();
    by_asked.sort_by_key(|one| one.asked);
    let mut known = by_known.into_iter().peekable();
    let mut greatest: Option<&Drawn<T>> = None;
    for one in by_asked {
        while let Some(earlier) = known.next_if(|earlier| Some(earlier.known) < one.asked) {
            if greatest.is_none_or(|greatest| greatest.number < earlier.number) {
                greatest = Some(earlier);
            }
        }
        if let Some(greatest) = greatest
            && greatest.number > one.number
        {
            wrong.push(Wrong::Smaller(greatest.of, one.of));
        }
    }
    wrong
}
