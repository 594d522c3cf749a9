//! Lock roots inside a tree. A root is state of the machine, not of the project: a restored copy of
//! one would issue tokens again and forget who holds what. So no snapshot contains a root, and no
//! restore moves one.
//!
//! A root is recognised by its contents, not its name: the environment of another process may tell
//! it to use a directory of any name.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, BorrowedFd};

use lokt_core::snapshot::entry::{Entry, Kind};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use super::beneath::{READABLE, Tree, open_beneath, split};
use super::error::TreeError;
use super::scan::is_gone;
use super::stat::look;

/// Name of a root in a directory that is not a git repository.
const OWN_NAME: &[u8] = b".lokt";
/// Name of a root in a git directory.
const NAME_IN_GIT: &[u8] = b"lokt";
/// Entries of every git directory, except that of a linked worktree, which contains no root.
const GIT: [&str; 3] = ["HEAD", "objects", "refs"];
/// A root has one of these from its first token on …
const COUNTERS: [&str; 2] = ["state/next", "state/ceiling"];
/// … and one of these.
const PLACES: [&str; 2] = ["locks", "state/tmp"];
/// A root has this from the beginning, even if only freezes were placed in it …
const SCRATCH: &str = "state/tmp";
/// … and one of these after its first change.
const TRACES: [&str; 2] = ["freezes", "audit.log"];

/// Reports whether `name` in `dir` is a lock root. A symbolic link called `.lokt` counts: its
/// target is used as the root.
pub fn is_root(dir: BorrowedFd<'_>, name: &[u8], kind: FileType) -> bool {
    if !matches!(kind, FileType::Directory | FileType::Symlink) {
        return false;
    }
    name == OWN_NAME
        || (kind == FileType::Directory && ((name == NAME_IN_GIT && is_git_dir(dir)) || looks_like_root(dir, name)))
}

/// Reports whether a directory is a git directory that can contain a root.
pub fn is_git_dir(dir: BorrowedFd<'_>) -> bool {
    GIT.iter().all(|name| has(dir, name.as_bytes()))
}

/// Reports whether a directory contains what lokt puts into every root, whatever its name.
pub fn looks_like_root(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    let below = |path: &&str| has(dir, &[name, b"/", path.as_bytes()].concat());
    // Most directories are ruled out here, with one system call.
    below(&"state") && has_marks(|path| below(&path))
}

/// Reports whether a directory with these entries is a root.
fn has_marks(has: impl Fn(&'static str) -> bool) -> bool {
    let any = |paths: [&'static str; 2]| paths.into_iter().any(&has);
    (any(COUNTERS) && any(PLACES)) || (has(SCRATCH) && any(TRACES))
}

fn has(dir: BorrowedFd<'_>, path: &[u8]) -> bool {
    statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Finds the paths that must not move when the tree is replaced: lock roots, mount points, and what
/// is left out at the top. Ignored directories are searched, too. Unreadable directories are
/// skipped: their contents can't be determined.
pub fn anchors(tree: &Tree) -> Result<Vec<Vec<u8>>, TreeError> {
    let failed = |path: &[u8], error| TreeError::io("list", tree.path(), path, error);
    let (mut anchors, mut dirs) = (Vec::new(), vec![Vec::new()]);
    while let Some(dir) = dirs.pop() {
        let fd = match open_beneath(tree.root(), &dir, READABLE) {
            Err(error) if is_gone(error) || error == Errno::ACCESS => continue,
            done => done.map_err(|error| failed(&dir, error))?,
        };
        for entry in Dir::read_from(&fd).map_err(|error| failed(&dir, error))? {
            let entry = entry.map_err(|error| failed(&dir, error))?;
            let name = entry.file_name().to_bytes();
            let kind = entry.file_type();
            // Nothing else can be a root. Only directories and files can be mounted on, and files
            // are left as they are.
            if matches!(name, b"." | b"..")
                || !matches!(kind, FileType::Directory | FileType::Symlink | FileType::Unknown) && !dir.is_empty()
            {
                continue;
            }
            let seen = match look(fd.as_fd(), name) {
                Err(error) if is_gone(error) => continue,
                done => done.map_err(|error| failed(&dir, error))?,
            };
            let kind = seen.stat.file_type();
            let path = if dir.is_empty() { name.to_vec() } else { [&dir, &b"/"[..], name].concat() };
            let is_mount = seen.is_mount_root || (seen.mount.is_some() && seen.mount != tree.mount);
            if is_mount || tree.leaves_out(fd.as_fd(), &dir, name, kind) {
                anchors.push(path);
            } else if kind == FileType::Directory {
                dirs.push(path);
            }
        }
    }
    anchors.sort_unstable();
    Ok(anchors)
}

/// Returns the entries without the roots among them, for snapshots that were taken before roots
/// were left out.
pub fn without_roots(entries: Vec<Entry>) -> Vec<Entry> {
    let roots = roots_among(&entries);
    if roots.is_empty() {
        return entries;
    }
    without(entries, |path| prefixes(path).any(|above| roots.contains(above)))
}

/// Returns the entries without those for which `is_out` is true. If a file has names on both sides,
/// its first remaining name becomes the file.
pub fn without(entries: Vec<Entry>, is_out: impl Fn(&[u8]) -> bool) -> Vec<Entry> {
    let mut gone: HashMap<Vec<u8>, Kind> = HashMap::new();
    let mut first_names: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut kept = Vec::with_capacity(entries.len());
    for mut entry in entries {
        if is_out(&entry.path) {
            gone.insert(entry.path, entry.kind);
            continue;
        }
        if let Kind::HardLink { to } = &entry.kind
            && let Some(kind) = gone.get(to)
        {
            if let Some(first) = first_names.get(to) {
                entry.kind = Kind::HardLink { to: first.clone() };
            } else {
                first_names.insert(to.clone(), entry.path.clone());
                entry.kind = kind.clone();
            }
        }
        kept.push(entry);
    }
    kept
}

fn roots_among(entries: &[Entry]) -> HashSet<Vec<u8>> {
    let paths: HashSet<&[u8]> = entries.iter().map(|entry| entry.path.as_slice()).collect();
    let has = |dir: &[u8], name: &str| {
        let path = if dir.is_empty() { name.as_bytes().to_vec() } else { [dir, b"/", name.as_bytes()].concat() };
        paths.contains(path.as_slice())
    };
    let is_root = |entry: &&Entry| {
        let (above, name) = split(&entry.path);
        match entry.kind {
            Kind::Symlink { .. } => name == OWN_NAME,
            Kind::Dir if entry.path.is_empty() => false,
            Kind::Dir => {
                name == OWN_NAME
                    || (name == NAME_IN_GIT && GIT.iter().all(|name| has(above, name)))
                    || has_marks(|name| has(&entry.path, name))
            }
            _ => false,
        }
    };
    entries.iter().filter(is_root).map(|entry| entry.path.clone()).collect()
}

/// Returns a path and the directories above it, without the top.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(slash, _)| &path[..slash]).chain([path])
}

#[cfg(test)]
mod tests {
    use lokt_core::snapshot::entry::Time;

    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        let time = Time { secs: 0, nanos: 0 };
        Entry { path: path.into(), kind, mode: 0o755, uid: 0, gid: 0, mtime: time, xattrs: Vec::new(), source: None }
    }

    fn left(paths: &[&str]) -> Vec<String> {
        // A path that ends with a slash is a directory.
        let made = |path: &&str| match path.strip_suffix('/') {
            Some(dir) => entry(dir, Kind::Dir),
            None => entry(path, Kind::File { size: 0, hash: [0; 32] }),
        };
        let left = without_roots(paths.iter().map(made).collect());
        left.into_iter().map(|entry| String::from_utf8(entry.path).expect("it is text")).collect()
    }

    #[test]
    fn roots_of_every_name_are_left_out() {
        assert_eq!(left(&["", "a", "sub/", "sub/.lokt/", "sub/.lokt/locks/"]), ["", "a", "sub"]);
        let git = ["r/", "r/HEAD", "r/lokt/", "r/lokt/audit.log", "r/objects/", "r/refs/"];
        assert_eq!(left(&git), ["r", "r/HEAD", "r/objects", "r/refs"]);
        let named = ["x/", "x/locks/", "x/locks/a.json", "x/state/", "x/state/next", "y"];
        assert_eq!(left(&named), ["y"]);
        let frozen = ["x/", "x/freezes/", "x/freezes/a.json", "x/state/", "x/state/tmp/", "y"];
        assert_eq!(left(&frozen), ["y"], "no token was given in it yet");
    }

    #[test]
    fn what_only_has_the_name_stays() {
        for paths in [
            &["lokt/", "lokt/src"][..],
            &["x/", "x/locks/"],
            &["x/", "x/state/", "x/state/next"],
            &["x/", "x/audit.log"],
            &[".lokt"],
        ] {
            assert_eq!(left(paths).len(), paths.len(), "{paths:?}");
        }
    }

    #[test]
    fn a_file_with_a_name_in_a_root_keeps_the_others() {
        let file = Kind::File { size: 3, hash: [7; 32] };
        let link = Kind::HardLink { to: ".lokt/a".into() };
        let all = [(".lokt", Kind::Dir), (".lokt/a", file.clone()), ("b", link.clone()), ("c", link)]
            .map(|(p, k)| entry(p, k));
        let left: Vec<Kind> = without_roots(all.into()).into_iter().map(|entry| entry.kind).collect();
        assert_eq!(left, [file, Kind::HardLink { to: "b".into() }]);
    }
}
