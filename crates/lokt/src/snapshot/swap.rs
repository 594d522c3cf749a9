//! A tree takes the place of a worktree's, once, whoever does it.
//!
//! A link says which tree, by its name in `restores` and its inode. Whoever swaps first gives it a name that nobody else knows, and looks
//! that it is still that inode: so whoever was stopped finds nothing to swap when it goes on, and nobody swaps the old tree back in. That
//! it was done is seen by the inode of the worktree's directory.

use std::io;
use std::path::{Path, PathBuf};

use lokt_core::lease::state::Restore;

use super::carry::carry_ignored;
use super::places::RESTORES;
use crate::error::{At as _, Error, ErrorKind};
use crate::lease::Worktree;
use crate::repo::TRASH;
use crate::sys::look::look;
use crate::sys::payload;

/// Others do the same; each time one of them has got somewhere.
const TRIES: usize = 1000;

/// What came of it.
#[derive(Debug)]
pub(crate) enum Swapped {
    /// The worktree has the new tree. Where the old one is, if it is anywhere.
    Done { old_tree: Option<PathBuf> },
    /// It can't be had: why. The worktree has its old tree.
    Undone(String),
}

impl Worktree {
    /// Sees to it that a restore that was decided is done.
    pub(crate) fn finish_restore(&self, restore: &Restore) -> Result<Swapped, Error> {
        let place = self.repo.files_of(&self.name);
        for _ in 0..TRIES {
            if inode(&place)? == Some(restore.ino) {
                let old_tree = self.put_away(restore, &place)?;
                return Ok(Swapped::Done { old_tree });
            }
            let trees = self.claims(restore)?;
            let new = trees.iter().find(|(_, ino)| *ino == restore.ino);
            // In a copy of a repository every inode is another one; what nobody has claimed hasn't been swapped.
            let new = new.or_else(|| trees.iter().find(|(name, _)| *name == restore.tree));
            let Some((name, ino)) = new else {
                if inode(&place)?.is_some() {
                    return Ok(Swapped::Undone("its tree is gone".into()));
                }
                // Between the two steps of who couldn't do it in one, the new tree was lost.
                let Some((old, _)) = trees.first() else {
                    return Ok(Swapped::Undone("both trees are gone".into()));
                };
                let old = self.restores().join(old);
                payload::move_new(&old, &place).at("put back", &place, "")?;
                return Ok(Swapped::Undone("its tree is gone".into()));
            };
            let claimed = self.restores().join(format!("{}.{:032x}", restore.tree, self.repo.random()?));
            match payload::move_new(&self.restores().join(name), &claimed) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                done => done.at("claim", &claimed, "")?,
            }
            // Somebody may have swapped between the two looks: then this is the old tree.
            if inode(&claimed)? != Some(*ino) {
                continue;
            }
            match self.swap_trees(&claimed, &place, *ino) {
                Ok(()) if *ino == restore.ino => {}
                Ok(()) => return Ok(Swapped::Done { old_tree: self.put_away(restore, &place)? }),
                // Somebody claimed it after us.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if can_never(&error) => {
                    let why = format!("{} can't be replaced: {error}", place.display());
                    let _ = payload::destroy(&claimed);
                    return Ok(Swapped::Undone(why));
                }
                Err(error) => return Err(Error::io("replace", &place, error)),
            }
        }
        Err(Error::new(ErrorKind::Busy, format!("others restore worktree \"{}\" all the time", self.name)))
    }

    /// Has the tree taken its place, and is nothing left to be put away?
    pub(crate) fn is_swapped(&self, restore: &Restore) -> bool {
        let place = self.repo.files_of(&self.name);
        matches!(inode_of(&place), Ok(Some(ino)) if ino == restore.ino)
            && self.claims(restore).is_ok_and(|claims| claims.is_empty())
    }

    pub(crate) fn restores(&self) -> PathBuf {
        self.repo.path.join(RESTORES)
    }

    /// The trees of a restore under all names that they have been given, with their inodes.
    fn claims(&self, restore: &Restore) -> Result<Vec<(String, u64)>, Error> {
        let names = self.repo.disk.list(RESTORES).at("list", &self.repo.path, RESTORES)?;
        let of = |name: &&String| {
            name.strip_prefix(&restore.tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut claims = Vec::new();
        for name in names.iter().filter(of) {
            claims.extend(inode(&self.restores().join(name))?.map(|ino| (name.clone(), ino)));
        }
        Ok(claims)
    }

    /// Swaps in one step; where that can't be, in two, while nobody else may.
    fn swap_trees(&self, claimed: &Path, place: &Path, ino: u64) -> io::Result<()> {
        match payload::exchange(claimed, place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && inode_of(place)?.is_none() => {
                return payload::move_new(claimed, place);
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            done => return done,
        }
        let _inside = self.repo.inside().map_err(|error| io::Error::other(error.to_string()))?;
        // Nobody else is here: what was so a moment ago is so, or is done.
        if inode_of(claimed)? != Some(ino) || inode_of(place)? == Some(ino) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut old = claimed.as_os_str().to_owned();
        old.push(".old");
        payload::move_new(place, Path::new(&old))?;
        payload::move_new(claimed, place).inspect_err(|_| drop(payload::move_new(Path::new(&old), place)))
    }

    /// What nobody should lose goes over to the new tree, and the old one into the trash: where.
    fn put_away(&self, restore: &Restore, place: &Path) -> Result<Option<PathBuf>, Error> {
        let mut put = None;
        for (name, _) in self.claims(restore)? {
            let old = self.restores().join(&name);
            // Somebody else may be at the same; what one of them has moved the other doesn't find.
            carry_ignored(&old, place).at("keep what is ignored in", &old, "")?;
            self.repo.make_place(TRASH)?;
            let trash = self.repo.path.join(TRASH).join(format!("restored-{}-{:032x}", self.name, self.repo.random()?));
            match payload::move_new(&old, &trash) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => {
                    done.at("move away", &old, "")?;
                    put = Some(trash);
                }
            }
        }
        Ok(put)
    }
}

/// No other attempt will have more luck.
fn can_never(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy)
}

fn inode(path: &Path) -> Result<Option<u64>, Error> {
    inode_of(path).at("look at", path, "")
}

/// Of the directory there; `None` if there is none.
pub(super) fn inode_of(path: &Path) -> io::Result<Option<u64>> {
    Ok(look(path)?.filter(|found| found.is_dir).map(|found| found.id.1))
}
