//! Compares two scans of a tree.

use std::cmp::Ordering;

use super::scan::{Node, Scan};

/// Returns the paths that were added, removed or changed in any way. Equal times prove that nothing
/// happened only where [`super::Tree::is_trusted`], and only if the first scan isn't
/// [`Scan::is_racy`].
pub fn between(before: &Scan, after: &Scan) -> Vec<Vec<u8>> {
    let mut changed: Vec<Vec<u8>> = before.moved.iter().chain(&after.moved).cloned().collect();
    let (mut old, mut new) = (before.entries.iter().peekable(), after.entries.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.path.cmp(&b.path),
        };
        let was = if order.is_le() { old.next() } else { None };
        let is = if order.is_ge() { new.next() } else { None };
        if !is_same(was, is) {
            changed.extend(was.or(is).map(|node| node.path.clone()));
        }
    }
    changed.sort_unstable();
    changed.dedup();
    changed
}

fn is_same(was: Option<&Node>, is: Option<&Node>) -> bool {
    let (Some(was), Some(is)) = (was, is) else { return false };
    // Ignored entries may come and go, which updates the times of their directory. The entries that
    // count are compared themselves.
    if was.has_ignored || is.has_ignored {
        return is.stat.is_same_place(&was.stat);
    }
    is.stat.is_untouched(&was.stat)
}

#[cfg(test)]
mod tests {
    use super::super::{Stat, Time};
    use super::*;

    fn scan(entries: &[(&str, i64)]) -> Scan {
        let time = |secs| Time { secs, nanos: 0 };
        let stat = |ctime| Stat {
            dev: 1,
            ino: 2,
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            size: 3,
            blocks: 8,
            mtime: time(5),
            ctime: time(ctime),
            nlink: 1,
        };
        let node = |(path, ctime): &(&str, i64)| Node {
            path: path.as_bytes().to_vec(),
            stat: stat(*ctime),
            has_ignored: false,
        };
        Scan { entries: entries.iter().map(node).collect(), ..Scan::default() }
    }

    #[test]
    fn what_came_went_and_changed_is_named() {
        let before = scan(&[("", 1), ("a", 1), ("b", 1), ("d", 1)]);
        let after = scan(&[("", 1), ("a", 2), ("c", 1), ("d", 1)]);
        assert_eq!(between(&before, &after), [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
        assert!(between(&before, &before).is_empty());
    }

    #[test]
    fn what_moved_during_a_look_has_changed() {
        let (before, mut after) = (scan(&[("", 1)]), scan(&[("", 1)]));
        after.moved = vec![b"x".to_vec()];
        assert_eq!(between(&before, &after), [b"x".to_vec()]);
        assert_eq!(between(&after, &before), [b"x".to_vec()]);
    }

    #[test]
    fn a_directory_with_ignored_entries_may_have_other_times() {
        let (mut before, mut after) = (scan(&[("", 1)]), scan(&[("", 2)]));
        assert_eq!(between(&before, &after).len(), 1);
        after.entries[0].has_ignored = true;
        assert!(between(&before, &after).is_empty());
        before.entries[0].stat.mode = 0o100_600;
        assert_eq!(between(&before, &after).len(), 1, "its rights still count");
    }

    #[test]
    fn blocks_alone_are_no_change() {
        let (before, mut after) = (scan(&[("a", 1)]), scan(&[("a", 1)]));
        after.entries[0].stat.blocks = 16;
        assert!(between(&before, &after).is_empty(), "a disk is filled late");
    }
}
