//! One machine and one hold that is stored on it. Each test changes what it is about.

use jiff::Timestamp;
use lokt_core::hold::{Fence, Hold, LockId, Part, Parts, PulseRef, RECORD_VERSION};
use serde_json::Map;

/// The `statfs` magic number of ext4: only one kernel writes to it.
pub(crate) const EXT4: u64 = 0xef53;

/// The host on which everything happens, unless a test says otherwise.
pub(crate) const HOST: &str = "vm";

/// Its boot.
pub(crate) const BOOT: &str = "boot-1";

/// A wall-clock time, as a test writes it.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("tests write good times")
}

/// A token, as a test writes it.
pub(crate) fn fence(number: u64) -> Fence {
    Fence::new(number).expect("tests write good tokens")
}

/// A guard's hold by `owner`, endless, written at 17:59:50.25.
pub(crate) fn stored(owner: &str) -> Hold {
    let since = at("2026-11-15T17:59:50.25Z");
    Hold {
        version: RECORD_VERSION,
        name: "build".into(),
        lock_id: LockId::from_text("5e0000000000000000000000000000f1"),
        owner: owner.into(),
        host: HOST.into(),
        pid: 100,
        pid_start: 1_000,
        agent_id: "agent-old".into(),
        acquired: Some(since),
        ttl_sec: 0,
        expires_at: None,
        token: Some(fence(7)),
        parts: Some(Parts {
            process: Some(Part { since, ttl_sec: None, clock_ms: Some(490_000) }),
            owner: None,
            edited: false,
        }),
        pulse: Some(PulseRef { number: 3, dev: 66, ino: 1234 }),
        boot_id: Some(BOOT.into()),
        pid_ns: Some(1),
        fs: Some(EXT4),
        held_since: Some(at("2026-11-15T17:00:00Z")),
        reason: Some("nightly build".into()),
        extra: Map::new(),
    }
}
