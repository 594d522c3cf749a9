//! Is there another root that others might use instead of this one? Two roots exclude nobody from each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Check, Finding, typed};
use crate::root::{Found, Method, Surroundings};

/// How far below the current directory it is looked for.
const DEPTH: usize = 3;
/// How many entries are looked at, at most. A larger tree is looked at in part.
const ENTRIES_MAX: usize = 10_000;
/// Large, and nobody works in there.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", ".lokt"];

pub(super) fn check(surroundings: &Surroundings, used: &Found) -> Check {
    let mut others = BTreeSet::new();
    let same = |path: &Path| real(path) == real(&used.path);
    others.extend(without_variable(surroundings, used).filter(|path| has_locks(path)));
    // The variable may well lead to another project's root; what is around here is that one's business, then.
    if used.method != Method::Env {
        others.extend(surroundings.lokts_upwards());
        others.extend(below(&surroundings.cwd));
    }
    let others = others.into_iter().filter(|path| !same(path) && is_root(path));
    Check::new("second_root", others.map(|path| finding(&path, used)))
}

fn finding(other: &Path, used: &Found) -> Finding {
    let (path, used_path) = (other.display(), used.path.display());
    let message = format!("{path} is a root, too: whoever locks there doesn't exclude those who use {used_path}");
    let hint = match used.method {
        Method::Env => "unset LOKT_ROOT to use that one, or set it for everybody".to_owned(),
        Method::Git | Method::Local => {
            format!("`rm -r {}` if nobody needs it, or set LOKT_ROOT to one of them for everybody", typed(other))
        }
    };
    Finding::warn(message).hint(hint)
}

/// What would be used if `LOKT_ROOT` weren't set.
fn without_variable(surroundings: &Surroundings, used: &Found) -> impl Iterator<Item = PathBuf> {
    let other = Surroundings { lokt_root: None, ..surroundings.clone() };
    (used.method == Method::Env).then(|| other.find_root().path).into_iter()
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Somebody has used it.
fn is_root(path: &Path) -> bool {
    path.join("locks").is_dir() || path.join("state").is_dir()
}

fn has_locks(path: &Path) -> bool {
    fs::read_dir(path.join("locks")).is_ok_and(|mut entries| entries.next().is_some())
}

/// Roots in directories below `dir`.
fn below(dir: &Path) -> Vec<PathBuf> {
    let (mut roots, mut looked_at, mut level) = (Vec::new(), 0, vec![dir.to_owned()]);
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for dir in &level {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                looked_at += 1;
                if looked_at > ENTRIES_MAX {
                    return roots;
                }
                let (name, is_dir) = (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
                if is_dir && !SKIPPED.iter().any(|skipped| name == *skipped) {
                    roots.push(entry.path().join(".lokt"));
                    next.push(entry.path());
                }
            }
        }
        level = next;
    }
    roots
}
