//! The queue of a name: `state/line/<name>/<n>`, one pulse file for each waiter, in the order of
//! their numbers. A holder has its pulse in `state/held/<n>`. The rules of the queue are in
//! [`lokt_core::line`].

use lokt_core::line::{Ticket, ahead};
use lokt_core::name::LockName;
use lokt_core::pulse::Pulse;
use lokt_core::record::RECORD_BYTES_MAX;
use lokt_core::time::Moment;

use super::FileStore;
use crate::store::Waiter;
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error};
use lokt_sys::machine::ProcessStat;

/// Directory of the queues, with one directory per name.
pub(crate) const LINE_DIR: &str = "state/line";
/// Directory of the holders' pulses, which records name.
pub(crate) const HELD_DIR: &str = "state/held";

/// The queue of a name as it was found.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The living waiters, first come first: all of them, or those before the caller's own ticket.
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) rest: Rest,
}

/// The rest of a queue, for cleanup.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The tickets behind the caller's own, living or dead.
    pub(crate) behind: Vec<u64>,
    /// Tickets of dead processes.
    pub(crate) gone: Vec<u64>,
}

/// Returns the tickets of `queue`.
pub(super) fn tickets(queue: &[Waiter]) -> Vec<Ticket> {
    queue.iter().map(|waiter| waiter.ticket).collect()
}

/// Counts the waiters in `queue` that make the holder of ticket `mine` wait.
pub(super) fn ahead_of(mine: Option<u64>, queue: &[Waiter], now: &Moment) -> usize {
    ahead(&tickets(queue), mine, now.monotonic_ms).count()
}

pub(crate) fn line_dir(name: &str) -> String {
    format!("{LINE_DIR}/{name}")
}

pub(crate) fn ticket_path(name: &str, number: u64) -> String {
    format!("{LINE_DIR}/{name}/{number}")
}

pub(crate) fn held_path(number: u64) -> String {
    format!("{HELD_DIR}/{number}")
}

impl FileStore {
    /// Returns the queue of `name`. For a caller with a ticket, `mine`, only up to that: the
    /// waiters behind it are many and don't concern it.
    pub(crate) fn line(&self, name: &LockName, mine: Option<u64>) -> Result<Line, Error> {
        let dir = line_dir(name.as_str());
        let entries = self.disk.list(&dir).at("list", &self.root, &dir)?;
        let mut numbers: Vec<u64> = entries.iter().filter_map(|entry| entry.parse().ok()).collect();
        numbers.sort_unstable();
        let ahead = numbers.partition_point(|number| mine.is_none_or(|mine| *number < mine));
        let mut line = Line::default();
        line.rest.behind = numbers.split_off(ahead);
        line.rest.behind.retain(|number| Some(*number) != mine);
        for number in numbers {
            match self.waiter(name, number) {
                Seen::Waits(waiter) => line.waiters.push(*waiter),
                Seen::Gone => line.rest.gone.push(number),
                Seen::Nothing => {}
            }
        }
        Ok(line)
    }

    /// Returns the ticket of the waiter `number`, if it lives.
    pub(super) fn ticket(&self, name: &LockName, number: u64) -> Option<Ticket> {
        match self.waiter(name, number) {
            Seen::Waits(waiter) => Some(waiter.ticket),
            Seen::Gone | Seen::Nothing => None,
        }
    }

    /// Returns the tickets of dead waiters directly behind the caller's: a caller that leaves the
    /// queue may be the last to know of them.
    pub(super) fn gone_behind(&self, name: &LockName, behind: &[u64]) -> Vec<u64> {
        let is_gone = |number: &&u64| matches!(self.waiter(name, **number), Seen::Gone);
        behind.iter().take_while(is_gone).copied().collect()
    }

    fn waiter(&self, name: &LockName, number: u64) -> Seen {
        let path = ticket_path(name.as_str(), number);
        match self.disk.probe(&path) {
            Ok(Some(probe)) if probe.locked => {}
            // No process keeps it locked: its own is gone.
            Ok(Some(_)) => return Seen::Gone,
            Ok(None) | Err(_) => return Seen::Nothing,
        }
        let Ok(Entry::File(content)) = self.disk.read(&path, RECORD_BYTES_MAX) else { return Seen::Nothing };
        let Some(pulse) = Pulse::parse(&content.bytes) else { return Seen::Nothing };
        let visible = pulse.pid_ns.is_some() && pulse.pid_ns == self.me.pid_ns;
        // A dead process whose forked child keeps the ticket can't acquire anything either.
        let can_act = |stat: ProcessStat| !stat.is_stopped() && !stat.has_ended() && stat.may_be(pulse.process.start);
        let stopped = visible && !self.machine.process(pulse.process.pid).is_some_and(can_act);
        let ticket = Ticket { number, stopped, offered_ms: pulse.offered_ms };
        Seen::Waits(Box::new(Waiter { pulse, ticket }))
    }
}

enum Seen {
    Waits(Box<Waiter>),
    Gone,
    Nothing,
}
