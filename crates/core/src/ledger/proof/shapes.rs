//! Required shapes of the members of the af program's events, without which it can't read them at
//! all. It ignores all other members.

use alloc::format;
use alloc::string::String;
use serde_json::Value;

use super::is_readable_id;
use crate::ledger::members::Members;
use crate::ledger::moment;

/// Required shape of a member, if it is there and not `null`.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Texts,
    Time,
    /// A node's id; the empty text is read as none.
    Node,
    Nodes,
    Object(&'static [(&'static str, Shape)]),
}

use Shape::{Node, Nodes, Object, Text, Texts, Time};

const NODE: &[(&str, Shape)] = &[
    ("id", Node),
    ("type", Text),
    ("statement", Text),
    ("latex", Text),
    ("inference", Text),
    ("context", Texts),
    ("dependencies", Nodes),
    ("validation_deps", Nodes),
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
const LEMMA: &[(&str, Shape)] = &[("id", Text), ("statement", Text), ("node_id", Node), ("created", Time)];

/// Returns the members of an event of this type.
fn members_of(kind: &str) -> &'static [(&'static str, Shape)] {
    match kind {
        "proof_initialized" => &[("conjecture", Text), ("author", Text)],
        "node_created" => &[("node", Object(NODE))],
        "nodes_claimed" => &[("node_ids", Nodes), ("owner", Text), ("timeout", Time)],
        "claim_refreshed" => &[("node_id", Node), ("owner", Text), ("new_timeout", Time)],
        "nodes_released" => &[("node_ids", Nodes)],
        "challenge_raised" => &[
            ("challenge_id", Text),
            ("node_id", Node),
            ("target", Text),
            ("reason", Text),
            ("severity", Text),
            ("raised_by", Text),
        ],
        "challenge_resolved" | "challenge_withdrawn" => &[("challenge_id", Text)],
        "challenge_superseded" => &[("challenge_id", Text), ("node_id", Node)],
        "node_validated" => &[("node_id", Node), ("note", Text)],
        "node_admitted" | "node_refuted" | "node_archived" => &[("node_id", Node)],
        "node_amended" => &[("node_id", Node), ("previous_statement", Text), ("new_statement", Text), ("owner", Text)],
        "taint_recomputed" => &[("node_id", Node), ("new_taint", Text)],
        "def_added" => &[("definition", Object(DEFINITION))],
        "lemma_extracted" => &[("lemma", Object(LEMMA))],
        "scope_opened" => &[("node_id", Node), ("statement", Text)],
        "scope_closed" => &[("node_id", Node), ("discharge_node_id", Node)],
        "refinement_requested" => &[("node_id", Node), ("reason", Text), ("requested_by", Text)],
        _ => &[],
    }
}

/// Checks that the af program can read the members of this event.
pub(super) fn check(kind: &str, members: Members<'_>) -> Result<(), String> {
    check_all(members_of(kind), members)
}

fn check_all(shapes: &[(&str, Shape)], members: Members<'_>) -> Result<(), String> {
    for (name, shape) in shapes {
        if let Some(value) = members.get(name) {
            fits(*shape, value).map_err(|what| format!("its {name} {what}"))?;
        }
    }
    Ok(())
}

fn fits(shape: Shape, value: &Value) -> Result<(), String> {
    let is_null_or = |fits: &dyn Fn(&Value) -> bool| {
        value.as_array().is_some_and(|all| all.iter().all(|one| one.is_null() || fits(one)))
    };
    let is_node = |value: &Value| value.as_str().is_some_and(|id| id.is_empty() || is_readable_id(id));
    let (good, what) = match shape {
        Text => (value.is_string(), "is no text"),
        Texts => (is_null_or(&Value::is_string), "is no list of texts"),
        Time => (value.as_str().and_then(moment::parse).is_some(), "is no time"),
        Node => (is_node(value), "is no node's id"),
        Nodes => (is_null_or(&is_node), "is no list of nodes' ids"),
        Object(shapes) => match value.as_object() {
            Some(object) => return check_all(shapes, Members::of(object)).map_err(|why| format!("is wrong: {why}")),
            None => (false, "is no object"),
        },
    };
    if good { Ok(()) } else { Err(format!("{what}: {value}")) }
}

#[cfg(test)]
mod tests {
    use super::members_of;
    use crate::ledger::catalogue::NATIVE_KINDS;

    #[test]
    fn every_type_of_the_native_program_has_a_shape() {
        for kind in NATIVE_KINDS {
            assert!(!members_of(kind).is_empty(), "{kind} has none");
        }
    }
}
