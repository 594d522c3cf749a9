//! The time at which an object was first seen in its current state, stored beside the chain.
//!
//! Decisions depend on it: a holder that was seen unchanged for longer than its lease lasts has
//! lost the lease. So an incomplete file must not count as a sighting, and a checksum detects it.
//! The identity alone wouldn't: a truncated time is still a time, and a much earlier one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::Value;

use super::json::{Ordered, is_hex, object, text};
use crate::fnv::fnv1a_64;

/// Number of digits of the checksum.
const SUM_DIGITS: usize = 16;

/// A first sighting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Identity of what was seen: anything else has another one.
    pub identity: String,
    /// Time of the sighting, by the clock of the boot that its file is named after.
    pub boottime_ms: u64,
}

impl Sighting {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let members = [
            ("identity", self.identity.as_str().into()),
            ("boottime_ms", self.boottime_ms.into()),
            ("sum", self.sum().into()),
        ];
        Ordered(members.into()).to_bytes()
    }

    /// Parses the bytes; `None` if they aren't exactly as they were written.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let members = object(bytes).ok()?;
        let sighting = Self {
            identity: text(&members, "identity")?,
            boottime_ms: members.get("boottime_ms").and_then(Value::as_u64)?,
        };
        let sum = text(&members, "sum").filter(|sum| is_hex(sum, SUM_DIGITS))?;
        (sum == sighting.sum()).then_some(sighting)
    }

    fn sum(&self) -> String {
        format!("{:016x}", fnv1a_64(format!("{} {}", self.boottime_ms, self.identity).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting() -> Sighting {
        Sighting { identity: "0f/7/lock/1767268800000".into(), boottime_ms: 3_600_000 }
    }

    #[test]
    fn a_sighting_reads_back() {
        assert_eq!(Sighting::parse(&sighting().to_bytes()), Some(sighting()));
    }

    #[test]
    fn a_sighting_whose_time_was_changed_is_none() {
        let text = String::from_utf8(sighting().to_bytes()).expect("it is text");
        let earlier = text.replace("3600000", "36000");
        assert_ne!(earlier, text);
        assert_eq!(Sighting::parse(earlier.as_bytes()), None, "a lease would be over too early");
        let unsummed = br#"{"identity":"0f/7/lock/1767268800000","boottime_ms":1}"#;
        assert_eq!(Sighting::parse(unsummed), None, "what an older program wrote is seen anew");
        assert_eq!((Sighting::parse(b""), Sighting::parse(b"{}"), Sighting::parse(b"[1]")), (None, None, None));
    }
}
