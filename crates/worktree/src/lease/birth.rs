//! Creation of a chain, where none exists or nothing is left of it.
//!
//! Its numbers begin above every one that was ever allowed, in a block that no other chain has. So
//! a process that was suspended in an earlier life of the chain can't add a link to this one. The
//! id is new: that process notices the change.

use super::chain::Chain;
use std::io;

use lokt_core::lease::names::File;
use lokt_core::lease::slot::Base;

use super::fences::BLOCK;
use lokt_sys::error::{At as _, Error};

impl Chain<'_> {
    /// Creates the chain if there is none.
    pub(crate) fn ensure_created(&self) -> Result<(), Error> {
        if self.read_base()?.is_none() { self.create(0) } else { Ok(()) }
    }

    /// Creates the chain. `above`: the token of another tool's lock, if there is one. If another
    /// process creates it first, its chain counts, and every process reads again.
    pub(crate) fn create(&self, above: u64) -> Result<(), Error> {
        let below = self.fences().reserve(self.fences().former_ceiling()?.max(above))?;
        let (first, block) = (below + 1, below + BLOCK);
        // Each grant uses a number, so there can't have been more grants.
        let base = Base { chain: format!("{:032x}", self.repo.random()?), first, block, acquire_seq: below };
        self.make_dir()?;
        let path = self.file(&File::Base);
        let file = self.repo.disk.unnamed(&base.to_bytes(), 0o444).at("write", &self.repo.path, &path)?;
        file.sync().at("sync", &self.repo.path, &path)?;
        match file.link(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.at("write", &self.repo.path, &path),
        }
    }

    /// Creates the directory of the chain, durably.
    fn make_dir(&self) -> Result<(), Error> {
        let dir = self.dir();
        match self.repo.disk.make_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.at("make", &self.repo.path, &dir)?,
        }
        self.repo.disk.sync_dir("locks").at("sync", &self.repo.path, "locks")
    }
}
