//! Which snapshot is meant.

use lokt_core::name::LockName;
use lokt_core::time::show_wall_seconds;
use lokt_worktree::snapshot::{Catalog, LATEST, Listed, Named, SnapshotId};

use crate::exit::Exit;
use crate::report::Failure;
use crate::show::{clean, quoted};

/// How a snapshot is named, for the help of those that take one.
pub(super) const ID_HELP: &str = "ID is the id of a snapshot or the beginning of one, `latest` for the one that the worktree is at, or a name in `.jvs/refs`.";
/// So many candidates are named.
const NAMED_MAX: usize = 5;

/// The snapshot that `word` means, in this worktree if that matters.
pub(super) fn find(catalog: &Catalog, word: &str, worktree: Option<&LockName>) -> Result<Listed, Failure> {
    match catalog.named(word, worktree) {
        Named::Found(listed) => Ok(*listed),
        other => Err(failure(word, &other, worktree)),
    }
}

/// Why it means none that can be used.
fn failure(word: &str, named: &Named, worktree: Option<&LockName>) -> Failure {
    let missing = |message: String| Failure::new(Exit::Missing, "E_NOT_FOUND", message);
    match named {
        Named::Missing if word == LATEST => {
            let of = worktree.map(|name| format!(" of worktree {}", quoted(name.as_str()))).unwrap_or_default();
            missing(format!("there is no snapshot{of} yet")).hint("`lokt snapshot create` takes one")
        }
        Named::Found(_) | Named::Missing => missing(format!("there is no snapshot {}", quoted(word)))
            .hint("`lokt snapshot history --all` shows those that there are"),
        Named::Partial(unfinished) if unfinished.running => {
            Failure::new(Exit::Partial, "E_PARTIAL_SNAPSHOT", format!("snapshot {} isn't whole yet", unfinished.id))
                .hint("somebody is taking it at this moment; `lokt snapshot history` shows it when it is there")
        }
        Named::Partial(unfinished) => {
            let message = format!("snapshot {} isn't whole: whoever took it didn't finish", unfinished.id);
            Failure::new(Exit::Partial, "E_PARTIAL_SNAPSHOT", message)
                .hint("`lokt doctor --strict --fix` removes what is left of it")
        }
        Named::Spoiled(spoiled) => {
            let message = format!(
                "snapshot {} can't be used: {}: {}",
                spoiled.id,
                clean(&spoiled.path.to_string_lossy()),
                spoiled.why
            );
            Failure::new(Exit::Damaged, "E_DESCRIPTOR_CORRUPT", message)
                .hint("`lokt doctor --strict` says what is damaged; its files are kept")
        }
        Named::Collected(collected) => {
            let when = collected.at.map(|at| format!(" at {}", show_wall_seconds(at))).unwrap_or_default();
            missing(format!("snapshot {} was removed{when}", collected.id))
                .hint("`lokt snapshot gc run` removed it; `lokt snapshot pin ID` keeps one")
        }
        Named::Ambiguous(ids) => {
            let named: Vec<&str> = ids.iter().take(NAMED_MAX).map(SnapshotId::as_str).collect();
            let more = ids.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Failure::usage(format!("{} can be several snapshots: {}{more}", quoted(word), named.join(", ")))
                .hint("give more digits of the one that is meant")
        }
    }
}
