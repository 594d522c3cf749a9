//! Who waits for a name: `state/line/<name>/<n>`, one pulse file each, in the order of their numbers. Who holds one has its pulse in
//! `state/held/<n>`. The rules of the line are in [`lokt_core::line`].

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

/// The lines, a directory per name.
pub(crate) const LINE_DIR: &str = "state/line";
/// The pulses of holders. Nobody lists them: records name them.
pub(crate) const HELD_DIR: &str = "state/held";

/// The line of a name as it was found.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The living, first come first: all of them, or those before one's own ticket.
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) rest: Rest,
}

/// The rest of a line, for those who clear it up.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The tickets behind one's own, whoever has them.
    pub(crate) behind: Vec<u64>,
    /// Tickets of processes that are gone.
    pub(crate) gone: Vec<u64>,
}

/// The tickets of `queue`.
pub(super) fn tickets(queue: &[Waiter]) -> Vec<Ticket> {
    queue.iter().map(|waiter| waiter.ticket).collect()
}

/// How many of `queue` make the holder of ticket `mine` wait.
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
    /// The line of `name`; for whoever has a ticket, `mine`, only as far as that: those behind are many and none of its business.
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

    /// The waiter `number`, if it lives.
    pub(super) fn ticket(&self, name: &LockName, number: u64) -> Option<Ticket> {
        match self.waiter(name, number) {
            Seen::Waits(waiter) => Some(waiter.ticket),
            Seen::Gone | Seen::Nothing => None,
        }
    }

    /// The tickets of the dead directly behind the caller's: whoever leaves the line is the last to know of them, perhaps.
    pub(super) fn gone_behind(&self, name: &LockName, behind: &[u64]) -> Vec<u64> {
        let is_gone = |number: &&u64| matches!(self.waiter(name, **number), Seen::Gone);
        behind.iter().take_while(is_gone).copied().collect()
    }

    fn waiter(&self, name: &LockName, number: u64) -> Seen {
        let path = ticket_path(name.as_str(), number);
        match self.disk.probe(&path) {
            Ok(Some(probe)) if probe.locked => {}
            // Nobody keeps it locked: its process is gone.
            Ok(Some(_)) => return Seen::Gone,
            Ok(None) | Err(_) => return Seen::Nothing,
        }
        let Ok(Entry::File(content)) = self.disk.read(&path, RECORD_BYTES_MAX) else { return Seen::Nothing };
        let Some(pulse) = Pulse::parse(&content.bytes) else { return Seen::Nothing };
        let visible = pulse.pid_ns.is_some() && pulse.pid_ns == self.me.pid_ns;
        // A dead process whose forked child keeps the ticket can't take anything either.
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
