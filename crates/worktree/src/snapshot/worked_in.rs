//! A worktree as snapshots see it: which of its files belong to them, and which must never be
//! moved.

use crate::snapshot::catalog::Snapshots;
use std::os::fd::AsFd as _;
use std::path::Path;

use lokt_core::snapshot::entry::Entry;

use super::answers::{Difference, Listed};
use super::parts::is_above;
use super::swap::inode_of;
use super::trouble::of_tree;
use crate::lease::Worktree;
use crate::repo::{MAIN, Repository};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::repository::JVS;
use lokt_tree::roots::{anchors, is_git_dir, looks_like_root, without};
use lokt_tree::{LeftOut, READABLE, Tree, open_beneath, split};

/// The directory, or the file, by which git recognises a working tree.
const GIT: &str = ".git";

/// Reports whether a worktree is the directory that `.jvs` is in.
fn is_around(repo: &Repository, worktree: &str) -> bool {
    repo.is_here() && worktree == MAIN
}

impl Snapshots<'_> {
    /// Reports whether the `.git` of this snapshot was included on request: then it is restored
    /// only on request, too.
    pub(super) fn has_asked_git(&self, listed: &Listed, entries: &[Entry]) -> bool {
        is_around(self.repo, &listed.descriptor.worktree) && has_git(entries)
    }
}

/// Reports whether the git directory at the top is among these entries.
pub(super) fn has_git(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.path == GIT.as_bytes())
}

/// Returns the entries without the git directory at the top.
pub(super) fn without_git(entries: Vec<Entry>) -> Vec<Entry> {
    without(entries, is_git)
}

fn is_git(path: &[u8]) -> bool {
    path.strip_prefix(GIT.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl Difference {
    /// Returns the difference without the git directory at the top.
    #[must_use]
    pub fn without_git(self) -> Self {
        let rest = |paths: Vec<Vec<u8>>| paths.into_iter().filter(|path| !is_git(path)).collect();
        let Self { added, removed, modified, touched } = self;
        Self { added: rest(added), removed: rest(removed), modified: rest(modified), touched: rest(touched) }
    }
}

/// The files of a worktree that belong to its snapshots.
pub(crate) struct WorkingFiles<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl WorkingFiles<'_> {
    /// Returns the worktree's files, without lock roots. Around `.jvs` they are also without
    /// `.jvs`, and with `.git` only on request: keeping commits is git's job.
    pub(super) fn files(&self, with_git: bool) -> Result<Tree, Error> {
        let place = self.worktree.repo.files_of(&self.worktree.name);
        let tree = Tree::open(&place).at("open", &place, "")?;
        if looks_like_root(tree.root(), b".") {
            let message = format!("{} is a lock root itself", place.display());
            let hint = "a worktree's snapshots leave lock roots out: set LOKT_ROOT to a directory of its own";
            return Err(Error::new(ErrorKind::Unusable, message).hint(hint));
        }
        let top: &[&str] = match (is_around(&self.worktree.repo, self.worktree.name.as_str()), with_git) {
            (false, _) => &[],
            (true, true) => &[JVS],
            (true, false) => &[JVS, GIT],
        };
        Ok(tree.leaving(LeftOut { roots: true, top }))
    }

    /// Returns the paths that must stay in place while `new` replaces the worktree's files. Empty:
    /// all of it can be exchanged at once.
    pub(super) fn anchors(&self, new: &Path) -> Result<Vec<Vec<u8>>, Error> {
        let tree = self.files(inode_of(&new.join(GIT)).is_ok_and(|ino| ino.is_some()))?;
        let mut found = anchors(&tree).map_err(of_tree)?;
        let new = Tree::open(new).at("open", new, "")?;
        for anchor in &mut found {
            let (dir, name) = split(anchor);
            let is_in_git =
                name == b"lokt" && open_beneath(tree.root(), dir, READABLE).is_ok_and(|dir| is_git_dir(dir.as_fd()));
            // Without the git directory around it, no process would find the root any more.
            let is_left_alone =
                is_in_git && !open_beneath(new.root(), dir, READABLE).is_ok_and(|dir| is_git_dir(dir.as_fd()));
            if is_left_alone {
                *anchor = dir.to_vec();
            }
        }
        if found.iter().any(Vec::is_empty) {
            let message = format!("{} is a git directory with a lock root in it", tree.path().display());
            let hint = "nothing was changed; the snapshot has no git directory there: restore it with `--into NAME`";
            return Err(Error::new(ErrorKind::Unusable, message).hint(hint));
        }
        found.sort_unstable();
        found.dedup();
        // Everything inside something that stays, stays.
        let is_in_another = |anchor: &&Vec<u8>| found.iter().any(|other| is_above(other, anchor));
        Ok(found.iter().filter(|anchor| !is_in_another(anchor)).cloned().collect())
    }
}
