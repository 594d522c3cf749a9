//! A claim in a file of its own, `locks/*.lock`, as some programs may write them. lokt reads and
//! respects these files, and writes none.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::members::Members;
use super::moment;
use crate::denial::Holder;
use crate::hold::{Hold, Identity, Part, Parts, RECORD_VERSION};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Moment};

/// Maximum size of such a file in bytes.
pub const LOCK_FILE_BYTES_MAX: usize = 64 << 10;

/// Content of such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// The node.
    pub node: String,
    /// The owner.
    pub owner: String,
    /// Time of acquisition.
    pub acquired_at: Timestamp,
    /// Expiry time.
    pub expires_at: Timestamp,
}

impl LockFile {
    /// Parses the file's bytes. All four members must be there; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let members = Members::of(&members);
        let text = |name: &str| {
            let text = members.text(name)?.filter(|text| !text.trim().is_empty());
            text.ok_or_else(|| format!("it has no {name}"))
        };
        let time = |name: &str| {
            let text = text(name)?;
            moment::parse(text).ok_or_else(|| format!("its {name} is {text:?}, which is no time"))
        };
        Ok(Self {
            node: text("node_id")?.to_owned(),
            owner: text("owner")?.to_owned(),
            acquired_at: time("acquired_at")?,
            expires_at: time("expires_at")?,
        })
    }

    /// Returns the claim as a hold that expires by the wall clock.
    pub fn hold(&self) -> Hold {
        let part = Part { since: self.acquired_at, ttl_sec: None, clock_ms: None };
        Hold {
            version: RECORD_VERSION,
            name: self.node.clone(),
            owner: self.owner.clone(),
            acquired: Some(self.acquired_at),
            ttl_sec: self.expires_at.duration_since(self.acquired_at).as_secs().max(0),
            expires_at: Some(self.expires_at),
            parts: Some(Parts { process: None, owner: Some(part), edited: true }),
            held_since: Some(self.acquired_at),
            ..Hold::blank()
        }
    }

    /// Returns the claim as a hold, with its state.
    pub fn holder(&self, now: &Moment, me: &Identity) -> Holder {
        let hold = self.hold();
        let elapsed = Elapsed::of(&hold, now, me);
        Holder { hold, liveness: Liveness::Unknown, elapsed }
    }
}
