//! Old links are removed, from the lowest upwards: whoever adds a link after one that was removed notices that, because what it has read is
//! gone. Whoever has read a chain without links has read nothing that could be gone; for those a mark is left, before the first link goes.

use std::io;

use lokt_core::lease::names::File;

use super::Worktree;
use super::chain::{Links, Reading};

/// So many links are removed at a time, and as many stay at least.
const KEPT: usize = 64;
/// With so many links old ones are removed.
pub(crate) const MANY: usize = 2 * KEPT;
/// With so many also by somebody who has just got the lease and wants to use it: mostly, whoever ends one is faster.
pub(crate) const TOO_MANY: usize = 3 * KEPT;

impl Worktree {
    /// The file that says that links of a chain were removed.
    pub(crate) fn pruned_mark(&self, chain: &str) -> String {
        format!("{}/pruned.{chain}", self.chain_dir())
    }

    /// Removes old links when there are `many`. Best effort: what stays is removed another time.
    pub(crate) fn prune(&self, links: &Links, many: usize) {
        if links.count < many {
            return;
        }
        let (Ok(Reading::Born(links)), Ok(listing)) = (self.read_chain(), self.list_chain()) else { return };
        // What isn't in the audit log for good is nowhere else.
        if listing.slots.len() < MANY || !self.log_is_synced(&links) {
            return;
        }
        let mark = self.pruned_mark(&links.base.chain);
        let marked = match self.repo.disk.create_as(&mark, b"", 0o444) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.and_then(|_| self.repo.disk.sync_dir(&self.chain_dir())),
        };
        if marked.is_err() {
            return;
        }
        // Links of another chain above the last one of this are none of those that stay.
        let last = links.last.as_ref().map_or(0, |last| last.number);
        let above = listing.slots.partition_point(|number| *number > last);
        for &number in listing.slots.iter().skip(above + KEPT).rev() {
            if self.repo.disk.remove(&self.chain_file(&File::Slot(number))).is_err() {
                return;
            }
        }
    }
}
