//! Checks whether our clock agrees with the file system's. If a server stamps the files, the
//! difference shows how far two machines can be apart.

use lokt_core::time::millis_between;

use super::{Exam, Finding, finding};

/// Tolerance in ms: the kernel stamps files by a coarser clock than it shows.
const COARSE_MS: i64 = 10;

impl Exam<'_> {
    pub(super) fn clock_offset(&self) -> Option<Finding> {
        let before = self.repo.machine.now().wall;
        let stamped = self.repo.disk.file_clock().ok().flatten()?;
        let after = self.repo.machine.now().wall;
        // The time that the probe itself took doesn't count.
        let behind_ms = millis_between(after, stamped).max(0) - millis_between(stamped, before).max(0);
        let skew_ms = self.repo.own_policy().skew_ms;
        let limit_ms = i64::try_from(skew_ms / 2).unwrap_or(i64::MAX);
        if behind_ms.abs() - COARSE_MS <= limit_ms {
            return None;
        }
        let (by, how) = (behind_ms.abs(), if behind_ms > 0 { "behind" } else { "ahead of" });
        let problem = format!(
            "the clock of this machine is {by} ms {how} that of the file system; half of the allowed skew is {limit_ms} ms"
        );
        Some(
            finding::warn("clock_offset", self.at("locks"), problem)
                .hint("set the clock, or allow more with `skew_ms`"),
        )
    }
}
