//! Moments, and how much of a lease is left.
//!
//! On the same boot the kernel's boot clocks decide, so that setting the wall clock neither ends a
//! live hold nor keeps a dead one: `CLOCK_MONOTONIC` for a process part (its process couldn't run
//! during suspend either), `CLOCK_BOOTTIME` for an owner part. Everywhere else (another machine,
//! another boot, a record edited by hand or by another program) only the wall clock is left:
//! `expires_at`, or `acquired_ts + ttl_sec` where an old record has none.

use alloc::string::{String, ToString};
use jiff::fmt::temporal::DateTimeParser;
use jiff::{SignedDuration, Timestamp, civil};

use crate::hold::{Hold, Identity, Part, PartKind};

/// One reading of all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// `CLOCK_MONOTONIC`: stops while the machine sleeps.
    pub monotonic_ms: u64,
    /// `CLOCK_BOOTTIME`: continues while the machine sleeps.
    pub boottime_ms: u64,
}

/// The state of a part's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// There is no such part.
    Absent,
    /// It never expires.
    Endless,
    /// It expires in this many milliseconds.
    Left(u64),
    /// It expired this many milliseconds ago.
    Over(u64),
}

impl Lease {
    /// Reports whether the lease is present and not expired.
    pub fn runs(self) -> bool {
        matches!(self, Self::Endless | Self::Left(_))
    }
}

/// The state of the leases of a hold's parts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// The lease of the process part.
    pub process: Lease,
    /// The lease of the owner part.
    pub owner: Lease,
}

impl Elapsed {
    /// Nothing is held.
    pub const NOTHING: Self = Self { process: Lease::Absent, owner: Lease::Absent };

    /// Evaluates both parts of `hold` at `now`, as seen by `me`.
    pub fn of(hold: &Hold, now: &Moment, me: &Identity) -> Self {
        Self { process: lease(hold, PartKind::Process, now, me), owner: lease(hold, PartKind::Owner, now, me) }
    }

    /// The lease of one part.
    pub fn part(self, kind: PartKind) -> Lease {
        match kind {
            PartKind::Process => self.process,
            PartKind::Owner => self.owner,
        }
    }

    /// Reports whether every part that is present has expired.
    pub fn is_expired(self) -> bool {
        !self.process.runs() && !self.owner.runs()
    }

    /// Returns the milliseconds until the last part expires: `None` if it never does, 0 if it
    /// already has.
    pub fn left_ms(self) -> Option<u64> {
        let left = |lease| match lease {
            Lease::Endless => None,
            Lease::Left(ms) => Some(ms),
            Lease::Absent | Lease::Over(_) => Some(0),
        };
        Some(left(self.process)?.max(left(self.owner)?))
    }
}

fn lease(hold: &Hold, kind: PartKind, now: &Moment, me: &Identity) -> Lease {
    if !hold.has(kind) {
        return Lease::Absent;
    }
    let part = match &hold.parts {
        Some(parts) if !parts.edited => match kind {
            PartKind::Process => parts.process.as_ref(),
            PartKind::Owner => parts.owner.as_ref(),
        },
        _ => None,
    };
    match part {
        None => top_level_lease(hold, now),
        Some(Part { ttl_sec: None, .. }) => Lease::Endless,
        Some(Part { since, ttl_sec: Some(ttl_sec), clock_ms }) => {
            let reading = match kind {
                PartKind::Process => now.monotonic_ms,
                PartKind::Owner => now.boottime_ms,
            };
            let ttl_ms = ttl_sec.saturating_mul(1000);
            match clock_ms {
                Some(then) if same_clocks(hold, me) && *then <= reading => remaining(ttl_ms, reading - then),
                _ => wall_lease(plus_seconds(*since, *ttl_sec), now),
            }
        }
    }
}

/// Reports whether the boot clock readings in `hold` can be compared with ours.
pub fn same_clocks(hold: &Hold, me: &Identity) -> bool {
    me.boot_clocks && hold.boot_id.is_some() && hold.boot_id == me.boot_id
}

fn remaining(ttl_ms: u64, elapsed_ms: u64) -> Lease {
    if elapsed_ms > ttl_ms { Lease::Over(elapsed_ms - ttl_ms) } else { Lease::Left(ttl_ms - elapsed_ms) }
}

/// Returns the lease of the whole record by the wall clock; `expires_at` takes precedence over
/// arithmetic.
fn top_level_lease(hold: &Hold, now: &Moment) -> Lease {
    match (hold.expires_at, u64::try_from(hold.ttl_sec)) {
        (Some(end), _) => wall_lease(end, now),
        (None, Ok(ttl_sec)) if ttl_sec > 0 => {
            // A record without a time is older than any lease.
            wall_lease(hold.acquired.map_or(Timestamp::MIN, |acquired| plus_seconds(acquired, ttl_sec)), now)
        }
        _ => Lease::Endless,
    }
}

/// A lease that ends at `end` by the wall clock.
pub(crate) fn wall_lease(end: Timestamp, now: &Moment) -> Lease {
    let left = millis_between(now.wall, end);
    match u64::try_from(left) {
        Ok(ms) if now.wall <= end => Lease::Left(ms),
        _ => Lease::Over(left.unsigned_abs()),
    }
}

/// Milliseconds from `from` to `to`, negative when `to` is earlier.
pub fn millis_between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond().saturating_sub(from.as_millisecond())
}

/// Returns `at` + `secs`, at most the last representable time.
pub fn plus_seconds(at: Timestamp, secs: u64) -> Timestamp {
    let secs = i64::try_from(secs).unwrap_or(i64::MAX);
    at.checked_add(SignedDuration::from_secs(secs)).unwrap_or(Timestamp::MAX)
}

/// Returns `at` + `ms`, at most the last representable time.
pub fn plus_millis(at: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    at.checked_add(SignedDuration::from_millis(ms)).unwrap_or(Timestamp::MAX)
}

/// Parses an RFC 3339 time with any offset. Well-formed times outside the representable range (the
/// last hours of the year 9999, which people write for "never") become the last or first moment in
/// it.
pub fn parse_wall(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let pieces = DateTimeParser::new().parse_pieces(text).ok()?;
    pieces.time()?;
    pieces.offset()?;
    match pieces.date() {
        date if date >= civil::date(9999, 12, 30) => Some(Timestamp::MAX),
        date if date <= civil::date(-9999, 1, 3) => Some(Timestamp::MIN),
        _ => None,
    }
}

/// The stored form: UTC, `Z`, all digits.
pub fn show_wall(at: Timestamp) -> String {
    at.to_string()
}

/// The form in outputs: UTC, `Z`, whole seconds.
pub fn show_wall_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_show_as_rfc_3339() {
        let at = parse_wall("2026-11-15T13:15:16.250-05:00").expect("a good time");
        assert_eq!(show_wall(at), "2026-11-15T18:15:16.25Z");
        assert_eq!(show_wall_seconds(at), "2026-11-15T18:15:16Z");
    }

    #[test]
    fn the_last_second_of_the_year_9999_is_a_time() {
        assert_eq!(parse_wall("9999-12-31T23:59:59Z"), Some(Timestamp::MAX));
        assert_eq!(parse_wall("0001-01-01T00:00:00Z").map(show_wall).as_deref(), Some("0001-01-01T00:00:00Z"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "soon",
            "2026-11-15",
            "2026-11-15T10:00:00",
            "2026-13-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "9999-12-31",
        ] {
            assert_eq!(parse_wall(text), None, "{text:?}");
        }
    }

    #[test]
    fn adding_saturates() {
        assert_eq!(plus_seconds(Timestamp::UNIX_EPOCH, u64::MAX), Timestamp::MAX);
        assert_eq!(plus_millis(Timestamp::UNIX_EPOCH, u64::MAX), Timestamp::MAX);
    }
}
