//! Checks that everything among the locks is a lock.

use lokt_core::decide::{Breaking, Condition};
use lokt_core::duration::show_seconds;
use lokt_core::name::LockName;
use lokt_core::time::millis_between;

use super::{Check, Finding, Patient, Seen, typed};
use crate::file::{ASIDE_DIR, LOCKS_DIR, record_path};
use crate::locks::End;
use crate::store::{Call, Slot, Target, held_if_unreadable};
use lokt_sys::disk::Stamp;
use lokt_sys::error::Error;
use lokt_sys::look::look;

pub(super) const NAME: &str = "records";
/// Age in milliseconds from which another program's temp file is a leftover: nobody will rename it
/// any more.
const STRAY_MS: i64 = 60_000;

pub(super) fn check(patient: &Patient) -> Check {
    let damaged = patient.records.iter().filter_map(|seen| judge(patient, seen));
    Check::new(NAME, damaged.chain(strays(patient)).chain(set_aside(patient)))
}

fn judge(patient: &Patient, seen: &Seen) -> Option<Finding> {
    let (name, path) = (&seen.name, patient.shown(&record_path(&seen.name)));
    match &seen.found.slot {
        // A young empty file is being written.
        Slot::Free | Slot::Held(_) | Slot::BeingWritten => None,
        Slot::Corrupt(why) => {
            let finding = Finding::error(format!("{path} is no lock record: {why}"))
                .hint(format!("`lokt doctor --fix` moves it to {ASIDE_DIR}; so does the next `lokt lock {name}`"));
            patient.mend(finding, || move_aside(patient, name))
        }
        Slot::Newer(version) => Some(
            Finding::warn(format!(
                "{path} has version {version}, newer than this lokt understands (1): it is left alone"
            ))
            .hint("upgrade lokt"),
        ),
        Slot::Unreadable(error) => {
            // The error's own text, with the hint that every caller gets.
            let hint = "what can't be read counts as held";
            Some(Finding::error(error.to_string()).hint(format!("{hint}; `lokt unlock --force {name}` moves it aside")))
        }
    }
}

/// Moves it aside as a `lock` would, but without acquiring it. Judged again inside the mutex: if it
/// is a hold by then, it stays, unless it has ended.
fn move_aside(patient: &Patient, name: &LockName) -> Result<Option<String>, Error> {
    let unlocked = patient.lokt.unlock(name, Breaking::Stale, Condition::default());
    let unlocked = unlocked.map_err(|error| held_if_unreadable(error, name, Target::Lock))?;
    let End::Ended(ended) = unlocked.value else { return Ok(None) };
    Ok(ended.aside.map(|aside| format!("moved it to {}", patient.shown(&aside))))
}

/// Reports entries among the locks that can't be locks.
fn strays(patient: &Patient) -> impl Iterator<Item = Finding> + '_ {
    let files = patient.store().disk.list(LOCKS_DIR).unwrap_or_default();
    let files = files.into_iter().filter(|file| LockName::from_file_name(file).is_none());
    files.filter_map(|file| stray(patient, &file))
}

fn stray(patient: &Patient, file: &str) -> Option<Finding> {
    let path = format!("{LOCKS_DIR}/{file}");
    let is_temp = file.strip_prefix(".lock-").and_then(|rest| rest.strip_suffix(".tmp")).is_some();
    let stamp = patient.store().disk.stamp(&path).ok()??;
    let shown = patient.shown(&path);
    if !is_temp {
        return Some(Finding::warn(format!("{shown} is not a lock: nobody reads it")).hint("move it away"));
    }
    if !is_old(patient, &stamp) {
        return None;
    }
    let finding = Finding::warn(format!("{shown} is a temp file that another program left"));
    let finding = finding.hint("`lokt doctor --fix` removes it");
    patient.mend(finding, || -> Result<Option<String>, Error> {
        let store = patient.store();
        let inside = store.enter(&Call::UNLIMITED)?;
        let removed = store.records().take_away(&inside, &path, Some(stamp))?;
        Ok(removed.then(|| "removed it".to_owned()))
    })
}

fn is_old(patient: &Patient, stamp: &Stamp) -> bool {
    millis_between(stamp.modified, patient.now.wall) > STRAY_MS
}

/// Reports files that were moved aside earlier. They are evidence: people inspect them, and delete
/// them.
fn set_aside(patient: &Patient) -> Option<Finding> {
    let disk = &patient.store().disk;
    let files = disk.list(ASIDE_DIR).unwrap_or_default();
    let moved =
        files.iter().filter_map(|file| Some(look(&patient.path(&format!("{ASIDE_DIR}/{file}"))).ok()??.changed));
    let age = show_seconds((millis_between(moved.min()?, patient.now.wall) / 1000).max(0));
    let dir = patient.shown(ASIDE_DIR);
    let message = match files.len() {
        1 => format!("1 file that was no lock record is kept in {dir}, from {age} ago"),
        count => format!("{count} files that were no lock records are kept in {dir}, the oldest from {age} ago"),
    };
    Some(
        Finding::info(message)
            .hint(format!("look at what they were, then `rm -r {}`", typed(&patient.path(ASIDE_DIR)))),
    )
}
