//! Snapshot ids: the time at which a snapshot began, and eight digits that distinguish it from
//! others of the same millisecond.
//!
//! An id becomes a file name, so it is checked once, and from then on passed as a [`SnapshotId`].

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Number of digits of the time: enough until the year 2286.
const TIME_DIGITS: usize = 13;
/// Number of random digits.
const RANDOM_DIGITS: usize = 8;
/// Maximum time in milliseconds that has this many digits.
const TIME_MS_MAX: u64 = 9_999_999_999_999;

/// An id: 13 digits, which are the milliseconds since 1970, `-`, and 8 hexadecimal digits. Sorting
/// ids by name sorts them by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(String);

impl SnapshotId {
    /// The id of a snapshot that begins now.
    pub fn new(unix_ms: u64, random: u32) -> Self {
        Self(format!("{:013}-{random:08x}", unix_ms.min(TIME_MS_MAX)))
    }

    /// Parses an id; `None` if it isn't written exactly as ids are.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, random) = text.split_once('-')?;
        let is_time = time.len() == TIME_DIGITS && time.bytes().all(|byte| byte.is_ascii_digit());
        let is_random =
            random.len() == RANDOM_DIGITS && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (is_time && is_random).then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns when the snapshot began, in milliseconds since 1970, by its creator's clock.
    pub fn created_ms(&self) -> u64 {
        self.0.as_bytes()[..TIME_DIGITS].iter().fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0'))
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_its_time_and_eight_digits() {
        let id = SnapshotId::new(1_708_300_800_000, 0xa3f7_c1b2);
        assert_eq!(id.to_string(), "1708300800000-a3f7c1b2");
        assert_eq!(id.created_ms(), 1_708_300_800_000);
        assert_eq!(SnapshotId::new(7, 0).as_str(), "0000000000007-00000000");
        assert_eq!(SnapshotId::new(u64::MAX, u32::MAX).as_str(), "9999999999999-ffffffff");
    }

    #[test]
    fn what_is_written_otherwise_is_no_id() {
        for bad in [
            "",
            "latest",
            "1708300800000",
            "1708300800000-",
            "1708300800000-a3f7c1b",
            "1708300800000-a3f7c1b23",
            "1708300800000-A3F7C1B2",
            "170830080000-a3f7c1b2",
            "17083008000000-a3f7c1b2",
            "+708300800000-a3f7c1b2",
            "1708300800000_a3f7c1b2",
            "1708300800000-a3f7c1b2/",
            "../../../../etc-a3f7c1b2",
            "1708300800000-a3f7c1b2\n",
            "170830080000\u{664}-a3f7c1b2",
        ] {
            assert_eq!(SnapshotId::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_id_reads_back_and_sorts_by_its_time(times in [0..=TIME_MS_MAX, 0..=TIME_MS_MAX], random in any::<[u32; 2]>()) {
            let [one, other] = [SnapshotId::new(times[0], random[0]), SnapshotId::new(times[1], random[1])];
            prop_assert_eq!(SnapshotId::parse(one.as_str()), Some(one.clone()));
            prop_assert_eq!(one.created_ms(), times[0]);
            prop_assert_eq!(one.cmp(&other), (times[0], random[0]).cmp(&(times[1], random[1])));
        }

        #[test]
        fn no_text_makes_reading_panic(text in "\\PC{0,30}|[0-9]{13}-[0-9a-f]{0,9}") {
            if let Some(id) = SnapshotId::parse(&text) {
                prop_assert_eq!(id.as_str(), &text);
                let _ = id.created_ms();
            }
        }
    }
}
