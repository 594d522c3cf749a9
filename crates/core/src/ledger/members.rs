//! Members of an event, found as the af program finds them: names without regard to case, and
//! `null` counts as absent.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// The members of an event, or of an object in one.
#[derive(Clone, Copy)]
pub(super) struct Members<'a>(&'a Map<String, Value>);

impl<'a> Members<'a> {
    pub(super) fn of(map: &'a Map<String, Value>) -> Self {
        Self(map)
    }

    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        let found = self.0.get(name).or_else(|| {
            let same = |(key, value): (&String, &'a Value)| key.eq_ignore_ascii_case(name).then_some(value);
            self.0.iter().find_map(same)
        });
        found.filter(|value| !value.is_null())
    }

    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("its {name} is no text")),
        }
    }

    pub(super) fn number(self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::as_u64)
    }

    /// Returns `node_ids`; empty if there are none.
    pub(super) fn nodes(self) -> Result<Vec<&'a str>, String> {
        match self.get("node_ids") {
            None => Ok(Vec::new()),
            Some(Value::Array(nodes)) => {
                nodes.iter().map(|node| node.as_str().ok_or_else(|| "a node's id is no text".to_owned())).collect()
            }
            Some(_) => Err("its node_ids are no list".to_owned()),
        }
    }
}
