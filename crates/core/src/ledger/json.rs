//! Valid JSON text, cut into pieces without changing a byte of them.
//!
//! A parsed value loses the notation of numbers and the order of members; an event must not. All
//! functions expect text that [`check`] has accepted. For any other text they would return odd
//! pieces, but never panic.

use alloc::string::String;
use alloc::vec::Vec;
use serde::de::IgnoredAny;

/// A member of an object, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member<'a> {
    /// Its name, with the quotes.
    pub(super) name: &'a str,
    /// Position of the name in the object's text.
    pub(super) at: usize,
    /// Its value, without blanks around it.
    pub(super) value: &'a str,
}

/// Checks that this is one JSON value and nothing else, of any depth.
pub(super) fn check(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(text).map(|_| ())
}

/// Returns the kind of value that a valid text is, with its article.
pub(super) fn kind(text: &str) -> &'static str {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Returns the members of a valid object, in their order.
pub(super) fn members(object: &str) -> Vec<Member<'_>> {
    let mut members = Vec::new();
    let mut at = after_blanks(object, 0) + 1;
    loop {
        at = after_blanks(object, at);
        match object.as_bytes().get(at) {
            Some(b',') => at += 1,
            Some(b'"') => {
                let name_end = after_string(object, at);
                let begin = after_blanks(object, after_blanks(object, name_end) + 1);
                let end = after_value(object, begin);
                members.push(Member { name: piece(object, at, name_end), at, value: piece(object, begin, end) });
                at = end;
            }
            _ => return members,
        }
    }
}

/// Returns the elements of a valid array, in their order.
pub(super) fn elements(array: &str) -> Vec<&str> {
    let mut elements = Vec::new();
    let mut at = after_blanks(array, 0) + 1;
    loop {
        at = after_blanks(array, at);
        match array.as_bytes().get(at) {
            Some(b',') => at += 1,
            None | Some(b']') => return elements,
            Some(_) => {
                let end = after_value(array, at);
                elements.push(piece(array, at, end));
                at = end.max(at + 1);
            }
        }
    }
}

/// Appends a valid text without the blanks between its pieces.
pub(super) fn compact_into(out: &mut String, text: &str) {
    pieces(text, |piece| out.push_str(piece));
}

/// Appends a valid text without blanks, and its strings without unneeded escapes: some programs
/// read times and ids as they are written.
pub(super) fn plain_into(out: &mut String, text: &str) {
    pieces(text, |piece| {
        let plain = || {
            let string: String = serde_json::from_str(piece).ok()?;
            serde_json::to_string(&string).ok()
        };
        match piece.starts_with('"').then_some(()).filter(|()| piece.contains('\\')).and_then(|()| plain()) {
            Some(plain) => out.push_str(&plain),
            None => out.push_str(piece),
        }
    });
}

/// Passes on the strings of a valid text, and the text between them without blanks.
fn pieces(text: &str, mut see: impl FnMut(&str)) {
    let mut at = 0;
    while at < text.len() {
        let next = after_blanks(text, at);
        let end = match text.as_bytes().get(next) {
            None => return,
            Some(b'"') => after_string(text, next),
            Some(_) => text[next..]
                .find(|c: char| c == '"' || c.is_ascii_whitespace())
                .map_or(text.len(), |length| next + length),
        };
        see(piece(text, next, end));
        at = end;
    }
}

/// Returns the maximum nesting depth of objects and arrays in a valid text.
pub(super) fn depth(text: &str) -> usize {
    let (mut open, mut most, mut at) = (0_usize, 0, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at = after_string(text, at);
                continue;
            }
            b'{' | b'[' => {
                open += 1;
                most = most.max(open);
            }
            b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    most
}

/// Returns the text with U+FFFD for every unpaired surrogate; `None` if it has none. Only an escape
/// can be one.
pub(super) fn without_half_pairs(text: &str) -> Option<String> {
    let mut whole = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let unit = escaped_unit(text, at);
        let low = unit.filter(|unit| (0xD800..0xDC00).contains(unit)).and_then(|_| escaped_unit(text, at + 6));
        match unit {
            Some(0xD800..=0xDBFF) if low.is_some_and(|low| (0xDC00..0xE000).contains(&low)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                whole.push_str(&text[copied..at]);
                whole.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            _ => at += 2,
        }
    }
    if copied == 0 {
        return None;
    }
    whole.push_str(&text[copied..]);
    Some(whole)
}

/// Returns the number of the `\uXXXX` at `at`.
fn escaped_unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok()
}

fn piece(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}

fn after_blanks(text: &str, from: usize) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Returns the position after the string that begins at `at`.
fn after_string(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the position after the value that begins at `from`.
fn after_value(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (from, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = after_string(text, at),
            b'{' | b'[' => {
                open += 1;
                at += 1;
            }
            b'}' | b']' => {
                // The end of the object or array around a number or a word.
                let Some(left) = open.checked_sub(1) else { return at };
                open = left;
                at += 1;
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' if open == 0 => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if open == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_object_is_cut_into_its_members_as_they_are_written() {
        let text = " { \"a\" : 1.50 ,\"b\\\"\":[1, {\"c\":\"]}\"}],\n\"c\":\"x,\\\\\" , \"d\":{}}\n";
        let cut: Vec<_> = members(text).iter().map(|member| (member.name, member.value)).collect();
        let expected =
            vec![("\"a\"", "1.50"), ("\"b\\\"\"", "[1, {\"c\":\"]}\"}]"), ("\"c\"", "\"x,\\\\\""), ("\"d\"", "{}")];
        assert_eq!(cut, expected);
        assert!(members("{}").is_empty());
    }

    #[test]
    fn an_array_is_cut_into_its_elements() {
        assert_eq!(elements("[1, \"a,b\" ,[2,3],{\"x\":[4]},null ]"), ["1", "\"a,b\"", "[2,3]", "{\"x\":[4]}", "null"]);
        assert!(elements(" [ ] ").is_empty());
    }

    #[test]
    fn blanks_go_outside_strings_only() {
        let mut out = String::new();
        compact_into(&mut out, "{ \"a b\" : [ 1 , true ] ,\r\n\t\"c\" : \" \\\" x \" } \n");
        assert_eq!(out, "{\"a b\":[1,true],\"c\":\" \\\" x \"}");
    }

    #[test]
    fn depth_counts_what_is_open_and_not_what_is_quoted() {
        for (text, expected) in [("1", 0), ("{}", 1), ("[{\"a\":[]},[]]", 3), ("\"[[[[\"", 0), ("[\"\\\"[\",[]]", 2)] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn half_pairs_are_replaced_and_nothing_else_is() {
        for (text, expected) in [
            ("\"\\ud800\"", Some("\"\\ufffd\"")),
            ("\"\\udc00x\"", Some("\"\\ufffdx\"")),
            ("\"\\ud800\\ud83d\\ude00\"", Some("\"\\ufffd\\ud83d\\ude00\"")),
            ("\"\\uD83D\\uDE00\"", None),
            ("\"\\\\ud800\"", None),
            ("\"plain \\u0041\"", None),
        ] {
            assert_eq!(without_half_pairs(text).as_deref(), expected, "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn compaction_never_changes_what_a_text_means(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).expect("JSON is JSON");
            let mut out = String::new();
            compact_into(&mut out, &pretty);
            prop_assert_eq!(out, value.to_string());
        }

        #[test]
        fn no_text_at_all_makes_the_cutting_panic(text in any::<String>()) {
            members(&text);
            elements(&text);
            depth(&text);
            without_half_pairs(&text);
            compact_into(&mut String::new(), &text);
        }

        #[test]
        fn cut_members_are_the_members(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).expect("JSON is JSON");
            if let Value::Object(map) = &value {
                for (member, (name, value)) in members(&pretty).iter().zip(map) {
                    prop_assert_eq!(serde_json::from_str::<Value>(member.name).ok(), Some(Value::String(name.clone())));
                    prop_assert_eq!(serde_json::from_str::<Value>(member.value).ok(), Some(value.clone()));
                }
                prop_assert_eq!(members(&pretty).len(), map.len());
            }
        }
    }
}
