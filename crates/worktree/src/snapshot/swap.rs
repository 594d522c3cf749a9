//! A tree replaces a worktree's, exactly once, whichever process does it.
//!
//! A link says which tree, by its name in `restores` and its inode. The first process that swaps
//! gives it a name that no other process knows, and checks that it still has that inode. So a
//! process that was suspended finds nothing to swap when it continues, and no process swaps the old
//! tree back in. The inode of the worktree's directory shows that the swap was done.

use crate::snapshot::gc::Gc;
use std::io;
use std::path::{Path, PathBuf};

use lokt_core::lease::names::tree_token;
use lokt_core::lease::state::Restore;

use super::parts::tree_in;
use super::places::RESTORES;
use crate::lease::{Links, Worktree};
use crate::repo::TRASH;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::look::look;
use lokt_sys::payload;
use lokt_tree::carry_ignored;

/// Maximum number of attempts: others do the same, and each time one of them has made progress.
pub(super) const TRIES: usize = 1000;

/// Number of times that a tree must not be found before it counts as gone: a listing of many names
/// may miss one that changes at that moment.
pub(super) const LOOKS: usize = 3;

/// Result of a swap.
#[derive(Debug)]
pub(crate) enum Swapped {
    /// The worktree has the new tree. `old_tree` is where the old one is, if it still exists.
    Done {
        old_tree: Option<PathBuf>,
        /// Paths that couldn't be replaced, and are as they were.
        left: Vec<String>,
    },
    /// The swap is impossible, for this reason. The worktree has its old tree.
    Undone(String),
}

impl Swapped {
    pub(super) fn done(old_tree: Option<PathBuf>) -> Self {
        Self::Done { old_tree, left: Vec::new() }
    }
}

/// Exchanges the files of a worktree for a restored tree.
pub(crate) struct TreeSwap<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl TreeSwap<'_> {
    /// Carries out a restore that was decided. `number` is the link that says so.
    pub(crate) fn finish(&self, restore: &Restore, number: u64) -> Result<Swapped, Error> {
        if restore.in_parts {
            return self.finish_parts(restore, number);
        }
        let place = self.worktree.repo.files_of(&self.worktree.name);
        let mut missed = 0;
        for _ in 0..TRIES {
            if inode(&place)? == Some(restore.ino) || self.was_done(restore, number) {
                let old_tree = self.put_away(restore, &place)?;
                return Ok(Swapped::done(old_tree));
            }
            let Some(trees) = self.claims(restore)? else { continue };
            let new = trees.iter().find(|(_, ino)| *ino == restore.ino);
            // In a copy of a repository, every inode differs; a tree that no process has claimed
            // hasn't been swapped.
            let new = new.or_else(|| trees.iter().find(|(name, _)| *name == restore.tree));
            let Some((name, ino)) = new else {
                // Another process may have done all of it since we checked the place.
                missed += 1;
                if missed < LOOKS {
                    continue;
                }
                if inode(&place)?.is_some() {
                    return Ok(Swapped::Undone("its tree is gone".into()));
                }
                // Between the two steps of a process that couldn't swap in one, the new tree was
                // lost.
                let Some((old, _)) = trees.first() else {
                    return Ok(Swapped::Undone("both trees are gone".into()));
                };
                let old = self.restores().join(old);
                payload::move_new(&old, &place).at("put back", &place, "")?;
                return Ok(Swapped::Undone("its tree is gone".into()));
            };
            let claimed = self.restores().join(format!("{}.{:032x}", restore.tree, self.worktree.repo.random()?));
            match payload::move_new(&self.restores().join(name), &claimed) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                done => done.at("claim", &claimed, "")?,
            }
            // Another process may have swapped between the two checks: then this is the old tree.
            if inode(&claimed)? != Some(*ino) {
                continue;
            }
            match self.swap_trees(&claimed, &place, *ino) {
                Ok(()) if *ino == restore.ino => {}
                Ok(()) => return Ok(Swapped::done(self.put_away(restore, &place)?)),
                // Another process claimed it after us.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if can_never(&error) => {
                    let why = format!("{} can't be replaced: {error}", place.display());
                    // First to where no process finds it: a process that is killed half-way leaves
                    // nothing that looks like a tree to restore.
                    if let Ok(trash) =
                        self.worktree.repo.gc().throw_away_tree(&claimed, &format!("undone-{}", self.worktree.name))
                    {
                        let _ = payload::destroy(&trash);
                    }
                    return Ok(Swapped::Undone(why));
                }
                Err(error) => return Err(Error::io("replace", &place, error)),
            }
        }
        Err(Error::new(ErrorKind::Busy, format!("others restore worktree \"{}\" all the time", self.worktree.name)))
    }

    /// Moves away the trees of restores that were decided under earlier tokens, by links that no
    /// process knows any more: a process that was suspended before its exchange finds nothing to
    /// swap. The tree that the chain wants stays.
    pub(crate) fn empty_restores(&self, links: &Links) -> Result<(), Error> {
        let wanted = links.state().restore.map(|restore| restore.tree);
        let is_late = |name: &str| {
            tree_token(self.worktree.name.as_str(), name).is_some_and(|token| token < links.next())
                && wanted.as_ref().is_none_or(|tree| !name.starts_with(tree.as_str()))
        };
        let mut found = true;
        // Until two listings in a row find none: a tree that is renamed while the directory is
        // listed may be missed.
        for _ in 0..TRIES {
            let mut late = Vec::new();
            let listed = self
                .worktree
                .repo
                .disk
                .each_name(RESTORES, &mut |name| late.extend(is_late(name).then(|| name.to_owned())));
            listed.at("list", &self.worktree.repo.path, RESTORES)?;
            if late.is_empty() && !found {
                return Ok(());
            }
            found = !late.is_empty();
            for name in late {
                // If it is the former tree of the worktree, something in it may exist nowhere else.
                let _ = carry_ignored(
                    &tree_in(&self.restores().join(&name)),
                    &self.worktree.repo.files_of(&self.worktree.name),
                );
                match self
                    .worktree
                    .repo
                    .gc()
                    .throw_away_tree(&self.restores().join(&name), &format!("restored-{}", self.worktree.name))
                {
                    Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {}
                    done => drop(done?),
                }
            }
        }
        Err(self.worktree.writer().too_busy())
    }

    /// Reports whether the tree has taken its place, and nothing is left to be put away.
    pub(crate) fn is_swapped(&self, restore: &Restore) -> bool {
        if restore.in_parts {
            return self.has_parts(restore);
        }
        let place = self.worktree.repo.files_of(&self.worktree.name);
        matches!(inode_of(&place), Ok(Some(ino)) if ino == restore.ino)
            && self.claims(restore).is_ok_and(|claims| claims.is_some_and(|claims| claims.is_empty()))
    }

    pub(crate) fn restores(&self) -> PathBuf {
        self.worktree.repo.path.join(RESTORES)
    }

    /// Reports whether a process noted that it was done. The directory may have been replaced
    /// since, by its user or with a copy of the repository.
    pub(super) fn was_done(&self, restore: &Restore, number: u64) -> bool {
        let config = self.worktree.repo.config(&self.worktree.name).ok().flatten();
        config.is_some_and(|config| config.head_slot() >= number && config.head() == Some(restore.snapshot_id.as_str()))
    }

    /// Returns the trees of a restore under all names that they have been given, with their inodes;
    /// `None` if one of them was renamed in the meantime.
    fn claims(&self, restore: &Restore) -> Result<Option<Vec<(String, u64)>>, Error> {
        let names = self.worktree.repo.disk.list(RESTORES).at("list", &self.worktree.repo.path, RESTORES)?;
        let of = |name: &&String| {
            name.strip_prefix(&restore.tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut claims = Vec::new();
        for name in names.iter().filter(of) {
            let path = self.restores().join(name);
            match look(&path).at("look at", &path, "")? {
                None => return Ok(None),
                Some(found) if found.is_dir => claims.push((name.clone(), found.id.1)),
                Some(_) => {}
            }
        }
        Ok(Some(claims))
    }

    /// Swaps in one step. If that is impossible, in two, while no other process may.
    fn swap_trees(&self, claimed: &Path, place: &Path, ino: u64) -> io::Result<()> {
        match payload::exchange(claimed, place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && inode_of(place)?.is_none() => {
                return payload::move_new(claimed, place);
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            done => return done,
        }
        let _inside = self.worktree.repo.inside().map_err(|error| io::Error::other(error.to_string()))?;
        // No other process is here: what was so a moment ago still is, or is done.
        if inode_of(claimed)? != Some(ino) || inode_of(place)? == Some(ino) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut old = claimed.as_os_str().to_owned();
        old.push(".old");
        payload::move_new(place, Path::new(&old))?;
        payload::move_new(claimed, place).inspect_err(|_| drop(payload::move_new(Path::new(&old), place)))
    }

    /// Moves what must not be lost to the new tree, and the old tree to the trash. Returns where
    /// that is.
    fn put_away(&self, restore: &Restore, place: &Path) -> Result<Option<PathBuf>, Error> {
        let mut put = None;
        // Another process may be doing the same, and give them other names.
        let mut claims = None;
        for _ in 0..TRIES {
            claims = self.claims(restore)?;
            if claims.is_some() {
                break;
            }
        }
        for (name, _) in claims.unwrap_or_default() {
            let old = self.restores().join(&name);
            match carry_ignored(&old, place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                done => done.at("keep what is ignored in", &old, "")?,
            }
            match self.worktree.repo.gc().throw_away_tree(&old, &format!("restored-{}", self.worktree.name)) {
                Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {}
                done => put = Some(done?),
            }
        }
        Ok(put)
    }
}

impl Gc<'_> {
    /// Moves a tree to the trash, and returns where that is. `NotFound` if it is gone.
    pub(crate) fn throw_away_tree(&self, tree: &Path, name: &str) -> Result<PathBuf, Error> {
        self.repo.make_place(TRASH)?;
        let trash = self.repo.path.join(TRASH).join(format!("{name}-{:032x}", self.repo.random()?));
        // Its `..` entry changes. A process that may not make it writable may be able to move it
        // anyway.
        let _ = payload::make_writable(tree);
        payload::move_new(tree, &trash).at("move away", tree, "")?;
        Ok(trash)
    }
}

/// Reports whether no further attempt can succeed.
pub(super) fn can_never(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy)
}

pub(super) fn inode(path: &Path) -> Result<Option<u64>, Error> {
    inode_of(path).at("look at", path, "")
}

/// Returns the inode of the directory there; `None` if there is none.
pub(crate) fn inode_of(path: &Path) -> io::Result<Option<u64>> {
    Ok(look(path)?.filter(|found| found.is_dir).map(|found| found.id.1))
}
