//! Who waits for a name: `state/line/<name>/<n>`, one pulse file each, in the order of their numbers.

use lokt_core::name::LockName;
use lokt_core::pulse::{OFFER_MS_MAX, Pulse, PulseState};
use lokt_core::record::RECORD_BYTES_MAX;
use lokt_core::time::Moment;

use super::Store;
use crate::error::{At as _, Error};
use crate::sys::disk::Entry;
use crate::sys::machine::ProcessStat;

/// The lines, a directory per name.
pub(crate) const LINE_DIR: &str = "state/line";

/// A living process in line.
#[derive(Debug, Clone)]
pub struct Waiter {
    /// Its ticket.
    pub number: u64,
    /// Who it is.
    pub pulse: Pulse,
    /// Does it make others wait? Not while it is stopped or hasn't taken what it was offered.
    pub counts: bool,
}

pub(crate) fn pulse_path(name: &str, number: u64) -> String {
    format!("{LINE_DIR}/{name}/{number}")
}

impl Store<'_> {
    /// The living waiters for `name`, first come first.
    pub(crate) fn waiters(&self, name: &LockName, now: &Moment) -> Result<Vec<Waiter>, Error> {
        let dir = format!("{LINE_DIR}/{name}");
        let entries = self.disk.list(&dir).at("list", self.root, &dir)?;
        let mut numbers: Vec<u64> = entries.iter().filter_map(|entry| entry.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers.into_iter().filter_map(|number| self.waiter(name, number, now)).collect())
    }

    fn waiter(&self, name: &LockName, number: u64, now: &Moment) -> Option<Waiter> {
        let path = pulse_path(name.as_str(), number);
        // Nobody keeps it locked: its process is gone.
        if !self.disk.probe(&path).ok()??.locked {
            return None;
        }
        let Ok(Entry::File(content)) = self.disk.read(&path, RECORD_BYTES_MAX) else { return None };
        let pulse = Pulse::parse(&content.bytes).filter(|pulse| pulse.state == PulseState::Waiting)?;
        let ignored_offer = pulse.offered_ms.is_some_and(|at| now.boottime_ms.saturating_sub(at) > OFFER_MS_MAX);
        let visible = pulse.pid_ns.is_some() && pulse.pid_ns == self.me.pid_ns;
        let stopped = visible && self.machine.process(pulse.process.pid).is_some_and(ProcessStat::is_stopped);
        Some(Waiter { number, pulse, counts: !ignored_offer && !stopped })
    }
}
