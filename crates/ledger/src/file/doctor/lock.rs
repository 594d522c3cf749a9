//! The lock that all programs share: its holder, and whether it was left behind.

use std::time::Duration;

use lokt_core::ledger::writer_lock::{LOCK, SECOND_LOOK_MS, STALE_MS, Verdict};
use lokt_core::time::millis_between;

use super::{Doctor, Repair, Repairable};
use lokt_sys::error::{At as _, Error};
use lokt_sys::wakeup::sleep_on;

/// Age in milliseconds from which a lock is reported: no program that follows the protocol waits
/// longer, or is inside for that long.
const LONG_MS: i64 = 5_000;

impl Doctor<'_> {
    /// The finding about the lock; `None` if it was taken just now.
    pub(super) fn lock_finding(self) -> Result<Option<Repairable>, Error> {
        let mut watched = None;
        let Some(mut found) = self.log.writer_lock().look(&mut watched)? else { return Ok(None) };
        let Some(age_ms) = self.lock_age_ms(found.note.acquired_at)? else { return Ok(None) };
        // It is old enough to have been left behind if it doesn't change: watch it for a moment.
        if found.verdict == Verdict::Held && age_ms >= i64::try_from(STALE_MS).unwrap_or(i64::MAX) {
            sleep_on(&[], Duration::from_millis(SECOND_LOOK_MS + 50)).at("wait for", &self.log.path, LOCK)?;
            match self.log.writer_lock().look(&mut watched)? {
                Some(again) => found = again,
                None => return Ok(None),
            }
        }
        let what = found.describe(self.log);
        let finding = match found.verdict {
            Verdict::Dead => Repairable::new("lock", format!("{what}; that process is gone"))
                .hint("lokt's next append replaces it; other programs wait for it")
                .repair(Repair::Lock, "replace it, and release it"),
            Verdict::Stale => Repairable::new("lock", format!("{what}; it was left behind, or whoever took it was stopped"))
                .hint("lokt's next append takes it over; never delete it: who took it may come back, and would overwrite an event")
                .repair(Repair::Lock, "take it over, fill the number that its writer may still use, and release it"),
            Verdict::Held if age_ms.abs() < LONG_MS => return Ok(None),
            Verdict::Held => Repairable::new("lock", format!("{what}; whoever took it may be inside"))
                .hint("wait for it; what isn't lokt's own is taken over when it is 30 seconds old and doesn't change"),
        };
        Ok(Some(finding.path(self.log.at(LOCK))))
    }

    fn lock_age_ms(self, said: Option<jiff::Timestamp>) -> Result<Option<i64>, Error> {
        let now = self.log.now().wall;
        let stamp = self.log.disk.stamp(LOCK).at("look at", &self.log.path, LOCK)?;
        // The younger of both. What the lock says of itself doesn't count if it is in the future.
        Ok(stamp.map(|stamp| {
            let by_file = millis_between(stamp.modified, now);
            let said = said.map(|at| millis_between(at, now)).filter(|age_ms| *age_ms >= 0);
            said.map_or(by_file, |said| said.min(by_file))
        }))
    }
}
