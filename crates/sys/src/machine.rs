//! Clocks, processes and randomness of this machine.
//!
//! The wall clock is read through the standard library, the boot clocks by direct system calls.
//! Tests that fake the wall clock depend on that difference.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use lokt_core::hold::{Identity, default_agent_id};
use lokt_core::liveness::Process;
pub use lokt_core::proc::ProcessStat;
use lokt_core::proc::{boot_id, namespace_in, parse_stat, user_name};
use lokt_core::time::Moment;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::pid_spaces;
use super::wakeup::sleep_on;

/// The inode of the initial time namespace: boot clocks read there are comparable between all its
/// processes.
const TIME_NS_INITIAL: u64 = 0xEFFF_FFFA;

/// Maximum number of attempts to read a file of `/proc` that exists but can't be read.
const LOOKS_MAX: usize = 3;

/// Bytes requested by one read: more than `/proc` says about a process in one line.
const PROC_BYTES_MAX: usize = 4096;

/// This machine.
pub trait Machine: Send + Sync {
    /// Reads all clocks once.
    fn now(&self) -> Moment;
    /// 128 random bits.
    fn random(&self) -> io::Result<u128>;
    /// Returns a name that no other process draws: 32 hex digits between `prefix` and `suffix`. All
    /// temporary files are named by it; their prefix tells a later sweep what they are.
    fn unique_name(&self, prefix: &str, suffix: &str) -> io::Result<String> {
        Ok(format!("{prefix}{:032x}{suffix}", self.random()?))
    }
    /// Returns a process of our pid namespace; `None` if there is none.
    fn process(&self, pid: i64) -> Option<ProcessStat>;
    /// Returns a process of another pid namespace, as far as it can be seen from here.
    fn process_in(&self, _space: u64, _pid: i64, _start: i64) -> Process {
        Process::Unseen
    }
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

    fn process_in(&self, space: u64, pid: i64, start: i64) -> Process {
        // In another time namespace, start times read differently.
        pid_spaces::process_in(space, pid, if proc_view().starts { start } else { 0 })
    }
}

/// Returns a descriptor that is readable when the process `pid` has ended; `None` if it already
/// has.
pub fn pidfd(pid: i64) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the login name of the user that this process runs as, from the passwd file. A static
/// binary can't use the name service.
pub fn login_name() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw();
    let found = |passwd: &[u8]| user_name(&String::from_utf8_lossy(passwd), uid);
    // On a system with few users, the first read returns the whole file.
    let start = read_once("/etc/passwd")?;
    if start.len() < PROC_BYTES_MAX { found(&start) } else { found(&fs::read("/etc/passwd").unwrap_or_default()) }
}

/// Converts a stored time to the standard library's type.
pub fn system_time(at: Timestamp) -> SystemTime {
    let since = at.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs();
    if at < Timestamp::UNIX_EPOCH { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}

/// The default owner: the [login name](login_name), else the user id.
pub fn default_owner() -> String {
    login_name().unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
}

#[expect(clippy::disallowed_methods, reason = "this is the module that owns the wall clock")]
fn wall() -> Timestamp {
    // Treat a clock before 1970 as one at 1970: both are wrong.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let secs = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(secs, i32::try_from(since.subsec_nanos()).unwrap_or(0)).unwrap_or(Timestamp::MAX)
}

fn clock_ms(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    u64::try_from(at.tv_sec).unwrap_or(0) * 1000 + u64::try_from(at.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Returns the monotonic clock in nanoseconds, for histories: all processes of a machine share it,
/// and it can't be set.
pub fn monotonic_ns() -> u64 {
    let at = clock_gettime(ClockId::Monotonic);
    u64::try_from(at.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(at.tv_nsec).unwrap_or(0)
}

/// The parts of `/proc` that can be trusted.
#[derive(Debug, Clone, Copy)]
struct ProcView {
    /// It shows our own pid namespace. After `unshare --pid` without a new mount it shows the outer
    /// one, where our pids belong to other processes.
    ours: bool,
    /// Start times read there are the same for all readers. The kernel shifts them for readers in
    /// another time namespace.
    starts: bool,
}

fn proc_view() -> ProcView {
    static VIEW: OnceLock<ProcView> = OnceLock::new();
    *VIEW.get_or_init(|| {
        let me = rustix::process::getpid().as_raw_nonzero().to_string();
        let ours = patiently(|| fs::read_link("/proc/self")).is_some_and(|link| link.to_str() == Some(&me));
        ProcView { ours, starts: has_boot_clocks() }
    })
}

/// Reports whether start times that `/proc` shows may be compared with those that other processes
/// read.
pub(super) fn knows_starts() -> bool {
    let view = proc_view();
    view.ours && view.starts
}

/// Reports whether boot clocks are the same here as outside of namespaces.
fn has_boot_clocks() -> bool {
    namespace("time").is_none_or(|inode| inode == TIME_NS_INITIAL)
}

/// Reads `/proc/<pid>/stat`. If it is hidden (`hidepid`), missing, or about another pid namespace,
/// asks the kernel whether the pid exists: an invisible process is not a dead one.
pub(super) fn process_stat(pid: i64) -> Option<ProcessStat> {
    if pid <= 0 {
        return None;
    }
    let view = proc_view();
    // The name of a process need not be valid text.
    let text = || view.ours.then(|| read_once(&format!("/proc/{pid}/stat"))).flatten();
    let read = || text().and_then(|text| parse_stat(&String::from_utf8_lossy(&text)));
    // If a thread other than the first calls `exec`, it replaces the first thread. A reader that
    // looked that one up just before sees it as ended; a second read finds the new one.
    let stat = read().and_then(|stat| if stat.has_ended() { read() } else { Some(stat) });
    match stat {
        Some(stat) if view.starts => Some(stat),
        Some(stat) => Some(ProcessStat { start: 0, ..stat }),
        None => exists(pid).then_some(ProcessStat { state: '?', start: 0 }),
    }
}

/// Reads the beginning of a file: all of it, for the small files of `/proc`. Reading until the end
/// would take twice as many calls.
pub(super) fn read_once(path: &str) -> Option<Vec<u8>> {
    patiently(|| {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::with_capacity(PROC_BYTES_MAX);
        rustix::io::read(&fd, rustix::buffer::spare_capacity(&mut bytes))?;
        Ok(bytes)
    })
}

/// Retries after an error that may be temporary, such as a lack of descriptors. Otherwise this
/// would look like a machine without `/proc` and without a boot id, and holds would follow the wall
/// clock.
fn patiently<T>(look: impl Fn() -> io::Result<T>) -> Option<T> {
    for _ in 0..LOOKS_MAX {
        match look() {
            Ok(seen) => return Some(seen),
            Err(error) if is_final(&error) => return None,
            Err(_) => {}
        }
    }
    None
}

/// Reports whether the object is missing or not visible to us.
fn is_final(error: &io::Error) -> bool {
    let gone = Errno::from_io_error(error) == Some(Errno::SRCH);
    gone || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// Reports whether the process exists and has not ended. A zombie has ended: its descriptor is
/// readable.
fn exists(pid: i64) -> bool {
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd(pid) {
        Ok(None) => false,
        Ok(Some(fd)) => !sleep_on(&[fd.as_fd()], Duration::ZERO).is_ok_and(|ready| ready == [true]),
        Err(_) => !matches!(test_kill_process(known), Err(Errno::SRCH)),
    }
}

/// The identity of this process on this machine. `owner` and `agent_id` come from the caller's
/// environment.
pub fn identity(owner: String, agent_id: Option<String>) -> Identity {
    let pid = i64::from(rustix::process::getpid().as_raw_nonzero().get());
    let pid_start = process_stat(pid).map_or(0, |stat| stat.start);
    Identity {
        owner,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid,
        pid_start,
        agent_id: agent_id.unwrap_or_else(|| default_agent_id(pid, pid_start)),
        boot_id: read_once("/proc/sys/kernel/random/boot_id").and_then(|bytes| boot_id(&bytes)),
        pid_ns: namespace("pid"),
        boot_clocks: proc_view().starts,
        fs: None,
    }
}

/// The inode of one of our namespaces.
fn namespace(kind: &str) -> Option<u64> {
    namespace_at(&format!("/proc/self/ns/{kind}"), kind)
}

/// The inode of the pid namespace of the process that `/proc` shows as `outer`.
pub(super) fn namespace_of(outer: i64) -> Option<u64> {
    namespace_at(&format!("/proc/{outer}/ns/pid"), "pid")
}

/// The inode of a namespace.
fn namespace_at(path: &str, kind: &str) -> Option<u64> {
    namespace_in(patiently(|| fs::read_link(path))?.to_str()?, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_exists_if_the_kernel_says_so() {
        assert!(exists(1), "not ours to signal, perhaps, but there");
        assert!(!exists(i64::from(i32::MAX)), "no pid is that high");
        assert!(!exists(i64::MAX));
        let mut zombie = std::process::Command::new("true").spawn().expect("true can be started");
        let pid = i64::from(zombie.id());
        let fd = pidfd(pid).expect("there are descriptors").expect("nobody has waited for it");
        sleep_on(&[fd.as_fd()], Duration::from_secs(60)).expect("it can be polled");
        assert!(!exists(pid), "a zombie has ended");
        zombie.wait().expect("it is our child");
        let hidden = ProcessStat { state: '?', start: 0 };
        assert!(hidden.may_be(777) && !hidden.has_ended());
        assert!(!ProcessStat { start: 778, ..hidden }.may_be(777), "another start time is another process");
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
