//! Durations as people type them (`90`, `1500ms`, `1h30m`, `1.5h`, `2d`) and as lokt has always
//! printed them (`1h30m0s`).

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

/// Maximum duration: a hundred years. A longer one is a typing error.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The problem with a typed duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadDuration {
    /// Empty, or not a number with a unit.
    Syntax,
    /// Less than zero.
    Negative,
    /// More than [`DURATION_MAX`].
    TooLong,
}

impl fmt::Display for BadDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "not a duration; write 90, 1500ms, 90s, 5m, 1h30m, 1.5h or 2d",
            Self::Negative => "a duration cannot be negative",
            Self::TooLong => "longer than a hundred years",
        })
    }
}

/// Units with their length in nanoseconds. If one is the beginning of another, the longer one comes
/// first.
const UNITS: [(&str, u128); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Maximum number of fraction digits: more can't change a nanosecond count that fits
/// [`DURATION_MAX`].
const FRACTION_DIGITS_MAX: usize = 18;

/// Parses a duration. A bare number is seconds.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    if let Some(rest) = text.strip_prefix('-') {
        return Err(parse(rest).err().unwrap_or(BadDuration::Negative));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(BadDuration::Syntax);
    }
    let mut total: u128 = 0;
    let mut first = true;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(BadDuration::Syntax);
        }
        let (unit, after) = match UNITS.iter().find_map(|(name, ns)| Some((*ns, after.strip_prefix(name)?))) {
            Some(found) => found,
            None if first && after.is_empty() => (1_000_000_000, ""),
            None => return Err(BadDuration::Syntax),
        };
        total = scaled(whole, fraction, unit).and_then(|ns| total.checked_add(ns)).ok_or(BadDuration::TooLong)?;
        rest = after;
        first = false;
    }
    if total > DURATION_MAX.as_nanos() {
        return Err(BadDuration::TooLong);
    }
    let nanos = u64::try_from(total % 1_000_000_000).expect("a remainder below 10^9 fits");
    let secs = u64::try_from(total / 1_000_000_000).expect("a hundred years of seconds fit");
    Ok(Duration::from_secs(secs) + Duration::from_nanos(nanos))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Returns `whole.fraction` units in nanoseconds; `None` if that is out of range.
fn scaled(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    let mut scale: u128 = 1;
    let mut part: u128 = 0;
    for digit in fraction.bytes().take(FRACTION_DIGITS_MAX) {
        part = part * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    total = total.checked_add(part * unit / scale)?;
    Some(total)
}

/// Returns whole seconds, rounded up, so that a lease is never shorter than requested.
pub fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Formats a duration as lokt prints it: `450ms` below a second, whole seconds above.
pub fn show(duration: Duration) -> String {
    match duration.as_secs() {
        0 if duration.subsec_millis() > 0 => format!("{}ms", duration.subsec_millis()),
        secs => show_seconds(i64::try_from(secs).unwrap_or(i64::MAX)),
    }
}

/// Formats seconds as lokt prints them: `0s`, `45s`, `5m0s`, `1h30m0s`.
pub fn show_seconds(secs: i64) -> String {
    let sign = if secs < 0 { "-" } else { "" };
    let secs = secs.unsigned_abs();
    let (h, m, s) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (h, m) {
        (0, 0) => format!("{sign}{s}s"),
        (0, _) => format!("{sign}{m}m{s}s"),
        _ => format!("{sign}{h}h{m}m{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_shown_as_people_read_them() {
        for (ms, text) in [(0, "0s"), (450, "450ms"), (999, "999ms"), (1_500, "1s"), (330_000, "5m30s")] {
            assert_eq!(show(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn every_documented_form_is_understood() {
        for (text, ms) in [
            ("90", 90_000),
            ("0", 0),
            ("1500ms", 1_500),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("300us", 0),
            ("+5m", 300_000),
        ] {
            assert_eq!(parse(text).map(|d| d.as_millis()), Ok(ms), "{text}");
        }
    }

    #[test]
    fn each_bad_form_is_refused_for_its_reason() {
        for (text, reason) in [
            ("", BadDuration::Syntax),
            ("5x", BadDuration::Syntax),
            ("m", BadDuration::Syntax),
            ("5m3", BadDuration::Syntax),
            ("1e9", BadDuration::Syntax),
            ("-", BadDuration::Syntax),
            ("-5m", BadDuration::Negative),
            ("99999999999999999999999999999999999999999999h", BadDuration::TooLong),
            ("36501d", BadDuration::TooLong),
        ] {
            assert_eq!(parse(text), Err(reason), "{text}");
        }
    }

    #[test]
    fn leases_round_up_to_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1500)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
    }

    #[test]
    fn seconds_are_shown_with_every_unit_below_the_largest() {
        for (secs, text) in
            [(0, "0s"), (59, "59s"), (300, "5m0s"), (5400, "1h30m0s"), (27_539_117, "7649h45m17s"), (-61, "-1m1s")]
        {
            assert_eq!(show_seconds(secs), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9.]{0,30}[a-zµ]{0,3}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_shown_reads_back(secs in 0_i64..3_000_000_000) {
            prop_assert_eq!(parse(&show_seconds(secs)).map(|d| i64::try_from(d.as_secs()).expect("it was an i64")), Ok(secs));
        }
    }
}
