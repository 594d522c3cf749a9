//! Members of events that `serde_json` can't hold as they are: unpaired surrogates, numbers out of
//! range, a hundred levels.

use alloc::borrow::Cow;
use alloc::string::String;
use serde_json::{Map, Value};

use super::keep;
use crate::ledger::json;

/// Maximum depth that `serde_json` reads; deeper values become null. lokt computes with none of
/// those.
const DEPTH_MAX: usize = 120;

/// Returns the members of a valid object; `None` if it can't be understood even this way.
pub(super) fn members(object: &str) -> Option<Map<String, Value>> {
    let repaired = json::without_half_pairs(object);
    let mut members = Map::new();
    for member in json::members(repaired.as_deref().unwrap_or(object)) {
        let name: String = serde_json::from_str(member.name).ok()?;
        keep(&mut members, Cow::Owned(name), value(member.value, DEPTH_MAX)?);
    }
    Some(members)
}

fn value(text: &str, levels: usize) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    match (json::kind(text), levels.checked_sub(1)) {
        ("an object" | "an array", None) => Some(Value::Null),
        ("an object", Some(levels)) => {
            let member = |member: &json::Member<'_>| {
                Some((serde_json::from_str(member.name).ok()?, value(member.value, levels)?))
            };
            json::members(text).iter().map(member).collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        ("an array", Some(levels)) => {
            let elements = json::elements(text);
            elements.into_iter().map(|element| value(element, levels)).collect::<Option<_>>().map(Value::Array)
        }
        // The largest number that can be represented, with the same sign.
        ("a number", _) => Some(Value::from(if text.starts_with('-') { f64::MIN } else { f64::MAX })),
        _ => None,
    }
}
