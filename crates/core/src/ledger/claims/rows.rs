//! A table of claims as rows for a cache: lists instead of objects and numbers instead of times,
//! because there may be many.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{BootClock, Claim, End};
use crate::ledger::seq::Seq;

/// A claim in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(String, String, (u64, u64), Option<At>, Option<At>, EndRow, Option<(String, u64, u64)>, String, i64);

/// A time: seconds since 1970 and nanoseconds.
type At = (i64, i32);

/// A claim's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum EndRow {
    /// A time.
    #[serde(rename = "at")]
    At(At),
    /// A text that is not a time.
    #[serde(rename = "text")]
    Text(String),
}

impl Row {
    pub(super) fn of(node: &str, claim: &Claim) -> Self {
        let at = |at: Timestamp| (at.as_second(), at.subsec_nanosecond());
        let end = match &claim.end {
            End::At(end) => EndRow::At(at(*end)),
            End::Unreadable(text) => EndRow::Text(text.clone()),
        };
        let clock = claim.clock.as_ref().map(|clock| (clock.boot_id.clone(), clock.boottime_ms, clock.ttl_sec));
        Self(
            node.to_owned(),
            claim.owner.clone(),
            (claim.token.get(), claim.seq.get()),
            claim.since.map(at),
            claim.renewed.map(at),
            end,
            clock,
            claim.host.clone(),
            claim.pid,
        )
    }

    /// Returns the node and its claim; `None` if the row is invalid.
    pub(super) fn claim(self) -> Option<(String, Claim)> {
        let Self(node, owner, (token, seq), since, renewed, end, clock, host, pid) = self;
        let at = |(seconds, nanos): At| Timestamp::new(seconds, nanos).ok();
        let time = |time: Option<At>| time.map_or(Some(None), |time| at(time).map(Some));
        let claim = Claim {
            owner,
            token: Seq::new(token)?,
            seq: Seq::new(seq)?,
            since: time(since)?,
            renewed: time(renewed)?,
            end: match end {
                EndRow::At(end) => End::At(at(end)?),
                EndRow::Text(text) => End::Unreadable(text),
            },
            clock: clock.map(|(boot_id, boottime_ms, ttl_sec)| BootClock { boot_id, boottime_ms, ttl_sec }),
            host,
            pid,
        };
        Some((node, claim))
    }
}
