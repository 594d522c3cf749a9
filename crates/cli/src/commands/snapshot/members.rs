//! A snapshot in JSON: the members of its description, and what is known of it besides.

use lokt_core::name::LockName;
use lokt_worktree::snapshot::{Consistency, Descriptor, Listed};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::show::{clean, count, size};

/// So many paths are named.
const NAMED_MAX: usize = 5;

/// A snapshot that is visible.
#[derive(Serialize)]
pub(super) struct Members<'a> {
    #[serde(flatten)]
    descriptor: Map<String, Value>,
    pinned: bool,
    refs: &'a [String],
    /// Is it where the worktree is that was asked about? Without one: where any is.
    is_head: bool,
    head_of: Vec<&'a str>,
}

impl<'a> Members<'a> {
    pub(super) fn of(listed: &'a Listed, worktree: Option<&LockName>) -> Self {
        Self {
            descriptor: listed.descriptor.members(),
            pinned: listed.pinned,
            refs: &listed.refs,
            is_head: is_head(listed, worktree),
            head_of: listed.head_of.iter().map(LockName::as_str).collect(),
        }
    }
}

/// Is it where the worktree is, or, without one, where any is?
pub(super) fn is_head(listed: &Listed, worktree: Option<&LockName>) -> bool {
    worktree.map_or(!listed.head_of.is_empty(), |name| listed.head_of.contains(name))
}

/// `12 files, 3.4 kB`; nothing of what another program took and didn't count.
pub(super) fn content(files: Option<u64>, bytes: Option<u64>) -> String {
    let files = files.map(|files| count(files, "file", "files"));
    let parts: Vec<String> = files.into_iter().chain(bytes.map(size)).collect();
    parts.join(", ")
}

/// May anything have changed while it was copied?
pub(super) fn is_risky(descriptor: &Descriptor) -> bool {
    descriptor.consistency == Consistency::BestEffort
}

/// What moved while it was taken, in a few words; nothing if it was quiet.
pub(super) fn risk(descriptor: &Descriptor) -> Option<String> {
    let changed = descriptor.risk.as_ref().map(|risk| (risk.changed_count, risk.changed.as_slice()));
    let words = match changed {
        None => "files may have changed while it was copied".to_owned(),
        Some((0, _)) => "nothing was seen to change while it was copied, which is no promise".to_owned(),
        Some((changed, paths)) => {
            format!("changed while it was copied: {}", first(paths.iter().map(|path| clean(path)), changed))
        }
    };
    is_risky(descriptor).then(|| format!("best_effort: {words}"))
}

/// What was left out, in a few words.
pub(super) fn skipped(descriptor: &Descriptor) -> Option<String> {
    let each = descriptor.skipped.iter().map(|skipped| format!("{} ({})", clean(&skipped.path), clean(&skipped.kind)));
    (descriptor.skipped_count > 0).then(|| first(each, descriptor.skipped_count))
}

/// The first of them, and how many more there are.
fn first(named: impl Iterator<Item = String>, all: u64) -> String {
    let named: Vec<String> = named.take(NAMED_MAX).collect();
    let more = all.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
