//! Processes that keep a file locked. `/proc/<pid>` shows them; the kernel's table of locks shows
//! only the process that took the lock.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use lokt_core::proc::{command_name, shares_flock};

/// A process that keeps a file locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeper {
    /// Its pid.
    pub pid: i64,
    /// The name of its command.
    pub command: String,
}

/// Returns the processes that share the lock on the file with this device and inode, as far as we
/// may see them. It inspects all processes: for users who ask why, not for locking.
pub fn keepers_of(id: (u64, u64)) -> Vec<Keeper> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let mut keepers: Vec<Keeper> = pids.filter(|pid| keeps_locked(*pid, id)).map(keeper).collect();
    keepers.sort_unstable_by_key(|keeper| keeper.pid);
    keepers
}

/// Reports whether any process that we may inspect has the file with this device and inode open.
pub fn is_open(id: (u64, u64)) -> bool {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let opened = |pid: i64| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    pids.any(|pid| opened(pid).any(|file| fs::metadata(file.path()).is_ok_and(|file| (file.dev(), file.ino()) == id)))
}

fn keeps_locked(pid: i64, id: (u64, u64)) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut found = files.filter(|file| fs::metadata(file.path()).is_ok_and(|file| (file.dev(), file.ino()) == id));
    found.any(|file| {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", file.file_name().display()));
        info.is_ok_and(|info| shares_flock(&info))
    })
}

/// Returns the process with its command name.
pub fn keeper(pid: i64) -> Keeper {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    Keeper { pid, command: command_name(&comm) }
}
