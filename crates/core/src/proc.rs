//! Parsing of the text that Linux writes about itself, under `/proc` and in `/etc/passwd`. The
//! library's `sys` module reads it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The kernel's report about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R`, `S`, `D`, `T`, `Z`, …; `?` if it runs in an unknown state.
    pub state: char,
    /// Start time in clock ticks since boot; 0 if it isn't known here.
    pub start: i64,
}

impl ProcessStat {
    /// Reports whether this may be the process that started at `start`. A time that is unknown on
    /// either side rules nothing out.
    pub fn may_be(self, start: i64) -> bool {
        start == 0 || self.start == 0 || start == self.start
    }

    /// Reports whether the process has ended. A zombie has; only its parent hasn't noticed yet.
    pub fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Reports whether the process is suspended by a signal or a debugger.
    pub fn is_stopped(self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// Parses the text of `/proc/<pid>/stat`. State, number of threads and start time are the 3rd, 20th
/// and 22nd fields; the 2nd is the command in parentheses and may contain anything.
pub fn parse_stat(stat: &str) -> Option<ProcessStat> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let threads: i64 = fields.nth(16)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    // If the first thread ended before the others, the state is that of a zombie, but the process
    // still runs.
    let state = if state == 'Z' && threads > 1 { '?' } else { state };
    Some(ProcessStat { state, start })
}

/// Returns the start time in the text of `/proc/<pid>/stat`. Neither allocates nor panics, so it
/// can be called between `fork` and `exec`.
pub fn start_in(stat: &[u8]) -> Option<i64> {
    let after = stat.get(stat.iter().rposition(|byte| *byte == b')')? + 1..)?;
    core::str::from_utf8(after).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Reports whether the process with this `/proc/<pid>/status` can have the pid `pid` in a
/// namespace. `NSpid:` lists its pid in each namespace from which it is visible, its own last. If
/// the process lives in that namespace (`there`), only its own pid counts; if not, it may live
/// below, and only the others count. `None`: it isn't known where it lives.
pub fn may_have_pid(status: &str, pid: i64, there: Option<bool>) -> bool {
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    let pids: Vec<i64> = pids.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    let Some((own, above)) = pids.split_last() else { return false };
    match there {
        Some(true) => *own == pid,
        Some(false) => above.contains(&pid),
        None => pids.contains(&pid),
    }
}

/// Reports whether the process with this `/proc/<pid>/status` ignores signal `number`.
pub fn ignores_signal(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| (1..=64).contains(&number) && mask >> (number - 1) & 1 == 1)
}

/// The inode in a link like `pid:[4026531836]`.
pub fn namespace_in(link: &str, kind: &str) -> Option<u64> {
    link.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mount {
    /// Type of the file system, such as `ext4` or `fuse.sshfs`.
    pub kind: String,
    /// The mounted source.
    pub source: String,
    /// The mount point.
    pub point: String,
    /// The options of the file system.
    pub options: String,
}

/// The mount `id` in this table of mounts.
pub fn mount_in(table: &str, id: u64) -> Option<Mount> {
    table.lines().find_map(|line| mount_on(line, id))
}

/// Parses a line like `43 27 0:39 / /mnt rw shared:1 - fuse.sshfs host:/dir rw,user_id=0`, if it is
/// about mount `id`.
fn mount_on(line: &str, id: u64) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    if mount.split(' ').next()?.parse() != Ok(id) {
        return None;
    }
    let point = unescaped(mount.split(' ').nth(4)?);
    let mut words = system.split(' ').map(unescaped);
    let (kind, source, options) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    Some(Mount { kind, source, point, options })
}

/// Decodes blanks and backslashes, which the kernel writes as three octal digits.
fn unescaped(word: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(word.to_owned(), |word, (code, plain)| word.replace(code, plain))
}

/// Reports whether the `/proc` in this table of mounts hides processes (`hidepid`). It may show
/// some, including the first one, and hide others. The one that was mounted last is the visible
/// one.
pub fn hides_processes(mounts: &str) -> bool {
    let is_proc = |line: &&str| line.split(' ').nth(4) == Some("/proc");
    let options = |line: &str| line.rsplit(' ').next().is_some_and(|options| options.contains("hidepid="));
    mounts.lines().rfind(is_proc).is_none_or(options)
}

/// Returns the process that holds a `flock` on inode `ino` of the device with these major and minor
/// numbers, according to the text of `/proc/locks`.
///
/// Btrfs shows another device there than `stat` does. So if no device matches, the inode alone
/// decides, provided that only one process has it locked.
pub fn flock_holder(table: &str, (major, minor): (u32, u32), ino: u64) -> Option<i64> {
    let device = format!("{major:02x}:{minor:02x}");
    let holders = || table.lines().filter_map(|line| flock_in(line, ino));
    if let Some((pid, _)) = holders().find(|(_, shown)| *shown == device) {
        return Some(pid);
    }
    let mut all = holders();
    let (pid, _) = all.next()?;
    all.next().is_none().then_some(pid)
}

/// Returns the pid and the device in a line like `3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`
/// about `ino`. Waiters have `->` before the kind.
fn flock_in(line: &str, ino: u64) -> Option<(i64, &str)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let (device, inode) = words.next()?.rsplit_once(':')?;
    (inode.parse::<u64>().ok()? == ino && pid > 0).then_some((pid, device))
}

/// Reports whether the descriptor with this `/proc/<pid>/fdinfo/<n>` shares a `flock`. A waiter has
/// the file open, too; only a descriptor that shares the lock lists it.
pub fn shares_flock(fdinfo: &str) -> bool {
    fdinfo.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
}

/// Returns the name that a process has given itself, from the bytes of `/proc/<pid>/comm`.
pub fn command_name(comm: &[u8]) -> String {
    String::from_utf8_lossy(comm).trim_end().to_owned()
}

/// Returns the id of this boot, from the bytes of `/proc/sys/kernel/random/boot_id`; `None` if they
/// contain none.
pub fn boot_id(bytes: &[u8]) -> Option<String> {
    let id = core::str::from_utf8(bytes).ok()?.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// Returns the login name of a user, from the text of a passwd file.
pub fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_and_spaces_does_not_confuse() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1";
        assert_eq!(parse_stat(stat), Some(ProcessStat { state: 'S', start: 777 }));
        assert_eq!((start_in(stat.as_bytes()), start_in(b"")), (Some(777), None));
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat("42 (x) Z"), None);
    }

    #[test]
    fn a_process_whose_first_thread_ended_lives_on_in_the_others() {
        let stat = |threads| format!("42 (x) Z 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 777 1 1");
        assert!(parse_stat(&stat(1)).is_some_and(ProcessStat::has_ended), "a zombie has ended");
        assert!(parse_stat(&stat(2)).is_some_and(|stat| !stat.has_ended()), "its other thread has not");
    }

    #[test]
    fn what_is_not_known_of_a_process_speaks_against_nothing() {
        let seen = ProcessStat { state: 'S', start: 777 };
        assert!(seen.may_be(777) && seen.may_be(0) && !seen.may_be(778));
        assert!(ProcessStat { start: 0, ..seen }.may_be(778));
        for (state, ended, stopped) in [('Z', true, false), ('X', true, false), ('x', true, false), ('R', false, false)]
        {
            let stat = ProcessStat { state, ..seen };
            assert_eq!((stat.has_ended(), stat.is_stopped()), (ended, stopped), "{state}");
        }
        assert!(['T', 't'].into_iter().all(|state| ProcessStat { state, ..seen }.is_stopped()));
    }

    #[test]
    fn a_process_is_known_by_its_pid_in_the_namespace_that_is_asked_about() {
        let status = "Name:\tx\nNSpid:\t4711\t12\t3\nVmPeak:\t1 kB\n";
        assert!(may_have_pid(status, 3, Some(true)) && !may_have_pid(status, 12, Some(true)), "its own is the last");
        assert!(may_have_pid(status, 12, Some(false)) && may_have_pid(status, 4711, Some(false)), "it may live below");
        assert!(!may_have_pid(status, 3, Some(false)), "there it has another");
        assert!([3, 12, 4711].iter().all(|pid| may_have_pid(status, *pid, None)), "who knows where it lives?");
        assert!(!may_have_pid("Name:\tx\n", 3, None));
    }

    #[test]
    fn ignored_signals_are_the_bits_of_a_mask() {
        let status = "SigBlk:\t0000000000000003\nSigIgn:\t8000000000001001\n";
        let ignored: Vec<i32> = (-1..80).filter(|number| ignores_signal(status, *number)).collect();
        assert_eq!(ignored, [1, 13, 64]);
        assert!(!ignores_signal("SigIgn:\tnone\n", 1) && !ignores_signal("", 1));
    }

    #[test]
    fn a_namespace_is_the_number_in_its_link() {
        assert_eq!(namespace_in("pid:[4026531836]", "pid"), Some(4_026_531_836));
        for other in ["net:[4026531836]", "pid:4026531836", "pid:[x]", "pid:[1", ""] {
            assert_eq!(namespace_in(other, "pid"), None, "{other}");
        }
    }

    #[test]
    fn a_line_of_the_table_of_mounts_is_read_after_its_optional_fields() {
        let table = "42 1 8:1 / / rw - ext4 /dev/a rw\n43 27 0:39 / /mnt rw,nosuid shared:1 master:2 - fuse.sshfs host:/dir rw,user_id=0\n";
        let found = mount_in(table, 43).expect("it is about that mount");
        assert_eq!((found.kind.as_str(), found.source.as_str()), ("fuse.sshfs", "host:/dir"));
        assert_eq!((found.point.as_str(), found.options.as_str()), ("/mnt", "rw,user_id=0"));
        let blanks = "43 27 0:39 / /my\\040disk rw - ext4 /dev/a\\134b rw";
        let blanks = mount_in(blanks, 43).expect("it is about that mount");
        assert_eq!((blanks.point.as_str(), blanks.source.as_str()), ("/my disk", "/dev/a\\b"));
        assert_eq!(mount_in(table, 4), None, "that is another one");
        assert_eq!(mount_in("", 43), None);
    }

    #[test]
    fn a_proc_that_hides_processes_is_known_by_its_options() {
        let plain = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n";
        let hides_some = "23 22 0:22 / /proc rw,nosuid - proc proc rw,gid=4,hidepid=invisible\n";
        let other = "24 1 0:23 / /srv/proc rw - proc proc rw,hidepid=2\n";
        assert!(!hides_processes(&format!("{plain}{other}")));
        assert!(hides_processes(&format!("{plain}{hides_some}")), "the last one is seen");
        assert!(!hides_processes(&format!("{hides_some}{plain}")), "the last one is seen");
        assert!(hides_processes(""), "what can't be found out");
    }

    #[test]
    fn only_the_holder_of_that_inode_is_named() {
        assert_eq!(flock_in("3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), Some((4711, "fe:00")));
        assert_eq!(flock_in("3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1235), None);
        assert_eq!(flock_in("3: FLOCK  ADVISORY  WRITE 0 fe:00:1234 0 EOF", 1234), None, "of another namespace");
        assert_eq!(flock_in("3: -> FLOCK  ADVISORY  WRITE 4712 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(flock_in("4: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(flock_in("", 1234), None);
    }

    #[test]
    fn the_same_inode_of_another_file_system_is_not_mistaken_for_it() {
        let table = "1: FLOCK  ADVISORY  WRITE 10 00:28:2 0 EOF\n2: FLOCK  ADVISORY  WRITE 11 00:27:2 0 EOF\n";
        assert_eq!(flock_holder(table, (0, 0x27), 2), Some(11));
        assert_eq!(flock_holder(table, (0, 0x28), 2), Some(10));
        assert_eq!(flock_holder(table, (0, 0x29), 2), None, "nobody is better than an innocent one");
        let (one, _) = table.split_once('\n').expect("two lines");
        assert_eq!(flock_holder(one, (0, 0x29), 2), Some(10), "btrfs");
    }

    #[test]
    fn only_a_descriptor_that_shares_a_lock_lists_it() {
        let open = "pos:\t0\nflags:\t02100000\nmnt_id:\t29\nino:\t1234\n";
        let lock = "lock:\t1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF\n";
        assert!(shares_flock(&format!("{open}{lock}")));
        assert!(!shares_flock(open) && !shares_flock(&lock.replace("FLOCK", "POSIX")) && !shares_flock(""));
    }

    #[test]
    fn a_command_and_a_boot_are_lines_without_their_ends() {
        assert_eq!(command_name(b"a b\n"), "a b");
        assert_eq!(command_name(b"\xff\n"), "\u{fffd}", "a process may call itself anything");
        assert_eq!(
            boot_id(b"e7c9e5a0-1111-4222-8333-444455556666\n").as_deref(),
            Some("e7c9e5a0-1111-4222-8333-444455556666")
        );
        assert_eq!((boot_id(b"\n"), boot_id(b"\xff"), boot_id(b"")), (None, None, None), "nothing is no boot's id");
    }

    #[test]
    fn the_owner_is_found_by_uid() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\n:x:7:7::/:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(user_name(passwd, 7), None, "an empty name is none");
        assert_eq!(user_name(passwd, 8), None);
    }
}
