//! Second names (hard links) of our last events, in case a foreign tool replaces one.
//!
//! The documented shell recipe can't be kept from overwriting: on a long ledger its count goes
//! wrong and it begins again at 1. The replaced event still exists under its second name: `verify`
//! reports it, and `doctor --fix` restores it.

use std::path::Path;

use lokt_core::ledger::seq::Seq;

use super::FileLog;
use super::head::Head;
use super::inside::Inside;
use lokt_sys::disk::Stamp;
use lokt_sys::warnings::Warning;

/// Maximum number of second names.
pub(super) const KEPT_MAX: u64 = 1_024;

/// Directory for second names that may belong to another branch of the ledger.
const ASIDE: &str = ".lokt/aside";
/// Prefix of the directories in it.
const DOUBTED: &str = "kept-";
/// Directory of second names.
pub(super) const DIR: &str = ".lokt/kept";

/// The second names of a ledger's last events.
#[derive(Clone, Copy)]
pub(super) struct Backups<'l> {
    log: &'l FileLog,
}

/// The second name of an event.
pub(super) fn name(seq: u64) -> String {
    format!("{DIR}/{seq:06}")
}

impl FileLog {
    /// The second names of events.
    pub(super) fn backups(&self) -> Backups<'_> {
        Backups { log: self }
    }
}

impl Backups<'_> {
    /// Links events that were just published.
    pub(super) fn keep_all(self, events: &[(Seq, Stamp)]) {
        let kept = usize::try_from(KEPT_MAX).unwrap_or(usize::MAX);
        events[events.len().saturating_sub(kept)..].iter().for_each(|(seq, _)| self.keep(*seq));
    }

    /// Puts second names aside that may belong to another branch of the ledger. If the event that
    /// our last writer left as the head is missing or another one, an earlier state or another
    /// branch was restored, or another program replaced the head. All second names from the end
    /// down to the first event that is still ours are put aside, so that a repair never merges two
    /// branches. Returns a warning. Best effort; errors are ignored.
    pub(super) fn doubt(self, head: &Head, _inside: &Inside<'_>) -> Option<Warning> {
        let mut numbers: Vec<u64> = Vec::new();
        self.log.disk.each_name(DIR, &mut |name| numbers.extend(name.parse::<u64>())).ok()?;
        numbers.sort_unstable();
        let is_same = |number: u64| {
            let kept = self.log.disk.stamp(&name(number)).ok().flatten();
            let there = Seq::new(number).and_then(|seq| self.log.disk.stamp(&self.log.file(seq)).ok().flatten());
            kept.is_some() && kept == there
        };
        let doubtful = |number: &&u64| **number > head.seq || (head.other_than.is_some() && !is_same(**number));
        let doubted: Vec<u64> = numbers.iter().rev().take_while(doubtful).copied().collect();
        let (last, first) = (doubted.first()?, doubted.last()?);
        let aside = self.log.machine.unique_name(&format!("{ASIDE}/{DOUBTED}"), "").ok()?;
        for number in &doubted {
            let _ = self.log.disk.rename(&name(*number), &format!("{aside}/{number:06}"));
        }
        Some(was_there(*first, *last, &self.log.at(&aside)))
    }

    /// Warnings about second names that were put aside.
    pub(super) fn doubted(self) -> Vec<Warning> {
        let mut found = Vec::new();
        for name in self.log.disk.list(ASIDE).unwrap_or_default().iter().filter(|name| name.starts_with(DOUBTED)) {
            let dir = format!("{ASIDE}/{name}");
            let numbers = self.log.disk.list(&dir).unwrap_or_default();
            let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
            if let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) {
                found.push(was_there(*first, *last, &self.log.at(&dir)));
            }
        }
        found
    }

    /// Links an event that was just published, and removes the oldest second name. Best effort;
    /// errors are ignored.
    pub(super) fn keep(self, seq: Seq) {
        let (file, second) = (self.log.file(seq), name(seq.get()));
        if self.log.disk.link(&file, &second).is_err() {
            // It belongs to an event from before the ledger was shortened.
            let _ = self.log.disk.remove(&second);
            let _ = self.log.disk.link(&file, &second);
        }
        if let Some(oldest) = seq.get().checked_sub(KEPT_MAX).filter(|oldest| *oldest > 0) {
            let _ = self.log.disk.remove(&name(oldest));
        }
    }
}

/// The warning names all three causes: they can't be told apart.
fn was_there(first: u64, last: u64, path: &Path) -> Warning {
    let which = if first == last { format!("event {first}") } else { format!("events {first} to {last}") };
    Warning::Damaged(format!(
        "what lokt wrote as {which} isn't there any more: an earlier state or another branch was put back, or another \
         program replaced it; what lokt wrote is in {}",
        path.display()
    ))
}
