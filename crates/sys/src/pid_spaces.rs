//! Processes of other pid namespaces.
//!
//! A pid is valid only inside its namespace. But `/proc` shows the processes of the namespace in
//! which it was mounted and of all those below, each with its pid in every one of them. So the host
//! can check a holder in a container, and a namespace that still has the host's `/proc`
//! (`unshare --pid` alone) can check a holder on the host.

use std::fs;
use std::io;

use lokt_core::liveness::Process;
use lokt_core::proc::{hides_processes, may_have_pid, parse_stat};
use rustix::io::Errno;

use super::machine::namespace_of;
use super::mounts;

/// The inode of the initial pid namespace. A reader that sees a process of it sees all processes.
pub const PID_NS_INITIAL: u64 = 0xEFFF_FFFC;

/// Checks `/proc` for the process that is `pid` in the namespace `space` and started at `start` (0:
/// unknown).
pub(super) fn process_in(space: u64, pid: i64, start: i64) -> Process {
    // Where other users' processes are hidden, a process that isn't found may be hidden, too.
    if fs::metadata("/proc/1").is_err() || hides_processes(&mounts::table()) {
        return Process::Unseen;
    }
    let look = || look_for(space, pid, start).unwrap_or(Process::Unseen);
    match look() {
        // If a thread other than the first calls `exec`, it replaces the first thread; a reader at
        // that moment sees neither.
        Process::Dead => look(),
        found => found,
    }
}

/// Searches all processes. An error: one of them couldn't be read, and it may be the one.
fn look_for(space: u64, pid: i64, start: i64) -> io::Result<Process> {
    let mut in_sight = false;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(outer) = name.to_str().and_then(|name| name.parse::<i64>().ok()) else { continue };
        let Some(status) = read_unless_ended(&format!("/proc/{outer}/status"))? else { continue };
        let lives_in = namespace_of(outer);
        in_sight |= lives_in.is_some_and(|found| found == space || found == PID_NS_INITIAL);
        if may_have_pid(&status, pid, lives_in.map(|found| found == space)) {
            let Some(stat) = read_unless_ended(&format!("/proc/{outer}/stat"))? else { continue };
            let stat = parse_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
            if stat.may_be(start) && !stat.has_ended() {
                return Ok(Process::Alive);
            }
        }
    }
    Ok(if in_sight { Process::Dead } else { Process::Unseen })
}

/// Reads a file about a process; `None` if the process has just ended. The name of a process need
/// not be valid text.
fn read_unless_ended(path: &str) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_processes_are_found_in_our_own_namespace_and_in_no_other() {
        let me = super::super::machine::identity("me".into(), None);
        let space = me.pid_ns.expect("Linux has pid namespaces");
        assert_eq!(process_in(space, me.pid, me.pid_start), Process::Alive);
        assert_eq!(process_in(space, me.pid, me.pid_start + 1), Process::Dead, "another start is another process");
        assert_eq!(process_in(space, i64::from(i32::MAX), 0), Process::Dead, "no pid is that high");
    }
}
