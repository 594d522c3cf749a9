//! Named locks: one root, and the commands on it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lokt_core::audit::Program;
use lokt_core::badges::Badges;
use lokt_core::decide::{Bearer, Breaking, Broken, Cause, Decision, Intent, Terms};
use lokt_core::denial::Denial;
use lokt_core::hold::{Hold, Identity};
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::time::Moment;

use crate::error::{At as _, Error, ErrorKind};
use crate::root::leads_nowhere;
use crate::store::ask::Ask;
use crate::store::change::Changed;
use crate::store::freezes::{FREEZES_DIR, freeze_path};
use crate::store::slot::{Found, Stored};
use crate::store::{LOCKS_DIR, Store, record_path};
use crate::sys::disk::Disk;
use crate::sys::machine::{Linux, Machine, identity, login_name};
use crate::sys::mutex::PATIENCE;
use crate::sys::os_disk::OsDisk;
use crate::wait::Patience;

pub use lokt_core::decide::Condition;

/// How long a waiter stays at the mutex before it comes again.
const WAITERS_PATIENCE: Duration = Duration::from_secs(1);

/// One root directory and who works on it. Clones are the same root.
#[derive(Clone)]
pub struct Lokt {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    machine: Arc<dyn Machine>,
    me: Identity,
    patience: Duration,
    /// The root was made when this was opened.
    is_new: bool,
    /// What guards run, for the audit log.
    program: Option<Arc<Program>>,
}

/// An answer, with what the user should know although it worked.
#[derive(Debug)]
pub struct Said<T> {
    /// The answer.
    pub value: T,
    /// Warnings, one sentence each.
    pub warnings: Vec<String>,
}

/// The answer to a `lock`.
#[derive(Debug)]
pub enum Grant {
    /// It is held now.
    Granted(Box<Granted>),
    /// It is not.
    Denied(Refusal),
    /// It is not, because the wait for it was interrupted.
    Interrupted,
}

/// A refusal, with how many stand in line.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub denial: Denial,
    /// How many wait.
    pub waiters: usize,
    /// How long it was waited for in vain.
    pub waited: Option<Duration>,
}

/// A hold that was granted or refreshed.
#[derive(Debug)]
pub struct Granted {
    /// The hold as it is stored now.
    pub hold: Hold,
    /// An existing hold was refreshed or joined; otherwise it is new.
    pub refreshed: bool,
    /// The hold that was there before: refreshed, or broken.
    pub before: Option<Hold>,
    /// What was broken for it.
    pub broken: Option<Broken>,
    /// Where what was broken was moved, if it couldn't be understood.
    pub aside: Option<String>,
}

/// The answer to an `unlock`.
#[derive(Debug)]
pub enum End {
    /// It ended.
    Ended(Box<Ended>),
    /// It did not.
    Denied(Refusal),
}

/// What an unlock ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub cause: Cause,
    /// The hold that was there, if it was one.
    pub before: Option<Hold>,
    /// A guard still holds the name.
    pub remains: Option<Hold>,
    /// Where what was removed was moved, if it couldn't be understood.
    pub aside: Option<String>,
}

/// What `unlock --owner` or `--all` did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Names whose owner part ended.
    pub released: Vec<String>,
    /// Names that a running guard holds.
    pub skipped: Vec<String>,
}

/// What `status --prune-expired` did.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Expired locks that were removed.
    pub locks: Vec<String>,
    /// Expired freezes that were removed.
    pub freezes: Vec<String>,
    /// Expired, but their process runs: kept.
    pub kept: Vec<String>,
}

impl Lokt {
    /// Opens a root, making it if it is missing.
    pub fn create(root: &Path, me: Identity) -> Result<Self, Error> {
        let (disk, made) = OsDisk::create(root).map_err(|error| cant_open(root, error))?;
        if made {
            keep_out_of_commits(root, &disk);
        }
        Ok(Self { is_new: made, ..Self::with(root, Arc::new(disk), Arc::new(Linux), me) })
    }

    /// Opens a root, making it if it is missing, for whoever is logged in.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        let owner = login_name().unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string());
        Self::create(root.as_ref(), identity(owner, None))
    }

    /// The same root, for another owner. Equal owners are one: their guards exclude each other, their `lock`s join.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.me.owner = owner.into();
        self
    }

    /// The same root, with what guards of this handle run, for the audit log. `tell_all`: not only its name, but all its words, among
    /// which there may be secrets.
    #[must_use]
    pub fn running(mut self, words: &[String], tell_all: bool) -> Self {
        self.program = Some(Arc::new(Program::of(words, tell_all)));
        self
    }

    pub(crate) fn program(&self) -> Option<Arc<Program>> {
        self.program.clone()
    }

    /// Opens a root; `None` if there is none.
    pub fn existing(root: &Path, me: Identity) -> Result<Option<Self>, Error> {
        match OsDisk::open(root) {
            Ok(disk) => Ok(Some(Self::with(root, Arc::new(disk), Arc::new(Linux), me))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !leads_nowhere(root) => Ok(None),
            Err(error) => Err(cant_open(root, error)),
        }
    }

    /// A root on any disk and machine; tests bring their own.
    pub fn with(root: &Path, disk: Arc<dyn Disk>, machine: Arc<dyn Machine>, mut me: Identity) -> Self {
        me.fs = disk.mount().fs;
        Self { root: root.to_owned(), disk, machine, me, patience: PATIENCE, is_new: false, program: None }
    }

    /// Was the root deleted or moved away since it was opened?
    pub(crate) fn lost_root(&self) -> bool {
        self.disk.is_current().is_ok_and(|current| !current)
    }

    /// Goes on in the root that has the name now: in one that another process made, or in a new one, with a sentence about that.
    pub(crate) fn remake_root(&self) -> io::Result<Option<String>> {
        let made = self.disk.remake()?;
        if made {
            keep_out_of_commits(&self.root, &*self.disk);
        }
        let said = || format!("the lock root {} was deleted during the wait; created it again", self.root.display());
        Ok(made.then(said))
    }

    /// Was the root made just now? Then nobody else uses it yet.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn shared_machine(&self) -> Arc<dyn Machine> {
        Arc::clone(&self.machine)
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// Who asks.
    pub fn me(&self) -> &Identity {
        &self.me
    }

    /// Now, on this root's machine.
    pub fn now(&self) -> Moment {
        self.machine.now()
    }

    pub(crate) fn store(&self) -> Store<'_> {
        Store { root: &self.root, disk: &*self.disk, machine: &*self.machine, me: &self.me, patience: self.patience }
    }

    /// Those who wait come again: they needn't stay long at the mutex, and a signal reaches them sooner.
    pub(crate) fn store_for(&self, waits: bool) -> Store<'_> {
        let patience = if waits { self.patience.min(WAITERS_PATIENCE) } else { self.patience };
        Store { patience, ..self.store() }
    }

    /// Takes `name` for the owner, or refreshes the owner's hold. At once, or not.
    pub fn take(&self, name: &LockName, terms: Terms) -> Result<Said<Grant>, Error> {
        self.take_in_line(name, terms, &Badges::default(), &mut Patience::none())
    }

    /// Takes `name` for the owner, or refreshes the owner's hold; waits in line for it as long as `patience` lasts. `holds` is what
    /// the caller runs under, for those who look for deadlocks.
    pub fn take_in_line(
        &self,
        name: &LockName,
        terms: Terms,
        holds: &Badges,
        patience: &mut Patience<'_>,
    ) -> Result<Said<Grant>, Error> {
        self.grant(name, Intent::Lock(terms), holds, patience)
    }

    fn grant(
        &self,
        name: &LockName,
        intent: Intent,
        holds: &Badges,
        patience: &mut Patience<'_>,
    ) -> Result<Said<Grant>, Error> {
        let mut ask = Ask::once(name, intent);
        ask.profile.holds = holds.to_string();
        Ok(match self.obtain(&mut ask, patience)? {
            Some(changed) => granted(changed),
            None => Said { value: Grant::Interrupted, warnings: Vec::new() },
        })
    }

    /// Takes `name` for as long as the process `pid` lives. At once, or not.
    pub fn bind(&self, name: &LockName, terms: Terms, pid: i64) -> Result<Said<Grant>, Error> {
        self.bind_in_line(name, terms, pid, &Badges::default(), &mut Patience::none())
    }

    /// Takes `name` for as long as the process `pid` lives; waits in line for it as long as `patience` lasts.
    pub fn bind_in_line(
        &self,
        name: &LockName,
        terms: Terms,
        pid: i64,
        holds: &Badges,
        patience: &mut Patience<'_>,
    ) -> Result<Said<Grant>, Error> {
        let stat = self.machine.process(pid).filter(|stat| !stat.has_ended());
        let Some(stat) = stat else {
            return Err(Error::new(ErrorKind::NoProcess, format!("can't bind to process {pid}: there is none")));
        };
        let bearer = Bearer { process: ProcessRef { pid, start: stat.start }, pulse: None, inside: None };
        self.grant(name, Intent::Guard(terms, bearer), holds, patience)
    }

    /// Ends a hold.
    pub fn unlock(&self, name: &LockName, breaking: Breaking, condition: Condition) -> Result<Said<End>, Error> {
        let changed = self.store().change(name, Intent::Unlock(breaking, condition))?;
        Ok(ended(changed))
    }

    /// Ends every hold of `owner`. A hold that a guard is behind is skipped.
    pub fn unlock_owner(&self, owner: &str) -> Result<Said<Swept>, Error> {
        let store = self.store();
        let now = self.machine.now();
        let mut swept = Swept::default();
        let mut warnings = Vec::new();
        let mut names = self.names(LOCKS_DIR)?;
        names.retain(|name| {
            let found = store.find(&record_path(name), name.as_str(), &now);
            let unreadable = match found.stored {
                Stored::Held(hold) => return hold.owner == owner,
                Stored::Free | Stored::BeingWritten => return false,
                Stored::Unreadable(error) => error.to_string(),
                Stored::Corrupt(why) => why,
                Stored::Newer(version) => format!("it has version {version}"),
            };
            warnings.push(format!("skipping unreadable lock \"{name}\": {unreadable}"));
            false
        });
        let ended = store.change_each(&names, &Intent::UnlockFor(owner.to_owned()), &mut |name, changed| {
            warnings.extend(changed.warnings);
            match changed.decision {
                Decision::Commit { .. } => swept.released.push(name.to_string()),
                Decision::Deny(Denial::Guarded(_)) => swept.skipped.push(name.to_string()),
                // Gone or somebody else's since we looked.
                _ => {}
            }
        });
        ended.map_err(|failure| some_ended(failure, swept.released.len()))?;
        Ok(Said { value: swept, warnings })
    }

    /// Removes the lock `name` if it has expired.
    pub fn prune(&self, name: &LockName) -> Result<Said<Pruned>, Error> {
        let mut pruned = Said { value: Pruned::default(), warnings: Vec::new() };
        let changed = self.store().change(name, Intent::Prune)?;
        self.tell_pruned(name, changed, &mut pruned);
        Ok(pruned)
    }

    /// Removes every expired lock and freeze.
    pub fn prune_all(&self) -> Result<Said<Pruned>, Error> {
        let store = self.store();
        let now = self.machine.now();
        let mut pruned = Said { value: Pruned::default(), warnings: Vec::new() };
        let mut names = self.names(LOCKS_DIR)?;
        names.retain(|name| store.find(&record_path(name), name.as_str(), &now).elapsed_is_over());
        let mut see = |name: &LockName, changed| self.tell_pruned(name, changed, &mut pruned);
        let ended = store.change_each(&names, &Intent::Prune, &mut see);
        ended.map_err(|failure| some_ended(failure, pruned.value.locks.len()))?;
        for name in self.names(FREEZES_DIR)? {
            if store.find(&freeze_path(&name), name.as_str(), &now).elapsed_is_over()
                && let Some(warnings) = store.prune_freeze(&name)?
            {
                pruned.warnings.extend(warnings);
                pruned.value.freezes.push(name.to_string());
            }
        }
        Ok(pruned)
    }

    fn tell_pruned(&self, name: &LockName, changed: Changed, pruned: &mut Said<Pruned>) {
        pruned.warnings.extend(changed.warnings);
        let was_expired = changed
            .before
            .is_some_and(|hold| lokt_core::time::Elapsed::of(&hold, &self.machine.now(), &self.me).is_expired());
        match changed.decision {
            Decision::Commit { .. } => pruned.value.locks.push(name.to_string()),
            Decision::Deny(Denial::Kept) if was_expired => pruned.value.kept.push(name.to_string()),
            _ => {}
        }
    }

    pub(crate) fn names(&self, dir: &str) -> Result<Vec<LockName>, Error> {
        let files = self.disk.list(dir).at("list", &self.root, dir)?;
        let mut names: Vec<LockName> = files.iter().filter_map(|file| LockName::from_file_name(file)).collect();
        names.sort_unstable();
        Ok(names)
    }
}

/// Best effort: what is in `.git` needs nothing.
fn keep_out_of_commits(root: &Path, disk: &dyn Disk) {
    if root.parent().is_none_or(|parent| parent.file_name() != Some(".git".as_ref())) {
        let _ = disk.create(".gitignore", b"*\n");
    }
}

fn cant_open(root: &Path, error: io::Error) -> Error {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Unusable, format!("{} can't be used as a root: {why}", root.display()))
            .hint("set LOKT_ROOT to a directory, or unset it")
    };
    let a_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    match error.kind() {
        _ if a_loop => unusable(&error),
        io::ErrorKind::NotADirectory => unusable(&error),
        // A disk that isn't mounted, perhaps: that nothing is locked there can't be said.
        io::ErrorKind::NotFound if leads_nowhere(root) => unusable(&"it is a symbolic link to nothing"),
        _ => Error::io("open", root, error),
    }
}

/// A failure among many names: what was done before it stays done, and is said.
fn some_ended(failure: Error, count: usize) -> Error {
    match count {
        0 => failure,
        1 => failure.hint("1 lock was ended before; `lokt status` lists the rest"),
        _ => failure.hint(format!("{count} locks were ended before; `lokt status` lists the rest")),
    }
}

fn granted(changed: Changed) -> Said<Grant> {
    let Changed { decision, before, waiters, aside, waited, warnings } = changed;
    let value = match decision {
        Decision::Commit { next: Some(next), cause, broken } => {
            Grant::Granted(Box::new(Granted { hold: *next, refreshed: cause == Cause::Renew, before, broken, aside }))
        }
        Decision::Deny(denial) => Grant::Denied(Refusal { denial, waiters, waited }),
        Decision::Commit { next: None, .. } | Decision::Inside => {
            unreachable!("neither lock nor bind removes a hold or runs inside one")
        }
    };
    Said { value, warnings }
}

fn ended(changed: Changed) -> Said<End> {
    let Changed { decision, before, waiters, aside, waited, warnings } = changed;
    let value = match decision {
        Decision::Commit { next, cause, .. } => {
            End::Ended(Box::new(Ended { cause, before, remains: next.map(|next| *next), aside }))
        }
        Decision::Deny(denial) => End::Denied(Refusal { denial, waiters, waited }),
        Decision::Inside => unreachable!("an unlock is never inside"),
    };
    Said { value, warnings }
}

impl Found {
    fn elapsed_is_over(&self) -> bool {
        self.hold().is_some() && self.elapsed.is_expired()
    }
}
