//! Finds other roots that processes might use instead of this one. Locks in two roots don't exclude
//! each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Check, Finding, typed};
use crate::root::{Found, Method, Surroundings, is_root, roots_below};
use lokt_sys::error::Error;
use lokt_sys::files::{entries, real_path};

pub(super) fn check(surroundings: &Surroundings, used: &Found) -> Check {
    let others = match others(surroundings, used) {
        Ok(others) => others,
        Err(error) => {
            let finding = Finding::warn(format!("can't look for other roots: {error}"));
            return Check::new("second_root", [finding]);
        }
    };
    let mut seen = BTreeSet::from([real_path(&used.path)]);
    let others = others.into_iter().filter(|path| is_root(path) && seen.insert(real_path(path)));
    let named_git = surroundings.git_dir.is_some() || surroundings.git_common_dir.is_some();
    Check::new("second_root", others.map(|path| finding(&path, used, named_git)))
}

fn finding(other: &Path, used: &Found, named_git: bool) -> Finding {
    let (path, used_path) = (other.display(), used.path.display());
    let message = format!("{path} is a root, too: whoever locks there doesn't exclude those who use {used_path}");
    let hint = match used.method {
        Method::Flag => "leave out --root to use that one, or set LOKT_ROOT for everybody".to_owned(),
        Method::Env => "unset LOKT_ROOT to use that one, or set it for everybody".to_owned(),
        Method::Git if named_git => {
            "unset GIT_DIR to use the one around this directory, or set LOKT_ROOT for everybody".to_owned()
        }
        Method::Git | Method::LoktRepository | Method::Local => {
            format!("`rm -r {}` if nobody needs it, or set LOKT_ROOT to one of them for everybody", typed(other))
        }
    };
    Finding::warn(message).hint(hint)
}

/// Returns the places where other roots could be.
fn others(surroundings: &Surroundings, used: &Found) -> Result<BTreeSet<PathBuf>, Error> {
    Ok(match used.method {
        // The flag or variable may well name another project's root, so a root around here counts
        // only if it has locks.
        Method::Flag | Method::Env => without(surroundings, used)?.into_iter().filter(|path| has_locks(path)).collect(),
        Method::Git | Method::LoktRepository | Method::Local => {
            surroundings.places_of_roots()?.into_iter().chain(roots_below(&surroundings.cwd, &[".lokt"])?).collect()
        }
    })
}

/// Returns the roots that a command uses without `--root`, and without `LOKT_ROOT`.
fn without(surroundings: &Surroundings, used: &Found) -> Result<Vec<PathBuf>, Error> {
    let unnamed = Surroundings { named_root: None, ..surroundings.clone() };
    let neither = Surroundings { lokt_root: None, ..unnamed.clone() };
    let unnamed = (used.method == Method::Flag).then(|| unnamed.find_root()).transpose()?;
    Ok(unnamed.into_iter().chain([neither.find_root()?]).map(|found| found.path).collect())
}

fn has_locks(path: &Path) -> bool {
    entries(&path.join("locks")).next().is_some()
}
