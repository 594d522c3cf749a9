//! Removal of old links, from the lowest upwards. A process that adds a link after a removed one
//! notices, because what it has read is gone. For one that has read an empty chain, a mark is left
//! before the first link is removed.

use super::chain::Chain;
use super::log::LeaseLog;
use std::io;

use lokt_core::lease::names::File;

use super::chain::{Links, Reading};

/// Number of links that are removed at a time; at least as many stay.
const KEPT: usize = 64;
/// Number of links from which on old ones are removed.
pub(crate) const MANY: usize = 2 * KEPT;
/// The same limit for a process that has just acquired the lease and wants to use it.
pub(crate) const TOO_MANY: usize = 3 * KEPT;

impl Chain<'_> {
    /// Returns the file that says that links of a chain were removed.
    pub(crate) fn pruned_mark(&self, chain: &str) -> String {
        format!("{}/pruned.{chain}", self.dir())
    }
}

impl LeaseLog<'_> {
    /// Removes old links when there are `many`. Best effort: what stays is removed another time.
    pub(crate) fn prune(&self, links: &Links, many: usize) {
        if links.count < many {
            return;
        }
        let (Ok(Reading::Born(links)), Ok(listing)) = (self.chain().read(), self.chain().list()) else { return };
        // If an event isn't durably in the audit log, its link is the only record of it.
        if listing.slots.len() < MANY || !self.is_synced(&links) {
            return;
        }
        let mark = self.chain().pruned_mark(&links.base.chain);
        let marked = match self.repo.disk.create_as(&mark, b"", 0o444) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.and_then(|_| self.repo.disk.sync_dir(&self.chain().dir())),
        };
        if marked.is_err() {
            return;
        }
        // Links of another chain above the last one of this chain don't count as links that stay.
        let last = links.last.as_ref().map_or(0, |last| last.number);
        let above = listing.slots.partition_point(|number| *number > last);
        for &number in listing.slots.iter().skip(above + KEPT).rev() {
            if self.repo.disk.remove(&self.chain().file(&File::Slot(number))).is_err() {
                return;
            }
        }
    }
}
