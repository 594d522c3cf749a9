//! Evidence about the process behind a hold: its pulse, its pids.

use lokt_core::hold::{Hold, Identity};
use lokt_core::liveness::{Clues, Liveness, Process, PulseClue, weigh, weigh_in_place};
use lokt_core::pulse::{ProcessRef, Pulse};
use lokt_core::record::RECORD_BYTES_MAX;

use crate::disk::{Disk, Entry};
use crate::machine::Machine;

/// The event that shows that the process of a hold has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// This pulse stops.
    Pulse(u64),
    /// This process ends.
    Process(i64),
    /// There is no such event here.
    Unknown,
}

/// Collects liveness evidence about a hold's process.
pub struct Witness<'a> {
    /// The disk with the pulses.
    pub disk: &'a dyn Disk,
    /// The machine with the processes.
    pub machine: &'a dyn Machine,
    /// The caller.
    pub me: &'a Identity,
    /// Maps the number of a pulse to its path.
    pub pulse_path: &'a dyn Fn(u64) -> String,
}

impl Witness<'_> {
    /// Weighs all evidence.
    pub fn liveness(&self, hold: &Hold) -> (Liveness, ProcessEnd) {
        // Processes of another boot or another machine can't be checked; `weigh` knows what that
        // means.
        let local = hold.boot_id.is_none() || hold.boot_id == self.me.boot_id;
        if !local {
            let clues = Clues { pulse: PulseClue::None, holder: Process::Unseen, command: None };
            return (weigh(hold, self.me, clues), ProcessEnd::Unknown);
        }
        // Old programs don't record namespaces: their pids are treated as ours. We always record
        // ours, where we can determine it.
        let visible =
            hold.is_foreign() || hold.has_foreign_process() || (hold.pid_ns.is_some() && hold.pid_ns == self.me.pid_ns);
        // Namespace numbers are valid only within one boot.
        let elsewhere = hold.pid_ns.filter(|_| !visible && hold.boot_id.is_some());
        let process = |pid, start| match elsewhere {
            _ if visible => self.process(pid, start),
            Some(space) => self.machine.process_in(space, pid, start),
            None => Process::Unseen,
        };
        let (pulse, command) = self.pulse(hold);
        // A locked pulse is sufficient evidence; searching for processes of another namespace is
        // expensive.
        let asks = visible || pulse != PulseClue::Locked;
        let process = |pid, start| if asks { process(pid, start) } else { Process::Unseen };
        let running = command.map(|command| process(command.pid, command.start));
        let holder = process(hold.pid, hold.pid_start);
        let end = match (pulse, hold.pulse, command) {
            (PulseClue::Locked, Some(pulse), _) => ProcessEnd::Pulse(pulse.number),
            (_, _, Some(command)) if visible && running == Some(Process::Alive) => ProcessEnd::Process(command.pid),
            _ if visible && holder == Process::Alive => ProcessEnd::Process(hold.pid),
            _ => ProcessEnd::Unknown,
        };
        let clues = Clues { pulse, holder, command: running };
        let weighs = if elsewhere.is_some() { weigh_in_place } else { weigh };
        (weighs(hold, self.me, clues), end)
    }

    fn process(&self, pid: i64, start: i64) -> Process {
        match self.machine.process(pid) {
            Some(stat) if !stat.has_ended() && stat.may_be(start) => Process::Alive,
            _ => Process::Dead,
        }
    }

    /// Returns the command that a hold's pulse names.
    pub fn command(&self, hold: &Hold) -> Option<ProcessRef> {
        self.pulse(hold).1
    }

    /// Returns the evidence of a hold's pulse, and the command that it names.
    fn pulse(&self, hold: &Hold) -> (PulseClue, Option<ProcessRef>) {
        let Some(reference) = hold.pulse else { return (PulseClue::None, None) };
        let path = (self.pulse_path)(reference.number);
        let probe = match self.disk.probe(&path) {
            Ok(Some(probe)) => probe,
            Ok(None) => return (PulseClue::Misfit, None),
            Err(_) => return (PulseClue::Unreadable, None),
        };
        if (probe.stamp.dev, probe.stamp.ino) != (reference.dev, reference.ino) {
            return (PulseClue::Misfit, None);
        }
        let command = match self.disk.read(&path, RECORD_BYTES_MAX) {
            Ok(Entry::File(content)) => Pulse::parse(&content.bytes).and_then(|pulse| pulse.command),
            Ok(_) => None,
            Err(_) if probe.locked => None,
            Err(_) => return (PulseClue::Unreadable, None),
        };
        let clue = if probe.locked { PulseClue::Locked } else { PulseClue::Free };
        (clue, command)
    }
}
