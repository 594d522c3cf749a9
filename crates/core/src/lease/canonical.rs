//! Canonical JSON for hashing: names sorted by their bytes, no blanks, strings and numbers as Go
//! writes them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde_json::{Number, Value};

/// Maximum up to which every whole number is exact as a double.
const EXACT_MAX: u64 = 1 << 53;

/// Returns the canonical text of a value.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

/// Returns a JSON text with the escapes that Go adds to the required ones. These characters occur
/// only in strings.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(c),
        }
    }
    out
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_text(out, text),
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(out, value);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_bytes());
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(out, name);
                out.push(':');
                write(out, value);
            }
            out.push('}');
        }
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push_str(&escaped(&serde_json::to_string(text).expect("a text is JSON")));
}

/// Formats a number as Go writes a double: the fewest digits that identify it, with an exponent
/// only if it is very small or very large.
fn number_text(number: &Number) -> String {
    if let Some(exact) = number.as_i64().filter(|exact| exact.unsigned_abs() <= EXACT_MAX) {
        return exact.to_string();
    }
    let double = number.as_f64().unwrap_or_default();
    let size = double.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return double.to_string();
    }
    let text = format!("{double:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_their_bytes_and_strings_escaped_as_go_does() {
        let value: Value = serde_json::from_str(
            r#"{ "b": [1, 2.50, true, null], "a\u2028": "<a> & \"b\" \u0001\n\u0008 \u00e9 \u007f \/", "Z": {}, "\u00e9": [], "aa": 1 }"#,
        )
        .expect("JSON");
        let expected = "{\"Z\":{},\"aa\":1,\"a\\u2028\":\"\\u003ca\\u003e \\u0026 \\\"b\\\" \\u0001\\n\\b \u{e9} \u{7f} /\",\"b\":[1,2.5,true,null],\"\u{e9}\":[]}";
        assert_eq!(canonical(&value), expected);
    }

    #[test]
    fn numbers_are_written_as_go_writes_doubles() {
        for (json, expected) in [
            ("0", "0"),
            ("-0.0", "-0"),
            ("1e3", "1000"),
            ("-1.50", "-1.5"),
            ("9007199254740991", "9007199254740991"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.25e30", "1.25e+30"),
            ("0.000001", "0.000001"),
            ("0.00000015", "1.5e-7"),
            ("-1e-9", "-1e-9"),
        ] {
            let value: Value = serde_json::from_str(json).expect("JSON");
            assert_eq!(canonical(&value), expected, "{json}");
        }
    }
}
