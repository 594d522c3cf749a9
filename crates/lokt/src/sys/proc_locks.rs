//! Who holds a `flock`? `/proc/locks` knows.

use std::fs;

use rustix::fs::{major, minor};

use super::machine::process_stat;

/// The process that holds a `flock` on inode `ino` of device `dev`, if it can be seen from here.
pub(super) fn holder_of(dev: u64, ino: u64) -> Option<i64> {
    holder_among(&fs::read_to_string("/proc/locks").ok()?, dev, ino)
}

/// Describes a process, for an error message.
pub(super) fn describe(pid: i64) -> String {
    match process_stat(pid).map(|stat| stat.state) {
        Some('T' | 't') => format!("process {pid}, which is stopped (kill -CONT {pid} lets it go on)"),
        Some(state) => format!("process {pid} (state {state})"),
        None => format!("process {pid}"),
    }
}

/// Btrfs shows another device there than `stat` does, so where none fits, the inode alone decides if only one process has it locked.
fn holder_among(table: &str, dev: u64, ino: u64) -> Option<i64> {
    let device = format!("{:02x}:{:02x}", major(dev), minor(dev));
    let holders = || table.lines().filter_map(|line| holder_in(line, ino));
    if let Some((pid, _)) = holders().find(|(_, shown)| *shown == device) {
        return Some(pid);
    }
    let mut all = holders();
    let (pid, _) = all.next()?;
    all.next().is_none().then_some(pid)
}

/// The pid and the device in a line like `3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF` about `ino`. Waiters have `->` before the kind.
fn holder_in(line: &str, ino: u64) -> Option<(i64, &str)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let (device, inode) = words.next()?.rsplit_once(':')?;
    (inode.parse::<u64>().ok()? == ino && pid > 0).then_some((pid, device))
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::{holder_among, holder_in};

    #[test]
    fn only_the_holder_of_that_inode_is_named() {
        assert_eq!(holder_in("3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), Some((4711, "fe:00")));
        assert_eq!(holder_in("3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1235), None);
        assert_eq!(holder_in("3: -> FLOCK  ADVISORY  WRITE 4712 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(holder_in("4: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(holder_in("", 1234), None);
    }

    #[test]
    fn the_same_inode_of_another_file_system_is_not_mistaken_for_it() {
        let table = "1: FLOCK  ADVISORY  WRITE 10 00:28:2 0 EOF\n2: FLOCK  ADVISORY  WRITE 11 00:27:2 0 EOF\n";
        assert_eq!(holder_among(table, makedev(0, 0x27), 2), Some(11));
        assert_eq!(holder_among(table, makedev(0, 0x28), 2), Some(10));
        assert_eq!(holder_among(table, makedev(0, 0x29), 2), None, "nobody is better than an innocent one");
        let (one, _) = table.split_once('\n').expect("two lines");
        assert_eq!(holder_among(one, makedev(0, 0x29), 2), Some(10), "btrfs");
    }
}
