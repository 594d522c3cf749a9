//! The clock that a guard measures leases with.

use lokt_sys::machine::Machine;

/// A clock of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockKind {
    /// `CLOCK_MONOTONIC`, which stops while the machine is suspended, as commands do: for holds.
    #[default]
    Monotonic,
    /// `CLOCK_BOOTTIME`, which keeps running: for leases that others may take when they have
    /// expired.
    BootTime,
}

impl ClockKind {
    /// Returns its current time, in milliseconds.
    pub fn now_ms(self, machine: &dyn Machine) -> u64 {
        let now = machine.now();
        match self {
            Self::Monotonic => now.monotonic_ms,
            Self::BootTime => now.boottime_ms,
        }
    }
}
