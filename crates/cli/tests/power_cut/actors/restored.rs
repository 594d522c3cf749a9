//! The trees of worktrees: what snapshots are taken of, and what they are restored in the place of. One that was restored, or of which a
//! snapshot was acknowledged, is whole.

use std::fs;
use std::path::{Path, PathBuf};

use super::snapshots::{OWNER, REPOSITORY};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::number;
use crate::tally::Tally;

const FILES: usize = 12;
/// More than a block each.
const LINES: usize = 1000;

/// What a tree may be.
#[derive(Clone, Debug)]
enum Tree {
    /// One of these, whole.
    OneOf(Vec<u64>),
    /// Files were written that nobody made durable.
    Written,
}

/// A worktree whose lease somebody has.
pub(super) struct Restored {
    worktree: &'static str,
    tokens: Highest,
    tree: Tree,
    /// The same as it was when the power went.
    tree_then: Tree,
}

impl Restored {
    pub(super) fn new(worktree: &'static str) -> Self {
        Self { worktree, tokens: Highest::default(), tree: Tree::Written, tree_then: Tree::Written }
    }

    /// A command about it, by whoever has its lease.
    pub(super) fn call(&self, site: &Site, words: &str) -> Call<'static> {
        let session = site.outside(&format!("session-snapped-{}", self.worktree));
        let call = Call::new(OWNER, &format!("{words} --worktree {} --json --session", self.worktree));
        call.word(session.display().to_string()).within(REPOSITORY)
    }

    pub(super) fn acquire(&mut self, site: &Site) -> Result<(), Stop> {
        let before = self.tokens.so_far();
        let answer = site.answer(&self.call(site, "lease acquire --lease 1h"))?;
        self.tokens.given(before, number(&answer, "fencing_token"), "a worktree of the snapshots")
    }

    /// Writes a new tree, which a snapshot makes durable. False: the power is off.
    pub(super) fn write(&mut self, site: &Site, version: u64) -> bool {
        self.tree = Tree::Written;
        write_tree(&self.dir(site), version)
    }

    /// It is this one from now on.
    pub(super) fn is_now(&mut self, version: u64) {
        self.tree = Tree::OneOf(vec![version]);
    }

    /// It may be this one from now on.
    pub(super) fn may_be(&mut self, version: u64) {
        if let Tree::OneOf(versions) = &mut self.tree {
            versions.push(version);
        }
    }

    pub(super) fn look(&mut self, site: &Site, tally: &mut Tally) {
        self.tree_then = self.tree.clone();
        self.compare(site, tally);
    }

    fn compare(&mut self, site: &Site, tally: &mut Tally) {
        let found = version(&self.dir(site));
        if let Tree::OneOf(versions) = &self.tree {
            let kept = found.is_some_and(|found| versions.contains(&found));
            tally.check("restored tree", kept, || format!("all-or-nothing: {versions:?} became {found:?}"));
        }
        self.tree = found.map_or(Tree::Written, |found| Tree::OneOf(vec![found]));
    }

    pub(super) fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        if site.is_rebooted() {
            self.acquire(site)?;
        } else {
            site.answer(&self.call(site, "lease renew"))?;
        }
        // Whoever gets or keeps the lease finishes a restore that was decided: that is the last moment for it.
        self.tree.clone_from(&self.tree_then);
        self.compare(site, tally);
        Ok(())
    }

    pub(super) fn dir(&self, site: &Site) -> PathBuf {
        let dir = if self.worktree == "main" { "main".into() } else { format!("worktrees/{}", self.worktree) };
        site.at(&format!("{REPOSITORY}/{dir}"))
    }
}

/// A file of every tree.
pub(super) fn some_file(dir: &Path) -> PathBuf {
    dir.join("dir-0/file-0")
}

/// Files that all say which version they are. Is it all there?
fn write_tree(dir: &Path, version: u64) -> bool {
    let content = format!("{version}\n").repeat(LINES);
    (0..FILES).all(|n| {
        let dir = dir.join(format!("dir-{}", n % 3));
        fs::create_dir_all(&dir).is_ok() && overwrite(&dir.join(format!("file-{n}")), &content)
    })
}

/// With the power off this fails, which is no failure of the test.
#[expect(clippy::disallowed_methods, reason = "an ordinary write into a worktree, which nobody syncs")]
fn overwrite(path: &Path, content: &str) -> bool {
    fs::write(path, content).is_ok()
}

/// Which version a tree is; `None` if it isn't a whole one.
pub(super) fn version(dir: &Path) -> Option<u64> {
    let read = |n: usize| fs::read_to_string(dir.join(format!("dir-{}/file-{n}", n % 3))).ok();
    let first = read(0)?;
    let version: u64 = first.lines().next()?.parse().ok()?;
    let content = format!("{version}\n").repeat(LINES);
    (0..FILES).all(|n| read(n).as_ref() == Some(&content)).then_some(version)
}
