//! Snapshots of a small tree, taken and brought back by whoever has its lease.
//!
//! Files get into the tree by publications under the lease alone, so whoever still has the lease afterwards knows what was in it meanwhile.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::{Life, answer, inherited};
use crate::nemesis::troubles::note;
use crate::scene::WORKTREES;

const FILES: u64 = 5;
/// So many of them are changed before a snapshot is taken.
const CHANGES: u64 = 3;
/// What a restore is called among what was done, if it could be judged.
pub(crate) const JUDGED: &str = "judged restore";
/// What one is called that brought a tree back around a root in use.
pub(crate) const AROUND_ROOT: &str = "restore around a root";

/// The files of a tree.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

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
    for _ in 0..CHANGES {
        change(life, &dir);
    }
    let taken = files(&dir);
    let ended = life.lokt(&["snapshot", "create", "--worktree", tree(), "--json"]);
    let Some(id) = answer(&ended).and_then(|answer| answer["snapshot_id"].as_str().map(str::to_owned)) else { return };
    let acknowledged = life.dir.join(format!("snapshots-{}", life.word("ward")));
    let file = OpenOptions::new().append(true).create(true).open(acknowledged);
    let mut file = file.expect("a temp directory is writable");
    file.write_all(format!("{id}\n").as_bytes()).expect("a temp directory is writable");
    if life.dice.below(2) == 0 {
        bring_back(life, &dir, &id, &taken);
    }
    life.lokt(&["snapshot", "verify", &id]);
}

/// Another text in one of the files. Whoever lost the lease is refused; a full disk has no room.
fn change(life: &mut Life, dir: &Path) {
    let target = dir.join(format!("part-{}", life.dice.below(FILES))).display().to_string();
    let text = format!("{} ", life.dice.below(u64::MAX)).repeat(1 + life.dice.index(40));
    let source = life.scratch("part", &text);
    life.lokt(&["lease", "fence", "publish", "--worktree", tree(), &source, &target]);
    let _ = rustix::fs::unlink(&source);
}

/// In place, after another change.
fn bring_back(life: &mut Life, dir: &Path, id: &str, taken: &Files) {
    change(life, dir);
    let changed = files(dir);
    let ended = life.lokt(&["snapshot", "restore", id, "--in-place", "--force", "--worktree", tree()]);
    let now = files(dir);
    // Whoever has the lease now had it all the time: no token is given twice.
    let token = inherited("LOKT_LEASE_TOKEN").unwrap_or_default();
    let still = life.plainly(&["lease", "fence", "check", "--worktree", tree(), "--token", &token]);
    if still.code == Some(0) {
        note(&life.dir, JUDGED);
        if life.word("ward") == "nest" && ended.code == Some(0) {
            note(&life.dir, AROUND_ROOT);
        }
        let wrong = wrong_restore(ended.code, taken, &changed, &now);
        assert!(wrong.is_none(), "{} of snapshot {id}: {ended:?}", wrong.unwrap_or_default());
    }
}

/// What is wrong with the files after a restore that ended with this code. Without an answer they may be those before it: all of them.
pub(crate) fn wrong_restore(code: Option<i32>, taken: &Files, changed: &Files, now: &Files) -> Option<String> {
    let well = now == taken || (code != Some(0) && now == changed);
    let names = |files: &Files| files.keys().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let differ = || taken.iter().filter(|(path, text)| now.get(*path) != Some(*text)).map(|(path, _)| path);
    (!well).then(|| {
        let differ: Vec<&PathBuf> = differ().collect();
        format!("all-or-nothing: a restore that ended with {code:?} left {:?}, {differ:?} differ", names(now))
    })
}

fn files(dir: &Path) -> Files {
    let mut found = Files::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let link = std::fs::read_link(entry.path()).map(|target| target.into_os_string().into_encoded_bytes());
        // Gone meanwhile, if the lease is.
        if let Ok(text) = link.or_else(|_| std::fs::read(entry.path())) {
            found.insert(entry.file_name().into(), text);
        }
    }
    found
}
