//! Second names of our last events, for the day when a foreign tool replaces one.
//!
//! The documented shell recipe can't be kept from overwriting (on a long ledger its count goes wrong and it begins again at 1), but what
//! it replaced is still there under its other name: `verify` notices, and `doctor --fix` brings it back.

use std::path::Path;

use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::head::Head;
use crate::sys::disk::Stamp;

/// How many are kept.
pub(super) const KEPT_MAX: u64 = 1_024;

/// Where those are of which it can't be told.
const ASIDE: &str = ".lokt/aside";
/// What their directories are called there.
const DOUBTED: &str = "kept-";
/// Where they are.
pub(super) const DIR: &str = ".lokt/kept";

/// The second name of an event.
pub(super) fn name(seq: u64) -> String {
    format!("{DIR}/{seq:06}")
}

impl Ledger {
    /// Keeps events that were just published.
    pub(super) fn keep_events(&self, events: &[(Seq, Stamp)]) {
        let kept = usize::try_from(KEPT_MAX).unwrap_or(usize::MAX);
        events[events.len().saturating_sub(kept)..].iter().for_each(|(seq, _)| self.keep_event(*seq));
    }

    /// Inside, before anything is published: of which second names can't it be told whether they are those of this ledger? If the event
    /// that the last of us left as the head is another one, or gone, then either somebody put back an earlier state or another branch,
    /// or another program replaced what was last. From the end down to the first event that is still ours they are put aside:
    /// nobody must mend one branch into another. Gives what to say about it; failing is no reason to fail.
    pub(super) fn doubt_kept(&self, head: &Head) -> Option<String> {
        let mut numbers: Vec<u64> = Vec::new();
        self.disk.each_name(DIR, &mut |name| numbers.extend(name.parse::<u64>())).ok()?;
        numbers.sort_unstable();
        let is_same = |number: u64| {
            let kept = self.disk.stamp(&name(number)).ok().flatten();
            let there = Seq::new(number).and_then(|seq| self.disk.stamp(&self.file(seq)).ok().flatten());
            kept.is_some() && kept == there
        };
        let doubtful = |number: &&u64| **number > head.seq || (head.other_than.is_some() && !is_same(**number));
        let doubted: Vec<u64> = numbers.iter().rev().take_while(doubtful).copied().collect();
        let (last, first) = (doubted.first()?, doubted.last()?);
        let aside = format!("{ASIDE}/{DOUBTED}{:032x}", self.machine.random().ok()?);
        for number in &doubted {
            let _ = self.disk.rename(&name(*number), &format!("{aside}/{number:06}"));
        }
        Some(was_there(*first, *last, &self.at(&aside)))
    }

    /// What to say about second names that were put aside.
    pub(super) fn doubted(&self) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.disk.list(ASIDE).unwrap_or_default().iter().filter(|name| name.starts_with(DOUBTED)) {
            let dir = format!("{ASIDE}/{name}");
            let numbers = self.disk.list(&dir).unwrap_or_default();
            let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
            if let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) {
                found.push(was_there(*first, *last, &self.at(&dir)));
            }
        }
        found
    }

    /// Keeps an event that was just published, and lets go of the oldest. It is a precaution: failing is no reason to fail.
    pub(super) fn keep_event(&self, seq: Seq) {
        let (file, second) = (self.file(seq), name(seq.get()));
        if self.disk.link(&file, &second).is_err() {
            // Of an event that was here before the ledger was shortened.
            let _ = self.disk.remove(&second);
            let _ = self.disk.link(&file, &second);
        }
        if let Some(oldest) = seq.get().checked_sub(KEPT_MAX).filter(|oldest| *oldest > 0) {
            let _ = self.disk.remove(&name(oldest));
        }
    }
}

/// Nobody can tell which of the three it was.
fn was_there(first: u64, last: u64, path: &Path) -> String {
    let which = if first == last { format!("event {first}") } else { format!("events {first} to {last}") };
    format!(
        "what lokt wrote as {which} isn't there any more: an earlier state or another branch was put back, or another \
         program replaced it; what lokt wrote is in {}",
        path.display()
    )
}
