//! The holder of a `flock`, according to `/proc/locks`.

use std::fs;

use lokt_core::proc::flock_holder;
use rustix::fs::{major, minor};

use super::machine::process_stat;

/// The process that holds a `flock` on inode `ino` of device `dev`, if it can be seen from here.
pub(super) fn holder_of(dev: u64, ino: u64) -> Option<i64> {
    flock_holder(&fs::read_to_string("/proc/locks").ok()?, (major(dev), minor(dev)), ino)
}

/// Describes a process, for an error message.
pub(super) fn describe(pid: i64) -> String {
    match process_stat(pid).map(|stat| stat.state) {
        Some('T' | 't') => format!("process {pid}, which is stopped (kill -CONT {pid} lets it go on)"),
        Some(state) => format!("process {pid} (state {state})"),
        None => format!("process {pid}"),
    }
}
