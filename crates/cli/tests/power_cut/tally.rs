//! What was acknowledged, compared and found to be lost, kind by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Counts of one kind of thing.
#[derive(Default)]
struct Count {
    acknowledged: u64,
    in_flight: u64,
    checked: u64,
    lost: u64,
}

/// Counts of a run, and what was found.
#[derive(Default)]
pub(crate) struct Tally {
    counts: BTreeMap<&'static str, Count>,
    /// Each is a sentence about what should not be.
    pub(crate) findings: Vec<String>,
    /// What had to be mended, and how often.
    mended: BTreeMap<String, u64>,
    /// So many commands were told to try again, and did.
    repeated: u64,
}

impl Tally {
    /// So many were answered.
    pub(crate) fn acknowledged(&mut self, kind: &'static str, count: u64) {
        self.counts.entry(kind).or_default().acknowledged += count;
    }

    /// One was asked for and not answered when the power went.
    pub(crate) fn in_flight(&mut self, kind: &'static str) {
        self.counts.entry(kind).or_default().in_flight += 1;
    }

    /// Something that was acknowledged is compared with what is there.
    pub(crate) fn check(&mut self, kind: &'static str, kept: bool, sentence: impl FnOnce() -> String) {
        let count = self.counts.entry(kind).or_default();
        count.checked += 1;
        if !kept {
            count.lost += 1;
            self.findings.push(format!("{kind}: {}", sentence()));
        }
    }

    /// Something else went wrong.
    pub(crate) fn wrong(&mut self, kind: &str, sentence: &str) {
        self.findings.push(format!("{kind}: {sentence}"));
    }

    /// This was mended.
    pub(crate) fn mended(&mut self, what: &str) {
        *self.mended.entry(what.to_owned()).or_default() += 1;
    }

    /// So many commands were told to try again, and did.
    pub(crate) fn repeated(&mut self, count: u64) {
        self.repeated += count;
    }

    /// Was any of this kind answered?
    pub(crate) fn is_acknowledged(&self, kind: &str) -> bool {
        self.counts.get(kind).is_some_and(|count| count.acknowledged > 0)
    }

    /// What was found, and what was never tried: nothing is lost where nothing was acknowledged or compared.
    pub(crate) fn verdict(&self, kinds: &BTreeSet<&'static str>) -> Result<(), String> {
        if !self.findings.is_empty() {
            return Err(self.findings.join("\n"));
        }
        let is_tried =
            |kind: &str| self.counts.get(kind).is_some_and(|count| count.acknowledged > 0 && count.checked > 0);
        let untried: Vec<&str> = kinds.iter().copied().filter(|kind| !is_tried(kind)).collect();
        if untried.is_empty() {
            Ok(())
        } else {
            Err(format!("never acknowledged or never compared: {}", untried.join(", ")))
        }
    }

    /// What was acknowledged and isn't there, by kind.
    pub(crate) fn lost(&self) -> Vec<(&'static str, u64)> {
        self.counts.iter().filter(|(_, count)| count.lost > 0).map(|(kind, count)| (*kind, count.lost)).collect()
    }

    /// Is one of this kind lost?
    pub(crate) fn has_lost(&self, kind: &str) -> bool {
        self.lost().iter().any(|(lost, _)| *lost == kind)
    }

    /// All counts, as a table.
    pub(crate) fn table(&self) -> String {
        let mut text =
            format!("{:<18}{:>13}{:>11}{:>10}{:>6}\n", "kind", "acknowledged", "in flight", "compared", "lost");
        let mut row = |kind: &str, count: &Count| {
            let Count { acknowledged, in_flight, checked, lost } = count;
            let _ = writeln!(text, "{kind:<18}{acknowledged:>13}{in_flight:>11}{checked:>10}{lost:>6}");
        };
        let mut all = Count::default();
        for (kind, count) in &self.counts {
            row(kind, count);
            all.acknowledged += count.acknowledged;
            all.in_flight += count.in_flight;
            all.checked += count.checked;
            all.lost += count.lost;
        }
        row("all", &all);
        let _ = writeln!(text, "repeated {} times: a command that was told to try again (75)", self.repeated);
        for (what, count) in &self.mended {
            let _ = writeln!(text, "mended {count} times {what}");
        }
        text
    }
}
