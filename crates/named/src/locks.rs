//! Named locks: one root, and the commands on it.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lokt_core::audit::Program;
use lokt_core::decide::{Breaking, Broken, Cause, Intent, ProcessHolder, Terms};
use lokt_core::denial::Denial;
use lokt_core::hold::{Hold, Identity, LockId};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::time::Moment;

use crate::file::FileStore;
use crate::judge::{Story, Waited};
use crate::store::{Ask, Call, Committed, Depth, Done, Op, Request, Scan, Stayed, Store, Target, View};
use lokt_sys::disk::Disk;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{Machine, default_owner, identity};
use lokt_sys::threads::{Mutex, locked};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::warnings::{Warning, WithWarnings};

pub use lokt_core::decide::Condition;

/// One store of locks and who works on it. Clones are the same store.
#[derive(Clone)]
pub struct Lokt {
    store: Arc<dyn Store>,
    /// Where the store is.
    root: Arc<Path>,
    machine: Arc<dyn Machine>,
    me: Identity,
    /// What guards run, for the audit log.
    program: Option<Arc<Program>>,
}

impl fmt::Debug for Lokt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lokt").field("root", &self.root).field("me", &self.me).finish_non_exhaustive()
    }
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

impl Lokt {
    /// Opens a root, making it if it is missing.
    pub fn create(root: &Path, me: Identity) -> Result<Self, Error> {
        FileStore::create(root, me).map(Self::of_files)
    }

    /// Opens a root for the logged-in user, creating it if it is missing.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        Self::create(root.as_ref(), identity(default_owner(), None))
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
        Ok(FileStore::existing(root, me)?.map(Self::of_files))
    }

    /// A root on any disk and machine; tests bring their own.
    pub fn with(root: &Path, disk: Arc<dyn Disk>, machine: Arc<dyn Machine>, me: Identity) -> Self {
        Self::of_files(FileStore::with(root, disk, machine, me))
    }

    pub(crate) fn of_files(files: FileStore) -> Self {
        let (machine, me) = (Arc::clone(&files.machine), files.me.clone());
        Self::with_store(Arc::new(files), machine, me)
    }

    /// Locks in any store.
    pub fn with_store(store: Arc<dyn Store>, machine: Arc<dyn Machine>, me: Identity) -> Self {
        let root = store.location(None).into();
        Self { store, root, machine, me, program: None }
    }

    /// Was the root made just now? Then nobody else uses it yet.
    pub fn is_new(&self) -> bool {
        self.store.is_new()
    }

    /// Where the store is: its directory.
    pub fn root(&self) -> &Path {
        &self.root
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

    /// Where the locks are kept.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Takes `name` for the owner, or refreshes the owner's hold. At once, or not.
    pub fn take(&self, name: &LockName, terms: Terms) -> Result<WithWarnings<Grant>, Error> {
        self.take_in_line(name, terms, &InheritedHolds::default(), &mut WaitPolicy::none())
    }

    /// Takes `name` for the owner, or refreshes the owner's hold; waits in line for it as long as `patience` lasts. `holds` is what
    /// the caller runs under, for those who look for deadlocks.
    pub fn take_in_line(
        &self,
        name: &LockName,
        terms: Terms,
        holds: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Grant>, Error> {
        self.grant(name, Intent::Lock(terms), holds, patience)
    }

    fn grant(
        &self,
        name: &LockName,
        intent: Intent,
        holds: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Grant>, Error> {
        let bits = self.requests().random()?;
        let mut ask = Ask::lock(name, intent, LockId::from_bits(bits));
        ask.profile.holds = holds.to_string();
        let (asks, mut story) = ([ask], [Story::default()]);
        let mut request = Request::of(&self.me, Op(bits), &asks);
        let Some((answers, warnings)) = self.requests().obtain(&mut request, &mut story, patience)? else {
            return Ok(WithWarnings { value: Grant::Interrupted, warnings: Vec::new() });
        };
        let done = answers.into_iter().next().expect("one thing was asked").1;
        granted(done, story[0].waited, warnings)
    }

    /// Takes `name` for as long as the process `pid` lives. At once, or not.
    pub fn bind(&self, name: &LockName, terms: Terms, pid: i64) -> Result<WithWarnings<Grant>, Error> {
        self.bind_in_line(name, terms, pid, &InheritedHolds::default(), &mut WaitPolicy::none())
    }

    /// Takes `name` for as long as the process `pid` lives; waits in line for it as long as `patience` lasts.
    pub fn bind_in_line(
        &self,
        name: &LockName,
        terms: Terms,
        pid: i64,
        holds: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Grant>, Error> {
        let stat = self.machine.process(pid).filter(|stat| !stat.has_ended());
        let Some(stat) = stat else {
            return Err(Error::new(ErrorKind::NoProcess, format!("can't bind to process {pid}: there is none")));
        };
        let bearer = ProcessHolder { process: ProcessRef { pid, start: stat.start }, has_pulse: false, inside: None };
        self.grant(name, Intent::Guard(terms, bearer), holds, patience)
    }

    /// Ends a hold.
    pub fn unlock(
        &self,
        name: &LockName,
        breaking: Breaking,
        condition: Condition,
    ) -> Result<WithWarnings<End>, Error> {
        ended(self.requests().ask(name, Target::Lock, Intent::Unlock(breaking, condition))?)
    }

    /// What `see` makes of each name, in their order.
    pub(crate) fn scan<T: Send>(
        &self,
        of: Scan,
        depth: Depth,
        see: impl Fn(&LockName, View) -> Option<T> + Sync,
    ) -> Result<Vec<T>, Error> {
        let seen: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
        self.store.scan(of, depth, &Call::UNLIMITED, &|number, name, view| {
            if let Some(made) = see(name, view) {
                locked(&seen).push((number, made));
            }
        })?;
        let mut seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        seen.sort_unstable_by_key(|(number, _)| *number);
        Ok(seen.into_iter().map(|(_, made)| made).collect())
    }
}

/// The answer of a `lock`, with what the user should know of the wait before it.
fn granted(done: Done, waited: Option<Waited>, mut warnings: Vec<Warning>) -> Result<WithWarnings<Grant>, Error> {
    let value = match done {
        Done::Committed(committed) => {
            let Committed { hold, cause, broken, before, aside, warnings: more, .. } = *committed;
            warnings.extend(more);
            let hold = *hold.expect("neither lock nor bind removes a hold");
            let before = before.map(|before| before.hold);
            Grant::Granted(Box::new(Granted { hold, refreshed: cause == Cause::Renew, before, broken, aside }))
        }
        Done::Stayed(stayed) => {
            let (refusal, more) = refused(*stayed, waited);
            warnings.extend(more);
            Grant::Denied(refusal)
        }
        Done::Queued(_) => unreachable!("a wait ends with an answer"),
        Done::Failed(failure) => return Err(failure),
    };
    Ok(WithWarnings { value, warnings })
}

/// The answer of an `unlock` or `unfreeze`.
pub(crate) fn ended(done: Done) -> Result<WithWarnings<End>, Error> {
    Ok(match done {
        Done::Committed(committed) => {
            let Committed { hold, cause, before, aside, warnings, .. } = *committed;
            let (before, remains) = (before.map(|before| before.hold), hold.map(|hold| *hold));
            WithWarnings { value: End::Ended(Box::new(Ended { cause, before, remains, aside })), warnings }
        }
        Done::Stayed(stayed) => {
            let (refusal, warnings) = refused(*stayed, None);
            WithWarnings { value: End::Denied(refusal), warnings }
        }
        Done::Queued(_) => unreachable!("an unlock doesn't wait"),
        Done::Failed(failure) => return Err(failure),
    })
}

/// A refusal, and what the user should know.
pub(crate) fn refused(stayed: Stayed, waited: Option<Waited>) -> (Refusal, Vec<Warning>) {
    let Stayed { why, waiting: waiters, warnings, .. } = stayed;
    let denial = why.expect("whoever isn't a guard is inside of nothing");
    (Refusal { denial, waiters, waited: waited.map(|waited| Duration::from_millis(waited.ms)) }, warnings)
}
