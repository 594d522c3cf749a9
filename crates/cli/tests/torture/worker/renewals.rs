//! Until when a hold with a lease lasts by now, as what its holder renews says. Whoever reads that its own token is there may believe it: nobody
//! lets another in before.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::section::lease_end;

/// A claim is renewed by an event; among so many of the last ones it is looked for.
const EVENTS: usize = 40;

/// What a holder renews.
pub(super) enum Record {
    /// That of a named lock.
    Lock(String),
    /// An event of a ledger.
    Claim,
    /// That of a worktree's lease.
    Lease(String),
}

impl Record {
    /// The end of the lease of this token, in nanoseconds, if it can be found.
    pub(super) fn end(&self, base: &Path, token: u64) -> Option<u64> {
        match self {
            Self::Lock(name) => Some(lease_end(base, name, Some(token))),
            Self::Claim => claim_end(base, token),
            Self::Lease(worktree) => {
                let record = read(&base.join(format!(".jvs/locks/{worktree}.lock")))?;
                let is_ours = record["fencing_token"].as_u64() == Some(token);
                is_ours.then(|| end(&record, "holder_boottime_ms", record["lease_duration_ms"].as_u64()?)).flatten()
            }
        }
    }
}

fn claim_end(base: &Path, token: u64) -> Option<u64> {
    let entries = fs::read_dir(base.join("ledger")).ok()?.flatten();
    let is_event = |name: &String| name.strip_prefix("event-").is_some_and(|rest| rest.strip_suffix(".json").is_some());
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(is_event);
    names.sort_unstable();
    let renewal = |name: &String| {
        let event = read(&base.join("ledger").join(name))?;
        let is_ours = event["type"] == "lock_acquired" && event["refresh_of"].as_u64() == Some(token);
        is_ours.then(|| end(&event, "boottime_ms", event["ttl_sec"].as_u64()? * 1_000)).flatten()
    };
    names.iter().rev().take(EVENTS).find_map(renewal)
}

/// The boot clock is ahead of the monotonic one by what the machine slept. It doesn't sleep during a run.
fn end(record: &Value, since: &str, lease_ms: u64) -> Option<u64> {
    Some((record[since].as_u64()? + lease_ms) * 1_000_000)
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
