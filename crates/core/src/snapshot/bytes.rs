//! Names, targets and attributes as JSON: on Linux they can be any bytes. UTF-8 becomes a string,
//! everything else `{"hex":"..."}`. Each value has only one form, so that stored values can be
//! compared and hashed.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// The only member of an object that stands for bytes that aren't text.
const HEX: &str = "hex";

/// Bytes to be written.
pub(super) struct Shown<'a>(pub(super) &'a [u8]);

/// Bytes that were read.
pub(super) struct Read(pub(super) Vec<u8>);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = core::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(HEX, &to_hex(self.0))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Read;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Read, E> {
                Ok(Read(text.as_bytes().into()))
            }

            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Read, E> {
                Ok(Read(text.into_bytes()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
                let (name, digits) =
                    map.next_entry::<String, String>()?.ok_or_else(|| A::Error::custom("it is empty"))?;
                if name != HEX || map.next_key::<String>()?.is_some() {
                    return Err(A::Error::custom("it has other members than hex"));
                }
                let bytes = from_hex(&digits).ok_or_else(|| A::Error::custom("these are no hexadecimal digits"))?;
                if core::str::from_utf8(&bytes).is_ok() {
                    return Err(A::Error::custom("a text is written as one"));
                }
                Ok(Read(bytes))
            }
        }
        deserializer.deserialize_any(Forms)
    }
}

/// Returns two digits per byte, in lower case.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Parses such digits; `None` for any other notation.
pub(super) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_is_one_form_for_each() {
        for (bytes, json) in [
            (&b""[..], r#""""#),
            (b"a/b", r#""a/b""#),
            ("caf\u{e9}\n\u{1}\"\\".as_bytes(), "\"caf\u{e9}\\n\\u0001\\\"\\\\\""),
            (b"\xff", r#"{"hex":"ff"}"#),
            (b"a\xc3", r#"{"hex":"61c3"}"#),
        ] {
            assert_eq!(serde_json::to_string(&Shown(bytes)).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<Read>(json).expect("bytes").0, bytes, "{json}");
        }
        for bad in [
            r#"{"hex":"61"}"#,
            r#"{"hex":""}"#,
            r#"{"hex":"f"}"#,
            r#"{"hex":"FF"}"#,
            r#"{"hex":"ff","x":"ff"}"#,
            r#"{"b64":"/w=="}"#,
            "{}",
            "[255]",
            "7",
            "null",
        ] {
            assert!(serde_json::from_str::<Read>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_read_back(bytes in any::<Vec<u8>>()) {
            let json = serde_json::to_string(&Shown(&bytes)).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Read>(&json).expect("bytes").0, bytes);
        }
    }
}
