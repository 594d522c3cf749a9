//! A true copy of a tree that others may be writing to, or the news that there is none.

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

/// So often a tree is copied before it is given up.
const ATTEMPTS: u32 = 3;
/// So often a look waits for the clock to move on from the last change. Somebody who writes all the time shows later.
const WAITS: u32 = 3;

/// A copy and what is known about it.
#[derive(Debug)]
pub struct Captured {
    /// The copy. It isn't durable yet.
    pub copied: Copied,
    /// What was there before it was made.
    pub scan: Scan,
    /// Do the stamps of its entries say later whether a file of the source changed?
    pub trusted: bool,
    /// What changed while it was made, by path. Of a quiesced one nothing.
    pub changed: Vec<Vec<u8>>,
}

/// Copies `source` to the new directory `into`. If it changes while it is copied, that is [`TreeError::Changed`] or a list of what did. After
/// an error what there is of it is left to the caller.
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
    // Before the first byte is read: from here on a write through a memory map moves a time, too.
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
    // Reading everything once more is for those who need to know.
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

/// A look at a tree whose last change is older than the clock is coarse, if that can be had.
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
