//! Second names of our last events, for the day when a foreign tool replaces one.
//!
//! The documented shell recipe can't be kept from overwriting (on a long ledger its count goes wrong and it begins again at 1), but what
//! it replaced is still there under its other name: `verify` notices, and `doctor --fix` brings it back.

use std::io;

use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::head::Head;
use super::settings::STATE;
use crate::error::{At as _, Error};
use crate::sys::disk::Stamp;

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
    pub(super) fn keep_events(&self, events: &[(Seq, Stamp)]) {
        let kept = usize::try_from(KEPT_MAX).unwrap_or(usize::MAX);
        events[events.len().saturating_sub(kept)..].iter().for_each(|(seq, _)| self.keep_event(*seq));
    }

    /// Inside, before anything is published: are the second names those of another ledger, because somebody put an earlier state back, or
    /// another branch? One event that was replaced is what they are kept for; a missing one, or two in a row, are another ledger. Then they
    /// are put aside.
    pub(super) fn doubt_kept(&self, head: &Head) -> Result<(), Error> {
        let is_kept = |number: u64| self.disk.stamp(&name(number)).at("look at", &self.path, &name(number));
        let differs = |number: u64| match (Seq::new(number), is_kept(number)?) {
            (Some(seq), Some(kept)) => {
                let file = self.file(seq);
                Ok::<_, Error>(self.disk.stamp(&file).at("look at", &self.path, &file)? != Some(kept))
            }
            _ => Ok(false),
        };
        let is_shorter = is_kept(head.seq + 1)?.is_some();
        let is_other = match head.other_than {
            Some(last) if last > head.seq => true,
            Some(last) => differs(last)? && differs(last.saturating_sub(1))?,
            None => false,
        };
        if is_shorter || is_other {
            let aside = format!("{STATE}/aside/kept-{:032x}", self.random()?);
            match self.disk.rename(DIR, &aside) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done.at("put aside", &self.path, DIR)?,
            }
        }
        Ok(())
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
