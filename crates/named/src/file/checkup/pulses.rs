//! Leftovers of killed processes: pulses that no record names, tickets of dead waiters, empty
//! queues, temp files.
//!
//! All of it is harmless, and lokt removes it in passing. A process that releases a hold removes
//! its pulse and its temp file after it has left the mutex, so a release may still be in progress.
//! A pulse counts only if its process is dead, a temp file only if it is old.

use std::path::PathBuf;

use jiff::Timestamp;
use lokt_core::liveness::Process;
use lokt_core::name::LockName;
use lokt_core::pulse::Pulse;
use lokt_core::time::millis_between;

use super::{Check, Finding, Patient, counted};
use crate::file::line::{HELD_DIR, LINE_DIR, held_path};
use crate::file::{FileStore, TEMP_DIR, record_path};
use crate::store::Call;
use lokt_sys::error::{At as _, Error};
use lokt_sys::look::look;
use lokt_sys::mutex::Inside;
use lokt_sys::probe_dir::{clear_left_over, is_probe, left_over};

const NAME: &str = "pulses";
/// Age in milliseconds from which a file is a leftover: no process takes this long from leaving the
/// mutex to the end of its command.
const OLD_MS: i64 = 5_000;

pub(super) fn check(patient: &Patient) -> Check {
    if let Some(busy) = &patient.busy {
        return Check::new(NAME, [Finding::skipped(busy)]);
    }
    let found = [held(patient), lines(patient), temps(patient), probes(patient)];
    Check::new(NAME, found.into_iter().flatten())
}

const HARMLESS: &str = "harmless; `lokt doctor --fix` removes what is left";

/// Takes `candidates` that were found without the mutex, and keeps those that still qualify inside
/// it. Then removes them, if asked to.
fn report<T>(
    patient: &Patient,
    candidates: Vec<T>,
    (one, many): (&str, &str),
    is_so: impl Fn(&FileStore, &T) -> bool,
    remove: impl Fn(&FileStore, &Inside, &T) -> Result<(), Error>,
) -> Option<Finding> {
    if candidates.is_empty() {
        return None;
    }
    let store = patient.store();
    let inside = match store.enter(&Call::UNLIMITED) {
        Ok(inside) => inside,
        Err(error) => return Some(Finding::skipped(error)),
    };
    let certain: Vec<T> = candidates.into_iter().filter(|candidate| is_so(store, candidate)).collect();
    let finding = (!certain.is_empty()).then(|| Finding::warn(counted(certain.len(), one, many)).hint(HARMLESS))?;
    let finding = patient.mend(finding, || {
        certain.iter().try_for_each(|candidate| remove(store, &inside, candidate))?;
        Ok::<_, Error>(Some(format!("removed {}", certain.len())))
    });
    drop(inside);
    finding
}

/// Reports pulses of holders that no record names.
fn held(patient: &Patient) -> Option<Finding> {
    let is_orphan = |store: &FileStore, number: &u64| {
        store
            .seats()
            .orphan(*number, &patient.now)
            .is_some_and(|orphan| orphan.pulse.is_none_or(|pulse| is_dead(store, &pulse)))
    };
    let store = patient.store();
    let numbers = store.disk.list(HELD_DIR).unwrap_or_default();
    let numbers = numbers.iter().filter_map(|entry| entry.parse().ok());
    let candidates: Vec<u64> = numbers.filter(|number| is_orphan(store, number)).collect();
    let what = format!("of a dead guard in {} that no lock names", patient.shown(HELD_DIR));
    let words = (&*format!("pulse {what}"), &*format!("pulses {what}"));
    report(patient, candidates, words, is_orphan, |store, _, number| {
        let path = held_path(*number);
        store.disk.remove(&path).at("remove", store.root(), &path)
    })
}

/// Reports whether its process is proven dead. A process that can't be seen may be removing it.
fn is_dead(store: &FileStore, pulse: &Pulse) -> bool {
    let (pid, start) = (pulse.process.pid, pulse.process.start);
    match pulse.pid_ns {
        Some(space) if Some(space) == store.me.pid_ns => {
            store.machine.process(pid).is_none_or(|stat| stat.has_ended() || !stat.may_be(start))
        }
        Some(space) => store.machine.process_in(space, pid, start) == Process::Dead,
        None => false,
    }
}

/// Reports queues with tickets of dead waiters, and empty queues of names that nobody holds. A
/// holder that had to wait leaves the empty queue to its release.
fn lines(patient: &Patient) -> Option<Finding> {
    let is_left = |store: &FileStore, name: &LockName| {
        let nobodys = || is_empty(store, name) && matches!(store.disk.stamp(&record_path(name)), Ok(None));
        store.line(name, None).is_ok_and(|line| !line.rest.gone.is_empty() || nobodys())
    };
    let store = patient.store();
    let names = store.disk.list(LINE_DIR).unwrap_or_default();
    let names = names.iter().filter_map(|name| LockName::new(name).ok());
    let candidates: Vec<LockName> = names.filter(|name| is_left(store, name)).collect();
    let what = format!("in {} with nobody in it, or with tickets of the dead", patient.shown(LINE_DIR));
    let words = (&*format!("line {what}"), &*format!("lines {what}"));
    report(patient, candidates, words, is_left, |store, inside, name| {
        let line = store.line(name, None)?;
        store.seats().clear_line(inside, name, line.waiters.len(), &line.rest, false);
        store.seats().fold_up(name.as_str());
        Ok(())
    })
}

fn is_empty(store: &FileStore, name: &LockName) -> bool {
    let dir = crate::file::line::line_dir(name.as_str());
    store.disk.list(&dir).is_ok_and(|entries| entries.is_empty()) && matches!(store.disk.stamp(&dir), Ok(Some(_)))
}

/// Reports temp files that were never renamed.
fn temps(patient: &Patient) -> Option<Finding> {
    let is_left = |store: &FileStore, entry: &String| {
        is_old(patient, &temp_path(patient, entry)) && store.records().is_left_over(entry)
    };
    let store = patient.store();
    let entries = store.disk.list(TEMP_DIR).unwrap_or_default();
    let candidates = entries.into_iter().filter(|entry| !is_probe(entry) && is_left(store, entry)).collect();
    let what = format!("in {} that nobody will rename", patient.shown(TEMP_DIR));
    let words = (&*format!("temp file {what}"), &*format!("temp files {what}"));
    report(patient, candidates, words, is_left, |store, inside, entry| {
        store.records().remove_left_over(inside, entry).map(drop).at(
            "remove",
            store.root(),
            &format!("{TEMP_DIR}/{entry}"),
        )
    })
}

fn temp_path(patient: &Patient, entry: &str) -> PathBuf {
    patient.path(&format!("{TEMP_DIR}/{entry}"))
}

fn is_old(patient: &Patient, path: &std::path::Path) -> bool {
    let changed = look(path).ok().flatten().map_or(Timestamp::MAX, |look| look.changed);
    millis_between(changed, patient.now.wall) > OLD_MS
}

/// Reports what a killed doctor left behind.
fn probes(patient: &Patient) -> Option<Finding> {
    let top = patient.store.root();
    let left = ["", "state", TEMP_DIR]
        .into_iter()
        .flat_map(|dir| left_over(top, dir).into_iter().map(move |name| (dir, name)));
    let path = |(dir, name): &(&str, String)| top.join(dir).join(name);
    let candidates: Vec<(&str, String)> = left.filter(|found| is_old(patient, &path(found))).collect();
    let what =
        format!("below {} in which a `lokt doctor` that was killed tried something", patient.store.root().display());
    let words = (&*format!("directory {what}"), &*format!("directories {what}"));
    let remove = |_: &FileStore, _: &Inside, found: &(&str, String)| {
        clear_left_over(top, found.0, &found.1).map_err(|error| Error::io("remove", &path(found), error))
    };
    report(patient, candidates, words, |_, _| true, remove)
}
