//! Looks a root over: can it be used, can it be believed, and is anything in it that shouldn't be?
//!
//! A check looks, judges and, if asked to, repairs. Repairs go the way that every change goes: inside the mutex, judged again there, by the
//! code that does the same in passing when somebody takes a lock. So a repair does nothing that a `lock` wouldn't do, and may run while
//! others work. What somebody may have meant (a freeze that can't be read, a hold of another machine) is never touched; the hint says
//! what people can do. Without `fix` nothing in the root changes; a directory to try things in is made and removed again.
//!
//! Healthy roots are in motion: records come and go between two looks, pulses are let go before they are cleared away. What may be such a
//! moment is looked at again inside the mutex, or counts only when it is old or its process is dead.

mod audit;
mod clock;
mod endless;
mod file_system;
mod finding;
mod freezes;
mod mutex;
mod namespaces;
mod overlay;
mod permissions;
mod pulses;
mod records;
mod second_root;
mod tokens;
mod trial;
mod trust;
mod writable;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use lokt_core::hold::{Hold, Identity};
use lokt_core::name::LockName;
use lokt_core::time::Moment;

pub use file_system::FileSystem;
pub use finding::{Check, Checkup, Finding, Status};

use crate::error::{At as _, Error};
use crate::locks::Lokt;
use crate::parallel;
use crate::root::{Found as FoundRoot, State, Surroundings};
use crate::store::slot::Found;
use crate::store::{LOCKS_DIR, Store, TEMP_DIR, record_path};
use crate::sys::look::look;
use crate::sys::machine::{Linux, Machine as _};
use crate::sys::probe_dir::ProbeDir;
use crate::sys::signals::Blocked;

/// What to examine, and how.
pub struct Doctor<'a> {
    /// Where we are.
    pub surroundings: &'a Surroundings,
    /// The root that is found from there.
    pub root: &'a FoundRoot,
    /// Who asks.
    pub me: &'a Identity,
    /// Starts this program once more, to call [`rival`] with a directory.
    pub rival: &'a dyn Fn(&Path) -> Command,
    /// Repair what is safe to repair.
    pub fix: bool,
}

/// What a second process does that a [`Doctor`] has started: what its standard input says, in `dir`.
pub fn rival(dir: &Path) -> io::Result<()> {
    crate::sys::rival::serve(dir)
}

impl Doctor<'_> {
    /// Looks everything over.
    pub fn examine(&self) -> Checkup {
        let now = Linux.now();
        let place = self.place();
        let mut checks = self.try_out(&place);
        checks.push(overlay::check(&place));
        checks.push(namespaces::check(self.me));
        match Lokt::existing(&self.root.path, self.me.clone()) {
            Ok(Some(lokt)) => checks.extend(self.examine_root(&lokt, now)),
            // What isn't there is fine, and what can't be opened has been said.
            Ok(None) | Err(_) => checks.extend([clock::check(&now, &[], self.me), self.second_root()]),
        }
        Checkup { checks }
    }

    fn second_root(&self) -> Check {
        second_root::check(self.surroundings, self.root)
    }

    /// The root, or the directory that it would be made in.
    fn place(&self) -> Place {
        let state = self.root.state();
        let is_dir = |dir: &&Path| dir.is_dir();
        let dir = match state {
            State::There => Some(self.root.path.as_path()),
            State::Missing => self.root.path.ancestors().skip(1).find(is_dir),
            State::Unusable(_) => None,
        };
        Place { root: self.root.path.clone(), dir: dir.map(ToOwned::to_owned), state }
    }

    /// Whatever needs a place to try it in.
    fn try_out(&self, place: &Place) -> Vec<Check> {
        // Whoever is interrupted removes the directory first. It takes a moment only.
        let _signals = Blocked::stops().and_all();
        let probe = place.probe();
        let writable = writable::check(place, probe.as_ref());
        vec![writable, file_system::check(place, probe.as_ref(), self.rival)]
    }

    fn examine_root(&self, lokt: &Lokt, now: Moment) -> Vec<Check> {
        let (mutex, busy) = mutex::check(lokt);
        let mut patient = Patient { lokt, now, fix: self.fix, busy, records: Vec::new() };
        let records = match patient.read_records() {
            Ok(seen) => {
                patient.records = seen;
                records::check(&patient)
            }
            Err(error) => Check::new(records::NAME, [Finding::fail(error.to_string()).hint(LOOK_AT_ROOT)]),
        };
        let patient = &patient;
        vec![
            clock::check(&now, &patient.records, self.me),
            self.second_root(),
            permissions::check(patient),
            mutex,
            records,
            freezes::check(patient),
            freezes::check_legacy(patient),
            endless::check(patient),
            pulses::check(patient),
            tokens::check(patient),
            audit::check(patient),
        ]
    }
}

const LOOK_AT_ROOT: &str = "`lokt root` shows which root is used and how it was found";
const OTHER_ROOT: &str =
    "set LOKT_ROOT to a directory on a local disk (ext4, xfs, btrfs, tmpfs), the same one for everybody";

/// Where the root is, or would be.
struct Place {
    root: PathBuf,
    /// What can be looked at: the root, or the nearest directory above it.
    dir: Option<PathBuf>,
    state: State,
}

impl Place {
    /// A directory to try things in. Among the temp files, if there is a place for them: nobody looks for anything there.
    fn probe(&self) -> Result<ProbeDir, Untried> {
        let Some(dir) = &self.dir else { return Err(Untried("there is no directory to try it in".into())) };
        let is_there = |below: &&&str| self.state == State::There && real_dir(dir, below).is_some();
        let below = [TEMP_DIR, "state"].iter().find(is_there).copied().unwrap_or("");
        let bits = Linux.random().map_err(|error| Untried(error.to_string()))?;
        let parent = dir.join(below);
        ProbeDir::make(dir, below, bits)
            .map_err(|error| Untried(format!("can't write to {}: {error}", parent.display())))
    }
}

/// The directory `below` a root, if no link leads there: what is behind one is none of ours.
fn real_dir(root: &Path, below: &str) -> Option<PathBuf> {
    let mut dir = root.to_owned();
    for name in below.split('/').filter(|name| !name.is_empty()) {
        dir.push(name);
        look(&dir).ok().flatten().filter(|found| found.is_dir)?;
    }
    Some(dir)
}

/// `1 file`, `2 files`
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A path as it must be typed in a shell.
fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte));
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Why nothing could be tried.
struct Untried(String);

impl fmt::Display for Untried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A root that can be looked at, with what was seen of it.
struct Patient<'a> {
    lokt: &'a Lokt,
    now: Moment,
    fix: bool,
    /// Why the mutex can't be had, if so. Then nothing is repaired, and what can only be judged inside isn't.
    busy: Option<String>,
    records: Vec<Seen>,
}

/// A record that was read.
struct Seen {
    name: LockName,
    found: Found,
}

impl Seen {
    fn hold(&self) -> Option<&Hold> {
        self.found.hold()
    }
}

impl Patient<'_> {
    fn store(&self) -> Store<'_> {
        self.lokt.store()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.lokt.root().join(path)
    }

    /// As in messages.
    fn shown(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }

    /// Every lock record, read once for all checks.
    fn read_records(&self) -> Result<Vec<Seen>, Error> {
        let store = self.store();
        let files = store.disk.list(LOCKS_DIR).at("list", store.root, LOCKS_DIR)?;
        let names: Vec<LockName> = files.iter().filter_map(|file| LockName::from_file_name(file)).collect();
        Ok(parallel::map(&names, |name| {
            let found = store.find(&record_path(name), name.as_str(), &self.now);
            Seen { name: name.clone(), found }
        }))
    }

    /// Repairs what was found, if that was asked for and can be done.
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
