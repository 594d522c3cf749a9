//! A ledger: an append-only log of events, one file each, that programs of several kinds write to at once.
//!
//! [`Ledger`] is one directory. Appending is safe beside programs that know only the documented protocol (an exclusive `ledger.lock`,
//! and a rename that replaces whatever is there), and fast beside many of our own:
//!
//! * An event is written and synced before any lock is taken, as a file without a name (`prepared`).
//! * Our own processes queue on a kernel mutex, then take `ledger.lock`, because others do (`inside`). What the dead left is replaced,
//!   what others left is taken over with care (`takeover`).
//! * Inside, the head is known from a hint that is checked (`head`), the event gets its name only if nothing has it, and the
//!   directory is synced when both locks are free again.
//!
//! | file | one idea |
//! | --- | --- |
//! | `answers` | what is asked, and what is answered |
//! | `settings` | what a ledger is |
//! | `inside` | both locks, held |
//! | `takeover` | a lock that was left behind |
//! | `head` | which number is the highest |
//! | `prepared` | events on disk that have no number yet |
//! | `fold` | what the events say, from where an earlier command left off |
//! | `standing` | how a ledger stands when something is decided about it |
//! | `commit` | the one way in which events are added |
//! | `transact` | what a program decides about the ledger as it stands |
//! | `filler` | an event that says nothing, where a stopped writer will write |
//! | `failures` | what is said when events could not be added |
//! | `append` | what somebody typed: under conditions, or many at once |
//! | `claims` | who has which node of work |
//! | `meta` | how long claims last |
//! | `lock_files` | claims in files of their own |
//! | `census` | what a listing says |
//! | `read` | what is under a number |
//! | `follow` | events as they come |
//! | `look` | what is under a number, for those who judge it |
//! | `verify` | everything is read, and what is wrong is named |
//! | `doctor` | what is wrong around the events, and what can be done about it |
//! | `kept` | second names of our last events, for the day when a foreign tool replaces one |

mod answers;
mod append;
mod census;
mod claims;
mod commit;
mod doctor;
mod failures;
mod filler;
mod fold;
mod follow;
mod head;
mod inside;
mod kept;
mod lock_files;
mod look;
mod meta;
mod prepared;
mod read;
mod settings;
mod standing;
mod takeover;
mod transact;
mod verify;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;

pub use answers::{
    AppendTerms, Appended, Appending, Census, ClaimEntry, ClaimTerms, Claimed, Claiming, Fix, Founding, How,
    LockPatience, Problem, Progress, Reaped, Releasing, Settings, Slot, Unmet, Verification,
};
pub use lokt_core::ledger::checkpoint::Checkpoint;
pub use lokt_core::ledger::fold::Folded;
pub use transact::Transacted;

use crate::error::{At as _, Error, ErrorKind};
use crate::locks::Said;
use crate::sys::disk::Disk;
use crate::sys::machine::{Linux, Machine};
use crate::sys::os_disk::OsDisk;

/// Everybody may read events, and whatever is needed for that.
const DIR_MODE: u32 = 0o755;
/// The directory of events, in the directory that a ledger belongs to.
const LEDGER: &str = "ledger";

/// A ledger: the directory `ledger` below another one.
#[derive(Clone)]
pub struct Ledger {
    /// The directory that it belongs to.
    dir: PathBuf,
    /// The directory of events.
    path: PathBuf,
    /// Files in `path`.
    disk: Arc<dyn Disk>,
    /// Files in `dir`: `meta.json`, `nodes`, `locks`.
    above: Arc<dyn Disk>,
    machine: Arc<dyn Machine>,
    me: Identity,
    settings: Settings,
    /// They are noted.
    is_settled: bool,
    patience: LockPatience,
}

impl Ledger {
    /// The ledger below `dir`; `None` if there is none.
    pub fn existing(dir: &Path, me: Identity) -> Result<Option<Self>, Error> {
        let path = dir.join(LEDGER);
        let disk = match OsDisk::open_as(&path, DIR_MODE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Error::new(ErrorKind::NotARecord, format!("{} is not a directory", path.display())));
            }
            done => done.map_err(|error| Error::io("open", &path, error))?,
        };
        let above = OsDisk::open(dir).map_err(|error| Error::io("open", dir, error))?;
        Self::on(dir, Arc::new(disk), Arc::new(above), Arc::new(Linux), me).map(Some)
    }

    /// Makes a ledger below `dir`, and says whether there was none.
    pub fn init(dir: &Path, founding: Founding, me: Identity) -> Result<(Self, bool), Error> {
        let path = dir.join(LEDGER);
        let (disk, _) = OsDisk::create_as(&path, DIR_MODE).map_err(|error| Error::io("make", &path, error))?;
        let above = OsDisk::open(dir).map_err(|error| Error::io("open", dir, error))?;
        let mut ledger = Self::on(dir, Arc::new(disk), Arc::new(above), Arc::new(Linux), me)?;
        let is_new = ledger.found(founding)?;
        Ok((ledger, is_new))
    }

    /// A ledger on any disk: `disk` has its events, `above` is the directory that it belongs to.
    pub fn on(
        dir: &Path,
        disk: Arc<dyn Disk>,
        above: Arc<dyn Disk>,
        machine: Arc<dyn Machine>,
        mut me: Identity,
    ) -> Result<Self, Error> {
        me.fs = disk.mount().fs;
        let path = dir.join(LEDGER);
        let (settings, is_settled) = settings::of(&*disk, &*above, &path)?;
        let patience = LockPatience::default();
        Ok(Self { dir: dir.to_owned(), path, disk, above, machine, me, settings, is_settled, patience })
    }

    /// How long to wait for other programs' locks.
    #[must_use]
    pub fn patient(mut self, patience: LockPatience) -> Self {
        self.patience = patience;
        self
    }

    /// The directory of events.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Now, by its machine's clocks.
    pub fn now(&self) -> Moment {
        self.machine.now()
    }

    /// Appends an event, if the head is `expected`; 0 is an empty ledger's.
    pub fn append_if(&self, event: &Draft, expected: u64) -> Result<Said<Appending>, Error> {
        self.append(event, &AppendTerms { expect: Some(expected), ..AppendTerms::default() })
    }

    /// The file of an event.
    pub(crate) fn file(&self, seq: Seq) -> String {
        self.settings.style.file_name(seq)
    }

    /// A file in it, for a message.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    fn random(&self) -> Result<u128, Error> {
        self.machine.random().at("get random bits for", &self.path, "")
    }
}
