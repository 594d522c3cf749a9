//! Numbers of events, and the two styles of file names.

use alloc::string::String;
use core::fmt;

/// Number of an event: 1 and up, without gaps. Below 2^53, so that every JSON reader keeps it
/// exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// Number of the first event.
    pub const FIRST: Self = Self(1);
    /// Maximum number of an event.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Returns the number, if it can be an event's.
    pub const fn new(number: u64) -> Option<Self> {
        if 1 <= number && number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Returns the plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names of a ledger's files, and event types of its claims. One style per ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Style {
    /// Documented ledger format: `event-000001.json` and `lock_acquired`, `lock_released`,
    /// `lock_reaped`.
    Documented,
    /// Format of the af program: `000001.json` and `nodes_claimed`, `claim_refreshed`,
    /// `nodes_released`.
    Native,
}

/// Meaning of a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The event of this number.
    Event(Seq),
    /// A file that looks like an event, but isn't one of this ledger.
    Stray(Oddity),
    /// Not an event: the lock, a temporary file, a user's notes.
    Other,
}

/// Defect of a stray's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// It is the name of an event in the other style.
    OtherStyle,
    /// Its number isn't written as the ledger writes it: too few digits or too many, or a sign.
    NotCanonical,
    /// Its number is zero, or too large.
    OutOfRange,
}

impl Style {
    /// Returns its name in JSON and for `--style`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Documented => "documented",
            Self::Native => "native",
        }
    }

    /// Returns the name of an event's file: at least six digits.
    pub fn file_name(self, seq: Seq) -> String {
        match self {
            Self::Documented => alloc::format!("event-{:06}.json", seq.get()),
            Self::Native => alloc::format!("{:06}.json", seq.get()),
        }
    }

    /// Returns the meaning of a file's name in a ledger of this style.
    pub fn named(self, file: &str) -> Named {
        let Some(stem) = file.strip_suffix(".json") else { return Named::Other };
        let (style, digits) = match stem.strip_prefix("event-") {
            Some(digits) => (Self::Documented, digits),
            None => (Self::Native, stem),
        };
        let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
        if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
            return Named::Other;
        }
        if style != self {
            return Named::Stray(Oddity::OtherStyle);
        }
        let Some(seq) = unsigned.parse().ok().and_then(Seq::new) else { return Named::Stray(Oddity::OutOfRange) };
        if file == self.file_name(seq) { Named::Event(seq) } else { Named::Stray(Oddity::NotCanonical) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(number: u64) -> Named {
        Named::Event(Seq::new(number).expect("a number of an event"))
    }

    #[test]
    fn numbers_are_from_one_to_the_last_that_every_reader_keeps_exact() {
        assert_eq!(Seq::new(0), None);
        assert_eq!(Seq::new(1), Some(Seq::FIRST));
        assert_eq!(Seq::new(9_007_199_254_740_991), Some(Seq::MAX));
        assert_eq!(Seq::new(9_007_199_254_740_992), None);
    }

    #[test]
    fn names_in_a_native_ledger() {
        for (file, expected) in [
            ("000001.json", event(1)),
            ("999999.json", event(999_999)),
            ("1000000.json", event(1_000_000)),
            ("9007199254740991.json", event(9_007_199_254_740_991)),
            ("3.json", Named::Stray(Oddity::NotCanonical)),
            ("0000003.json", Named::Stray(Oddity::NotCanonical)),
            ("+3.json", Named::Stray(Oddity::NotCanonical)),
            ("+000003.json", Named::Stray(Oddity::NotCanonical)),
            ("000000.json", Named::Stray(Oddity::OutOfRange)),
            ("9007199254740992.json", Named::Stray(Oddity::OutOfRange)),
            ("9223372036854775807.json", Named::Stray(Oddity::OutOfRange)),
            ("-9223372036854775808.json", Named::Stray(Oddity::OutOfRange)),
            ("99999999999999999999999999.json", Named::Stray(Oddity::OutOfRange)),
            ("event-000001.json", Named::Stray(Oddity::OtherStyle)),
            ("event-1.json", Named::Stray(Oddity::OtherStyle)),
            ("event-.json", Named::Other),
            (".json", Named::Other),
            ("+.json", Named::Other),
            ("ledger.lock", Named::Other),
            (".event-123.tmp", Named::Other),
            ("000001.json.bak", Named::Other),
            ("000001.JSON", Named::Other),
            ("0x0001.json", Named::Other),
            ("notes.json", Named::Other),
            ("٠٠٠٠٠١.json", Named::Other),
        ] {
            assert_eq!(Style::Native.named(file), expected, "{file}");
        }
    }

    #[test]
    fn names_in_a_documented_ledger() {
        for (file, expected) in [
            ("event-000001.json", event(1)),
            ("event-1000000.json", event(1_000_000)),
            ("event-1.json", Named::Stray(Oddity::NotCanonical)),
            ("event-+000001.json", Named::Stray(Oddity::NotCanonical)),
            ("event-000000.json", Named::Stray(Oddity::OutOfRange)),
            ("000001.json", Named::Stray(Oddity::OtherStyle)),
            ("event-event-000001.json", Named::Other),
            ("EVENT-000001.json", Named::Other),
        ] {
            assert_eq!(Style::Documented.named(file), expected, "{file}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_that_of_its_number(number in 1..=Seq::MAX.get(), small in 1_u64..2_000_000) {
            for seq in [number, small].into_iter().filter_map(Seq::new) {
                for (style, other) in [(Style::Native, Style::Documented), (Style::Documented, Style::Native)] {
                    prop_assert_eq!(style.named(&style.file_name(seq)), Named::Event(seq));
                    prop_assert_eq!(style.named(&other.file_name(seq)), Named::Stray(Oddity::OtherStyle));
                }
            }
        }
    }
}
