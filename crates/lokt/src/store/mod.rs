//! Where the answers of `decide` are kept: one directory, described in `docs/protocol.md`.
//!
//! | module | what it keeps |
//! | --- | --- |
//! | [`slot`] | what is stored under a name, and everything known about it |
//! | [`ask`] | what is asked of a name, from the first look to the last |
//! | [`change`] | read, decide, swap in, account for it: inside the mutex |
//! | [`durable`] | what must be on the disk first, and giving back what can't be |
//! | [`swap`] | putting a record in the place of the judged one, and of nothing else |
//! | [`tokens`] | the counter of fencing tokens |
//! | [`freezes`] | freezes over names |
//! | [`mod@line`] | who waits for a name |
//! | [`seat`] | a process's own place in a line or a hold |
//! | [`standing`] | what a waiter sleeps on |
//! | [`trail`] | the audit log |

pub(crate) mod ask;
pub(crate) mod change;
mod durable;
pub(crate) mod freezes;
pub(crate) mod line;
pub(crate) mod seat;
pub(crate) mod slot;
pub(crate) mod standing;
mod swap;
pub(crate) mod tokens;
pub(crate) mod trail;

use std::path::Path;
use std::time::Duration;

use lokt_core::hold::Identity;
use lokt_core::name::LockName;

use self::freezes::{FREEZES_DIR, freeze_path, legacy_path};
use crate::error::Error;
use crate::sys::disk::Disk;
use crate::sys::machine::Machine;
use crate::sys::mutex::Inside;

/// Temp files live here from their creation to their rename.
pub(crate) const TEMP_DIR: &str = "state/tmp";
/// What was in the way and couldn't be understood is moved here, not lost.
pub(crate) const ASIDE_DIR: &str = "state/aside";
/// The records.
pub(crate) const LOCKS_DIR: &str = "locks";

/// One root, with everything needed to work on it.
pub(crate) struct Store<'a> {
    pub(crate) root: &'a Path,
    pub(crate) disk: &'a dyn Disk,
    pub(crate) machine: &'a dyn Machine,
    pub(crate) me: &'a Identity,
    pub(crate) patience: Duration,
}

impl Store<'_> {
    pub(crate) fn enter(&self) -> Result<Inside, Error> {
        Inside::enter(self.disk, self.patience).map_err(|failure| Error::mutex(self.root, failure))
    }

    /// A path in the temp directory that nobody has used before.
    pub(crate) fn temp_path(&self) -> Result<String, Error> {
        let bits = self.machine.random().map_err(|source| Error::io("get random bits for", self.root, source))?;
        Ok(format!("{TEMP_DIR}/{bits:032x}"))
    }
}

/// What is kept under a name: a hold, or a freeze over it. Both are records, and change in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Lock,
    Freeze,
    /// A freeze as old programs kept it, among the locks.
    LegacyFreeze,
}

impl Kind {
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

    pub(crate) fn is_freeze(self) -> bool {
        self != Self::Lock
    }
}

pub(crate) fn record_path(name: &LockName) -> String {
    format!("{LOCKS_DIR}/{name}.json")
}
