//! Records as bytes: two as the Go program leaves them on disk, two as we do.

/// `lokt lock foo --ttl 5m` by the Go program in New York: local offset, nine digits less trailing zeros.
pub(crate) const GO_LOCK: &str = r#"{
  "version": 1,
  "name": "foo",
  "lock_id": "cdc1a4f09be24b4d8e3f5a6b7c8d0e68",
  "owner": "alice",
  "host": "vm",
  "pid": 19491,
  "pid_start_ns": 44508,
  "agent_id": "agent-de35",
  "acquired_ts": "2026-11-15T13:15:16.22130836-05:00",
  "ttl_sec": 300,
  "expires_at": "2026-11-15T13:20:16.22130836-05:00"
}
"#;

/// The same program a year earlier: no version, no lock id, no agent, no start time, no end.
pub(crate) const GO_LOCK_OF_2025: &str = r#"{
  "name": "deploy",
  "owner": "ci",
  "host": "runner-7",
  "pid": 812,
  "acquired_ts": "2025-11-15T18:15:16Z",
  "ttl_sec": 600
}
"#;

/// A guard beside a `lock`, with members that another program added.
pub(crate) const GUARD_AND_OWNER: &str = r#"{
  "version": 1,
  "name": "build",
  "lock_id": "5e0000000000000000000000000000f1",
  "owner": "alice",
  "host": "vm",
  "pid": 100,
  "pid_start_ns": 1000,
  "agent_id": "agent-old",
  "acquired_ts": "2026-11-15T18:00:00.5Z",
  "ttl_sec": 300,
  "expires_at": "2026-11-15T18:05:00.5Z",
  "fencing_token": 7,
  "parts": {
    "for": "2026-11-15T18:00:00.5Z 2026-11-15T18:05:00.5Z",
    "process": {
      "since": "2026-11-15T18:00:00.5Z",
      "ttl_sec": 60,
      "monotonic_ms": 500000
    },
    "owner": {
      "since": "2026-11-15T18:00:00.5Z",
      "ttl_sec": 300,
      "boottime_ms": 700000
    }
  },
  "pulse": {
    "n": 12,
    "dev": 66,
    "ino": 1234
  },
  "boot_id": "boot-1",
  "pid_ns": 1,
  "fs": 61267,
  "held_since": "2026-11-15T17:00:00Z",
  "reason": "nightly build",
  "alpha": {
    "b": 1
  },
  "zeta": [
    1,
    null
  ]
}
"#;

/// A `lock` without an end, by somebody of whom little is known.
pub(crate) const ENDLESS_LOCK: &str = r#"{
  "version": 1,
  "name": "build",
  "owner": "alice",
  "host": "vm",
  "pid": 100,
  "acquired_ts": "2026-11-15T18:00:00Z",
  "parts": {
    "for": "2026-11-15T18:00:00Z -",
    "owner": {
      "since": "2026-11-15T18:00:00Z"
    }
  }
}
"#;
