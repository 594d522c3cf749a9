//! Which snapshot came after which, what a worktree goes back to, and where the line is broken.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;

use super::id::SnapshotId;

/// A snapshot that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Which.
    pub id: SnapshotId,
    /// The one before it.
    pub parent: Option<SnapshotId>,
    /// Whose.
    pub worktree: String,
    /// When it was taken.
    pub created_at: Timestamp,
    /// So many bytes would be free without it.
    pub bytes: u64,
}

/// All snapshots, and what is left of those that were collected.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    nodes: BTreeMap<SnapshotId, Node>,
    /// What was collected, and the one before it.
    gone: BTreeMap<SnapshotId, Option<SnapshotId>>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The one before isn't there, and nobody has collected it.
    MissingParent {
        /// Of this one.
        id: SnapshotId,
        /// Which is missing.
        parent: SnapshotId,
    },
    /// These come one after the other in a circle; the lowest is the first, each is followed by the one before it.
    Cycle(Vec<SnapshotId>),
}

impl Lineage {
    /// Of the snapshots that there are, and the tombstones of others: which, and which came before it.
    pub fn new(
        nodes: impl IntoIterator<Item = Node>,
        gone: impl IntoIterator<Item = (SnapshotId, Option<SnapshotId>)>,
    ) -> Self {
        let nodes = nodes.into_iter().map(|node| (node.id.clone(), node)).collect();
        Self { nodes, gone: gone.into_iter().collect() }
    }

    /// The snapshots that there are, by their ids.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// One of them.
    pub fn get(&self, id: &SnapshotId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Those that are there of the given ones and all before them, across those that were collected.
    pub fn reachable<'a>(&'a self, from: impl IntoIterator<Item = &'a SnapshotId>) -> BTreeSet<&'a SnapshotId> {
        let mut passed = BTreeSet::new();
        for start in from {
            let mut at = Some(start);
            // Where somebody was before, also in a circle, everything that follows is known.
            while let Some(id) = at.filter(|id| passed.insert(*id)) {
                at = self.before(id);
            }
        }
        passed.retain(|id| self.nodes.contains_key(*id));
        passed
    }

    /// What is wrong, sorted.
    pub fn problems(&self) -> Vec<Problem> {
        let is_known = |id: &SnapshotId| self.nodes.contains_key(id) || self.gone.contains_key(id);
        let missing = self.nodes.values().filter_map(|node| {
            let parent = node.parent.clone().filter(|parent| !is_known(parent))?;
            Some(Problem::MissingParent { id: node.id.clone(), parent })
        });
        let missing: Vec<Problem> = missing.collect();
        missing.into_iter().chain(self.cycles().into_iter().map(Problem::Cycle)).collect()
    }

    /// Every circle, once.
    fn cycles(&self) -> Vec<Vec<SnapshotId>> {
        // In which walk each was passed.
        let mut passed: BTreeMap<&SnapshotId, usize> = BTreeMap::new();
        let mut cycles = Vec::new();
        for (walk, start) in self.nodes.keys().enumerate() {
            let mut at = Some(start);
            while let Some(id) = at.filter(|id| !passed.contains_key(id)) {
                passed.insert(id, walk);
                at = self.before(id);
            }
            // It ended where the same walk had been: from there on it is a circle.
            if let Some(id) = at.filter(|id| passed.get(id) == Some(&walk)) {
                cycles.push(self.circle(id));
            }
        }
        cycles.sort();
        cycles
    }

    /// The circle that one is in, beginning with the lowest.
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

    /// The one before, there or collected.
    fn before(&self, id: &SnapshotId) -> Option<&SnapshotId> {
        match self.nodes.get(id) {
            Some(node) => node.parent.as_ref(),
            None => self.gone.get(id)?.as_ref(),
        }
    }
}
