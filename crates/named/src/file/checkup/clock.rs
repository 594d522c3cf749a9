//! Checks that the wall clock shows a plausible time, and whether it has been set since records
//! were written.

use jiff::tz::TimeZone;
use lokt_core::duration::show_seconds;
use lokt_core::hold::{Identity, Part};
use lokt_core::time::{Moment, millis_between, plus_millis, same_clocks, show_wall_seconds};

use super::{Check, Finding, Seen};

/// Maximum milliseconds that records can be ahead of us: clocks of two machines, a clock that is
/// being adjusted.
const AHEAD_MS: i64 = 60_000;
/// Maximum drift of a clock in milliseconds; with a larger difference, the clock was set.
const STEP_MS: i64 = 5 * 60_000;

pub(crate) fn check(now: &Moment, records: &[Seen], me: &Identity) -> Check {
    let mut findings = Vec::new();
    let year = now.wall.to_zoned(TimeZone::UTC).year();
    if !(2020..=2100).contains(&year) {
        findings.push(
            Finding::warn(format!("the clock shows the year {year}: {}", show_wall_seconds(now.wall)))
                .hint("set the clock; leases of other machines and of earlier boots are measured by it"),
        );
    }
    findings.extend(from_the_future(now, records));
    findings.extend(stepped(now, records, me));
    Check::new("clock", findings)
}

fn from_the_future(now: &Moment, records: &[Seen]) -> Option<Finding> {
    let ahead = |seen: &&Seen| {
        seen.hold().and_then(|hold| hold.acquired).is_some_and(|at| millis_between(now.wall, at) > AHEAD_MS)
    };
    let mut all = records.iter().filter(ahead);
    let first = all.next()?;
    let at = first.hold().and_then(|hold| hold.acquired).map(show_wall_seconds).unwrap_or_default();
    let more = match all.count() {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    };
    let message = format!("lock \"{}\" was taken in the future, at {at}{more}", first.name);
    Some(Finding::warn(message).hint(format!(
        "compare the clock of this machine with that of the holder's: `lokt why {}` shows it",
        first.name
    )))
}

/// Compares when a record of this boot was written by the boot clock with what the wall clock said
/// then.
fn stepped(now: &Moment, records: &[Seen], me: &Identity) -> Option<Finding> {
    let slept_ms = now.boottime_ms.saturating_sub(now.monotonic_ms);
    let step = |seen: &Seen| {
        let hold = seen.hold().filter(|hold| same_clocks(hold, me))?;
        let parts = hold.parts.as_ref().filter(|parts| !parts.edited)?;
        let owner = parts.owner.as_ref().and_then(|part| step_ms(part, now.boottime_ms, now));
        // Its clock stops while the machine is suspended.
        let awake = || parts.process.as_ref().and_then(|part| step_ms(part, now.monotonic_ms, now));
        owner.or_else(|| if slept_ms == 0 { awake() } else { None })
    };
    let steps = records.iter().filter_map(|seen| Some((&seen.name, step(seen)?)));
    let (name, ms) = steps.filter(|(_, ms)| ms.abs() > STEP_MS).max_by_key(|(_, ms)| ms.abs())?;
    let by = show_seconds(ms.abs() / 1000);
    let how = if ms > 0 { "forward" } else { "back" };
    let message = format!("the clock was set {how} by {by} since lock \"{name}\" was written");
    Some(Finding::warn(message).hint("nothing on this machine depends on it; leases of other machines do"))
}

/// Returns by how many milliseconds the wall clock has gained on the boot clock since `part` was
/// written.
fn step_ms(part: &Part, reading_ms: u64, now: &Moment) -> Option<i64> {
    let elapsed_ms = reading_ms.checked_sub(part.clock_ms?)?;
    Some(millis_between(plus_millis(part.since, elapsed_ms), now.wall))
}
