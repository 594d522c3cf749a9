//! Snapshots that may be deleted, and the reasons why the others stay.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;

use super::id::SnapshotId;
use super::lineage::{Lineage, Node};
use crate::time::millis_between;

/// Snapshots to keep beside those that must stay. If either is set, ancestors of a head and
/// snapshots of an existing worktree don't stay for that reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Number of newest snapshots of each worktree to keep.
    pub keep_last: Option<u64>,
    /// Age in milliseconds up to which snapshots are kept.
    pub keep_within_ms: Option<u64>,
}

/// Snapshots that must stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    /// Snapshots that worktrees continue from.
    pub heads: BTreeSet<SnapshotId>,
    /// Snapshots that worktrees were created from.
    pub bases: BTreeSet<SnapshotId>,
    /// Pinned snapshots.
    pub pins: BTreeSet<SnapshotId>,
    /// Snapshots that have a name.
    pub refs: BTreeSet<SnapshotId>,
    /// Snapshots that a running operation uses.
    pub running: BTreeSet<SnapshotId>,
    /// Existing worktrees. A user who went back to an earlier snapshot may want to go forward
    /// again.
    pub worktrees: BTreeSet<String>,
}

/// Strongest reason why a snapshot stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A worktree continues from it.
    Head,
    /// A worktree was created from it.
    Base,
    /// It is pinned.
    Pin,
    /// It has a name.
    Ref,
    /// A running operation uses it.
    Running,
    /// It is an ancestor of a head.
    Lineage,
    /// Its worktree exists.
    Worktree,
    /// It is one of the newest.
    KeepLast,
    /// It is young enough.
    KeepWithin,
}

/// A snapshot that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its id.
    pub id: SnapshotId,
    /// The reason.
    pub why: Why,
}

/// Snapshots that may be deleted, and those that stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Snapshots that may be deleted, oldest first.
    pub candidates: Vec<Node>,
    /// Snapshots that stay.
    pub kept: Vec<Kept>,
}

impl Retention {
    /// Reports whether more is to be kept than what must stay.
    pub fn is_asked(&self) -> bool {
        self.keep_last.is_some() || self.keep_within_ms.is_some()
    }
}

impl Why {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Base => "base",
            Self::Pin => "pin",
            Self::Ref => "ref",
            Self::Running => "running",
            Self::Lineage => "lineage",
            Self::Worktree => "worktree",
            Self::KeepLast => "keep_last",
            Self::KeepWithin => "keep_within",
        }
    }
}

/// Decides about every snapshot: it may be deleted, or it stays.
pub fn plan(lineage: &Lineage, retention: Retention, roots: &Roots, now: Timestamp) -> Plan {
    let ancestors = if retention.is_asked() { BTreeSet::new() } else { lineage.reachable(&roots.heads) };
    let newest = newest(lineage, retention.keep_last.unwrap_or(0));
    let mut plan = Plan::default();
    for node in lineage.nodes() {
        let age_ms = u64::try_from(millis_between(node.created_at, now)).unwrap_or(0);
        let reasons = [
            (Why::Head, roots.heads.contains(&node.id)),
            (Why::Base, roots.bases.contains(&node.id)),
            (Why::Pin, roots.pins.contains(&node.id)),
            (Why::Ref, roots.refs.contains(&node.id)),
            (Why::Running, roots.running.contains(&node.id)),
            (Why::Lineage, ancestors.contains(&node.id)),
            (Why::Worktree, !retention.is_asked() && roots.worktrees.contains(&node.worktree)),
            (Why::KeepLast, newest.contains(&node.id)),
            (Why::KeepWithin, retention.keep_within_ms.is_some_and(|within| age_ms <= within)),
        ];
        match reasons.into_iter().find(|(_, applies)| *applies) {
            Some((why, _)) => plan.kept.push(Kept { id: node.id.clone(), why }),
            None => plan.candidates.push(node.clone()),
        }
    }
    plan
}

/// Returns the newest `count` snapshots of each worktree.
fn newest(lineage: &Lineage, count: u64) -> BTreeSet<&SnapshotId> {
    let mut worktrees: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in lineage.nodes() {
        worktrees.entry(&node.worktree).or_default().push(node);
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let newest_of = |mut nodes: Vec<_>| {
        nodes.sort_unstable_by_key(|node: &&Node| core::cmp::Reverse((node.created_at, &node.id)));
        nodes.into_iter().take(count).map(|node| &node.id)
    };
    worktrees.into_values().flat_map(newest_of).collect()
}

impl Plan {
    /// Returns the number of bytes that would be freed.
    pub fn bytes(&self) -> u64 {
        self.candidates.iter().fold(0, |sum, node| sum.saturating_add(node.bytes))
    }

    /// Returns the number of snapshots that stay for this reason.
    pub fn kept_by(&self, why: Why) -> usize {
        self.kept.iter().filter(|kept| kept.why == why).count()
    }
}
