//! A hash with the name of its algorithm.

use alloc::string::String;
use serde_json::{Value, json};

use super::bytes::to_hex;

/// Maximum number of digits of a digest.
const DIGITS_MAX: usize = 128;
/// Algorithm of `jvs`, and of the seals of descriptors.
pub const SHA256: &str = "sha256";
/// Algorithm of the hashes over trees.
pub const BLAKE3: &str = "blake3";

/// A hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hash {
    /// Name of the algorithm.
    pub algo: String,
    /// Its digits, in lower case.
    pub value: String,
}

impl Hash {
    /// Creates a hash from a digest.
    pub fn new(algo: &str, digest: &[u8]) -> Self {
        Self { algo: algo.into(), value: to_hex(digest) }
    }

    /// Returns its JSON form.
    pub fn to_value(&self) -> Value {
        json!({"algo": self.algo, "value": self.value})
    }

    /// Parses the JSON form.
    pub fn from_value(value: &Value) -> Option<Self> {
        let member = |name: &str| value.as_object()?.get(name)?.as_str().map(String::from);
        let algo = member("algo").filter(|algo| !algo.is_empty())?;
        Some(Self { algo, value: member("value").filter(|digits| is_digest(digits))? })
    }

    /// Parses bare digits, the form in the code of `jvs`.
    pub(super) fn from_digits(value: &Value) -> Option<Self> {
        let digits = value.as_str().filter(|digits| is_digest(digits))?;
        Some(Self { algo: SHA256.into(), value: digits.into() })
    }
}

fn is_digest(digits: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    !digits.is_empty() && digits.len() <= DIGITS_MAX && digits.len().is_multiple_of(2) && digits.bytes().all(is_digit)
}
