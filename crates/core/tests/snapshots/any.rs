//! Any tree, snapshot and file of one that there could be.

use std::collections::BTreeMap;

use lokt_core::snapshot::entry::{Entry, Kind, SourceStamp, Time};
use lokt_core::snapshot::manifest::{Header, Manifest};
use proptest::prelude::*;

pub(crate) fn any_file_time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Time { secs, nanos })
}

/// A name of any bytes.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => b'a'..=b'c', 1 => Just(b'.'), 1 => any::<u8>()];
    prop::collection::vec(byte, 1..5).prop_filter("a name", |name| {
        !matches!(name.as_slice(), b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
    })
}

fn any_xattrs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = prop_oneof!["user\\.[a-c]{1,3}".prop_map(String::into_bytes), any_name()];
    prop::collection::btree_map(name, any::<Vec<u8>>(), 0..3).prop_map(|xattrs| xattrs.into_iter().collect())
}

fn any_stamp() -> impl Strategy<Value = SourceStamp> {
    (any::<u64>(), any::<u64>(), any_file_time()).prop_map(|(dev, ino, ctime)| SourceStamp { dev, ino, ctime })
}

/// An entry whose kind is a directory, a file or a symbolic link.
pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        Just(Kind::Dir),
        (any::<u64>(), any::<[u8; 32]>()).prop_map(|(size, hash)| Kind::File { size, hash }),
        any_name().prop_map(|target| Kind::Symlink { target }),
    ];
    let path = prop::collection::vec(any_name(), 1..4).prop_map(|names| names.join(&b'/'));
    let stat = (0..=0o7777_u32, any::<u32>(), any::<u32>(), any_file_time());
    (path, kind, stat, any_xattrs(), prop::option::of(any_stamp())).prop_map(
        |(path, kind, (mode, uid, gid, mtime), xattrs, source)| Entry {
            path,
            kind,
            mode,
            uid,
            gid,
            mtime,
            xattrs,
            source,
        },
    )
}

/// A whole tree, sorted, with hard links among its files.
pub(crate) fn any_tree() -> impl Strategy<Value = Vec<Entry>> {
    (prop::collection::vec((any_entry(), any::<bool>()), 1..20)).prop_map(|entries| {
        let mut tree: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        for (entry, _) in &entries {
            // What is above something is a directory.
            let ends = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            for end in [0].into_iter().chain(ends) {
                let dir = Entry { path: entry.path[..end].to_vec(), kind: Kind::Dir, ..entry.clone() };
                tree.insert(dir.path.clone(), dir);
            }
        }
        let mut first_file: Option<Vec<u8>> = None;
        for (entry, is_link) in entries {
            let Some((path, kind)) =
                Some((entry.path.clone(), entry.kind.clone())).filter(|_| !tree.contains_key(&entry.path))
            else {
                continue;
            };
            let kind = match (kind, &first_file) {
                (Kind::File { .. } | Kind::Symlink { .. }, Some(to)) if is_link && *to < path => {
                    Kind::HardLink { to: to.clone() }
                }
                (kind @ (Kind::File { .. } | Kind::Symlink { .. }), None) => {
                    first_file = Some(path.clone());
                    kind
                }
                (kind, _) => kind,
            };
            tree.insert(path, Entry { kind, ..entry });
        }
        tree.into_values().collect()
    })
}

pub(crate) fn any_manifest() -> impl Strategy<Value = Manifest> {
    (any_file_time(), any::<bool>(), any_tree())
        .prop_map(|(scanned_at, trusted, entries)| Manifest { header: Header { scanned_at, trusted }, entries })
}
