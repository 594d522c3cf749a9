//! The verdict about the process behind a hold, from the evidence.
//!
//! Two independent pieces of evidence count: the pulse (a file that the guard and its command keep
//! locked) and the recorded processes (pid with start time). A hold is *gone* only if both say so.
//! Anything that can't be checked from here counts as alive: waiting wrongly costs time, entering
//! wrongly costs data.

use crate::hold::{Hold, Identity};

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The process lives.
    Alive,
    /// The guard is gone, its command still runs.
    Orphan,
    /// Proven gone.
    Gone,
    /// It isn't known here, or there is no process to check.
    Unknown,
}

impl Liveness {
    /// The value in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Orphan => "orphan",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
        }
    }
}

/// The evidence about one recorded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// That pid runs and, where a start time is recorded, started then.
    Alive,
    /// No such pid, another start time, or a zombie.
    Dead,
    /// It lives in a pid namespace that isn't visible from here.
    Unseen,
}

/// The evidence about the recorded pulse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PulseClue {
    /// No pulse is recorded.
    None,
    /// The file is missing or isn't the recorded one (another overlay, another mount).
    Misfit,
    /// It exists, but can't be checked.
    Unreadable,
    /// A process keeps it locked.
    Locked,
    /// No process keeps it locked.
    Free,
}

/// All evidence about a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clues {
    /// The pulse.
    pub pulse: PulseClue,
    /// The recorded holder: a guard, or the process of `lock --bind`.
    pub holder: Process,
    /// The guard's command, if the pulse names one.
    pub command: Option<Process>,
}

/// File systems that belong to one kernel: when that kernel is gone, so are its processes.
/// ext2/3/4, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs, bcachefs, ramfs.
const LOCAL_FILE_SYSTEMS: [u64; 9] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e, 0x8584_58f6];

/// Reports whether this is the magic number of a file system that only one kernel writes to.
pub fn is_local(fs: Option<u64>) -> bool {
    fs.is_some_and(|magic| LOCAL_FILE_SYSTEMS.contains(&magic))
}

/// Weighs the evidence about the process part of `hold`. Pids of another namespace prove nothing.
pub fn weigh(hold: &Hold, me: &Identity, clues: Clues) -> Liveness {
    weigh_in_place(hold, me, if pids_compare(hold, me) { clues } else { clues.without_pids() })
}

/// Like `weigh`, for processes that were looked up in the pid namespace of the hold.
pub fn weigh_in_place(hold: &Hold, me: &Identity, clues: Clues) -> Liveness {
    let same_host = hold.host == me.host;
    match &hold.boot_id {
        // Old records name no boot, only the host. A pulse that is locked, or may be, counts
        // anyway.
        None if same_host && matches!(clues.pulse, PulseClue::Locked | PulseClue::Unreadable) => by_pulse(clues),
        None if same_host => by_pid(clues.holder, clues.command),
        None => Liveness::Unknown,
        Some(_) if hold.boot_id == me.boot_id => by_pulse(clues),
        // Another boot of this machine, on a disk that only this machine writes to. Containers can
        // have a boot id of their own, made up when they start; they have a pid namespace of their
        // own, too.
        Some(_) if same_host && me.boot_id.is_some() && is_local(hold.fs) && is_local(me.fs) && same_pids(hold, me) => {
            Liveness::Gone
        }
        Some(_) => Liveness::Unknown,
    }
}

/// Reports whether pids mean the same to the hold and to `me`. The initial namespace has the same
/// number on every boot.
fn same_pids(hold: &Hold, me: &Identity) -> bool {
    hold.pid_ns.is_some() && hold.pid_ns == me.pid_ns
}

/// Reports whether the pids in `hold` mean the same processes here: only inside one pid namespace.
/// Old records name none.
fn pids_compare(hold: &Hold, me: &Identity) -> bool {
    same_pids(hold, me) || (hold.boot_id.is_none() && hold.pid_ns.is_none())
}

impl Clues {
    /// Returns the evidence without what was learnt by pid.
    fn without_pids(self) -> Self {
        Self { holder: Process::Unseen, command: self.command.map(|_| Process::Unseen), ..self }
    }
}

fn by_pulse(clues: Clues) -> Liveness {
    match (clues.pulse, clues.holder, clues.command) {
        (PulseClue::Locked, Process::Dead, _) | (PulseClue::Free, _, Some(Process::Alive)) => Liveness::Orphan,
        (PulseClue::Locked, ..) => Liveness::Alive,
        (PulseClue::Free, _, Some(Process::Unseen)) => Liveness::Unknown,
        (PulseClue::Free, _, Some(Process::Dead) | None) => Liveness::Gone,
        (PulseClue::Unreadable, Process::Alive, _) => Liveness::Alive,
        (PulseClue::Unreadable, ..) => Liveness::Unknown,
        (PulseClue::None | PulseClue::Misfit, holder, command) => by_pid(holder, command),
    }
}

fn by_pid(holder: Process, command: Option<Process>) -> Liveness {
    match (holder, command) {
        (Process::Alive, _) => Liveness::Alive,
        (Process::Dead, Some(Process::Alive)) => Liveness::Orphan,
        (Process::Dead, Some(Process::Dead) | None) => Liveness::Gone,
        (Process::Unseen, _) | (Process::Dead, Some(Process::Unseen)) => Liveness::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_that_cannot_be_looked_at_proves_nothing() {
        let clues = |holder| Clues { pulse: PulseClue::Unreadable, holder, command: None };
        assert_eq!(by_pulse(clues(Process::Alive)), Liveness::Alive);
        assert_eq!(by_pulse(clues(Process::Dead)), Liveness::Unknown, "its command may still run");
    }
}
