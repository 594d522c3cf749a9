//! The checkup of a root: can it be trusted, and does it contain anything that it shouldn't?
//!
//! A repair works like every change: inside the mutex, where the problem is judged again, by the
//! code that does the same in passing when a process acquires a lock. So repairs may run while
//! others work.

mod audit;
pub(crate) mod clock;
mod endless;
mod freezes;
mod mutex;
mod permissions;
mod pulses;
mod records;
mod tokens;

use std::fmt;
use std::path::{Path, PathBuf};

use lokt_core::checkup::{Check, Finding};
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use super::slot::Found;
use super::{FileStore, LOCKS_DIR, record_path};
use crate::locks::Lokt;
use lokt_sys::error::{At as _, Error};
use lokt_sys::look::look;
use lokt_sys::parallel;

/// Hint for a root that can't be read.
pub(crate) const LOOK_AT_ROOT: &str = "`lokt root` shows which root is used and how it was found";

/// Runs every check of a root, and repairs what is safe to repair, if that is asked for.
pub(super) fn examine(store: &FileStore, repair: bool, see: &mut dyn FnMut(Check)) {
    let (mutex, busy) = mutex::check(store);
    let (lokt, now) = (Lokt::of_files(store.clone()), store.machine.now());
    let mut patient = Patient { lokt, store: store.clone(), now, fix: repair, busy, records: Vec::new() };
    let records = match patient.read_records() {
        Ok(seen) => {
            patient.records = seen;
            records::check(&patient)
        }
        Err(error) => Check::new(records::NAME, [Finding::error(error.to_string()).hint(LOOK_AT_ROOT)]),
    };
    let patient = &patient;
    see(clock::check(&now, &patient.records, &store.me));
    see(permissions::check(patient));
    see(mutex);
    see(records);
    see(freezes::check(patient));
    see(freezes::check_legacy(patient));
    see(endless::check(patient));
    see(pulses::check(patient));
    see(tokens::check(patient));
    see(audit::check(patient));
}

/// Returns the directory `below` a root, if no link leads there: what is behind a link isn't ours.
pub(crate) fn real_dir(root: &Path, below: &str) -> Option<PathBuf> {
    let mut dir = root.to_owned();
    for name in below.split('/').filter(|name| !name.is_empty()) {
        dir.push(name);
        look(&dir).ok().flatten().filter(|found| found.is_dir)?;
    }
    Some(dir)
}

/// Formats a count: `1 file`, `2 files`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns a path as it must be typed in a shell.
pub(crate) fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte));
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A root under examination, with what was read from it.
struct Patient {
    lokt: Lokt,
    store: FileStore,
    now: Moment,
    fix: bool,
    /// The reason why the mutex can't be entered, if it can't. Then nothing is repaired, and checks
    /// that need the mutex are left out.
    busy: Option<String>,
    records: Vec<Seen>,
}

/// A record that was read.
pub(crate) struct Seen {
    name: LockName,
    found: Found,
}

impl Seen {
    fn hold(&self) -> Option<&Hold> {
        self.found.hold()
    }
}

impl Patient {
    fn store(&self) -> &FileStore {
        &self.store
    }

    fn path(&self, path: &str) -> PathBuf {
        self.store.root().join(path)
    }

    /// Returns a path as shown in messages.
    fn shown(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }

    /// Reads every lock record, once for all checks.
    fn read_records(&self) -> Result<Vec<Seen>, Error> {
        let store = self.store();
        let files = store.disk.list(LOCKS_DIR).at("list", store.root(), LOCKS_DIR)?;
        let names: Vec<LockName> = files.iter().filter_map(|file| LockName::from_file_name(file)).collect();
        Ok(parallel::map(&names, |name| {
            let found = store.records().find(&record_path(name), name.as_str(), &self.now);
            Seen { name: name.clone(), found }
        }))
    }

    /// Repairs what was found, if that was asked for and is possible.
    fn mend<E: fmt::Display>(
        &self,
        finding: Finding,
        repair: impl FnOnce() -> Result<Option<String>, E>,
    ) -> Option<Finding> {
        match (&self.busy, self.fix) {
            (None, true) => finding.after(repair()),
            (Some(busy), true) => finding.after(Err(busy)),
            (_, false) => Some(finding),
        }
    }
}
