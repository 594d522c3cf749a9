//! Clocks, processes and randomness of this machine.
//!
//! The wall clock is read through the standard library and the boot clocks by direct system calls; tests that fake the wall clock
//! depend on that difference.

use std::fs;
use std::io;

use jiff::Timestamp;
use lokt_core::hold::{Identity, default_agent_id};
use lokt_core::time::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The initial time namespace's inode: boot clocks read there mean the same to everyone who is there too.
const TIME_NS_INITIAL: u64 = 0xEFFF_FFFA;

/// What the kernel says about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub state: char,
    /// Start time in clock ticks since boot.
    pub start: i64,
}

impl ProcessStat {
    /// A zombie has ended; only its parent hasn't looked yet.
    pub fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Stopped by a signal or a debugger.
    pub fn is_stopped(self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// This machine.
pub trait Machine: Send + Sync {
    /// One reading of all clocks.
    fn now(&self) -> Moment;
    /// 128 random bits.
    fn random(&self) -> io::Result<u128>;
    /// A process of our pid namespace; `None` if there is none.
    fn process(&self, pid: i64) -> Option<ProcessStat>;
}

/// The machine that this program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Linux;

impl Machine for Linux {
    fn now(&self) -> Moment {
        Moment { wall: wall(), monotonic_ms: clock_ms(ClockId::Monotonic), boottime_ms: clock_ms(ClockId::Boottime) }
    }

    fn random(&self) -> io::Result<u128> {
        let mut bytes = [0_u8; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(u128::from_ne_bytes(bytes))
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        process_stat(pid)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that owns the wall clock")]
fn wall() -> Timestamp {
    // A clock before 1970 is as wrong as one that stands at 1970.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let secs = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(secs, i32::try_from(since.subsec_nanos()).unwrap_or(0)).unwrap_or(Timestamp::MAX)
}

fn clock_ms(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    u64::try_from(at.tv_sec).unwrap_or(0) * 1000 + u64::try_from(at.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Reads `/proc/<pid>/stat`.
pub(super) fn process_stat(pid: i64) -> Option<ProcessStat> {
    if pid <= 0 {
        return None;
    }
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// State and start time are the 3rd and 22nd fields; the 2nd is the command in parentheses and may contain anything.
fn parse_stat(stat: &str) -> Option<ProcessStat> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some(ProcessStat { state, start })
}

/// Who this process is on this machine. `owner` and `agent_id` come from the caller's environment.
pub fn identity(owner: String, agent_id: Option<String>) -> Identity {
    let pid = i64::from(rustix::process::getpid().as_raw_nonzero().get());
    let pid_start = process_stat(pid).map_or(0, |stat| stat.start);
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned());
    Identity {
        owner,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid,
        pid_start,
        agent_id: agent_id.unwrap_or_else(|| default_agent_id(pid, pid_start)),
        boot_id: boot_id.filter(|id| !id.is_empty()),
        pid_ns: namespace("pid"),
        boot_clocks: namespace("time").is_none_or(|inode| inode == TIME_NS_INITIAL),
        fs: None,
    }
}

/// The inode of one of our namespaces, from a link like `pid:[4026531836]`.
fn namespace(kind: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    link.to_str()?.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_and_spaces_does_not_confuse() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1";
        assert_eq!(parse_stat(stat), Some(ProcessStat { state: 'S', start: 777 }));
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat("42 (x) Z"), None);
    }

    #[test]
    fn this_process_lives_and_pid_zero_does_not() {
        let me = identity("me".into(), None);
        assert_eq!(Linux.process(me.pid).map(|stat| stat.start), Some(me.pid_start));
        assert_eq!(Linux.process(0), None);
        assert_eq!(Linux.process(-1), None);
        assert!(me.boot_id.is_some());
        assert!(me.pid_ns.is_some());
    }
}
