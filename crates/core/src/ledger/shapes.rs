//! What the members of the native program's events must be for it to read them: one of another kind, and it reads nothing any more.

use alloc::format;
use alloc::string::String;
use serde_json::{Map, Value};

use super::moment;

/// What a member's value must be. `null` is always read as nothing.
enum Shape {
    Text,
    Texts,
    Time,
    Object(&'static [(&'static str, Shape)]),
}

use Shape::{Object, Text, Texts, Time};

const NODE: &[(&str, Shape)] = &[
    ("id", Text),
    ("type", Text),
    ("statement", Text),
    ("latex", Text),
    ("inference", Text),
    ("context", Texts),
    ("dependencies", Texts),
    ("validation_deps", Texts),
    ("workflow_state", Text),
    ("epistemic_state", Text),
    ("taint_state", Text),
    ("content_hash", Text),
    ("created", Time),
    ("scope", Texts),
    ("claimed_by", Text),
    ("claimed_at", Time),
];
const DEFINITION: &[(&str, Shape)] = &[("id", Text), ("name", Text), ("definition", Text), ("created", Time)];
const LEMMA: &[(&str, Shape)] = &[("id", Text), ("statement", Text), ("node_id", Text), ("created", Time)];

/// The members that it reads of each type; all others it overlooks.
const SHAPES: &[(&str, &[(&str, Shape)])] = &[
    ("nodes_claimed", &[("node_ids", Texts), ("owner", Text), ("timeout", Time)]),
    ("claim_refreshed", &[("node_id", Text), ("owner", Text), ("new_timeout", Time)]),
    ("nodes_released", &[("node_ids", Texts)]),
    ("proof_initialized", &[("conjecture", Text), ("author", Text)]),
    ("node_created", &[("node", Object(NODE))]),
    (
        "challenge_raised",
        &[
            ("challenge_id", Text),
            ("node_id", Text),
            ("target", Text),
            ("reason", Text),
            ("severity", Text),
            ("raised_by", Text),
        ],
    ),
    ("challenge_resolved", &[("challenge_id", Text)]),
    ("challenge_withdrawn", &[("challenge_id", Text)]),
    ("challenge_superseded", &[("challenge_id", Text), ("node_id", Text)]),
    ("node_validated", &[("node_id", Text), ("note", Text)]),
    ("node_admitted", &[("node_id", Text)]),
    ("node_refuted", &[("node_id", Text)]),
    ("node_archived", &[("node_id", Text)]),
    ("node_amended", &[("node_id", Text), ("previous_statement", Text), ("new_statement", Text), ("owner", Text)]),
    ("taint_recomputed", &[("node_id", Text), ("new_taint", Text)]),
    ("def_added", &[("definition", Object(DEFINITION))]),
    ("lemma_extracted", &[("lemma", Object(LEMMA))]),
    ("scope_opened", &[("node_id", Text), ("statement", Text)]),
    ("scope_closed", &[("node_id", Text), ("discharge_node_id", Text)]),
    ("refinement_requested", &[("node_id", Text), ("reason", Text), ("requested_by", Text)]),
];

/// Can the native program read the members of an event of this type? The text says which it can't.
pub(super) fn check(kind: &str, members: &Map<String, Value>) -> Result<(), String> {
    match SHAPES.iter().find(|(known, _)| *known == kind) {
        Some((_, shapes)) => check_all(shapes, members),
        None => Ok(()),
    }
}

fn check_all(shapes: &[(&str, Shape)], members: &Map<String, Value>) -> Result<(), String> {
    shapes.iter().try_for_each(|(name, shape)| match members.get(*name) {
        None | Some(Value::Null) => Ok(()),
        Some(value) => check_one(name, shape, value),
    })
}

fn check_one(name: &str, shape: &Shape, value: &Value) -> Result<(), String> {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    match (shape, value) {
        (Text, Value::String(_)) => Ok(()),
        (Time, Value::String(text)) if moment::parse(text).is_some() => Ok(()),
        (Time, Value::String(text)) => Err(format!("its member {name} is no time: {text:?}")),
        (Texts, Value::Array(values)) if values.iter().all(is_text) => Ok(()),
        (Object(shapes), Value::Object(members)) => check_all(shapes, members),
        (Text, _) => Err(format!("its member {name} is no text")),
        (Time, _) => Err(format!("its member {name} is no time")),
        (Texts, _) => Err(format!("its member {name} is no list of texts")),
        (Object(_), _) => Err(format!("its member {name} is no object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(kind: &str, members: Value) -> Result<(), String> {
        let Value::Object(members) = members else { panic!("members are an object") };
        check(kind, &members)
    }

    #[test]
    fn every_type_of_the_native_program_has_a_shape() {
        for kind in super::super::catalogue::NATIVE_KINDS {
            assert!(SHAPES.iter().any(|(known, _)| *known == kind), "{kind} has one");
        }
        assert_eq!(SHAPES.len(), super::super::catalogue::NATIVE_KINDS.len());
    }

    #[test]
    fn members_of_the_wrong_kind_are_named() {
        for (kind, members, name) in [
            ("nodes_claimed", json!({"node_ids": ["1"], "owner": "a", "timeout": "tomorrow"}), "timeout"),
            ("nodes_claimed", json!({"node_ids": "1", "owner": "a"}), "node_ids"),
            ("nodes_claimed", json!({"node_ids": ["1", 2]}), "node_ids"),
            ("nodes_claimed", json!({"owner": 7}), "owner"),
            ("claim_refreshed", json!({"new_timeout": 5}), "new_timeout"),
            ("node_created", json!({"node": {"id": "1", "created": "2026-01-01 00:00:00Z"}}), "created"),
            ("node_created", json!({"node": []}), "node"),
            ("lemma_extracted", json!({"lemma": {"node_id": 1}}), "node_id"),
        ] {
            let why = checked(kind, members.clone()).expect_err("it can't be read");
            assert!(why.contains(&format!("member {name} ")), "{members}: {why}");
        }
    }

    #[test]
    fn nothing_null_and_what_it_overlooks_are_fine() {
        for members in [json!({}), json!({"node_ids": null, "owner": null}), json!({"node_ids": [null], "reason": 7})] {
            assert_eq!(checked("nodes_released", members), Ok(()));
        }
        assert_eq!(checked("nodes_claimed", json!({"timeout": "2026-01-01T00:00:00,5+05:30"})), Ok(()));
    }
}
