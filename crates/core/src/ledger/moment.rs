//! Times as the ledger's programs write them.
//!
//! They are read as Go reads RFC 3339: any offset, any number of fractional digits (the first nine
//! count), a comma for the decimal point, an hour of one digit. `T` and `Z` must be in capitals, a
//! zone is required, and there is no leap second. They are written in UTC with `Z` and no more
//! digits than they need.

use alloc::string::String;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp, civil};

/// The beginning of the year 0: RFC 3339 has no earlier times.
const FIRST_SEC: i64 = -62_167_219_200;

/// Parses a time. A well-formed time beyond those that can be computed with (the end of the year
/// 9999, which people write for "never") becomes the last that can. A time whose offset leads to
/// before the year 0 becomes the first that can be written.
pub fn parse(text: &str) -> Option<Timestamp> {
    let mut rest = text.as_bytes();
    let year = number(&mut rest, 4)?;
    skip(&mut rest, b'-')?;
    let month = number(&mut rest, 2)?;
    skip(&mut rest, b'-')?;
    let day = number(&mut rest, 2)?;
    skip(&mut rest, b'T')?;
    let digits = if rest.get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
    let hour = number(&mut rest, digits)?;
    skip(&mut rest, b':')?;
    let minute = number(&mut rest, 2)?;
    skip(&mut rest, b':')?;
    let second = number(&mut rest, 2)?;
    let nanos = fraction(&mut rest);
    let east_sec = offset(rest)?;
    // jiff would read a leap second as the one before it; the ledger's other readers refuse it.
    if second > 59 {
        return None;
    }
    let (small, nanos) = (|number: u16| i8::try_from(number).ok(), i32::try_from(nanos).ok()?);
    let at = civil::DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        nanos,
    );
    let Ok(utc) = Offset::UTC.to_timestamp(at.ok()?) else { return Some(Timestamp::MAX) };
    let shift = SignedDuration::from_secs(-east_sec);
    let first = Timestamp::from_second(FIRST_SEC).ok()?;
    Some(utc.checked_add(shift).map_or(if east_sec < 0 { Timestamp::MAX } else { first }, |at| at.max(first)))
}

/// Formats a time as in events: UTC, `Z`, no trailing zeros.
pub fn show(at: Timestamp) -> String {
    crate::time::show_wall(at)
}

/// Consumes a number of exactly `digits` digits.
fn number(rest: &mut &[u8], digits: usize) -> Option<u16> {
    let (taken, left) = rest.split_at_checked(digits)?;
    *rest = left;
    taken.iter().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u16::from(byte - b'0')))
}

fn skip(rest: &mut &[u8], mark: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[mark])?;
    Some(())
}

/// Consumes a fraction, if there is one, and returns it in nanoseconds.
fn fraction(rest: &mut &[u8]) -> u32 {
    let [b'.' | b',', digits @ ..] = *rest else { return 0 };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return 0;
    }
    *rest = &digits[count..];
    let nine = digits[..count].iter().copied().chain(core::iter::repeat(b'0')).take(9);
    nine.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'))
}

/// Parses the zone, in seconds east of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    if zone == b"Z" {
        return Some(0);
    }
    let (sign, mut rest) = match zone {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let hours = number(&mut rest, 2)?;
    skip(&mut rest, b':')?;
    let minutes = number(&mut rest, 2)?;
    // No zone has 24 hours or 60 minutes, but Go accepts both.
    let good = rest.is_empty() && hours <= 24 && minutes <= 60;
    good.then(|| sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_that_go_reads_is_read() {
        for (text, shown) in [
            ("2026-11-15T18:15:16Z", "2026-11-15T18:15:16Z"),
            ("2026-11-15T18:15:16.5Z", "2026-11-15T18:15:16.5Z"),
            ("2026-11-15T18:15:16.120000000Z", "2026-11-15T18:15:16.12Z"),
            ("2026-11-15T18:15:16.123456789012Z", "2026-11-15T18:15:16.123456789Z"),
            ("2026-11-15T18:15:16,25Z", "2026-11-15T18:15:16.25Z"),
            ("2026-11-15T18:15:16+02:00", "2026-11-15T16:15:16Z"),
            ("2026-11-15T23:21:14.658897752+05:30", "2026-11-15T17:51:14.658897752Z"),
            ("2026-11-15T18:15:16-00:00", "2026-11-15T18:15:16Z"),
            ("2026-11-15T3:15:16Z", "2026-11-15T03:15:16Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("0000-12-31T23:59:59+00:00", "0000-12-31T23:59:59Z"),
        ] {
            assert_eq!(parse(text).map(show).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "",
            "soon",
            "2026-11-15",
            "2026-11-15T18:15:16",
            "2026-11-15T18:15:16z",
            "2026-11-15t18:15:16Z",
            "2026-11-15 18:15:16Z",
            "2026-11-15T18:15:60Z",
            "2026-11-15T18:60:16Z",
            "2026-11-15T24:00:00Z",
            "2026-11-31T18:15:16Z",
            "2025-02-29T18:15:16Z",
            "2026-13-15T18:15:16Z",
            "2026-00-15T18:15:16Z",
            "2026-1-15T18:15:16Z",
            "2026-11-15T18:15Z",
            "2026-11-15T18:15:16.Z",
            "2026-11-15T18:15:16ZZ",
            "2026-11-15T18:15:16Z ",
            " 2026-11-15T18:15:16Z",
            "2026-11-15T18:15:16+2:00",
            "2026-11-15T18:15:16+0200",
            "2026-11-15T18:15:16+25:00",
            "2026-11-15T18:15:16+02:61",
            "+002026-11-15T18:15:16Z",
            "1763230516",
            "２026-11-15T18:15:16Z",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn never_is_the_last_moment() {
        assert_eq!(parse("9999-12-31T23:59:59Z"), Some(Timestamp::MAX));
        assert_eq!(parse("9999-12-30T21:59:59-12:00"), Some(Timestamp::MAX));
    }

    #[test]
    fn nothing_is_before_the_year_0() {
        for text in ["0000-01-01T00:00:00+24:60", "0000-01-01T00:00:00.5+00:01", "0000-01-01T00:00:00Z"] {
            assert_eq!(parse(text).map(show).as_deref(), Some("0000-01-01T00:00:00Z"), "{text}");
        }
        assert_eq!(parse("0000-01-01T00:00:00-00:01").map(show).as_deref(), Some("0000-01-01T00:01:00Z"));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(second in -60_000_000_000_i64..250_000_000_000, nanos in 0..1_000_000_000_i32) {
            let at = Timestamp::new(second, nanos).expect("within range");
            prop_assert_eq!(parse(&show(at)), Some(at), "{}", show(at));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9TZ:.,+-]{0,40}") {
            parse(&text);
        }
    }
}
