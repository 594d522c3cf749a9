//! A ledger in plain files: the [`EventLog`] that other programs can write to, too.
//!
//! Appending is safe beside programs that know only the documented protocol (an exclusive
//! `ledger.lock`, and a rename that replaces whatever is there), and fast beside many of our own:
//!
//! * An event is written and synced before any lock is acquired, as a file without a name
//!   (`prepared`).
//! * Our own processes queue on a kernel mutex, then acquire `ledger.lock`, because others do
//!   (`inside`). Locks of dead processes are replaced, locks that other programs left behind are
//!   taken over with care (`takeover`).
//! * Inside, the head is known from a hint that is checked (`head`), the event gets its name only
//!   if nothing has it, and the directory is synced when both locks are free again.
//!
//! | file | one idea |
//! | --- | --- |
//! | `settings` | style and chain of a ledger |
//! | `inside` | both locks, held: the proof that others take as an argument |
//! | `writer_lock` | the lock that all programs share |
//! | `takeover` | a lock that was left behind |
//! | `sweep` | files that killed processes left behind |
//! | `head` | the highest number |
//! | `prepared` | events on disk that have no number yet |
//! | `fold` | the fold of all events, read in parallel |
//! | `fold_cache` | the fold that an earlier command left |
//! | `basis` | the state that events are composed for |
//! | `commit` | the one way in which events are added |
//! | `filler` | an event without content, where a suspended writer will write |
//! | `failures` | messages about events that could not be added |
//! | `meta` | the duration of claims |
//! | `lock_files` | claims in files of their own |
//! | `census` | names in the directory |
//! | `read` | the file under a number |
//! | `follow` | events as they come |
//! | `look` | the file under a number and its second name, for checks |
//! | `doctor` | problems around the events, and their repair |
//! | `backups` | second names of our last events |

mod backups;
mod basis;
mod census;
mod commit;
mod doctor;
mod failures;
mod filler;
mod fold;
mod fold_cache;
mod follow;
mod head;
mod inside;
mod lock_files;
mod look;
mod meta;
mod prepared;
mod read;
mod settings;
mod sweep;
mod takeover;
mod writer_lock;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;

pub(crate) use self::census::Names;
pub use self::follow::Follower;
pub(crate) use self::lock_files::LockFiles;
pub(crate) use self::look::{Backup, Look, Seen, What};
use self::settings::STATE;
use crate::answers::{InitOptions, LockPatience, Settings, Slot};
use crate::log::{Committed, Compose, EventLog, Op, Rehearsed, See};
use lokt_sys::call::Call;
use lokt_sys::disk::Disk;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::machine::{Linux, Machine};
use lokt_sys::nap::Subscription;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::{Warning, WithWarnings};

/// Mode of the directory of events: all users may read them.
const DIR_MODE: u32 = 0o755;
/// The directory of events, in the directory that a ledger belongs to.
const LEDGER: &str = "ledger";

/// A ledger in the directory `ledger` below another one.
#[derive(Clone)]
pub(crate) struct FileLog {
    /// The directory that it belongs to.
    dir: PathBuf,
    /// The directory of events.
    pub(crate) path: PathBuf,
    /// Files in `path`.
    disk: Arc<dyn Disk>,
    /// Files in `dir`: `meta.json`, `nodes`, `locks`.
    above: Arc<dyn Disk>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) me: Identity,
    pub(crate) settings: Settings,
    /// The settings are stored.
    is_settled: bool,
    pub(crate) patience: LockPatience,
}

/// The machine that a ledger asks where a caller brings none.
fn this_machine() -> Arc<dyn Machine> {
    Arc::new(Linux)
}

impl FileLog {
    /// Opens the ledger below `dir`; `None` if there is none.
    pub(crate) fn existing(dir: &Path, me: Identity) -> Result<Option<Self>, Error> {
        let path = dir.join(LEDGER);
        let disk = match OsDisk::open_as(&path, DIR_MODE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Error::new(ErrorKind::NotARecord, format!("{} is not a directory", path.display())));
            }
            done => done.map_err(|error| Error::io("open", &path, error))?,
        };
        let above = OsDisk::open(dir).map_err(|error| Error::io("open", dir, error))?;
        Self::on(dir, Arc::new(disk), Arc::new(above), this_machine(), me).map(Some)
    }

    /// Makes a ledger below `dir`. Returns whether there was none.
    pub(crate) fn create(dir: &Path, options: InitOptions, me: Identity) -> Result<(Self, bool), Error> {
        let path = dir.join(LEDGER);
        let (disk, _) = OsDisk::create_as(&path, DIR_MODE).map_err(|error| Error::io("make", &path, error))?;
        let above = OsDisk::open(dir).map_err(|error| Error::io("open", dir, error))?;
        let mut log = Self::on(dir, Arc::new(disk), Arc::new(above), this_machine(), me)?;
        let is_new = log.init(options)?;
        Ok((log, is_new))
    }

    /// A ledger on any disk: `disk` has its events, `above` is the directory that it belongs to.
    pub(crate) fn on(
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

    /// The file of an event.
    pub(crate) fn file(&self, seq: Seq) -> String {
        self.settings.style.file_name(seq)
    }

    /// A file in the directory of events, for a message.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// The time, by the machine's clocks.
    pub(crate) fn now(&self) -> Moment {
        self.machine.now()
    }

    /// Warnings about events whose second names were put aside.
    pub(crate) fn doubted(&self) -> Vec<Warning> {
        self.backups().doubted()
    }

    /// A unique path in our own state. Files whose names begin with `swap-`, `gone-`, `lock-` or
    /// `batch-` are swept if their process was killed.
    fn temp(&self, prefix: &str) -> io::Result<String> {
        self.machine.unique_name(&format!("{STATE}/{prefix}"), "")
    }

    fn random(&self) -> Result<u128, Error> {
        self.machine.random().at("get random bits for", &self.path, "")
    }

    /// Fails if the path leads to another directory than the one that was opened.
    fn is_still_here(&self, written: Option<Seq>) -> Result<(), Error> {
        if self.disk.is_current().at("look at", &self.path, "")? {
            return Ok(());
        }
        let what =
            written.map_or_else(String::new, |seq| format!(" when event {seq} had been written to the one before"));
        let message = format!("{} was replaced by another directory{what}", self.path.display());
        Err(Error::new(ErrorKind::Busy, message).hint("try again"))
    }
}

impl EventLog for FileLog {
    fn head(&self, _call: &Call<'_>) -> Result<WithWarnings<u64>, Error> {
        self.heads().head()
    }

    fn read(&self, from: Seq, _call: &Call<'_>, see: &mut See<'_>) -> Result<(), Error> {
        let mut next = Some(from);
        while let Some(seq) = next {
            let slot = self.slot(seq)?;
            let is_missing = slot == Slot::Missing;
            if is_missing && seq > from && self.beyond(seq)?.is_none() {
                return Ok(());
            }
            if see(seq, slot).is_break() {
                return Ok(());
            }
            next = if is_missing { self.beyond(seq)? } else { Seq::new(seq.get() + 1) };
        }
        Ok(())
    }

    fn commit(
        &self,
        _op: &Op,
        composer: &mut dyn Compose,
        call: &Call<'_>,
    ) -> Result<WithWarnings<Option<Committed>>, Error> {
        commit::Commit::new(self, composer, call).run()
    }

    fn rehearse(&self, composer: &mut dyn Compose, _call: &Call<'_>) -> Result<WithWarnings<Option<Rehearsed>>, Error> {
        self.rehearsal(composer)
    }

    fn persist(&self, seq: Seq, _call: &Call<'_>) -> Result<(), Error> {
        let file = self.file(seq);
        self.disk.sync(&file).at("sync", &self.path, &file)?;
        self.disk.sync_dir("").at("sync", &self.path, "")
    }

    fn check(&self) -> Result<(), Error> {
        self.is_still_here(None)
    }

    fn arm(&self, _after: Option<Seq>, _wakeup: &Wakeup) -> Result<Subscription, Error> {
        // inotify is limited per user: without it the caller polls.
        Ok(self.disk.changes("").map_or_else(|_| Subscription::none(), Subscription::of))
    }
}
