//! How much was done in a history, and how fast.

use std::collections::BTreeMap;
use std::vec::Vec;

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

/// So many measurements are kept of one thing; of more, every second, fourth and so on.
const SAMPLES_MAX: usize = 1 << 18;

/// Measurements of one thing, of which there may be any number.
#[derive(Debug, Clone, Default)]
struct Samples {
    kept: Vec<u64>,
    /// Two to this power is how many one that is kept stands for.
    thinned: u32,
    count: u64,
    max: u64,
}

impl Samples {
    fn push(&mut self, measured: u64) {
        if self.count.trailing_zeros() >= self.thinned {
            self.kept.push(measured);
        }
        self.count += 1;
        self.max = self.max.max(measured);
        if self.kept.len() >= SAMPLES_MAX {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.thinned += 1;
        }
    }

    fn percentiles(&self) -> Percentiles {
        Percentiles { count: self.count, max: self.max, ..Percentiles::of(self.kept.clone()) }
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

/// What was counted and measured in several histories, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    counts: Figures,
    wait: Samples,
    hand_over: Samples,
}

impl Measured {
    /// Counts and measures one more history.
    pub fn add(&mut self, entries: &[Entry]) {
        let sorted = in_time(entries);
        let holds = holds_in_time(&sorted);
        let count = |wanted: fn(&Deed) -> bool| sorted.iter().filter(|entry| wanted(&entry.deed)).count() as u64;
        self.counts.holds += holds.len() as u64;
        self.counts.gave_up += count(|deed| matches!(deed, Deed::GaveUp { .. }));
        self.counts.killed += count(|deed| matches!(deed, Deed::Killed));
        self.counts.stopped += count(|deed| matches!(deed, Deed::Stopped));
        let mut names: BTreeMap<&str, &Hold> = BTreeMap::new();
        for hold in &holds {
            if let Some(asked) = hold.asked {
                self.wait.push(hold.entered - asked);
            }
            if let Some(before) = names.insert(&hold.name, hold)
                && before.left
                && hold.asked.is_some_and(|asked| asked < before.ended)
            {
                self.hand_over.push(hold.entered.saturating_sub(before.ended));
            }
        }
    }

    /// All of it.
    pub fn figures(&self) -> Figures {
        let (wait, hand_over) = (self.wait.percentiles(), self.hand_over.percentiles());
        Figures { hand_offs: hand_over.count, wait, hand_over, ..self.counts }
    }
}

/// Counts and measures one history.
pub fn figures(entries: &[Entry]) -> Figures {
    let mut measured = Measured::default();
    measured.add(entries);
    measured.figures()
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

    #[test]
    fn any_number_of_measurements_takes_a_bounded_place() {
        let mut samples = Samples::default();
        for measured in 0..3_000_000 {
            samples.push(measured);
        }
        let told = samples.percentiles();
        assert!(samples.kept.len() <= SAMPLES_MAX, "{} are kept", samples.kept.len());
        assert_eq!((told.count, told.max), (3_000_000, 2_999_999), "all are counted, and the longest is known");
        let one_in = 1 << samples.thinned;
        assert!(
            samples.kept.iter().all(|measured| measured % one_in == 0),
            "one in {one_in} is kept, whenever it came"
        );
        assert!(told.p50.abs_diff(1_500_000) < 30_000, "those that are kept stand for the others: {told:?}");
    }
}
