//! One lease, as it is stored, and who asks about it. Each test changes what it is about.

use jiff::Timestamp;
use lokt_core::hold::{Fence, Identity, LockId, PulseRef};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{Binding, HolderId, Record};
use lokt_core::time::Moment;

/// The machine on which everything happens, unless a test says otherwise; its boot, and its disk.
const HOST: &str = "vm";
const BOOT: &str = "boot-1";
const EXT4: u64 = 0xef53;

/// The session that has the lease.
pub(crate) const SESSION: &str = "0000000000000000000000000000abcd";
/// What its secret makes of the lease's id.
pub(crate) const NONCE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
/// `CLOCK_BOOTTIME` when it was last renewed.
pub(crate) const RENEWED_MS: u64 = 700_000;

/// A wall-clock time, as a test writes it.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("tests write good times")
}

/// A token, as a test writes it.
pub(crate) fn fence(number: u64) -> Fence {
    Fence::new(number).expect("tests write good tokens")
}

/// A lease of a session, renewed at 18:00:00.25.
pub(crate) fn leased() -> Record {
    let holder = HolderId { host: HOST.into(), user: "alice".into(), pid: 100, start: 1_000 };
    Record {
        lock_id: LockId::from_text("5e0000000000000000000000000000f1"),
        worktree: "main".into(),
        holder_id: holder.text(),
        nonce: NONCE.into(),
        session_id: SESSION.into(),
        acquire_seq: 3,
        created_at: at("2026-11-15T17:59:00Z"),
        last_renewed_at: at("2026-11-15T18:00:00.25Z"),
        policy: LeasePolicy::DEFAULT,
        lease_expires_at: at("2026-11-15T18:00:30.25Z"),
        token: Some(fence(7)),
        binding: Some(Binding::Session),
        boot_id: Some(BOOT.into()),
        boottime_ms: Some(RENEWED_MS),
        pid_ns: Some(1),
        fs: Some(EXT4),
        pulse: None,
        agent_id: None,
        purpose: None,
        evidence: None,
    }
}

/// The same, of a `lease run`.
pub(crate) fn run_lease() -> Record {
    Record { binding: Some(Binding::Process), pulse: Some(PulseRef { number: 3, dev: 66, ino: 1234 }), ..leased() }
}

/// So long after the renewal.
pub(crate) fn later(ms: u64) -> Moment {
    Moment { wall: at("2026-11-15T18:00:00.25Z"), monotonic_ms: 500_000 + ms, boottime_ms: RENEWED_MS + ms }
}

/// Somebody on the same machine.
pub(crate) fn neighbour() -> Identity {
    Identity {
        owner: "bob".into(),
        host: HOST.into(),
        pid: 4242,
        pid_start: 99_000,
        agent_id: "agent-new".into(),
        boot_id: Some(BOOT.into()),
        pid_ns: Some(1),
        boot_clocks: true,
        fs: Some(EXT4),
    }
}
