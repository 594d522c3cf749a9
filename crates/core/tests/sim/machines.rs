//! The machines of the simulation with their clocks, and the processes on them: what is true, and what a look at it shows.

use jiff::{SignedDuration, Timestamp};
use lokt_core::decide::HoldKey;
use lokt_core::hold::{Hold, Identity, PulseRef};
use lokt_core::liveness::{Clues, Process as Seen, PulseClue};
use lokt_core::time::Moment;

pub(crate) const EXT4: u64 = 0xef53;
pub(crate) const NFS: u64 = 0x6969;
pub(crate) const OWNERS: [&str; 3] = ["alice", "bob", "carol"];

/// A machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) host: &'static str,
    /// How often it has started; names its boot.
    pub(crate) boot: u32,
    pub(crate) wall: Timestamp,
    pub(crate) monotonic_ms: u64,
    pub(crate) boottime_ms: u64,
}

impl Machine {
    pub(crate) fn new(host: &'static str, wall: &str) -> Self {
        let wall = wall.parse().expect("a good time");
        Self { host, boot: 1, wall, monotonic_ms: 50_000, boottime_ms: 90_000 }
    }

    pub(crate) fn step_wall(&mut self, by_ms: i64) {
        self.wall = self.wall.checked_add(SignedDuration::from_millis(by_ms)).expect("tests stay in their century");
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { wall: self.wall, monotonic_ms: self.monotonic_ms, boottime_ms: self.boottime_ms }
    }
}

/// From where somebody acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) machine: usize,
    pub(crate) owner: usize,
    /// Another pid namespace, with a host name of its own.
    pub(crate) container: bool,
    /// A time namespace: its boot clocks mean nothing to others.
    pub(crate) time_ns: bool,
}

impl Seat {
    pub(crate) fn owner(self) -> &'static str {
        OWNERS[self.owner]
    }

    fn pid_ns(self) -> u64 {
        if self.container { 2 } else { 1 }
    }

    pub(crate) fn host(self, machine: &Machine) -> &'static str {
        if self.container { "box" } else { machine.host }
    }
}

pub(crate) fn boot_id(machine: usize, boot: u32) -> String {
    format!("boot-{machine}-{boot}")
}

/// A process that holds or once held: a guard with its command, a bound process, or one of another program.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) seat: Seat,
    /// The boot on which it runs.
    pub(crate) boot: u32,
    pub(crate) pid: i64,
    pub(crate) alive: bool,
    /// Does the guard's command run? `None`: there is no command.
    pub(crate) command: Option<bool>,
    /// Did the command keep the pulse's descriptor?
    pub(crate) keeps_pulse: bool,
    pub(crate) pulse: Option<PulseRef>,
    /// What it has in its hand while it believes to be inside.
    pub(crate) grip: Option<HoldKey>,
}

impl Process {
    pub(crate) fn start(&self) -> i64 {
        self.pid * 10
    }

    /// Guard and command are both gone. This is the truth, which nobody may be able to see.
    pub(crate) fn is_gone(&self) -> bool {
        !self.alive && self.command != Some(true)
    }

    fn keeps_locked(&self) -> bool {
        self.alive || (self.command == Some(true) && self.keeps_pulse)
    }
}

/// All machines and processes.
#[derive(Debug)]
pub(crate) struct Stage {
    /// One machine with a disk of its own, or several that share one.
    pub(crate) shared: bool,
    pub(crate) machines: Vec<Machine>,
    pub(crate) processes: Vec<Process>,
    pids: i64,
}

impl Stage {
    pub(crate) fn new(shared: bool) -> Self {
        let mut machines = vec![Machine::new("vm", "2026-11-15T18:00:00.000123456Z")];
        if shared {
            // Clocks apart, and a clone that kept its host name.
            machines.push(Machine::new("other", "2026-11-15T18:00:31.5Z"));
            machines.push(Machine::new("vm", "2026-11-15T17:58:00Z"));
        }
        Self { shared, machines, processes: Vec::new(), pids: 100 }
    }

    pub(crate) fn machine(&self, seat: Seat) -> &Machine {
        &self.machines[seat.machine]
    }

    pub(crate) fn now(&self, seat: Seat) -> Moment {
        self.machine(seat).moment()
    }

    pub(crate) fn next_pid(&mut self) -> i64 {
        self.pids += 1;
        self.pids
    }

    /// Starts a process and says which it is.
    pub(crate) fn add(&mut self, process: Process) -> usize {
        self.processes.push(process);
        self.processes.len() - 1
    }

    /// `seat` as the process `pid`.
    pub(crate) fn identity(&self, seat: Seat, pid: i64) -> Identity {
        let machine = self.machine(seat);
        Identity {
            owner: seat.owner().into(),
            host: seat.host(machine).into(),
            pid,
            pid_start: pid * 10,
            agent_id: format!("agent-{pid}"),
            boot_id: Some(boot_id(seat.machine, machine.boot)),
            pid_ns: Some(seat.pid_ns()),
            boot_clocks: !seat.time_ns,
            fs: Some(if self.shared { NFS } else { EXT4 }),
        }
    }

    /// Time passes everywhere; `asleep` is suspended meanwhile.
    pub(crate) fn pass(&mut self, ms: u64, asleep: Option<usize>) {
        for (number, machine) in self.machines.iter_mut().enumerate() {
            machine.step_wall(i64::try_from(ms).expect("tests pass hours, not ages"));
            machine.boottime_ms += ms;
            if asleep != Some(number) {
                machine.monotonic_ms += ms;
            }
        }
    }

    /// The machine starts again: new boot, new clocks, no processes.
    pub(crate) fn reboot(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        machine.boot += 1;
        machine.monotonic_ms = 1_000;
        machine.boottime_ms = 1_000;
        for process in self.processes.iter_mut().filter(|process| process.seat.machine == number) {
            process.alive = false;
            process.command = process.command.map(|_| false);
        }
    }

    /// Is the process of the boot that `seat` is on?
    pub(crate) fn shares_kernel(&self, seat: Seat, process: &Process) -> bool {
        process.seat.machine == seat.machine && process.boot == self.machine(seat).boot
    }

    /// What a look at the recorded pulse and pids shows from `seat`. `misfit`: the pulse file can't be reached from there.
    ///
    /// Where pids or locks mean nothing, it shows the worst: a stranger's pid looks dead and a lock of another kernel looks free.
    pub(crate) fn look(&self, hold: &Hold, seat: Seat, misfit: bool) -> Clues {
        let strangers = Clues { pulse: PulseClue::Free, holder: Seen::Dead, command: Some(Seen::Dead) };
        let here = self.identity(seat, 0);
        let same_kernel = if hold.boot_id.is_some() { hold.boot_id == here.boot_id } else { hold.host == here.host };
        let Some(process) = self.processes.iter().find(|process| process.pid == hold.pid) else {
            // The process of a `lock` command, long gone.
            return Clues { pulse: PulseClue::None, command: None, ..strangers };
        };
        if !same_kernel {
            return strangers;
        }
        let pulse = match hold.pulse {
            None => PulseClue::None,
            Some(_) if misfit => PulseClue::Misfit,
            Some(_) if process.keeps_locked() => PulseClue::Locked,
            Some(_) => PulseClue::Free,
        };
        let by_pid =
            |alive: bool| if alive && process.seat.container == seat.container { Seen::Alive } else { Seen::Dead };
        let command = match pulse {
            // The command is named in the pulse and nowhere else.
            PulseClue::None | PulseClue::Misfit | PulseClue::Unreadable => None,
            PulseClue::Locked | PulseClue::Free => process.command.map(by_pid),
        };
        Clues { pulse, holder: by_pid(process.alive), command }
    }

    /// Can it be proven from `seat` that the process behind `hold` is gone? By the promises, not by the code.
    pub(crate) fn is_provably_gone(&self, hold: &Hold, process: &Process, seat: Seat, misfit: bool) -> bool {
        let same_pids = process.seat.container == seat.container;
        let same_name = hold.host == seat.host(self.machine(seat));
        if hold.boot_id.is_none() {
            // Another program's record: its host name is all there is.
            return same_name && !process.alive;
        }
        if !self.shares_kernel(seat, process) {
            // A disk of one machine, and the machine has started again. A container may have a boot id of its own without that.
            return same_name && !self.shared && same_pids;
        }
        let through_pulse = hold.pulse.is_some() && !misfit;
        if through_pulse {
            // The command's pid can be asked about only in its own namespace.
            process.is_gone() && (same_pids || process.command.is_none())
        } else {
            same_pids && !process.alive
        }
    }
}
