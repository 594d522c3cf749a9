//! The birth of a chain: where nothing is, or nothing is left.
//!
//! Its numbers begin above every one that was ever allowed, in a block that nobody else has: whoever was stopped in an earlier life of
//! the chain can't land in this one. Its id is new, so that whoever tries notices.

use std::io;

use lokt_core::lease::names::File;
use lokt_core::lease::slot::Base;

use super::Worktree;
use super::fences::BLOCK;
use crate::error::{At as _, Error};

impl Worktree {
    /// Makes the chain begin, if it hasn't.
    pub(crate) fn be_born(&self) -> Result<(), Error> {
        if self.read_base()?.is_none() { self.give_birth(0) } else { Ok(()) }
    }

    /// Makes the chain begin. `above`: the token of another tool's lock, if there is one. Somebody else may do so at the same time:
    /// whoever is first is right, and everybody reads again.
    pub(crate) fn give_birth(&self, above: u64) -> Result<(), Error> {
        let below = self.reserve(self.former_ceiling()?.max(above))?;
        let (first, block) = (below + 1, below + BLOCK);
        // Each grant has used a number: so many grants there can't have been.
        let base = Base { chain: format!("{:032x}", self.random()?), first, block, acquire_seq: below };
        self.make_chain_dir()?;
        let path = self.chain_file(&File::Base);
        let file = self.repo.disk.unnamed(&base.to_bytes(), 0o444).at("write", &self.repo.path, &path)?;
        file.sync().at("sync", &self.repo.path, &path)?;
        match file.link(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.at("write", &self.repo.path, &path),
        }
    }

    /// The directory of the chain, there for good.
    fn make_chain_dir(&self) -> Result<(), Error> {
        let dir = self.chain_dir();
        match self.repo.disk.make_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.at("make", &self.repo.path, &dir)?,
        }
        self.repo.disk.sync_dir("locks").at("sync", &self.repo.path, "locks")
    }
}
