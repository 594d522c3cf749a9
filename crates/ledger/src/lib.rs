//! A ledger: an append-only log of events, one file each, that programs of several kinds write to
//! at once, and claims on tasks.
//!
//! [`Ledger`] is one directory. Decisions are made above [`log::EventLog`], storage is below it:
//!
//! | file | one idea |
//! | --- | --- |
//! | `answers` | requests and answers |
//! | `log` | the interface: a view is shown to a composer, its events are added atomically |
//! | `append` | events from a caller: under conditions, or many at once |
//! | `transact` | a program's decision about the ledger |
//! | `claims` | claims on tasks: take, extend, release, reap |
//! | `claim_judge` | one decision about claims |
//! | `claim_list` | all claims, and whether they can be trusted |
//! | `claim_guard` | running a command under a claim |
//! | `verify` | reading everything and naming what is wrong |
//! | `file` | the log in plain files |

mod answers;
mod append;
mod claim_guard;
mod claim_judge;
mod claim_list;
mod claims;
mod file;
pub mod log;
mod transact;
mod verify;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;

pub use answers::{
    AppendTerms, Appended, Appending, Census, ClaimEntry, ClaimTerms, Claimed, Claiming, How, InitOptions,
    LockPatience, Progress, Reaped, Releasing, Settings, Slot, Unmet, Verification,
};
pub use claim_guard::ClaimGuard;
pub use file::Follower;
pub use lokt_core::checkup::{Finding, Fix};
pub use lokt_core::ledger::checkpoint::Checkpoint;
pub use lokt_core::ledger::fold::Folded;
pub use transact::Transacted;

use self::file::FileLog;
use self::log::EventLog;
use lokt_sys::call::Call;
use lokt_sys::disk::Disk;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::Machine;
use lokt_sys::wait_policy::Interrupt;
use lokt_sys::warnings::WithWarnings;

/// A ledger: usually the directory `ledger` below another one.
#[derive(Clone)]
pub struct Ledger {
    log: Arc<dyn EventLog>,
    machine: Arc<dyn Machine>,
    me: Identity,
    settings: Settings,
    /// Present only for a ledger in plain files.
    files: Option<FileLog>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ledger");
        shown.field("path", &self.path()).field("settings", &self.settings).field("owner", &self.me.owner);
        shown.finish_non_exhaustive()
    }
}

impl Ledger {
    /// The ledger below `dir`; `None` if there is none.
    pub fn existing(dir: &Path, me: Identity) -> Result<Option<Self>, Error> {
        Ok(FileLog::existing(dir, me)?.map(Self::of))
    }

    /// Makes a ledger below `dir`. Returns whether there was none.
    pub fn init(dir: &Path, options: InitOptions, me: Identity) -> Result<(Self, bool), Error> {
        let (files, is_new) = FileLog::create(dir, options, me)?;
        Ok((Self::of(files), is_new))
    }

    /// A ledger on any disk: `disk` has its events, `above` is the directory that it belongs to.
    pub fn on(
        dir: &Path,
        disk: Arc<dyn Disk>,
        above: Arc<dyn Disk>,
        machine: Arc<dyn Machine>,
        me: Identity,
    ) -> Result<Self, Error> {
        FileLog::on(dir, disk, above, machine, me).map(Self::of)
    }

    /// A ledger on any log. Operations that only plain files have return an error: listing,
    /// following, verifying and repairing them.
    pub fn over(log: Arc<dyn EventLog>, settings: Settings, machine: Arc<dyn Machine>, me: Identity) -> Self {
        Self { log, machine, me, settings, files: None }
    }

    fn of(files: FileLog) -> Self {
        let (machine, me, settings) = (Arc::clone(&files.machine), files.me.clone(), files.settings);
        Self { log: Arc::new(files.clone()), machine, me, settings, files: Some(files) }
    }

    /// The same ledger with other limits on waiting for other programs' locks.
    #[must_use]
    pub fn patient(self, patience: LockPatience) -> Self {
        match self.files {
            Some(mut files) => {
                files.patience = patience;
                Self::of(files)
            }
            None => self,
        }
    }

    /// The same ledger with another caller.
    #[must_use]
    pub fn acting_as(self, me: Identity) -> Self {
        match self.files {
            Some(mut files) => {
                files.me = Identity { fs: files.me.fs, ..me };
                Self::of(files)
            }
            None => Self { me, ..self },
        }
    }

    /// The directory of events; empty if it isn't in plain files.
    pub fn path(&self) -> &Path {
        self.files.as_ref().map_or(Path::new(""), |files| &files.path)
    }

    /// Its settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The time, by its machine's clocks.
    pub fn now(&self) -> Moment {
        self.machine.now()
    }

    /// The log that stores its events.
    pub fn log(&self) -> &dyn EventLog {
        &*self.log
    }

    /// The caller.
    pub fn me(&self) -> &Identity {
        &self.me
    }

    fn files(&self) -> Result<&FileLog, Error> {
        let message = "this ledger isn't in plain files";
        self.files.as_ref().ok_or_else(|| Error::new(ErrorKind::Unusable, message))
    }

    /// The highest number; 0 of an empty ledger.
    pub fn head(&self) -> Result<WithWarnings<u64>, Error> {
        self.log().head(&Call::UNLIMITED)
    }

    /// Reads what is under a number.
    pub fn read(&self, seq: Seq) -> Result<Slot, Error> {
        let mut found = Slot::Missing;
        self.log().read(seq, &Call::UNLIMITED, &mut |_, slot| {
            found = slot;
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Appends an event, if the head is `expected`; 0 is an empty ledger's.
    pub fn append_if(&self, event: &Draft, expected: u64) -> Result<WithWarnings<Appending>, Error> {
        self.append(event, &AppendTerms { expect: Some(expected), ..AppendTerms::default() })
    }

    /// Inspects every name in the ledger.
    pub fn census(&self) -> Result<Census, Error> {
        self.files()?.census()
    }

    /// The highest number, by a listing, and the missing ones as ranges from lowest to highest, all
    /// of them.
    pub fn gaps(&self) -> Result<(u64, Vec<(u64, u64)>), Error> {
        self.files()?.gaps()
    }

    /// Follows the ledger after number `after`.
    pub fn follower(&self, after: u64) -> Result<Follower, Error> {
        Ok(self.files()?.follower(after))
    }

    /// Shows every event after `after`, and those to come, until `alarm` is raised or `show` says
    /// so; see [`Follower::next`].
    pub fn follow(
        &self,
        after: u64,
        alarm: &mut dyn Interrupt,
        show: &mut dyn FnMut(Seq, Slot) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut follower = self.follower(after)?;
        while let Some((seq, slot)) = follower.next(Some(alarm))? {
            if show(seq, slot).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Problems around the events: locks and files left behind, and what the af program would
    /// refuse. With `fix`, repairs them.
    pub fn doctor(&self, fix: bool, progress: &mut Progress<'_>) -> Result<WithWarnings<Vec<Finding>>, Error> {
        self.files()?.doctor(fix, progress)
    }
}
