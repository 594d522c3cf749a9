//! Names by which a user refers to a snapshot: its id, the beginning of it, `latest`, or a name
//! that it was given.

use std::collections::BTreeSet;

use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;

use super::answers::Named;
use super::catalog::Catalog;

/// The newest snapshot of the worktree.
pub const LATEST: &str = "latest";

impl Catalog {
    /// Returns what `word` means, in this worktree if that matters.
    pub fn named(&self, word: &str, worktree: Option<&LockName>) -> Named {
        if word == LATEST {
            let head = worktree.and_then(|name| self.heads.get(name));
            let newest = || {
                let mut of = self.snapshots.iter();
                let is_of = |name: &LockName, of: &str| name.as_str() == of;
                of.find(|listed| worktree.is_none_or(|name| is_of(name, &listed.descriptor.worktree)))
            };
            let listed = head.and_then(|id| self.get(id)).or_else(newest);
            return listed.map_or(Named::Missing, |listed| Named::Found(Box::new(listed.clone())));
        }
        if let Some(listed) = self.snapshots.iter().find(|listed| listed.refs.iter().any(|name| name == word)) {
            return Named::Found(Box::new(listed.clone()));
        }
        let known = self.known();
        let mut fits: Vec<&SnapshotId> = known.iter().filter(|id| id.as_str().starts_with(word)).collect();
        // Visible snapshots take precedence over others.
        let visible = |id: &SnapshotId| self.get(id).is_some() || self.spoiled.iter().any(|spoiled| spoiled.id == *id);
        if fits.len() > 1 && fits.iter().filter(|id| visible(id)).count() == 1 {
            fits.retain(|id| visible(id));
        }
        match fits.as_slice() {
            [] => Named::Missing,
            [id] => self.what_is(id),
            _ if word.is_empty() => Named::Missing,
            several => Named::Ambiguous(several.iter().map(|id| (*id).clone()).collect()),
        }
    }

    fn known(&self) -> BTreeSet<SnapshotId> {
        let visible = self.snapshots.iter().map(|listed| &listed.descriptor.id);
        let spoiled = self.spoiled.iter().map(|spoiled| &spoiled.id);
        let unfinished = self.unfinished.iter().map(|unfinished| &unfinished.id);
        let collected = self.collected.iter().map(|collected| &collected.id);
        visible.chain(spoiled).chain(unfinished).chain(collected).cloned().collect()
    }

    fn what_is(&self, id: &SnapshotId) -> Named {
        if let Some(listed) = self.get(id) {
            return Named::Found(Box::new(listed.clone()));
        }
        if let Some(spoiled) = self.spoiled.iter().find(|spoiled| spoiled.id == *id) {
            return Named::Spoiled(spoiled.clone());
        }
        if let Some(collected) = self.collected.iter().find(|collected| collected.id == *id) {
            return Named::Collected(collected.clone());
        }
        let unfinished = self.unfinished.iter().find(|unfinished| unfinished.id == *id);
        unfinished.map_or(Named::Missing, |unfinished| Named::Partial(unfinished.clone()))
    }
}
