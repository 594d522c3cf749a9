//! A hash that says how it was made.

use alloc::string::String;
use serde_json::{Value, json};

use super::bytes::to_hex;

/// No digest has more digits.
const DIGITS_MAX: usize = 128;
/// What `jvs` uses, and what descriptors are sealed with.
pub const SHA256: &str = "sha256";
/// What trees are hashed with.
pub const BLAKE3: &str = "blake3";

/// A hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hash {
    /// How it was made.
    pub algo: String,
    /// Its digits, in lower case.
    pub value: String,
}

impl Hash {
    /// Of a digest.
    pub fn new(algo: &str, digest: &[u8]) -> Self {
        Self { algo: algo.into(), value: to_hex(digest) }
    }

    /// As in JSON.
    pub fn to_value(&self) -> Value {
        json!({"algo": self.algo, "value": self.value})
    }

    /// Back.
    pub fn from_value(value: &Value) -> Option<Self> {
        let member = |name: &str| value.as_object()?.get(name)?.as_str().map(String::from);
        let algo = member("algo").filter(|algo| !algo.is_empty())?;
        Some(Self { algo, value: member("value").filter(|digits| is_digest(digits))? })
    }

    /// From digits alone, which is how the code of `jvs` has them.
    pub(super) fn from_digits(value: &Value) -> Option<Self> {
        let digits = value.as_str().filter(|digits| is_digest(digits))?;
        Some(Self { algo: SHA256.into(), value: digits.into() })
    }
}

fn is_digest(digits: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    !digits.is_empty() && digits.len() <= DIGITS_MAX && digits.len().is_multiple_of(2) && digits.bytes().all(is_digit)
}
