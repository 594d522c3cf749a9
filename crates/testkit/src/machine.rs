//! Clocks and processes that do what a test says.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use lokt_core::hold::Identity;
use lokt_core::time::Moment;
use lokt_sys::machine::{Machine, ProcessStat};

/// A machine whose time stands still until a test moves it.
pub struct FakeMachine {
    state: Mutex<State>,
}

struct State {
    now: Moment,
    processes: HashMap<i64, ProcessStat>,
    random: u128,
}

impl Default for FakeMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeMachine {
    /// A machine that booted an hour ago.
    pub fn new() -> Self {
        // A real clock shows more than what is written.
        let wall = "2026-01-01T12:00:00.000123456Z".parse().expect("a good time");
        let now = Moment { wall, monotonic_ms: 3_600_000, boottime_ms: 3_600_000 };
        Self { state: Mutex::new(State { now, processes: HashMap::new(), random: 1 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time passes on every clock.
    pub fn advance_secs(&self, secs: u64) {
        self.advance_ms(secs * 1000);
    }

    /// The same, in milliseconds.
    pub fn advance_ms(&self, ms: u64) {
        let mut state = self.state();
        state.now.monotonic_ms += ms;
        state.now.boottime_ms += ms;
        let passed = SignedDuration::from_millis(i64::try_from(ms).expect("a short test"));
        state.now.wall = state.now.wall.checked_add(passed).expect("tests stay in range");
    }

    /// The machine sleeps: no process runs, and the monotonic clock doesn't either.
    pub fn suspend_secs(&self, secs: u64) {
        let mut state = self.state();
        state.now.boottime_ms += secs * 1000;
        state.now.wall = moved(state.now.wall, i64::try_from(secs).expect("a short test"));
    }

    /// The machine starts again: boot clocks begin anew, all processes are gone.
    pub fn reboot(&self) {
        let mut state = self.state();
        state.now.monotonic_ms = 10_000;
        state.now.boottime_ms = 10_000;
        state.now.wall = moved(state.now.wall, 60);
        state.processes.clear();
    }

    /// A process starts.
    pub fn start_process(&self, pid: i64, start: i64) {
        self.state().processes.insert(pid, ProcessStat { state: 'S', start });
    }

    /// A process ends.
    pub fn end_process(&self, pid: i64) {
        self.state().processes.remove(&pid);
    }
}

fn moved(at: Timestamp, secs: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(secs)).expect("tests stay in range")
}

impl Machine for FakeMachine {
    fn now(&self) -> Moment {
        self.state().now
    }

    fn random(&self) -> io::Result<u128> {
        let mut state = self.state();
        // Spread over the whole number, so that every prefix of the hex text differs.
        state.random = state.random.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(0x5851_F42D);
        Ok(state.random)
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        self.state().processes.get(&pid).copied()
    }
}

/// Somebody on the fake machine, on its `boot`-th boot.
pub fn somebody(owner: &str, boot: u32) -> Identity {
    Identity {
        owner: owner.into(),
        host: "fake".into(),
        pid: 4242,
        pid_start: 7,
        agent_id: format!("agent-{owner}"),
        boot_id: Some(format!("boot-{boot}")),
        pid_ns: Some(1),
        boot_clocks: true,
        fs: None,
    }
}
