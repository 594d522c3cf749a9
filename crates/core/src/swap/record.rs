//! The values: the space's `meta`, a name's `cell`, members, freezes and tickets. All are JSON, and
//! members that this program doesn't know survive a rewrite.
//!
//! A member and a freeze are the record of a hold, as on files, with three differences:
//!
//! - `fencing_token` is absent in a record that draws a new token. The token is then `base`, which
//!   the record has from `meta`, plus the revision that wrote the record.
//! - `pulse` says only that a guard is behind the process part; its number is the revision that
//!   created the life key, which no record can know when it is written.
//! - `parts.for` isn't checked: no other program edits these records.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Op;
use crate::engine::Rev;
use crate::hold::{Fence, Hold, PulseRef};
use crate::record::{self, Parsed};

/// The format of a space that this program knows.
pub const FORMAT: u64 = 1;

/// The pulse of a guard as it is written.
pub const GUARDED: PulseRef = PulseRef { number: 0, dev: 0, ino: 0 };

/// The version of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The format of all keys.
    pub format: u64,
    /// The identity of the space.
    pub id: String,
    /// The number that is added to a revision to make a token.
    #[serde(default)]
    pub base: u64,
    /// The cluster on which the space was created.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub cluster: Value,
    /// A freeze over all names: the record of a freeze.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub frozen: Value,
    /// The place to which the space has moved: nothing is added to it any more.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub closed: Value,
    /// Members that this program doesn't know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The version of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Cell {
    /// The request that wrote it.
    #[serde(default)]
    pub op: String,
    /// The mode, which says how many may hold; absent is exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The size of a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
    /// The request that this cell was rewritten to void, if that was the purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// Members that this program doesn't know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Exclusive mode, as written in a cell.
const EXCLUSIVE: &str = "exclusive";

/// A waiter: the value of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Waiter {
    /// The owner.
    pub owner: String,
    /// The agent of the owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// Its machine.
    #[serde(default)]
    pub host: String,
    /// Its process.
    #[serde(default)]
    pub pid: i64,
    /// Start time of that process in clock ticks since boot.
    #[serde(default)]
    pub pid_start: i64,
    /// Start of the wait, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// The reason, in the waiter's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The holds that it already has: `name=lock_id,…`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holds: String,
    /// Members that this program doesn't know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it has only strings, numbers and JSON")
}

impl Meta {
    /// The first version of a new space.
    pub fn new(id: &str) -> Self {
        Self {
            format: FORMAT,
            id: id.into(),
            base: 0,
            cluster: Value::Null,
            frozen: Value::Null,
            closed: Value::Null,
            extra: Map::new(),
        }
    }

    /// Reads the value of `meta`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The value of `meta`.
    pub fn encode(&self) -> Vec<u8> {
        bytes(self)
    }
}

impl Cell {
    /// Reads the value of a cell.
    pub fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// Reports whether at most one member may hold.
    pub fn is_exclusive(&self) -> bool {
        self.mode.as_deref().is_none_or(|mode| mode == EXCLUSIVE) && self.slots.is_none()
    }

    /// The value of the next version, written by `op`.
    pub fn rewritten(&self, op: Op) -> Vec<u8> {
        bytes(&Self { op: alloc::format!("{op}"), void: None, ..self.clone() })
    }

    /// The value of a version whose only purpose is that `op` can no longer be made.
    pub fn voiding(&self, op: Op) -> Vec<u8> {
        bytes(&Self { void: Some(alloc::format!("{op}")), ..self.clone() })
    }
}

impl Waiter {
    /// Reads the value of a ticket.
    pub fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The value of a ticket.
    pub fn encode(&self) -> Vec<u8> {
        bytes(self)
    }
}

/// The token of a record when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The hold keeps its token: the number is written out.
    Keep,
    /// The write draws the token: only the base is written.
    Draw {
        /// `base` of `meta` at the draw.
        base: u64,
    },
}

/// The value of a member or a freeze.
pub fn encode(hold: &Hold, token: Token) -> Vec<u8> {
    let mut written = Hold { pulse: hold.pulse.map(|_| GUARDED), ..hold.clone() };
    if let Token::Draw { base } = token {
        written.token = None;
        written.extra.insert(BASE.into(), base.into());
    }
    record::encode(&written)
}

const BASE: &str = "base";

/// Reads the value of a member or a freeze that was written at `since`.
pub fn parse(value: &[u8], since: Rev) -> Parsed {
    match record::parse(value) {
        Parsed::Hold(mut hold) => {
            let base = hold.extra.remove(BASE).and_then(|base| base.as_u64());
            hold.token = hold.token.or_else(|| Fence::new(base?.checked_add(since.0)?));
            if let Some(parts) = &mut hold.parts {
                parts.edited = false;
            }
            Parsed::Hold(hold)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_members_of_meta_cell_and_ticket_survive() {
        let meta = br#"{"format":1,"id":"9f","base":5,"closed":"files","later":[1,2]}"#;
        let read = Meta::parse(meta).expect("a space");
        assert_eq!((read.base, read.closed.as_str()), (5, Some("files")));
        assert_eq!(Meta::parse(&read.encode()), Some(read.clone()));
        assert_eq!(read.extra.get("later"), Some(&serde_json::json!([1, 2])));

        let cell = Cell::parse(br#"{"op":"a","labels":["x"]}"#).expect("a cell");
        let next = Cell::parse(&cell.rewritten(Op(1))).expect("a cell");
        assert_eq!((next.extra.clone(), next.op.len()), (cell.extra, 32));
        assert_eq!(Cell::parse(&next.voiding(Op(2))).map(|cell| cell.op), Some(next.op));

        let waiter = Waiter::parse(br#"{"owner":"alice","weight":2}"#).expect("a ticket");
        assert_eq!(Waiter::parse(&waiter.encode()), Some(waiter));
    }

    #[test]
    fn a_rewrite_ends_what_an_earlier_cell_voided() {
        let void = Cell::parse(&Cell::default().voiding(Op(2))).expect("a cell");
        assert_eq!(Cell::parse(&void.rewritten(Op(3))).and_then(|cell| cell.void), None);
    }

    #[test]
    fn a_cell_of_another_mode_is_not_exclusive() {
        for (text, exclusive) in [
            (r"{}", true),
            (r#"{"mode":"exclusive"}"#, true),
            (r#"{"mode":"shared"}"#, false),
            (r#"{"slots":4}"#, false),
        ] {
            let cell = Cell::parse(text.as_bytes()).expect("a cell");
            assert_eq!(cell.is_exclusive(), exclusive, "{text}");
        }
    }

    #[test]
    fn a_drawn_token_is_base_and_revision_and_a_kept_one_is_written_out() {
        let hold = Hold { owner: "alice".into(), token: Fence::new(7), ..Hold::blank() };
        let token = |value: &[u8]| match parse(value, Rev(30)) {
            Parsed::Hold(hold) => (hold.token.map(Fence::get), hold.extra.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(token(&encode(&hold, Token::Keep)), (Some(7), 0));
        assert_eq!(token(&encode(&hold, Token::Draw { base: 100 })), (Some(130), 0));
    }

    #[test]
    fn a_record_without_token_and_base_has_no_token() {
        let hold = Hold { owner: "alice".into(), ..Hold::blank() };
        let Parsed::Hold(read) = parse(&encode(&hold, Token::Keep), Rev(3)) else { panic!() };
        assert_eq!(read.token, None, "a freeze draws none");
    }
}
