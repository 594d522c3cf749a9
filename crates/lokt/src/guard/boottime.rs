//! Time that goes on while the machine sleeps: that of whatever others take when it is over.

use std::io;
use std::sync::Arc;

use lokt_core::liveness::Process;
use lokt_core::time::Moment;

use crate::sys::machine::{Machine, ProcessStat};

/// A machine whose monotonic clock is `CLOCK_BOOTTIME`.
pub(super) struct BootTime(pub(super) Arc<dyn Machine>);

impl Machine for BootTime {
    fn now(&self) -> Moment {
        let now = self.0.now();
        Moment { monotonic_ms: now.boottime_ms, ..now }
    }

    fn random(&self) -> io::Result<u128> {
        self.0.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        self.0.process(pid)
    }

    fn process_in(&self, space: u64, pid: i64, start: i64) -> Process {
        self.0.process_in(space, pid, start)
    }
}
