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

/// One store of locks, and the identity that works on it. Clones are the same store.
#[derive(Clone)]
pub struct Lokt {
    store: Arc<dyn Store>,
    /// Location of the store.
    root: Arc<Path>,
    machine: Arc<dyn Machine>,
    me: Identity,
    /// The command that guards run, for the audit log.
    program: Option<Arc<Program>>,
}

impl fmt::Debug for Lokt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lokt").field("root", &self.root).field("me", &self.me).finish_non_exhaustive()
    }
}

/// Result of a `lock`.
#[derive(Debug)]
pub enum Grant {
    /// The lock is held now.
    Granted(Box<Granted>),
    /// The lock is not held.
    Denied(Refusal),
    /// The lock is not held, because the wait for it was interrupted.
    Interrupted,
}

/// A refusal, with the number of waiters.
#[derive(Debug)]
pub struct Refusal {
    /// The reason.
    pub denial: Denial,
    /// Number of waiters.
    pub waiters: usize,
    /// Time that was waited in vain.
    pub waited: Option<Duration>,
}

/// A hold that was granted or refreshed.
#[derive(Debug)]
pub struct Granted {
    /// The hold as it is stored now.
    pub hold: Hold,
    /// True if an existing hold was refreshed or joined; otherwise it is new.
    pub refreshed: bool,
    /// The hold that was there before: refreshed, or broken.
    pub before: Option<Hold>,
    /// The obstacle that was broken for it.
    pub broken: Option<Broken>,
    /// Path to which the broken record was moved, if it couldn't be understood.
    pub aside: Option<String>,
}

/// Result of an `unlock`.
#[derive(Debug)]
pub enum End {
    /// The hold ended.
    Ended(Box<Ended>),
    /// The hold did not end.
    Denied(Refusal),
}

/// The end of a hold by an unlock.
#[derive(Debug)]
pub struct Ended {
    /// The cause of the end.
    pub cause: Cause,
    /// The previous hold, if the record was one.
    pub before: Option<Hold>,
    /// The hold of a guard that still holds the name.
    pub remains: Option<Hold>,
    /// Path to which the removed record was moved, if it couldn't be understood.
    pub aside: Option<String>,
}

impl Lokt {
    /// Opens a root, creating it if it is missing.
    pub fn create(root: &Path, me: Identity) -> Result<Self, Error> {
        FileStore::create(root, me).map(Self::of_files)
    }

    /// Opens a root for the logged-in user, creating it if it is missing.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        Self::create(root.as_ref(), identity(default_owner(), None))
    }

    /// Returns the same root for another owner. Equal owners are one: their guards exclude each
    /// other, their `lock`s join.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.me.owner = owner.into();
        self
    }

    /// Returns the same root with the command that guards of this handle run, for the audit log.
    /// `tell_all`: logs not only its name, but all its arguments, among which there may be secrets.
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

    /// Returns a root on any disk and machine; tests bring their own.
    pub fn with(root: &Path, disk: Arc<dyn Disk>, machine: Arc<dyn Machine>, me: Identity) -> Self {
        Self::of_files(FileStore::with(root, disk, machine, me))
    }

    pub(crate) fn of_files(files: FileStore) -> Self {
        let (machine, me) = (Arc::clone(&files.machine), files.me.clone());
        Self::with_store(Arc::new(files), machine, me)
    }

    /// Returns the locks in any store.
    pub fn with_store(store: Arc<dyn Store>, machine: Arc<dyn Machine>, me: Identity) -> Self {
        let root = store.location(None).into();
        Self { store, root, machine, me, program: None }
    }

    /// Reports whether the root was created just now. Then no other process uses it yet.
    pub fn is_new(&self) -> bool {
        self.store.is_new()
    }

    /// Returns the location of the store: its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn shared_machine(&self) -> Arc<dyn Machine> {
        Arc::clone(&self.machine)
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// Returns the identity of the caller.
    pub fn me(&self) -> &Identity {
        &self.me
    }

    /// Returns the current time on this root's machine.
    pub fn now(&self) -> Moment {
        self.machine.now()
    }

    /// Returns the store that keeps the locks.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Acquires `name` for the owner, or refreshes the owner's hold. Never waits.
    pub fn take(&self, name: &LockName, terms: Terms) -> Result<WithWarnings<Grant>, Error> {
        self.take_in_line(name, terms, &InheritedHolds::default(), &mut WaitPolicy::none())
    }

    /// Acquires `name` for the owner, or refreshes the owner's hold. Waits in the queue as long as
    /// `patience` lasts. `holds` is what the caller runs under, for deadlock detection.
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

    /// Acquires `name` for as long as the process `pid` lives. Never waits.
    pub fn bind(&self, name: &LockName, terms: Terms, pid: i64) -> Result<WithWarnings<Grant>, Error> {
        self.bind_in_line(name, terms, pid, &InheritedHolds::default(), &mut WaitPolicy::none())
    }

    /// Acquires `name` for as long as the process `pid` lives. Waits in the queue as long as
    /// `patience` lasts.
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

    /// Returns the results of `see` for all names, in their order.
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

/// Returns the answer to a `lock`, with what the user should know about the wait before it.
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

/// Returns the answer to an `unlock` or `unfreeze`.
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

/// Returns a refusal, and what the user should know.
pub(crate) fn refused(stayed: Stayed, waited: Option<Waited>) -> (Refusal, Vec<Warning>) {
    let Stayed { why, waiting: waiters, warnings, .. } = stayed;
    let denial = why.expect("whoever isn't a guard is inside of nothing");
    (Refusal { denial, waiters, waited: waited.map(|waited| Duration::from_millis(waited.ms)) }, warnings)
}
