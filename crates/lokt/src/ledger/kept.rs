//! Second names of our last events, for the day when a foreign tool replaces one.
//!
//! The documented shell recipe can't be kept from overwriting (on a long ledger its count goes wrong and it begins again at 1), but what
//! it replaced is still there under its other name: `verify` notices, and `doctor --fix` brings it back.

use lokt_core::ledger::seq::Seq;

use super::Ledger;

/// How many are kept.
pub(super) const KEPT_MAX: u64 = 1_024;

/// Where they are.
pub(super) const DIR: &str = ".lokt/kept";

/// The second name of an event.
pub(super) fn name(seq: u64) -> String {
    format!("{DIR}/{seq:06}")
}

impl Ledger {
    /// Keeps events that were just published.
    pub(super) fn keep_events(&self, first: Seq, last: Seq) {
        let from = first.get().max((last.get() + 1).saturating_sub(KEPT_MAX));
        (from..=last.get()).filter_map(Seq::new).for_each(|seq| self.keep_event(seq));
    }

    /// Keeps an event that was just published, and lets go of the oldest. It is a precaution: failing is no reason to fail.
    fn keep_event(&self, seq: Seq) {
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
