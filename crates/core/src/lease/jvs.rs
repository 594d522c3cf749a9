//! The lock of `jvs`, `worktrees/<name>/lock.json`: read as a record, judged as that program does,
//! and written for a lease of ours.
//!
//! `jvs` knows only the wall clock, and its lock ends only by `expires_at`. So its lock is judged
//! by that, plus the allowance for clocks that differ.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use serde_json::{Value, json};

use super::evidence::{Evidence, Verdict};
use super::json::{Ordered, link_number, object, text};
use super::policy::LeasePolicy;
use super::record::{HolderId, Parsed, Record};
use super::slot::Tag;
use crate::hold::{Fence, LockId};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Lease, Moment, millis_between, parse_wall, plus_millis, show_wall};

/// Reads a lock of `jvs`. Without `holder_nonce` or `expires_at` it is invalid.
pub fn parse(bytes: &[u8]) -> Parsed {
    match record(bytes) {
        Ok(record) => Parsed::Record(alloc::boxed::Box::new(record)),
        Err(why) => Parsed::Corrupt(why),
    }
}

fn record(bytes: &[u8]) -> Result<Record, String> {
    let members = object(bytes)?;
    let wall = |name: &str| members.get(name).and_then(Value::as_str).and_then(parse_wall);
    let nonce = text(&members, "holder_nonce").filter(|nonce| !nonce.is_empty()).ok_or("it has no holder_nonce")?;
    let expires_at = wall("expires_at").ok_or("its expires_at is no time")?;
    let acquired_at = wall("acquired_at").unwrap_or(expires_at).min(expires_at);
    let lease_ms = u64::try_from(millis_between(acquired_at, expires_at)).unwrap_or(0);
    let lease_ms = lease_ms.min(LeasePolicy::LEASE_MS_MAX);
    let holder = HolderId { user: "jvs".into(), ..HolderId::default() };
    Ok(Record {
        lock_id: LockId::from_text(nonce.clone()),
        worktree: text(&members, "worktree_name").unwrap_or_default(),
        holder_id: holder.text(),
        nonce,
        session_id: text(&members, "session_id").unwrap_or_default(),
        acquire_seq: 0,
        created_at: acquired_at,
        last_renewed_at: acquired_at,
        policy: LeasePolicy { lease_ms, ..LeasePolicy::DEFAULT },
        lease_expires_at: plus_millis(acquired_at, lease_ms),
        token: link_number(members.get("fencing_token")).and_then(Fence::new),
        binding: None,
        boot_id: None,
        boottime_ms: None,
        pid_ns: None,
        fs: None,
        pulse: None,
        agent_id: None,
        purpose: text(&members, "purpose").filter(|purpose| !purpose.is_empty()),
        evidence: None,
    })
}

/// Judges a lock of `jvs` at `now`: it lasts until its `expires_at`, and for others until K + G
/// later.
pub fn judge(record: &Record, now: &Moment) -> Verdict {
    let policy = record.policy;
    let since_ms = millis_between(record.lease_expires_at, now.wall);
    let doubt_ms = i64::try_from(policy.skew_ms + policy.grace_ms).unwrap_or(i64::MAX);
    let owner = match u64::try_from(since_ms.saturating_sub(doubt_ms)) {
        Ok(over_ms) if over_ms > 0 => Lease::Over(over_ms),
        _ => Lease::Left(u64::try_from(doubt_ms.saturating_sub(since_ms)).unwrap_or(0).saturating_add(1)),
    };
    Verdict {
        elapsed: Elapsed { process: Lease::Absent, owner },
        liveness: Liveness::Unknown,
        evidence: Some(Evidence::WallClock),
        in_grace: since_ms > 0 && matches!(owner, Lease::Left(_)),
        retry_after_ms: if let Lease::Left(ms) = owner { Some(ms) } else { None },
        skew_ms: None,
    }
}

/// Returns a lease of ours as a lock of `jvs`. By the tag, which that program ignores, we recognise
/// it as ours.
pub fn to_bytes(record: &Record, tag: &Tag) -> Vec<u8> {
    let mut entries = vec![
        ("worktree_name", Value::from(record.worktree.as_str())),
        ("holder_nonce", record.nonce.as_str().into()),
        ("session_id", record.session_id.as_str().into()),
        ("acquired_at", show_wall(record.created_at).into()),
        ("expires_at", show_wall(record.lease_expires_at).into()),
        ("fencing_token", record.token.map_or(0, Fence::get).into()),
    ];
    entries.extend(record.purpose.as_deref().map(|purpose| ("purpose", purpose.into())));
    entries.push(("chain", json!({"id": tag.chain, "number": tag.number})));
    let mut bytes = serde_json::to_vec_pretty(&Ordered(entries)).expect("JSON values are JSON");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::lease::slot::tag;

    const THEIRS: &str = r#"{
  "worktree_name": "main",
  "holder_nonce": "5f0c3a52-3d5d-4c7b-9a3c-0a5f5d7b1c11",
  "session_id": "0d9e2f60-8a4b-4d21-bb0e-6d7a2a6c5e90",
  "acquired_at": "2026-02-19T00:00:00.123456789Z",
  "expires_at": "2026-02-19T00:05:00.123456789Z",
  "fencing_token": 3,
  "purpose": "build"
}"#;

    fn theirs() -> Record {
        match parse(THEIRS.as_bytes()) {
            Parsed::Record(record) => *record,
            Parsed::Corrupt(why) => panic!("it is a lock of jvs: {why}"),
        }
    }

    fn at(wall: &str) -> Moment {
        Moment { wall: parse_wall(wall).expect("a time"), monotonic_ms: 0, boottime_ms: 0 }
    }

    #[test]
    fn a_lock_of_jvs_is_read() {
        let record = theirs();
        assert_eq!((record.worktree.as_str(), record.token.map(Fence::get)), ("main", Some(3)));
        assert_eq!((record.policy.lease_ms, record.purpose.as_deref()), (300_000, Some("build")));
        assert_eq!(HolderId::parse(&record.holder_id).user, "jvs");
        for bad in
            ["", "{}", "[]", r#"{"holder_nonce":"x"}"#, r#"{"holder_nonce":"","expires_at":"2026-02-19T00:05:00Z"}"#]
        {
            assert!(matches!(parse(bad.as_bytes()), Parsed::Corrupt(_)), "{bad} was taken for a lock");
        }
    }

    #[test]
    fn a_lock_of_jvs_ends_by_the_wall_clock() {
        for (now, lives, in_grace) in [
            ("2026-02-19T00:04:59Z", true, false),
            ("2026-02-19T00:05:01Z", true, true),
            ("2026-02-19T00:05:03.1Z", true, true),
            ("2026-02-19T00:05:03.2Z", false, false),
            ("2026-03-19T00:00:00Z", false, false),
        ] {
            let verdict = judge(&theirs(), &at(now));
            assert_eq!((!verdict.is_over(), verdict.in_grace), (lives, in_grace), "{now}: {verdict:?}");
            assert_eq!(verdict.retry_after_ms.is_some(), lives, "{now}");
        }
    }

    #[test]
    fn a_lock_without_end_lasts_for_a_day() {
        let endless = THEIRS.replace("2026-02-19T00:05", "9026-02-19T00:05");
        let Parsed::Record(record) = parse(endless.as_bytes()) else { panic!("it is a lock of jvs") };
        assert!(!judge(&record, &at("2026-02-19T23:59:59Z")).is_over());
        assert!(judge(&record, &at("2026-02-20T00:01:00Z")).is_over());
    }

    #[test]
    fn a_lease_of_ours_reads_back_as_a_lock_of_jvs_and_has_its_tag() {
        let tag_of = Tag { chain: "0123456789abcdef0123456789abcdef".into(), number: 7 };
        let bytes = to_bytes(&theirs(), &tag_of);
        assert_eq!(tag(&bytes), Some(tag_of));
        assert_eq!(parse(&bytes), Parsed::Record(alloc::boxed::Box::new(theirs())));
        assert_eq!(tag(THEIRS.as_bytes()), None, "theirs has none");
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), second in any::<i32>()) {
            if let Parsed::Record(record) = parse(&bytes) {
                let wall = Timestamp::from_second(i64::from(second)).expect("a time");
                let _ = judge(&record, &Moment { wall, monotonic_ms: 0, boottime_ms: 0 });
            }
        }
    }
}
