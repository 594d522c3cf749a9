//! The store in plain files: one directory, described in `docs/protocol.md`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`open`] | opening a root, and creating it again |
//! | [`slot`] | the record under a name, and everything known about it |
//! | [`transact`] | the only way to change anything: enter the mutex, inspect, judge, change,
//! answer |
//! | [`attempt`] | one entry into the mutex |
//! | [`batch`] | many names in a few entries |
//! | [`durable`] | syncing before an answer, and releasing a hold that can't be synced |
//! | [`swap`] | putting a record in the place of the judged one, and of nothing else |
//! | [`tokens`] | the counter of fencing tokens |
//! | [`freezes`] | freezes over names |
//! | [`mod@line`] | the queue of a name |
//! | [`seat`] | a process's own position in a queue or under a hold |
//! | [`presence`] | the seats of one request |
//! | [`waiting`] | the events that wake a waiter |
//! | [`audit_write`] | the audit log, written |
//! | [`audit_log`] | the audit log, read |
//! | [`checkup`] | problems of a root, and their repair |
//! | [`parts`] | the types for operations on a root |
//!
//! Functions that must run inside the mutex take the proof that they do: `&Inside`.

mod attempt;
pub(crate) mod audit_log;
pub(crate) mod audit_write;
mod batch;
pub(crate) mod checkup;
mod durable;
mod engine;
pub(crate) mod freezes;
pub(crate) mod line;
pub(crate) mod open;
mod parts;
mod presence;
mod seat;
pub(crate) mod slot;
mod swap;
pub(crate) mod tokens;
mod transact;
mod waiting;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::Policy;
use lokt_core::hold::Identity;
use lokt_core::name::LockName;

use self::freezes::{FREEZES_DIR, freeze_path, legacy_path};
use crate::store::{Call, Child, Contract, Expiry, Publish, Request, Several, Target};
use lokt_guard::LOOK_MS;
use lokt_sys::disk::Disk;
use lokt_sys::error::{At as _, Error};
use lokt_sys::machine::Machine;
use lokt_sys::mutex::{Inside, PATIENCE};

/// Directory of temp files, from their creation to their rename.
pub(crate) const TEMP_DIR: &str = "state/tmp";
/// Directory for files that were in the way and couldn't be understood: they are moved here, not
/// lost.
pub(crate) const ASIDE_DIR: &str = "state/aside";
/// Directory of the records.
pub(crate) const LOCKS_DIR: &str = "locks";

/// Maximum time that a waiter waits for the mutex before it tries again.
const WAITERS_PATIENCE: Duration = Duration::from_secs(1);

/// Guarantees of files on one machine.
const CONTRACT: Contract = Contract {
    policy: Policy::NAMED,
    expiry: Expiry::Clock,
    spans_hosts: false,
    child: Child::Counts,
    several: Several::OneByOne,
    publish: Publish::Atomic,
    look_ms: Some(LOOK_MS),
};

/// A root directory with everything needed to work on it.
#[derive(Clone)]
pub struct FileStore {
    pub(crate) root: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) machine: Arc<dyn Machine>,
    /// This process, as far as its machine and its namespaces matter. The caller's identity comes
    /// with a request.
    pub(crate) me: Identity,
    /// True if the root was created when this was opened.
    is_new: bool,
}

impl FileStore {
    /// Returns its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Enters the mutex, within the time that `call` leaves.
    pub(crate) fn enter(&self, call: &Call<'_>) -> Result<Inside, Error> {
        self.enter_within(call.limit(PATIENCE, &self.machine.now()))
    }

    /// Enters the mutex for a request. One that waits tries again: it needn't wait long for the
    /// mutex, and a signal reaches it sooner.
    fn enter_for(&self, request: &Request<'_>, call: &Call<'_>) -> Result<Inside, Error> {
        let patience = if request.waits { WAITERS_PATIENCE } else { PATIENCE };
        self.enter_within(call.limit(patience, &self.machine.now()))
    }

    /// Enters the mutex.
    pub(crate) fn enter_within(&self, patience: Duration) -> Result<Inside, Error> {
        Inside::enter(&*self.disk, patience).map_err(|failure| Error::mutex(&self.root, failure))
    }

    /// Returns a path in the temp directory that has never been used before.
    pub(crate) fn temp_path(&self) -> Result<String, Error> {
        let bits = self.machine.random().map_err(|source| Error::io("get random bits for", &self.root, source))?;
        Ok(format!("{TEMP_DIR}/{bits:032x}"))
    }

    /// Returns the names of the records in `dir`, in order.
    pub(crate) fn names_in(&self, dir: &str) -> Result<Vec<LockName>, Error> {
        let files = self.disk.list(dir).at("list", &self.root, dir)?;
        let mut names: Vec<LockName> = files.iter().filter_map(|file| LockName::from_file_name(file)).collect();
        names.sort_unstable();
        Ok(names)
    }
}

/// Kind of record under a name: a hold, or a freeze over it. Both change in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Freeze,
    /// A freeze as old programs kept it, among the locks.
    LegacyFreeze,
}

impl Kind {
    /// Returns the kind of record that is asked about.
    pub(crate) fn of(target: Target) -> Self {
        match target {
            Target::Lock => Self::Lock,
            Target::Freeze => Self::Freeze,
        }
    }

    pub(crate) fn path(self, name: &LockName) -> String {
        match self {
            Self::Lock => record_path(name),
            Self::Freeze => freeze_path(name),
            Self::LegacyFreeze => legacy_path(name),
        }
    }

    pub(crate) fn dir(self) -> &'static str {
        match self {
            Self::Lock | Self::LegacyFreeze => LOCKS_DIR,
            Self::Freeze => FREEZES_DIR,
        }
    }
}

pub(crate) fn record_path(name: &LockName) -> String {
    format!("{LOCKS_DIR}/{name}.json")
}
