//! Limits of a snapshot: entries that changed while it was taken, and entries that couldn't be
//! copied. The first few are named and all are counted, so that a descriptor stays short.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde_json::{Value, json};

use super::members::{Members, owned, said};

/// Maximum number of named entries.
pub const NAMED_MAX: usize = 100;
/// Maximum length of all names in bytes: with every byte escaped, both lists still fit into a
/// descriptor.
const NAMES_BYTES_MAX: usize = 64 << 10;
/// Label of a snapshot in which something may have changed.
const LABEL: &str = "best_effort";

/// Entries that changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Risk {
    /// The first paths, as far as they are text.
    pub changed: Vec<String>,
    /// Number of entries that changed.
    pub changed_count: u64,
}

/// An entry that couldn't be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its path.
    pub path: String,
    /// Its kind: a socket, a mount.
    pub kind: String,
}

impl Risk {
    /// Records that these paths changed.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (changed, changed_count) = first(paths.into_iter().map(shown), String::len);
        Self { changed, changed_count }
    }

    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let members = Members::of(value)?;
        let paths = |value: &Value| value.as_array()?.iter().map(owned).collect();
        let changed: Vec<String> = members.may("changed_during_copy", paths).ok()?.unwrap_or_default();
        let changed_count = members.must("changed_count", Value::as_u64).ok()?;
        Some(Self { changed, changed_count })
    }
}

impl Skipped {
    /// Returns the first of the entries that couldn't be copied, and their number.
    pub fn list<'a>(all: impl IntoIterator<Item = (&'a [u8], &'a str)>) -> (Vec<Self>, u64) {
        let all = all.into_iter().map(|(path, kind)| Self { path: shown(path), kind: kind.into() });
        first(all, |skipped| skipped.path.len())
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).to_string()
}

/// Returns the first items, and the number of all.
fn first<T>(all: impl Iterator<Item = T>, bytes: impl Fn(&T) -> usize) -> (Vec<T>, u64) {
    let (mut named, mut count, mut room) = (Vec::new(), 0, NAMES_BYTES_MAX);
    for one in all {
        count += 1;
        room = room.saturating_sub(bytes(&one));
        // Once one was left out, so are all after it.
        if room > 0 && named.len() < NAMED_MAX {
            named.push(one);
        }
    }
    (named, count)
}

/// Returns the JSON form. `None`: something may have changed, but nothing checked that.
pub(super) fn changed_value(risk: Option<&Risk>) -> Value {
    json!({
        "label": LABEL,
        "changed_during_copy": risk.map_or(&[][..], |risk| &risk.changed),
        "changed_count": risk.map(|risk| risk.changed_count),
    })
}

pub(super) fn skipped_value(skipped: &[Skipped]) -> Value {
    skipped.iter().map(|Skipped { path, kind }| json!({"path": path, "kind": kind})).collect()
}

pub(super) fn skipped_from(members: &Members) -> Result<(Vec<Skipped>, u64), String> {
    let one = |value: &Value| {
        let members = Members::of(value)?;
        Some(Skipped { path: members.must("path", owned).ok()?, kind: members.must("kind", said).ok()? })
    };
    let skipped: Option<Vec<Skipped>> = members.may("skipped", |value| value.as_array()?.iter().map(one).collect())?;
    let count = members.may("skipped_count", Value::as_u64)?;
    Ok((skipped.unwrap_or_default(), count.unwrap_or_default()))
}
