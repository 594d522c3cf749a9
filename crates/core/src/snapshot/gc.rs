//! Which snapshots may go, and why the others stay.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;

use super::id::SnapshotId;
use super::lineage::{Lineage, Node};
use crate::time::millis_between;

/// What is to stay beside what must. With either of them having come before another one is no reason to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// The newest so many of each worktree.
    pub keep_last: Option<u64>,
    /// Those that were taken within so many milliseconds.
    pub keep_within_ms: Option<u64>,
}

/// What must stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    /// What worktrees go on from.
    pub heads: BTreeSet<SnapshotId>,
    /// What worktrees were made from.
    pub bases: BTreeSet<SnapshotId>,
    /// What somebody wants to keep.
    pub pins: BTreeSet<SnapshotId>,
    /// What has a name.
    pub refs: BTreeSet<SnapshotId>,
    /// What somebody is at work with.
    pub running: BTreeSet<SnapshotId>,
    /// The worktrees that are there. Whoever went back to an earlier snapshot may want to go forward again.
    pub worktrees: BTreeSet<String>,
}

/// Why one stays: the strongest reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A worktree goes on from it.
    Head,
    /// A worktree was made from it.
    Base,
    /// It is pinned.
    Pin,
    /// It has a name.
    Ref,
    /// Somebody is at work with it.
    Running,
    /// It came before a head.
    Lineage,
    /// It is of a worktree that is there.
    Worktree,
    /// It is one of the newest.
    KeepLast,
    /// It is young.
    KeepWithin,
}

/// One that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Which.
    pub id: SnapshotId,
    /// Why.
    pub why: Why,
}

/// What may go, and what stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What may go, oldest first.
    pub candidates: Vec<Node>,
    /// What stays.
    pub kept: Vec<Kept>,
}

impl Retention {
    /// Is more asked for than what must stay?
    pub fn is_asked(&self) -> bool {
        self.keep_last.is_some() || self.keep_within_ms.is_some()
    }
}

impl Why {
    /// As in JSON.
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

/// Every snapshot either may go or stays.
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

/// The newest so many of each worktree.
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
    /// So many bytes would be free.
    pub fn bytes(&self) -> u64 {
        self.candidates.iter().fold(0, |sum, node| sum.saturating_add(node.bytes))
    }

    /// So many stay for this reason.
    pub fn kept_by(&self, why: Why) -> usize {
        self.kept.iter().filter(|kept| kept.why == why).count()
    }
}
