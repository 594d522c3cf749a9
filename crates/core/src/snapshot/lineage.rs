//! Ancestry of snapshots: predecessors, what a worktree goes back to, and where the ancestry is
//! broken.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;

use super::id::SnapshotId;

/// An existing snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: SnapshotId,
    /// Its predecessor.
    pub parent: Option<SnapshotId>,
    /// Its worktree.
    pub worktree: String,
    /// Time at which it was taken.
    pub created_at: Timestamp,
    /// Number of bytes that would be freed without it.
    pub bytes: u64,
}

/// All snapshots, and what is left of collected ones.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    nodes: BTreeMap<SnapshotId, Node>,
    /// Collected snapshots, and their predecessors.
    gone: BTreeMap<SnapshotId, Option<SnapshotId>>,
}

/// A defect of the ancestry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The predecessor doesn't exist, and wasn't collected.
    MissingParent {
        /// The snapshot.
        id: SnapshotId,
        /// Its missing predecessor.
        parent: SnapshotId,
    },
    /// Snapshots that follow each other in a cycle, from the lowest one on; each is followed by its
    /// predecessor.
    Cycle(Vec<SnapshotId>),
}

impl Lineage {
    /// Creates a lineage from the existing snapshots, and from tombstones: their snapshots and the
    /// predecessors of those.
    pub fn new(
        nodes: impl IntoIterator<Item = Node>,
        gone: impl IntoIterator<Item = (SnapshotId, Option<SnapshotId>)>,
    ) -> Self {
        let nodes = nodes.into_iter().map(|node| (node.id.clone(), node)).collect();
        Self { nodes, gone: gone.into_iter().collect() }
    }

    /// Returns the existing snapshots, sorted by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Returns an existing snapshot.
    pub fn get(&self, id: &SnapshotId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns those of the given snapshots and of all their ancestors that exist, across collected
    /// ones.
    pub fn reachable<'a>(&'a self, from: impl IntoIterator<Item = &'a SnapshotId>) -> BTreeSet<&'a SnapshotId> {
        let mut passed = BTreeSet::new();
        for start in from {
            let mut at = Some(start);
            // From a snapshot that was passed before, also in a cycle, everything that follows is
            // known.
            while let Some(id) = at.filter(|id| passed.insert(*id)) {
                at = self.before(id);
            }
        }
        passed.retain(|id| self.nodes.contains_key(*id));
        passed
    }

    /// Returns all defects, sorted.
    pub fn problems(&self) -> Vec<Problem> {
        let is_known = |id: &SnapshotId| self.nodes.contains_key(id) || self.gone.contains_key(id);
        let missing = self.nodes.values().filter_map(|node| {
            let parent = node.parent.clone().filter(|parent| !is_known(parent))?;
            Some(Problem::MissingParent { id: node.id.clone(), parent })
        });
        let missing: Vec<Problem> = missing.collect();
        missing.into_iter().chain(self.cycles().into_iter().map(Problem::Cycle)).collect()
    }

    /// Returns every cycle once.
    fn cycles(&self) -> Vec<Vec<SnapshotId>> {
        // The walk in which each snapshot was passed.
        let mut passed: BTreeMap<&SnapshotId, usize> = BTreeMap::new();
        let mut cycles = Vec::new();
        for (walk, start) in self.nodes.keys().enumerate() {
            let mut at = Some(start);
            while let Some(id) = at.filter(|id| !passed.contains_key(id)) {
                passed.insert(id, walk);
                at = self.before(id);
            }
            // It ended at a snapshot of the same walk: from there on it is a cycle.
            if let Some(id) = at.filter(|id| passed.get(id) == Some(&walk)) {
                cycles.push(self.circle(id));
            }
        }
        cycles.sort();
        cycles
    }

    /// Returns the cycle that a snapshot is in, beginning with the lowest.
    fn circle(&self, start: &SnapshotId) -> Vec<SnapshotId> {
        let mut circle = Vec::from([start.clone()]);
        let mut at = self.before(start);
        while let Some(id) = at.filter(|id| *id != start) {
            circle.push(id.clone());
            at = self.before(id);
        }
        let lowest = circle.iter().enumerate().min_by_key(|(_, id)| *id).map_or(0, |(place, _)| place);
        circle.rotate_left(lowest);
        circle
    }

    /// Returns the predecessor of a snapshot, existing or collected.
    fn before(&self, id: &SnapshotId) -> Option<&SnapshotId> {
        match self.nodes.get(id) {
            Some(node) => node.parent.as_ref(),
            None => self.gone.get(id)?.as_ref(),
        }
    }
}
