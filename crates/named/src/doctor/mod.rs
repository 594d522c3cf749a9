//! Examines a root: can it be used, can it be trusted, and does it contain anything that it
//! shouldn't?
//!
//! A check inspects, judges and, if asked to, repairs. A repair works like every change: inside the
//! mutex, where the problem is judged again, by the code that does the same in passing when a
//! caller acquires a lock. So a repair does nothing that a `lock` wouldn't do, and may run while
//! others work. A repair never touches what may be intended (an unreadable freeze, a hold of
//! another machine); the hint says what people can do. Without `fix` nothing in the root changes; a
//! directory for trials is created and removed again.
//!
//! Healthy roots change all the time: records come and go between two checks, and pulses are
//! unlocked before they are removed. A finding that may be such a moment is checked again inside
//! the mutex, or counts only if it is old or its process is dead.

mod file_system;
mod namespaces;
mod overlay;
mod second_root;
mod trial;
mod trust;
mod writable;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use lokt_core::hold::Identity;

pub use file_system::FileSystem;
pub use lokt_core::checkup::{Check, Checkup, Finding, Fix, Severity, Status};

use crate::file::checkup::{LOOK_AT_ROOT, clock, real_dir, typed};
use crate::file::open::this_machine;
use crate::file::{FileStore, TEMP_DIR};
use crate::root::{Found as FoundRoot, State, Surroundings};
use crate::store::{Call, Store};
use lokt_sys::files::is_dir;
use lokt_sys::probe_dir::ProbeDir;
use lokt_sys::signals::Blocked;

/// Settings of an examination.
pub struct Doctor<'a> {
    /// The surroundings of the caller.
    pub surroundings: &'a Surroundings,
    /// The root that is found from there.
    pub root: &'a FoundRoot,
    /// The identity of the caller.
    pub me: &'a Identity,
    /// Starts this program again, to call [`rival`] with a directory.
    pub rival: &'a dyn Fn(&Path) -> Command,
    /// Repair what is safe to repair.
    pub fix: bool,
}

/// Runs the second process that a [`Doctor`] starts: carries out the orders from standard input, in
/// `dir`.
pub fn rival(dir: &Path) -> io::Result<()> {
    lokt_sys::rival::serve(dir)
}

impl Doctor<'_> {
    /// Runs all checks.
    pub fn examine(&self) -> Checkup {
        let place = self.place();
        let mut checks = self.try_out(&place);
        checks.push(overlay::check(&place));
        checks.push(namespaces::check(self.me));
        if let Ok(Some(store)) = FileStore::existing(&self.root.path, self.me.clone()) {
            checks.extend(self.examine_store(&store));
        } else {
            // A missing root is fine, and one that can't be opened has been reported.
            let clock = clock::check(&this_machine().now(), &[], self.me);
            checks.extend([clock, self.second_root()]);
        }
        Checkup { checks }
    }

    /// Returns the store's findings about itself, and whether there is another root beside it.
    fn examine_store(&self, store: &dyn Store) -> Vec<Check> {
        let mut checks = Vec::new();
        if let Err(error) = store.checkup(self.fix, &Call::UNLIMITED, &mut |check| checks.push(check)) {
            checks.push(Check::new("store", [Finding::error(error.to_string()).hint(LOOK_AT_ROOT)]));
        }
        // After the clock, which isn't in the root either.
        checks.insert(checks.len().min(1), self.second_root());
        checks
    }

    fn second_root(&self) -> Check {
        second_root::check(self.surroundings, self.root)
    }

    /// Returns the root, or the directory that it would be created in.
    fn place(&self) -> Place {
        let state = self.root.state();
        let dir = match state {
            State::There => Some(self.root.path.as_path()),
            State::Missing => self.root.path.ancestors().skip(1).find(|dir| is_dir(dir)),
            State::Unusable(_) => None,
        };
        Place { root: self.root.path.clone(), dir: dir.map(ToOwned::to_owned), state }
    }

    /// Runs the checks that need a directory for trials.
    fn try_out(&self, place: &Place) -> Vec<Check> {
        // Signals wait until the directory has been removed. It takes only a moment.
        let _signals = Blocked::stops().and_all();
        let probe = place.probe();
        let writable = writable::check(place, probe.as_ref());
        vec![writable, file_system::check(place, probe.as_ref(), self.rival)]
    }
}

const OTHER_ROOT: &str =
    "set LOKT_ROOT to a directory on a local disk (ext4, xfs, btrfs, tmpfs), the same one for everybody";

/// Location of the root, whether it exists or not.
struct Place {
    root: PathBuf,
    /// The directory that can be inspected: the root, or the nearest directory above it.
    dir: Option<PathBuf>,
    state: State,
}

impl Place {
    /// Creates a directory for trials. It is put among the temp files, if they have a directory: no
    /// program looks for anything there.
    fn probe(&self) -> Result<ProbeDir, Untried> {
        let Some(dir) = &self.dir else { return Err(Untried("there is no directory to try it in".into())) };
        let is_there = |below: &&&str| self.state == State::There && real_dir(dir, below).is_some();
        let below = [TEMP_DIR, "state"].iter().find(is_there).copied().unwrap_or("");
        let bits = this_machine().random().map_err(|error| Untried(error.to_string()))?;
        let parent = dir.join(below);
        ProbeDir::make(dir, below, bits)
            .map_err(|error| Untried(format!("can't write to {}: {error}", parent.display())))
    }
}

/// Reason why nothing could be tried.
struct Untried(String);

impl fmt::Display for Untried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
