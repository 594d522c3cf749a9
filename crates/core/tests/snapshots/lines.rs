//! Which snapshot came after which.

use std::collections::BTreeSet;

use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::lineage::{Lineage, Node, Problem};
use proptest::prelude::*;

use super::one::{at, id};

fn node(number: u64, parent: Option<u64>) -> Node {
    let created_at = at("2026-11-15T18:00:00Z");
    Node { id: id(number), parent: parent.map(id), worktree: "main".into(), created_at, bytes: 1 }
}

fn lineage(nodes: &[(u64, Option<u64>)], gone: &[(u64, Option<u64>)]) -> Lineage {
    let nodes = nodes.iter().map(|(number, parent)| node(*number, *parent));
    Lineage::new(nodes, gone.iter().map(|(number, parent)| (id(*number), parent.map(id))))
}

fn reached(lineage: &Lineage, from: &[u64]) -> Vec<u64> {
    let from: Vec<SnapshotId> = from.iter().map(|number| id(*number)).collect();
    let base = id(0).created_ms();
    lineage.reachable(&from).into_iter().map(|id| id.created_ms() - base).collect()
}

#[test]
fn a_worktree_goes_back_to_its_first_snapshot() {
    let two = lineage(&[(1, None), (2, Some(1)), (3, Some(2)), (4, Some(2)), (5, None)], &[]);
    for (from, expected) in [
        (&[][..], &[][..]),
        (&[3], &[1, 2, 3]),
        (&[4], &[1, 2, 4]),
        (&[3, 4], &[1, 2, 3, 4]),
        (&[5], &[5]),
        (&[9], &[]),
        (&[1, 3], &[1, 2, 3]),
    ] {
        assert_eq!(reached(&two, from), expected, "{from:?}");
    }
    assert_eq!(two.problems(), []);
    assert_eq!(two.get(&id(3)).and_then(|node| node.parent.clone()), Some(id(2)));
}

#[test]
fn a_line_goes_on_across_what_was_collected() {
    let gap = lineage(&[(1, None), (4, Some(3))], &[(3, Some(2)), (2, Some(1))]);
    assert_eq!((reached(&gap, &[4]), reached(&gap, &[3])), (vec![1, 4], vec![1]));
    assert_eq!(gap.problems(), []);
    let end = lineage(&[(1, None), (4, Some(3))], &[(3, None)]);
    assert_eq!((reached(&end, &[4]), end.problems()), (vec![4], vec![]), "a tombstone of another program says no more");
    let still_there = lineage(&[(1, None), (2, Some(1))], &[(2, None)]);
    assert_eq!(reached(&still_there, &[2]), [1, 2], "one that is there counts, not what was to be left of it");
}

#[test]
fn where_a_line_is_broken_is_told() {
    let missing = lineage(&[(2, Some(1)), (3, Some(2)), (4, Some(1))], &[]);
    let problem = |number: u64| Problem::MissingParent { id: id(number), parent: id(1) };
    assert_eq!(missing.problems(), [problem(2), problem(4)]);
    assert_eq!(reached(&missing, &[3]), [2, 3]);
    let circles = lineage(&[(1, Some(3)), (2, Some(1)), (3, Some(2)), (4, Some(3)), (5, Some(5)), (6, Some(4))], &[]);
    assert_eq!(circles.problems(), [Problem::Cycle(vec![id(1), id(3), id(2)]), Problem::Cycle(vec![id(5)])]);
    assert_eq!((reached(&circles, &[6]), reached(&circles, &[5])), (vec![1, 2, 3, 4, 6], vec![5]));
    let through_gone = lineage(&[(1, Some(2))], &[(2, Some(1))]);
    assert_eq!(through_gone.problems(), [Problem::Cycle(vec![id(1), id(2)])]);
}

proptest! {
    #[test]
    fn nothing_is_walked_for_ever_and_every_end_is_known(
        parents in prop::collection::vec(prop::option::of(0..12_u64), 0..12),
        gone in prop::collection::vec((0..12_u64, prop::option::of(0..12_u64)), 0..4),
        from in prop::collection::vec(0..12_u64, 0..3),
    ) {
        let nodes: Vec<(u64, Option<u64>)> = (0..).zip(parents).collect();
        let lineage = lineage(&nodes, &gone);
        let reached: BTreeSet<u64> = reached(&lineage, &from).into_iter().collect();
        for (number, parent) in &nodes {
            let is_from = from.contains(number);
            prop_assert!(!is_from || reached.contains(number), "where one begins is reached");
            let parent = parent.filter(|parent| nodes.iter().any(|(number, _)| number == parent));
            prop_assert!(parent.is_none_or(|parent| !reached.contains(number) || reached.contains(&parent)), "and so is what came before");
        }
        let problems = lineage.problems();
        let in_cycles: Vec<&SnapshotId> = problems.iter().flat_map(|problem| match problem {
            Problem::Cycle(ids) => ids.as_slice(),
            Problem::MissingParent { .. } => &[],
        }).collect();
        prop_assert_eq!(in_cycles.len(), in_cycles.iter().collect::<BTreeSet<_>>().len(), "each circle is told once");
        let is_tree = nodes.iter().all(|(number, parent)| parent.is_none_or(|parent| parent < *number)) && gone.is_empty();
        prop_assert!(!is_tree || problems.is_empty(), "what only goes back has no problem");
    }
}
