//! How much was done in a history, and how fast.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::holds::{Hold, holds_in_time, in_time};
use super::{Deed, Entry};

/// How long something took, in nanoseconds: of so many in a hundred, not longer than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Percentiles {
    /// How often it was measured.
    pub count: u64,
    /// Of half of them.
    pub p50: u64,
    /// Of 90 in a hundred.
    pub p90: u64,
    /// Of 99 in a hundred.
    pub p99: u64,
    /// Of all.
    pub max: u64,
}

impl Percentiles {
    /// Of these measurements; all zero if there are none.
    pub fn of(mut measured: Vec<u64>) -> Self {
        measured.sort_unstable();
        let Some(max) = measured.last().copied() else { return Self::default() };
        let rank = |percent: usize| measured[(measured.len() * percent).div_ceil(100).max(1) - 1];
        Self { count: measured.len() as u64, p50: rank(50), p90: rank(90), p99: rank(99), max }
    }
}

/// What happened in a history, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// How often somebody was let in.
    pub holds: u64,
    /// How often somebody asked and didn't get it.
    pub gave_up: u64,
    /// How often one left and another entered who was waiting by then.
    pub hand_offs: u64,
    /// Processes that were killed.
    pub killed: u64,
    /// How often a process was stopped.
    pub stopped: u64,
    /// From asking to entering.
    pub wait: Percentiles,
    /// From one's leaving to the entering of the next, who was waiting by then.
    pub hand_over: Percentiles,
}

/// Counts and measures.
pub fn figures(entries: &[Entry]) -> Figures {
    let sorted = in_time(entries);
    let holds = holds_in_time(&sorted);
    let count = |wanted: fn(&Deed) -> bool| sorted.iter().filter(|entry| wanted(&entry.deed)).count() as u64;
    let wait = holds.iter().filter_map(|hold| Some(hold.entered - hold.asked?)).collect();
    let mut names: BTreeMap<&str, &Hold> = BTreeMap::new();
    let mut hand_overs = Vec::new();
    for hold in &holds {
        if let Some(before) = names.insert(&hold.name, hold)
            && before.left
            && hold.asked.is_some_and(|asked| asked < before.ended)
        {
            hand_overs.push(hold.entered.saturating_sub(before.ended));
        }
    }
    Figures {
        holds: holds.len() as u64,
        gave_up: count(|deed| matches!(deed, Deed::GaveUp { .. })),
        hand_offs: hand_overs.len() as u64,
        killed: count(|deed| matches!(deed, Deed::Killed)),
        stopped: count(|deed| matches!(deed, Deed::Stopped)),
        wait: Percentiles::of(wait),
        hand_over: Percentiles::of(hand_overs),
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn percentiles_are_measured_values_of_that_rank() {
        assert_eq!(Percentiles::of(vec![]), Percentiles::default());
        assert_eq!(Percentiles::of(vec![7]), Percentiles { count: 1, p50: 7, p90: 7, p99: 7, max: 7 });
        let hundred = (1..=100).rev().collect();
        assert_eq!(Percentiles::of(hundred), Percentiles { count: 100, p50: 50, p90: 90, p99: 99, max: 100 });
    }
}
