//! Processes of other pid namespaces.
//!
//! A pid means something only inside its namespace, but `/proc` shows the processes of the namespace that it was mounted in and of all
//! those below, each with its pid in every one of them. So a holder in a container can be asked about from the host, and one on
//! the host from a namespace that still has the host's `/proc` (`unshare --pid` alone).

use std::fs;
use std::io;

use lokt_core::liveness::Process;

use super::machine::{ProcessStat, namespace_of, parse_stat, read_once};

/// The first pid namespace's inode. Whoever sees a process of it sees all processes.
const PID_NS_INITIAL: u64 = 0xEFFF_FFFC;

/// What `/proc` says about the process that is `pid` in the namespace `space` and started at `start` (0: unknown).
pub(super) fn process_in(space: u64, pid: i64, start: i64) -> Process {
    // Where others' processes are hidden, one that can't be found may be hidden too.
    if fs::metadata("/proc/1").is_err() {
        return Process::Unseen;
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Process::Unseen };
    let mut in_sight = false;
    for entry in entries.flatten() {
        let Some(outer) = entry.file_name().to_str().and_then(|name| name.parse::<i64>().ok()) else { continue };
        let status = match fs::read(format!("/proc/{outer}/status")) {
            Ok(status) => status,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Process::Unseen,
            // It has just ended.
            Err(_) => continue,
        };
        let lives_in = namespace_of(outer);
        in_sight |= lives_in.is_some_and(|found| found == space || found == PID_NS_INITIAL);
        // Where its namespace may not be looked at, it may be that one.
        let may_be = innermost_pid(&String::from_utf8_lossy(&status)) == Some(pid)
            && lives_in.is_none_or(|found| found == space);
        if may_be && started_then(outer, start).is_some_and(|stat| !stat.has_ended()) {
            return Process::Alive;
        }
    }
    if in_sight { Process::Dead } else { Process::Unseen }
}

/// The last of the pids in `NSpid:` is the one in the process's own namespace.
fn innermost_pid(status: &str) -> Option<i64> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().next_back()?.parse().ok()
}

fn started_then(outer: i64, start: i64) -> Option<ProcessStat> {
    let stat = parse_stat(&String::from_utf8_lossy(&read_once(&format!("/proc/{outer}/stat"))?))?;
    stat.may_be(start).then_some(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_pid_is_the_processs_own() {
        assert_eq!(innermost_pid("Name:\tx\nNSpid:\t4711\t12\t3\nVmPeak:\t1 kB\n"), Some(3));
        assert_eq!(innermost_pid("Name:\tx\nNSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost_pid("Name:\tx\n"), None);
    }

    #[test]
    fn our_own_processes_are_found_in_our_own_namespace_and_in_no_other() {
        let me = super::super::machine::identity("me".into(), None);
        let space = me.pid_ns.expect("Linux has pid namespaces");
        assert_eq!(process_in(space, me.pid, me.pid_start), Process::Alive);
        assert_eq!(process_in(space, me.pid, me.pid_start + 1), Process::Dead, "another start is another process");
        assert_eq!(process_in(space, i64::from(i32::MAX), 0), Process::Dead, "no pid is that high");
    }
}
