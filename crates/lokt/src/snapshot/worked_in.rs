//! A worktree as snapshots see it: which of its files belong to them, and which must never be moved.

use std::os::fd::AsFd as _;
use std::path::Path;

use super::parts::is_above;
use super::trouble::of_tree;
use crate::error::{At as _, Error, ErrorKind};
use crate::lease::Worktree;
use crate::tree::roots::{anchors, is_git_dir, looks_like_root};
use crate::tree::{LeftOut, READABLE, Tree, open_beneath, split};

impl Worktree {
    /// The worktree's files, without lock roots.
    pub(super) fn files(&self) -> Result<Tree, Error> {
        let place = self.repo.files_of(&self.name);
        let tree = Tree::open(&place).at("open", &place, "")?;
        if looks_like_root(tree.root(), b".") {
            let message = format!("{} is a lock root itself", place.display());
            let hint = "a worktree's snapshots leave lock roots out: set LOKT_ROOT to a directory of its own";
            return Err(Error::new(ErrorKind::Unusable, message).hint(hint));
        }
        Ok(tree.leaving(LeftOut { roots: true, top: &[] }))
    }

    /// What must stay where it is while `new` takes the place of the worktree's files, by path. Empty: all of it can be exchanged at once.
    pub(super) fn anchors(&self, new: &Path) -> Result<Vec<Vec<u8>>, Error> {
        let tree = self.files()?;
        let mut found = anchors(&tree).map_err(of_tree)?;
        let new = Tree::open(new).at("open", new, "")?;
        for anchor in &mut found {
            let (dir, name) = split(anchor);
            let is_in_git =
                name == b"lokt" && open_beneath(tree.root(), dir, READABLE).is_ok_and(|dir| is_git_dir(dir.as_fd()));
            // Without the git directory around it nobody would find the root any more.
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
        // What is in something that stays, stays.
        let is_in_another = |anchor: &&Vec<u8>| found.iter().any(|other| is_above(other, anchor));
        Ok(found.iter().filter(|anchor| !is_in_another(anchor)).cloned().collect())
    }
}
