//! Who holds a `flock`? `/proc/locks` knows.

use std::fs;

use super::machine::process_stat;

/// Describes the process that holds a `flock` on inode `ino`, for an error message. The device isn't compared: btrfs shows another one
/// there than `stat` does.
pub(super) fn holder_of(ino: u64) -> Option<String> {
    let table = fs::read_to_string("/proc/locks").ok()?;
    let pid = table.lines().find_map(|line| holder_in(line, ino))?;
    let state = process_stat(pid).map(|stat| stat.state);
    Some(match state {
        Some('T' | 't') => format!("process {pid}, which is stopped (kill -CONT {pid} lets it go on)"),
        Some(state) => format!("process {pid} (state {state})"),
        None => format!("process {pid}"),
    })
}

/// The pid in a line like `3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF` about `ino`. Waiters have `->` before the kind.
fn holder_in(line: &str, ino: u64) -> Option<i64> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let (_, inode) = words.next()?.rsplit_once(':')?;
    (inode.parse::<u64>().ok()? == ino && pid > 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::holder_in;

    #[test]
    fn only_the_holder_of_that_inode_is_named() {
        assert_eq!(holder_in("3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), Some(4711));
        assert_eq!(holder_in("3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1235), None);
        assert_eq!(holder_in("3: -> FLOCK  ADVISORY  WRITE 4712 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(holder_in("4: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234), None);
        assert_eq!(holder_in("", 1234), None);
    }
}
