//! The lock that all programs share: who has it, and whether it was left behind.

use std::time::Duration;

use lokt_core::ledger::writer_lock::{LOCK, SECOND_LOOK_MS, STALE_MS, Verdict};
use lokt_core::time::millis_between;

use super::{Finding, Repair};
use crate::error::{At as _, Error};
use crate::ledger::Ledger;
use crate::sys::bell::sleep_on;

/// Nobody who follows the protocol waits for longer, and nobody is inside for that long.
const LONG_MS: i64 = 5_000;

impl Ledger {
    /// What is to be said about the lock; nothing about one that somebody took just now.
    pub(super) fn lock_finding(&self) -> Result<Option<Finding>, Error> {
        let mut watched = None;
        let Some(mut found) = self.look_at_lock(&mut watched)? else { return Ok(None) };
        let Some(age_ms) = self.lock_age_ms(found.note.acquired_at)? else { return Ok(None) };
        // It is old enough to have been left behind if it doesn't change; so it is watched for a moment.
        if found.verdict == Verdict::Held && age_ms >= i64::try_from(STALE_MS).unwrap_or(i64::MAX) {
            sleep_on(&[], Duration::from_millis(SECOND_LOOK_MS + 50)).at("wait for", &self.path, LOCK)?;
            match self.look_at_lock(&mut watched)? {
                Some(again) => found = again,
                None => return Ok(None),
            }
        }
        let what = found.describe(self);
        let finding = match found.verdict {
            Verdict::Dead => Finding::new("lock", format!("{what}; that process is gone"))
                .hint("lokt's next append replaces it; other programs wait for it")
                .repair(Repair::Lock, "replace it, and release it"),
            Verdict::Stale => Finding::new("lock", format!("{what}; it was left behind, or whoever took it was stopped"))
                .hint("lokt's next append takes it over; never delete it: who took it may come back, and would overwrite an event")
                .repair(Repair::Lock, "take it over, fill the number that its writer may still use, and release it"),
            Verdict::Held if age_ms.abs() < LONG_MS => return Ok(None),
            Verdict::Held => Finding::new("lock", format!("{what}; whoever took it may be inside"))
                .hint("wait for it; what isn't lokt's own is taken over when it is 30 seconds old and doesn't change"),
        };
        Ok(Some(finding.path(self.at(LOCK))))
    }

    fn lock_age_ms(&self, said: Option<jiff::Timestamp>) -> Result<Option<i64>, Error> {
        let now = self.now().wall;
        let stamp = self.disk.stamp(LOCK).at("look at", &self.path, LOCK)?;
        // The younger of both, but what it says of itself doesn't count if it is in the future.
        Ok(stamp.map(|stamp| {
            let by_file = millis_between(stamp.modified, now);
            let said = said.map(|at| millis_between(at, now)).filter(|age_ms| *age_ms >= 0);
            said.map_or(by_file, |said| said.min(by_file))
        }))
    }
}
