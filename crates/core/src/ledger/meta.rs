//! The default duration of a claim, from `meta.json` beside the ledger.

use alloc::format;
use alloc::string::String;
use serde_json::{Map, Value};

use super::members::Members;
use crate::duration;

/// Maximum size of `meta.json` in bytes.
pub const META_BYTES_MAX: usize = 1 << 20;
/// Default duration of a claim in seconds.
pub const LOCK_TIMEOUT_SEC: u64 = 5 * 60;
/// Maximum documented duration of a claim in seconds.
pub const LOCK_TIMEOUT_SEC_MAX: u64 = 60 * 60;

/// Returns the duration that the file's bytes ask for, in whole seconds, and a description of what
/// is odd about it.
pub fn lock_timeout_sec(bytes: &[u8]) -> (u64, Option<String>) {
    let members: Map<String, Value> = match serde_json::from_slice(bytes) {
        Ok(members) => members,
        Err(error) => {
            return (LOCK_TIMEOUT_SEC, Some(format!("meta.json is no JSON object ({error}); claims last 5m")));
        }
    };
    let members = Members::of(&members);
    let nanos = match (members.get("lock_timeout"), members.get("config")) {
        (Some(Value::String(text)), _) => duration::parse(text).ok().map(|duration| duration.as_nanos()),
        // The af program reads zero as "not set".
        (Some(Value::Number(number)), _) if number.as_u64() == Some(0) => return (LOCK_TIMEOUT_SEC, None),
        (Some(Value::Number(number)), _) => number.as_u64().map(u128::from),
        (Some(_), _) => None,
        (None, Some(Value::Object(config))) => match Members::of(config).get("lock_timeout_seconds") {
            Some(seconds) => seconds.as_u64().map(|seconds| u128::from(seconds) * 1_000_000_000),
            None => return (LOCK_TIMEOUT_SEC, None),
        },
        (None, _) => return (LOCK_TIMEOUT_SEC, None),
    };
    let Some(nanos) = nanos else {
        let why = "the lock_timeout in meta.json is neither nanoseconds nor a duration like 5m; claims last 5m";
        return (LOCK_TIMEOUT_SEC, Some(why.into()));
    };
    let seconds = u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX);
    let clamped = seconds.clamp(1, LOCK_TIMEOUT_SEC_MAX);
    let is_odd = nanos < 1_000_000_000 || seconds > LOCK_TIMEOUT_SEC_MAX;
    let warning = format!("the lock_timeout in meta.json is not between 1s and 1h; claims last {clamped}s");
    (clamped, is_odd.then_some(warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_lease_is_read() {
        for (json, seconds) in [
            (r#"{"version":"1.0"}"#, 300),
            (r#"{"lock_timeout":"5m"}"#, 300),
            (r#"{"lock_timeout":"90s"}"#, 90),
            (r#"{"lock_timeout":"1h0m0s"}"#, 3600),
            (r#"{"lock_timeout":90000000000}"#, 90),
            (r#"{"lock_timeout":1500000000}"#, 2),
            (r#"{"lock_timeout":0}"#, 300),
            (r#"{"lock_timeout":null}"#, 300),
            (r#"{"config":{"lock_timeout_seconds":45}}"#, 45),
            (r#"{"config":{}}"#, 300),
        ] {
            assert_eq!(lock_timeout_sec(json.as_bytes()), (seconds, None), "{json}");
        }
    }

    #[test]
    fn what_is_out_of_range_or_no_lease_is_told() {
        for (json, seconds) in [
            (r#"{"lock_timeout":"2h"}"#, 3600),
            (r#"{"lock_timeout":"10ms"}"#, 1),
            (r#"{"lock_timeout":1}"#, 1),
            (r#"{"lock_timeout":18446744073709551615}"#, 3600),
            (r#"{"config":{"lock_timeout_seconds":18446744073709551615}}"#, 3600),
            (r#"{"lock_timeout":"soon"}"#, 300),
            (r#"{"lock_timeout":"-5m"}"#, 300),
            (r#"{"lock_timeout":-5}"#, 300),
            (r#"{"lock_timeout":[]}"#, 300),
            (r"[]", 300),
            ("", 300),
        ] {
            let (lasts, warning) = lock_timeout_sec(json.as_bytes());
            assert_eq!(lasts, seconds, "{json}");
            assert!(warning.is_some(), "nobody was told about {json}");
        }
    }
}
