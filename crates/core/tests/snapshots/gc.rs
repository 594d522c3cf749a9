//! Which snapshots may go.

use std::collections::BTreeSet;

use jiff::Timestamp;
use lokt_core::snapshot::gc::{Plan, Retention, Roots, Why, plan};
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::lineage::{Lineage, Node};
use lokt_core::time::plus_millis;
use proptest::prelude::*;

use super::one::{at, id};

const BEGIN: &str = "2026-11-15T18:00:00Z";

/// One of `main` (even) or `side` (odd), taken so many seconds after the beginning as its number is.
fn node(number: u64, parent: Option<u64>) -> Node {
    Node {
        id: id(number),
        parent: parent.map(id),
        worktree: if number.is_multiple_of(2) { "main".into() } else { "side".into() },
        created_at: plus_millis(at(BEGIN), number * 1_000),
        bytes: 100,
    }
}

/// main: 2, 4, 6, 8; side: 3 (after 2), 5; and 7, which nothing leads to.
fn two_worktrees() -> Lineage {
    let nodes = [(2, None), (4, Some(2)), (6, Some(4)), (8, Some(6)), (3, Some(2)), (5, Some(3)), (7, None)];
    Lineage::new(nodes.map(|(number, parent)| node(number, parent)), [])
}

fn ids(numbers: &[u64]) -> BTreeSet<SnapshotId> {
    numbers.iter().map(|number| id(*number)).collect()
}

fn now() -> Timestamp {
    plus_millis(at(BEGIN), 10_000)
}

/// What goes, and what stays for which reason.
fn said(plan: &Plan) -> (Vec<u64>, Vec<(u64, &'static str)>) {
    let number = |id: &SnapshotId| id.created_ms() - super::one::id(0).created_ms();
    let goes = plan.candidates.iter().map(|node| number(&node.id)).collect();
    (goes, plan.kept.iter().map(|kept| (number(&kept.id), kept.why.as_str())).collect())
}

#[test]
fn what_may_go_and_why_the_rest_stays() {
    let heads = || Roots { heads: ids(&[8, 5]), ..Roots::default() };
    let last = |count| Retention { keep_last: Some(count), ..Retention::default() };
    let within = |ms| Retention { keep_within_ms: Some(ms), ..Retention::default() };
    let none = Retention::default();
    let head_8_5 = [(5, "head"), (8, "head")];
    for (what, retention, roots, goes, stays) in [
        (
            "nothing leads to 7",
            none,
            heads(),
            &[7][..],
            &[(2, "lineage"), (3, "lineage"), (4, "lineage"), (5, "head"), (6, "lineage"), (8, "head")][..],
        ),
        ("without heads nothing stays", none, Roots::default(), &[2, 3, 4, 5, 6, 7, 8], &[]),
        (
            "each reason is one",
            none,
            Roots {
                heads: ids(&[8]),
                bases: ids(&[2]),
                pins: ids(&[7, 8]),
                refs: ids(&[3]),
                running: ids(&[5]),
                ..Roots::default()
            },
            &[],
            &[(2, "base"), (3, "ref"), (4, "lineage"), (5, "running"), (6, "lineage"), (7, "pin"), (8, "head")],
        ),
        (
            "a pin keeps one, not what came before",
            none,
            Roots { pins: ids(&[6]), ..Roots::default() },
            &[2, 3, 4, 5, 7, 8],
            &[(6, "pin")],
        ),
        (
            "a head that isn't there keeps nothing",
            none,
            Roots { heads: ids(&[9]), ..Roots::default() },
            &[2, 3, 4, 5, 6, 7, 8],
            &[],
        ),
        (
            "the newest two of each worktree",
            last(2),
            heads(),
            &[2, 3, 4],
            &[(5, "head"), (6, "keep_last"), (7, "keep_last"), (8, "head")],
        ),
        ("none but what must stay", last(0), heads(), &[2, 3, 4, 6, 7], &head_8_5),
        (
            "more than there are",
            last(u64::MAX),
            Roots::default(),
            &[],
            &[
                (2, "keep_last"),
                (3, "keep_last"),
                (4, "keep_last"),
                (5, "keep_last"),
                (6, "keep_last"),
                (7, "keep_last"),
                (8, "keep_last"),
            ],
        ),
        (
            "those of the last four seconds",
            within(4_000),
            heads(),
            &[2, 3, 4],
            &[(5, "head"), (6, "keep_within"), (7, "keep_within"), (8, "head")],
        ),
        ("to the millisecond", within(3_999), heads(), &[2, 3, 4, 6], &[(5, "head"), (7, "keep_within"), (8, "head")]),
        (
            "either is enough",
            Retention { keep_last: Some(1), keep_within_ms: Some(4_000) },
            Roots { bases: ids(&[2]), pins: ids(&[3]), ..heads() },
            &[4],
            &[(2, "base"), (3, "pin"), (5, "head"), (6, "keep_within"), (7, "keep_last"), (8, "head")],
        ),
    ] {
        let plan = plan(&two_worktrees(), retention, &roots, now());
        assert_eq!(said(&plan), (goes.to_vec(), stays.to_vec()), "{what}");
        assert_eq!(plan.bytes(), 100 * goes.len() as u64, "{what}");
    }
}

#[test]
fn clocks_that_are_behind_make_nothing_old() {
    let plan = plan(
        &two_worktrees(),
        Retention { keep_within_ms: Some(0), ..Retention::default() },
        &Roots::default(),
        at(BEGIN),
    );
    assert_eq!(plan.kept_by(Why::KeepWithin), 7);
}

proptest! {
    #[test]
    fn what_must_stay_stays_and_nothing_is_forgotten(
        parents in prop::collection::vec(prop::option::of(0..14_u64), 0..14),
        roots in prop::array::uniform5(prop::collection::btree_set(0..14_u64, 0..3)),
        keep_last in prop::option::of(0..4_u64),
        keep_within_ms in prop::option::of(0..15_000_u64),
    ) {
        let lineage = Lineage::new((0..).zip(&parents).map(|(number, parent)| node(number, *parent)), []);
        let [heads, bases, pins, refs, running] = roots.map(|numbers| numbers.into_iter().map(id).collect::<BTreeSet<_>>());
        let retention = Retention { keep_last, keep_within_ms };
        let roots = Roots { heads, bases, pins, refs, running, ..Roots::default() };
        let plan = plan(&lineage, retention, &roots, now());
        let goes: BTreeSet<&SnapshotId> = plan.candidates.iter().map(|node| &node.id).collect();
        let stays: BTreeSet<&SnapshotId> = plan.kept.iter().map(|kept| &kept.id).collect();
        prop_assert!(goes.is_disjoint(&stays));
        prop_assert_eq!(goes.len() + stays.len(), parents.len());
        for must in [&roots.heads, &roots.bases, &roots.pins, &roots.refs, &roots.running] {
            prop_assert!(must.iter().all(|id| !goes.contains(id)), "what must stay stays");
        }
        if !retention.is_asked() {
            prop_assert!(lineage.reachable(&roots.heads).is_disjoint(&goes), "what a worktree goes back to stays");
        }
        for worktree in ["main", "side"] {
            let all = lineage.nodes().filter(|node| node.worktree == worktree).count() as u64;
            let left = lineage.nodes().filter(|node| node.worktree == worktree && stays.contains(&node.id)).count() as u64;
            prop_assert!(left >= keep_last.unwrap_or(0).min(all), "so many of each stay");
        }
    }
}

#[test]
fn whoever_went_back_can_go_forward_again() {
    let lineage = two_worktrees();
    let worktrees: BTreeSet<String> = lineage.nodes().map(|node| node.worktree.clone()).collect();
    let roots = Roots { heads: ids(&[2]), worktrees, ..Roots::default() };
    let all = plan(&lineage, Retention::default(), &roots, now());
    assert!(all.candidates.is_empty(), "their worktrees are there: {all:?}");
    assert!(all.kept.iter().any(|kept| kept.why.as_str() == "worktree"), "{all:?}");
    let asked = plan(&lineage, Retention { keep_last: Some(1), ..Retention::default() }, &roots, now());
    assert!(!asked.candidates.is_empty(), "who says what is to be kept says what may go");
}
