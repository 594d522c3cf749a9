//! Snapshots of a small tree, taken and brought back by whoever has its lease.

use std::fs::OpenOptions;
use std::io::Write as _;

use super::{Life, answer};
use crate::scene::WORKTREES;

const FILES: u64 = 5;

/// Without a lease of its own: looks, and lets go what nobody needs.
pub(super) fn snapshot(life: &mut Life) {
    for _ in 0..3 {
        if life.is_over() {
            return;
        }
        match life.dice.below(3) {
            0 => life.lokt(&["snapshot", "gc", "run"]),
            1 => life.lokt(&["snapshot", "gc", "run", "--now"]),
            _ => life.lokt(&["snapshot", "history", "--worktree", tree(), "--json"]),
        };
        life.dwell(1_000);
    }
}

fn tree() -> &'static str {
    WORKTREES[WORKTREES.len() - 1]
}

/// Under a lease: changes the tree, takes a snapshot, and brings it back now and then. What was acknowledged is written down.
pub(super) fn take(life: &mut Life) {
    let dir = life.base.join("worktrees").join(tree());
    for _ in 0..FILES {
        let name = format!("part-{}", life.dice.below(FILES));
        let text = format!("{} ", life.dice.below(u64::MAX)).repeat(1 + life.dice.index(40));
        // Whoever lost the lease may find another tree, or none; a full disk has no room.
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(dir.join(name));
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }
    let ended = life.lokt(&["snapshot", "create", "--worktree", tree(), "--json"]);
    let Some(id) = answer(&ended).and_then(|answer| answer["snapshot_id"].as_str().map(str::to_owned)) else { return };
    let acknowledged = life.dir.join(format!("snapshots-{}", life.word("ward")));
    let file = OpenOptions::new().append(true).create(true).open(acknowledged);
    let mut file = file.expect("a temp directory is writable");
    file.write_all(format!("{id}\n").as_bytes()).expect("a temp directory is writable");
    match life.dice.below(4) {
        0 => drop(life.lokt(&["snapshot", "restore", "latest", "--in-place", "--force", "--worktree", tree()])),
        1 => drop(life.lokt(&["snapshot", "verify", &id])),
        _ => {}
    }
}
