//! A faithful copy of a tree that other processes may be writing to, or an error that there is
//! none.

use std::path::Path;
use std::time::Duration;

use lokt_core::snapshot::descriptor::Consistency;

use super::changes::between;
use super::copy::{Copied, CopyOptions, OnChanged, copy};
use super::one::HashFrom;
use super::reuse::Reuse;
use super::scan::{Scan, TICK_NS, scan};
use super::{Control, Ignore, Phase, Tree, TreeError, recheck_hashes};
use lokt_sys::payload::destroy;
use lokt_sys::wakeup::sleep_on;

/// Maximum number of attempts to copy a tree that changes.
const ATTEMPTS: u32 = 3;
/// Maximum number of times a scan is repeated until the clock has moved on from the last change. A
/// process that writes all the time is detected later.
const WAITS: u32 = 3;

/// A copy and what is known about it.
#[derive(Debug)]
pub struct Captured {
    /// The copy. It isn't durable yet.
    pub copied: Copied,
    /// The scan from before it was made.
    pub scan: Scan,
    /// Whether the stamps of its entries can later tell if a file of the source changed.
    pub trusted: bool,
    /// Paths that changed while it was made. Empty for a quiesced copy.
    pub changed: Vec<Vec<u8>>,
}

/// Copies `source` to the new directory `into`. If the source changes during the copy, the result
/// is [`TreeError::Changed`] or a list of the changes. After an error, the partial copy is left for
/// the caller to remove.
pub fn capture(
    source: &Tree,
    ignore: &Ignore,
    into: &Path,
    consistency: Consistency,
    reuse: Option<Reuse<'_>>,
    control: &Control<'_>,
) -> Result<Captured, TreeError> {
    let mut attempts = if consistency == Consistency::Quiesced { ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        match once(source, ignore, into, consistency, reuse, control) {
            Err(TreeError::Changed { .. }) if attempts > 0 => {
                destroy(into).map_err(|error| TreeError::Io { what: "remove", path: into.to_owned(), error })?;
            }
            done => return done,
        }
    }
}

fn once(
    source: &Tree,
    ignore: &Ignore,
    into: &Path,
    consistency: Consistency,
    reuse: Option<Reuse<'_>>,
    control: &Control<'_>,
) -> Result<Captured, TreeError> {
    let before = settled(source, ignore, control)?;
    let trusted = source.is_trusted() && !before.is_racy();
    // Before the first byte is read: from here on, a write through a memory map updates a time,
    // too.
    source.flush().map_err(|error| TreeError::Io { what: "sync", path: source.path().to_owned(), error })?;
    let (hash_from, on_changed) = match consistency {
        Consistency::Quiesced => (HashFrom::Source, OnChanged::Refuse),
        Consistency::BestEffort => (HashFrom::Copy, OnChanged::List),
    };
    let mut copied = copy(source, &before, into, &CopyOptions { reuse, hash_from, on_changed }, control)?;
    control.progress.step(Phase::Checking, 0, 0, 0, 0);
    let after = scan(source, ignore, control)?;
    let mut changed = between(&before, &after);
    changed.append(&mut copied.changed);
    // Rereading everything is expensive, so it is skipped if a change is already known.
    if changed.is_empty() && !trusted {
        changed = recheck_hashes(source, &copied.entries, control)?;
    }
    changed.sort_unstable();
    changed.dedup();
    if consistency == Consistency::Quiesced && !changed.is_empty() {
        return Err(TreeError::Changed { paths: changed });
    }
    let trusted = trusted && changed.is_empty();
    Ok(Captured { copied, scan: before, trusted, changed })
}

/// Scans a tree until its last change is older than the clock's resolution, or the waits are used
/// up.
fn settled(source: &Tree, ignore: &Ignore, control: &Control<'_>) -> Result<Scan, TreeError> {
    let mut found = scan(source, ignore, control)?;
    for _ in 0..WAITS {
        if !found.is_racy() {
            break;
        }
        let tick = Duration::from_nanos(u64::try_from(TICK_NS).unwrap_or_default());
        // A signal may end it early; then there is another round.
        let _ = sleep_on(&[], tick + tick / 4);
        found = scan(source, ignore, control)?;
    }
    Ok(found)
}
