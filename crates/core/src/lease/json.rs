//! JSON of the files of a lease: written with members in a chosen order, and read without trusting
//! any of them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::record::RECORD_BYTES_MAX;
use crate::hold::Fence;

/// Members in the order in which they are written.
pub(crate) struct Ordered(pub(crate) Vec<(&'static str, Value)>);

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Ordered {
    /// Returns the object on one line, with a newline.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("JSON values are JSON");
        bytes.push(b'\n');
        bytes
    }
}

/// Returns the members of a file that is one object.
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    if bytes.len() > RECORD_BYTES_MAX {
        return Err("it is too long".into());
    }
    if bytes.trim_ascii().is_empty() {
        return Err("it is empty".into());
    }
    serde_json::from_slice(bytes).map_err(|error| format!("it is no JSON object ({error})"))
}

/// An object without duplicate members: readers differ about which of them counts.
pub(crate) struct Unique(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Unique;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member is there twice"));
                    }
                }
                Ok(Unique(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Returns a string member, if it is there.
pub(crate) fn text(members: &Map<String, Value>, name: &str) -> Option<String> {
    members.get(name)?.as_str().map(String::from)
}

/// Reads a whole number in any notation: other tools write 1000 as 1e3. A number below zero becomes
/// 0, one that is too large becomes the maximum.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it stops at the first and the last number, which is what is wanted"
    )]
    let rounded = || number.as_f64().map(|number| number as u64);
    number.as_u64().or_else(rounded)
}

/// Reads the number of a link: at least 1, and exact in every JSON reader.
pub(crate) fn link_number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    // A fraction is not the number of a link.
    let is_whole = value.is_u64() || value.as_f64().is_some_and(|number| number % 1.0 == 0.0);
    whole(value).filter(|_| is_whole).and_then(Fence::new).map(Fence::get)
}

/// Reads a count: 0 or more, and below the limit of tokens.
pub(crate) fn count(value: Option<&Value>) -> Option<u64> {
    value?.as_u64().filter(|count| *count < Fence::LIMIT)
}

/// Reports whether this is a hexadecimal number in lower case, of exactly `digits` digits.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Truncates a time to milliseconds.
pub(crate) fn to_ms(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// Formats a time: UTC, `Z`, exactly three decimals.
pub(crate) fn show_ms(at: Timestamp) -> String {
    let mut shown = String::new();
    let printer = DateTimePrinter::new().precision(Some(3));
    printer.print_timestamp(&to_ms(at), &mut shown).expect("a text takes every time");
    shown
}
