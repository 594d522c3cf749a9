//! Who asks.

use lokt_core::hold::Identity;

use super::holds::{BOOT, EXT4, HOST};

/// `owner`, asking from a fresh process on [`HOST`].
pub(crate) fn asker(owner: &str) -> Identity {
    Identity {
        owner: owner.into(),
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
