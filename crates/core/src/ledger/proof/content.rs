//! The digest of its own content that each node carries.
//!
//! No replay of the af program checks it, but its `replay --verify` does, and calls the whole proof
//! invalid if one is wrong. Later events don't change it: an amended node keeps the digest that it
//! was created with.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde_json::Value;

use crate::ledger::chain::Digest;
use crate::ledger::members::Members;
use crate::ledger::stored::Stored;

/// A node whose `content_hash` doesn't match its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongHash {
    /// The node's id.
    pub node: String,
    /// The digest that it carries; empty if it carries none.
    pub says: String,
    /// The digest of its content.
    pub gives: String,
}

impl core::fmt::Display for WrongHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { node, says, gives } = self;
        match says.as_str() {
            "" => write!(f, "node {node:?} has no content_hash; its content gives {gives}"),
            _ => write!(f, "the content_hash of node {node:?} is {says:?}, and its content gives {gives}"),
        }
    }
}

/// Returns the node that this event creates, if its digest doesn't match its content. An event
/// without the shape of a node is refused for that reason instead.
pub fn wrong_hash(event: &Stored) -> Option<WrongHash> {
    if event.kind != "node_created" {
        return None;
    }
    let node = Members::of(Members::of(&event.members).get("node")?.as_object()?);
    let says = node.text("content_hash").ok()?.unwrap_or_default();
    let gives = content_hash(node)?;
    let id = node.text("id").ok()?.unwrap_or_default();
    (says != gives).then(|| WrongHash { node: id.to_owned(), says: says.to_owned(), gives })
}

fn content_hash(node: Members<'_>) -> Option<String> {
    let text = |name: &str| Some(node.text(name).ok()?.unwrap_or_default());
    let mut parts: Vec<String> = Vec::new();
    parts.push(format!("type:{}", text("type")?));
    parts.push(format!("statement:{}", text("statement")?));
    match text("latex")? {
        "" => {}
        latex => parts.push(format!("latex:{latex}")),
    }
    parts.push(format!("inference:{}", text("inference")?));
    for name in ["context", "dependencies", "validation_deps"] {
        let Some(list) = node.get(name) else { continue };
        // `null` in a list is read as the empty text.
        let one = |one: &Value| if one.is_null() { Some(String::new()) } else { one.as_str().map(String::from) };
        let mut list: Vec<String> = list.as_array()?.iter().map(one).collect::<Option<_>>()?;
        if list.is_empty() {
            continue;
        }
        list.sort_unstable();
        parts.push(format!("{name}:{}", list.join(",")));
    }
    Some(Digest::of(parts.join("|").as_bytes()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(node: &str) -> Option<WrongHash> {
        let event = format!(r#"{{"type":"node_created","timestamp":"2026-01-01T00:00:00Z","node":{node}}}"#);
        wrong_hash(&Stored::parse(event.as_bytes()).expect("it is an event"))
    }

    /// The digests are those of `printf '%s' TEXT | sha256sum`, with the text in the comment.
    #[test]
    fn a_digest_is_that_of_the_content_in_its_order() {
        for (node, hash) in [
            // type:claim|statement:s|inference:assumption
            (
                r#""type":"claim","statement":"s","inference":"assumption""#,
                "96febcb19e9936a822b59e40f2466c6059a3eb6b31760d696f0174a1beed9283",
            ),
            // type:claim|statement:a<b|latex:a < b|inference:modus_ponens|context:D1,D2|dependencies:1.1,1.10,1.2|validation_deps:1.3
            (
                r#""inference":"modus_ponens","latex":"a < b","type":"claim","statement":"a\u003cb","context":["D2","D1"],"dependencies":["1.2","1.10","1.1"],"validation_deps":["1.3"]"#,
                "006fb946dc54c4ecd80c5c278e293e4f82e323c63f8963d21ea5ba8b9a159500",
            ),
            // type:|statement:|inference:
            (
                r#""latex":"","context":[],"dependencies":null"#,
                "06d59ed4a6db6f9aca78dddf853c594aeaa3229187fcc20bb8ad64a60d40876b",
            ),
        ] {
            assert_eq!(wrong(&format!(r#"{{"id":"1",{node},"content_hash":"{hash}"}}"#)), None, "{node}");
            assert_eq!(wrong(&format!(r#"{{"id":"1",{node},"CONTENT_HASH":"{hash}"}}"#)), None, "{node}");
            let said = wrong(&format!(r#"{{"id":"1",{node},"content_hash":"{}"}}"#, hash.to_uppercase()));
            assert_eq!(said.map(|wrong| wrong.gives).as_deref(), Some(hash), "{node}");
            let said = wrong(&format!(r#"{{"id":"1.1",{node}}}"#)).expect("one without is wrong, too");
            assert_eq!((said.node.as_str(), said.says.as_str()), ("1.1", ""));
            assert!(said.to_string().contains(hash), "{said}");
        }
    }

    #[test]
    fn what_is_no_node_has_no_digest() {
        for node in ["null", "[]", r#"{"id":1,"content_hash":"x"}"#, r#"{"id":"1","context":"x","content_hash":"x"}"#] {
            assert_eq!(wrong(node), None, "{node}");
        }
        let other = br#"{"type":"nodes_claimed","node":{"id":"1","content_hash":"x"}}"#;
        assert_eq!(wrong_hash(&Stored::parse(other).expect("it is an event")), None, "no other event makes a node");
    }
}
