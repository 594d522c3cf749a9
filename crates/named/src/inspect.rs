//! Read-only queries: what is stored, who waits, what a `lock` would be told. Nothing here takes
//! the mutex or changes anything.

use lokt_core::decide::{Cause, Decision, Intent, Terms};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Hold, LockId, PartKind};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;

use crate::judge::decision;
use crate::locks::Lokt;
use crate::store::{Ask, Call, Depth, Frozen, Scan, Slot, Target, View, Waiter};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::keepers::{Keeper, keeper, keepers_of};

/// One line of `status`.
#[derive(Debug)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// True for a freeze, false for a lock.
    pub is_freeze: bool,
    /// The stored state.
    pub state: EntryState,
    /// Number of waiters.
    pub waiters: usize,
}

/// State that is stored under a name.
#[derive(Debug)]
pub enum EntryState {
    /// A hold.
    Held(Box<Holder>),
    /// Not a valid record; the text says why.
    Corrupt(String),
    /// An empty, young file.
    BeingWritten,
    /// A record of a later version.
    Newer(i64),
    /// The record can't be read.
    Unreadable(Error),
}

/// Names that something is known about, each list in order.
#[derive(Debug, Default)]
pub struct KnownNames {
    /// Names with a lock record, of whatever kind.
    pub locked: Vec<LockName>,
    /// Names with a freeze.
    pub frozen: Vec<LockName>,
    /// Names that have, or had, a waiter.
    pub awaited: Vec<LockName>,
}

/// Predicted result of `guard`.
#[derive(Debug)]
pub enum GuardOutlook {
    /// It would get a hold of its own.
    Acquires,
    /// It would join a hold that the same owner acquired with `lock`.
    Joins,
    /// It would run at once, inside the hold that the caller runs under.
    Inside,
    /// It would be refused.
    Denied(Denial),
}

/// Predicted results of `lock` and `guard`, with the reasons.
#[derive(Debug)]
pub struct Outlook {
    /// The refusal of `lock`: `None` is a grant.
    pub denial: Option<Denial>,
    /// True if `lock` would refresh or join an existing hold.
    pub refreshes: bool,
    /// The result of `guard`.
    pub guard: GuardOutlook,
    /// The stored state.
    pub entry: Option<Entry>,
    /// A freeze over the name: its holder, or why it can't be read.
    pub frozen: Option<Result<Box<Holder>, String>>,
    /// The waiters.
    pub line: Vec<Waiter>,
}

/// Queries that change nothing.
#[derive(Clone, Copy)]
pub struct Inspection<'a> {
    pub(crate) lokt: &'a Lokt,
}

impl Lokt {
    /// Returns the queries that change nothing.
    pub fn inspect(&self) -> Inspection<'_> {
        Inspection { lokt: self }
    }

    /// Reads the state of `name`, for a caller that isn't in its queue.
    pub(crate) fn look(&self, name: &LockName, depth: Depth) -> Result<View, Error> {
        self.store().view(name, depth, None, &Call::UNLIMITED)
    }

    pub(crate) fn newer(&self, name: &LockName, version: i64) -> Error {
        let place = self.store().location(Some(name));
        let message = format!("{} has version {version}, newer than this lokt understands (1)", place.display());
        Error::new(ErrorKind::Newer, message).hint("upgrade lokt")
    }
}

impl Inspection<'_> {
    /// Returns whether the process that a record names is running: `alive`, `dead`, or `unknown` on
    /// another host or in another pid namespace. Returns `none` if no process is behind the hold:
    /// the pid in an owner's is that of a `lock` command that has exited.
    pub fn pid_status(self, hold: &Hold) -> &'static str {
        if !hold.has(PartKind::Process) {
            return "none";
        }
        let elsewhere = hold.host != self.lokt.me().host
            || hold.boot_id.is_some() && hold.boot_id != self.lokt.me().boot_id
            || hold.pid_ns.is_some() && hold.pid_ns != self.lokt.me().pid_ns;
        if elsewhere {
            return "unknown";
        }
        match self.lokt.machine().process(hold.pid) {
            Some(stat) if !stat.has_ended() && stat.may_be(hold.pid_start) => "alive",
            _ => "dead",
        }
    }

    /// Returns the processes that keep `hold`, as far as we may see them. These are its guard, its
    /// command, and the processes which that started, if they keep the pulse locked; and the
    /// command that the guard recorded, if it runs.
    pub fn keepers(self, hold: &Hold) -> Vec<Keeper> {
        let mut keepers = hold.pulse.map(|pulse| keepers_of((pulse.dev, pulse.ino))).unwrap_or_default();
        let here = hold.pid_ns.is_some() && hold.pid_ns == self.lokt.me().pid_ns;
        let runs = |command: &ProcessRef| {
            self.lokt.machine().process(command.pid).is_some_and(|stat| stat.may_be(command.start) && !stat.has_ended())
        };
        if let Some(command) = self.command(hold).filter(|command| here && runs(command))
            && keepers.iter().all(|keeper| keeper.pid != command.pid)
        {
            keepers.push(keeper(command.pid));
        }
        keepers
    }

    /// Returns the command that the guard of `hold` runs, if its pulse says so.
    pub fn command(self, hold: &Hold) -> Option<ProcessRef> {
        self.lokt.store().command(hold)
    }

    /// Returns the waiters for `name`, first come first.
    pub fn queue(self, name: &LockName) -> Result<Vec<Waiter>, Error> {
        Ok(self.lokt.look(name, Depth::QUEUE)?.queue)
    }

    /// Returns what is stored under `name`; `None` if nothing is.
    pub fn entry(self, name: &LockName) -> Result<Option<Entry>, Error> {
        // An unreadable queue concerns callers that want the lock, not those that only inspect it.
        let view = self.lokt.look(name, Depth::ENTRY)?;
        Ok(entry_of(name.to_string(), false, view.slot, view.waiting))
    }

    /// Returns everything that is stored, as `show` shows it: all locks, then all freezes, each in
    /// name order. `show` is called for one at a time, because keeping ten thousand of them takes
    /// longer than reading them.
    pub fn map_entries<T: Send>(self, show: impl Fn(Entry) -> T + Sync) -> Result<Vec<T>, Error> {
        let shown = |is_freeze| {
            let show = &show;
            move |name: &LockName, view: View| entry_of(name.to_string(), is_freeze, view.slot, view.waiting).map(show)
        };
        let mut entries = self.lokt.scan(Scan::Held, Depth::ENTRY, shown(false))?;
        entries.extend(self.lokt.scan(Scan::Frozen, Depth::HOLDER, shown(true))?);
        Ok(entries)
    }

    /// Returns the names that something is known about: three listings, no record is read.
    pub fn known_names(self) -> Result<KnownNames, Error> {
        let names = |of| self.lokt.store().names(of, &Call::UNLIMITED);
        let awaited = names(Scan::Awaited)?;
        Ok(KnownNames { locked: names(Scan::Held)?, frozen: names(Scan::Frozen)?, awaited })
    }

    /// Reports whether there is a live hold on `name`. An unreadable record is an error, never a
    /// no.
    pub fn exists(self, name: &LockName) -> Result<bool, Error> {
        match self.lokt.look(name, Depth::HOLDER)?.readable(name, Target::Lock)?.slot {
            Slot::Newer(version) => Err(self.lokt.newer(name, version)),
            Slot::BeingWritten => Ok(true),
            slot => Ok(slot.holder().is_some_and(Holder::lives)),
        }
    }

    /// Predicts what `lock` and `guard` would say to this owner now, with the evidence. Changes
    /// nothing.
    pub fn outlook(self, name: &LockName) -> Result<Outlook, Error> {
        self.outlook_inside(name, &InheritedHolds::default())
    }

    /// Does the same for a caller that runs under these holds.
    pub fn outlook_inside(self, name: &LockName, inside: &InheritedHolds) -> Result<Outlook, Error> {
        let view = self.lokt.look(name, Depth::ALL)?.readable(name, Target::Lock)?;
        let would = |ask: Ask<'_>| decision(&ask, &view, self.lokt.me(), self.lokt.store().contract());
        let (terms, id) = (Terms::default, LockId::default);
        let guard = match would(Ask::guard(name, terms(), self.lokt.me(), inside.of(name).cloned(), id())) {
            Decision::Deny(denial) => GuardOutlook::Denied(denial),
            Decision::Commit { cause: Cause::Renew, .. } => GuardOutlook::Joins,
            Decision::Commit { .. } => GuardOutlook::Acquires,
            Decision::Inside => GuardOutlook::Inside,
        };
        let (denial, refreshes) = match would(Ask::lock(name, Intent::Lock(terms()), id())) {
            Decision::Deny(denial) => (Some(denial), false),
            Decision::Commit { cause, .. } => (None, cause == Cause::Renew),
            Decision::Inside => (None, true),
        };
        let View { slot, frozen, queue: line, waiting, .. } = view;
        let (frozen, entry) = (frozen.map(Frozen::known), entry_of(name.to_string(), false, slot, waiting));
        Ok(Outlook { denial, refreshes, guard, entry, frozen, line })
    }
}

fn entry_of(name: String, is_freeze: bool, slot: Slot, waiters: usize) -> Option<Entry> {
    let state = match slot {
        Slot::Free => return None,
        Slot::Held(holder) => EntryState::Held(holder),
        Slot::Corrupt(why) => EntryState::Corrupt(why),
        Slot::BeingWritten => EntryState::BeingWritten,
        Slot::Newer(version) => EntryState::Newer(version),
        Slot::Unreadable(error) => EntryState::Unreadable(error),
    };
    Some(Entry { name, is_freeze, state, waiters })
}

impl Entry {
    /// Reports whether it keeps others out.
    pub fn is_live(&self) -> bool {
        match &self.state {
            EntryState::Held(holder) if self.is_freeze => !holder.elapsed.is_expired(),
            EntryState::Held(holder) => holder.lives(),
            EntryState::Corrupt(_) => self.is_freeze,
            EntryState::BeingWritten | EntryState::Newer(_) | EntryState::Unreadable(_) => true,
        }
    }
}

/// Returns the parts of a hold that still count, for messages.
pub fn living_parts(holder: &Holder) -> Vec<PartKind> {
    [PartKind::Process, PartKind::Owner].into_iter().filter(|kind| holder.part_lives(*kind)).collect()
}
