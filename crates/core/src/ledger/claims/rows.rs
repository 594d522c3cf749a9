//! A table of claims as rows, for a cache.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::{BootClock, Claim, End};
use crate::ledger::moment;
use crate::ledger::seq::Seq;

/// A claim in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    node: String,
    owner: String,
    token: u64,
    seq: u64,
    since: Option<String>,
    renewed: Option<String>,
    end: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock: Option<BootClock>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    host: String,
    #[serde(default)]
    pid: i64,
    /// The end is a text that is no time.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    unreadable: bool,
}

impl Row {
    pub(super) fn of(node: &str, claim: &Claim) -> Self {
        let (end, unreadable) = match &claim.end {
            End::At(end) => (moment::show(*end), false),
            End::Unreadable(text) => (text.clone(), true),
        };
        Self {
            node: node.to_owned(),
            owner: claim.owner.clone(),
            token: claim.token.get(),
            seq: claim.seq.get(),
            since: claim.since.map(moment::show),
            renewed: claim.renewed.map(moment::show),
            end,
            clock: claim.clock.clone(),
            host: claim.host.clone(),
            pid: claim.pid,
            unreadable,
        }
    }

    pub(super) fn claim(self) -> Option<(String, Claim)> {
        let time = |text: Option<String>| text.map_or(Some(None), |text| moment::parse(&text).map(Some));
        let end = if self.unreadable { End::Unreadable(self.end) } else { End::At(moment::parse(&self.end)?) };
        let claim = Claim {
            owner: self.owner,
            token: Seq::new(self.token)?,
            seq: Seq::new(self.seq)?,
            since: time(self.since)?,
            renewed: time(self.renewed)?,
            end,
            clock: self.clock,
            host: self.host,
            pid: self.pid,
        };
        Some((self.node, claim))
    }
}
