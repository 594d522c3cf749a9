//! A worktree with two snapshots: it is at the second, and gets the files of the first.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use lokt_testkit::strace::{Call, with_paths};
use lokt_testkit::swarm::put;
use lokt_testkit::tenancy::{LONG, Tenancy, as_words};

use crate::LOKT;

/// Who may write in the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    Exclusive,
    Shared,
    /// Exclusive, with lock roots in it, which stay where they are.
    Rooted,
}

/// Where the lock roots are.
const ROOTS: [&str; 2] = [".lokt", "sub/any"];

/// What is in a tree, by path: bytes, target, or that it is a directory. What is ignored is left out.
pub(crate) type Tree = BTreeMap<PathBuf, String>;

pub(crate) struct Scene {
    pub(crate) tenancy: Tenancy,
    pub(crate) first: String,
    pub(crate) second: String,
    pub(crate) old: Tree,
    pub(crate) new: Tree,
    /// Of the lease that `a` has, if one is needed.
    pub(crate) token: Option<u64>,
    /// The inodes of the lock roots, if there are any.
    roots: [Option<u64>; 2],
}

impl Scene {
    /// `lease`: how long `a` has it.
    pub(crate) fn new(isolation: Isolation, lease: &str) -> Self {
        let tenancy = Tenancy::new(LOKT);
        if isolation == Isolation::Shared {
            tenancy.says("setup", "worktree create w --isolation shared", 0);
        } else {
            tenancy.says("setup", "worktree create w", 0);
        }
        let place = tenancy.place.beside("worktrees/w");
        put(&place.join(".lokt-ignore"), "cache\n");
        put(&place.join("a"), "first");
        put(&place.join("sub/b"), "first");
        symlink("a", place.join("link")).expect("a link can be made");
        std::fs::create_dir(place.join("only-first")).expect("a directory can be made");
        let new = tree(&place);
        let first = taken(&tenancy);
        put(&place.join("a"), "second");
        put(&place.join("sub/b"), "second");
        put(&place.join("only-second/c"), "second");
        std::fs::remove_dir(place.join("only-first")).expect("it is empty");
        let second = taken(&tenancy);
        let old = tree(&place);
        put(&place.join("cache/kept"), "ignored");
        put(&place.join("sub/cache"), "ignored");
        if isolation == Isolation::Rooted {
            for root in ROOTS {
                put(&place.join(root).join("locks/x.json"), "held");
                put(&place.join(root).join("state/next"), "7");
            }
        }
        assert_ne!(old, new, "one can tell them apart");
        let roots = inodes(&place);
        let mut scene = Self { tenancy, first, second, old, new, token: None, roots };
        scene.token = (isolation != Isolation::Shared).then(|| scene.acquire("a", lease));
        scene
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.tenancy.place.beside("worktrees/w")
    }

    pub(crate) fn acquire(&self, owner: &str, lease: &str) -> u64 {
        self.tenancy.acquire(owner, &format!("--worktree w {lease}"))
    }

    /// The words of the restore. `flags`: how it is done.
    pub(crate) fn args(&self, flags: &str) -> Vec<String> {
        let token = self.token.map(|token| format!("--token {token}")).unwrap_or_default();
        self.tenancy.args("a", &format!("snapshot restore {} --in-place --worktree w {flags} {token}", self.first))
    }

    /// The calls of a restore that is let through, from the first look at what the worktree is at.
    pub(crate) fn calls(isolation: Isolation, flags: &str) -> Vec<(Call, String)> {
        let scene = Self::new(isolation, LONG);
        let (ended, all) = with_paths(&scene.tenancy.place, "a", &as_words(&scene.args(flags)));
        assert_eq!(ended.code, Some(0), "it comes back: {ended:?}");
        assert_eq!(tree(&scene.place()), scene.new, "with the files of the first");
        scene.is_whole("let through");
        for name in ["flock", "linkat", "renameat2", "mkdirat"] {
            assert!(all.iter().any(|(call, _)| call.name == name), "strace sees {name}");
        }
        all
    }

    /// Which snapshot the worktree is at.
    pub(crate) fn head(&self) -> String {
        let history = self.tenancy.says("observer", "snapshot history --worktree w", 0);
        history["head"].as_str().unwrap_or_else(|| panic!("it is at one: {history}")).to_owned()
    }

    /// The worktree has one of the two trees, and says so. True: the new one.
    pub(crate) fn is_whole(&self, context: &str) -> bool {
        let is_new = self.has_one_tree(context);
        let head = if is_new { &self.first } else { &self.second };
        assert_eq!(&self.head(), head, "{context}: it says what is there");
        is_new
    }

    /// The worktree has one of the two trees, and nothing is lost. True: the new one.
    pub(crate) fn has_one_tree(&self, context: &str) -> bool {
        let found = tree(&self.place());
        let is_new = found == self.new;
        assert!(is_new || found == self.old, "{context}: neither the old tree nor the new one: {found:?}");
        for path in ["cache/kept", "sub/cache"] {
            let kept = std::fs::read_to_string(self.place().join(path)).unwrap_or_default();
            assert_eq!(kept, "ignored", "{context}: {path} is ignored, and stays");
        }
        self.roots_stay(context);
        let trash = std::fs::read_dir(self.tenancy.inside("trash")).map_or(0, |entries| {
            let paths = entries.map(|entry| entry.expect("it can be listed").path());
            paths.filter(|path| tree(path) == self.old).count()
        });
        assert_eq!(trash, usize::from(is_new), "{context}: the old tree is in the trash, once, if it was replaced");
        is_new
    }

    /// The lock roots are where they were; asked at any time.
    pub(crate) fn roots_stay(&self, context: &str) {
        assert_eq!(inodes(&self.place()), self.roots, "{context}: no root was moved");
    }

    /// What is left over can be cleared away, and everything can still be read.
    pub(crate) fn can_be_tidied(&self, context: &str) {
        let fixed = self.tenancy.run("doctor", "doctor --strict --fix");
        assert_eq!(fixed.code, Some(0), "{context}: what is left over can be cleared away: {fixed:?}");
        let left = std::fs::read_dir(self.tenancy.inside("restores")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{context}: nothing is left over");
        self.tenancy.says("reader", "snapshot verify --all", 0);
        self.tenancy.log_is_whole(context);
    }
}

fn inodes(place: &Path) -> [Option<u64>; 2] {
    ROOTS.map(|root| std::fs::metadata(place.join(root)).map(|meta| meta.ino()).ok())
}

fn taken(tenancy: &Tenancy) -> String {
    let said = tenancy.says("setup", "snapshot create --acquire --worktree w", 0);
    said["snapshot_id"].as_str().unwrap_or_else(|| panic!("it has an id: {said}")).to_owned()
}

/// What is there, without what is ignored.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    walk(root, root, &mut found);
    found
}

fn walk(root: &Path, dir: &Path, found: &mut Tree) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.expect("it can be listed").path();
        let meta = std::fs::symlink_metadata(&path).expect("nobody else is here");
        if path.ends_with("cache") || ROOTS.iter().any(|name| path == root.join(name)) {
            continue;
        }
        let what = if meta.is_symlink() {
            format!("to {}", std::fs::read_link(&path).expect("it is a link").display())
        } else if meta.is_dir() {
            walk(root, &path, found);
            "directory".to_owned()
        } else {
            format!("{:o} {}", meta.mode(), std::fs::read_to_string(&path).expect("it is text"))
        };
        found.insert(path.strip_prefix(root).expect("it is below").to_owned(), what);
    }
}
