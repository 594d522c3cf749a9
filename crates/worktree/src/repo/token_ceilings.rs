//! The numbers of leases outlive the worktree: a new worktree of its name, and one that has its
//! files under another name, continue above them.
//!
//! Three places record them: the ceilings beside a worktree's configuration, which move along with
//! it; the chain, which stays under the name; and the ceilings that are kept for a name, here, when
//! its worktree is removed or renamed. Each can lack what another has.

use crate::repo::worktrees::WorktreeChanges;
use std::io;

use lokt_core::lease::names::{fence_name, kept_fence_name};
use lokt_core::name::LockName;

use super::FILE_MODE;
use super::discovery::WORKTREES;
use super::worktrees::{FENCES, metadata};
use crate::lease::{Reading, Worktree};
use lokt_sys::error::{At as _, Error};
use lokt_sys::mutex::Inside;

/// Maximum number of attempts to skip ahead while others change the chain: they make progress each
/// time.
const JUMPS_MAX: usize = 1000;

impl WorktreeChanges<'_> {
    /// Keeps the highest number that was ever allowed under this name, before anything else
    /// changes.
    pub(super) fn keep_fences(&self, proof: &Inside, worktree: &Worktree) -> Result<(), Error> {
        self.keep_fence(proof, &worktree.name, ever_allowed(worktree)?)
    }

    /// Keeps `ceiling` for this name.
    pub(super) fn keep_fence(&self, _proof: &Inside, name: &LockName, ceiling: u64) -> Result<(), Error> {
        if ceiling == 0 {
            return Ok(());
        }
        let dir = format!("{WORKTREES}/{FENCES}");
        self.make_fence(&dir, &kept_fence_name(name.as_str(), ceiling))
    }

    /// Puts the ceiling of everything that was ever allowed under this name where leases look for
    /// it.
    pub(super) fn restore_fence(&self, _proof: &Inside, worktree: &Worktree) -> Result<(), Error> {
        let ceiling = ever_allowed(worktree)?;
        if worktree.fences().ceiling()? >= ceiling {
            return Ok(());
        }
        self.make_fence(&metadata(&worktree.name), &fence_name(ceiling))
    }

    /// Creates a ceiling, durably.
    fn make_fence(&self, dir: &str, name: &str) -> Result<(), Error> {
        let path = format!("{dir}/{name}");
        match self.repo.disk.create_as(&path, b"", FILE_MODE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.and_then(|file| file.sync()).at("keep the fence", &self.repo.path, &path)?,
        }
        self.repo.disk.sync_dir(dir).at("sync", &self.repo.path, dir)
    }
}

/// Makes the chain of a worktree continue above `used`.
pub(super) fn go_on_above(_proof: &Inside, worktree: &Worktree, used: u64) -> Result<(), Error> {
    for _ in 0..JUMPS_MAX {
        match worktree.chain().read()? {
            Reading::Born(links) if links.next() <= used => worktree.writer().skip_to(&links, used)?,
            Reading::Born(_) => return Ok(()),
            Reading::Unborn => worktree.chain().ensure_created()?,
        }
    }
    Err(worktree.writer().too_busy())
}

/// Returns the highest number that was ever allowed under this name, by any record of it.
fn ever_allowed(worktree: &Worktree) -> Result<u64, Error> {
    let chain = match worktree.chain().read()? {
        Reading::Born(links) => links.ceiling().max(links.next()),
        Reading::Unborn => 0,
    };
    Ok(worktree.fences().ceiling()?.max(worktree.fences().former_ceiling()?).max(chain))
}
