//! For those who only look: what is stored, who waits, what a `lock` would be told. Nothing here takes the mutex or changes anything.

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
    /// A freeze, not a lock.
    pub is_freeze: bool,
    /// What is there.
    pub state: EntryState,
    /// How many wait.
    pub waiters: usize,
}

/// What is stored under a name.
#[derive(Debug)]
pub enum EntryState {
    /// A hold.
    Held(Box<Holder>),
    /// No record; the text says why.
    Corrupt(String),
    /// An empty, young file.
    BeingWritten,
    /// A record of a later version.
    Newer(i64),
    /// It can't be read.
    Unreadable(Error),
}

/// Names that something is known about, each list in order.
#[derive(Debug, Default)]
pub struct KnownNames {
    /// There is a lock record, of whatever kind.
    pub locked: Vec<LockName>,
    /// There is a freeze.
    pub frozen: Vec<LockName>,
    /// There is, or was, somebody in line.
    pub awaited: Vec<LockName>,
}

/// What `guard` would come to.
#[derive(Debug)]
pub enum GuardOutlook {
    /// It would get a hold of its own.
    Acquires,
    /// It would join what the same owner took with `lock`.
    Joins,
    /// It would run at once, inside the hold that the caller runs under.
    Inside,
    /// It would be refused.
    Denied(Denial),
}

/// What `lock` and `guard` would say, and why.
#[derive(Debug)]
pub struct Outlook {
    /// What `lock` would do: `None` is a grant.
    pub denial: Option<Denial>,
    /// `lock` would refresh or join an existing hold.
    pub refreshes: bool,
    /// What `guard` would do.
    pub guard: GuardOutlook,
    /// What is stored.
    pub entry: Option<Entry>,
    /// A freeze over the name: who, or why it can't be read.
    pub frozen: Option<Result<Box<Holder>, String>>,
    /// Who waits.
    pub line: Vec<Waiter>,
}

/// What can be seen without changing anything.
#[derive(Clone, Copy)]
pub struct Inspection<'a> {
    pub(crate) lokt: &'a Lokt,
}

impl Lokt {
    /// What can be seen without changing anything.
    pub fn inspect(&self) -> Inspection<'_> {
        Inspection { lokt: self }
    }

    /// One look at `name`, by somebody who isn't in its queue.
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
    /// Is the process that a record names running? `alive`, `dead`, or `unknown` on another host or in another pid namespace; `none` if
    /// no process is behind the hold: the pid in an owner's is that of a `lock` command that has exited.
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

    /// The processes that keep `hold`, as far as we may look: its guard, its command, and what that started, if they keep the pulse
    /// beating; and the command that the guard wrote down, if it runs.
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

    /// The command that the guard of `hold` runs, if its pulse says so.
    pub fn command(self, hold: &Hold) -> Option<ProcessRef> {
        self.lokt.store().command(hold)
    }

    /// Who waits for `name`, first come first.
    pub fn queue(self, name: &LockName) -> Result<Vec<Waiter>, Error> {
        Ok(self.lokt.look(name, Depth::QUEUE)?.queue)
    }

    /// What is stored under `name`; `None` if nothing is.
    pub fn entry(self, name: &LockName) -> Result<Option<Entry>, Error> {
        // A queue that can't be read concerns those who want the lock, not those who look.
        let view = self.lokt.look(name, Depth::ENTRY)?;
        Ok(entry_of(name.to_string(), false, view.slot, view.waiting))
    }

    /// Everything that is stored, as `show` shows it: all locks, then all freezes, each in name order. `show` is called for one at a
    /// time, because keeping ten thousand of them takes longer than reading them.
    pub fn map_entries<T: Send>(self, show: impl Fn(Entry) -> T + Sync) -> Result<Vec<T>, Error> {
        let shown = |is_freeze| {
            let show = &show;
            move |name: &LockName, view: View| entry_of(name.to_string(), is_freeze, view.slot, view.waiting).map(show)
        };
        let mut entries = self.lokt.scan(Scan::Held, Depth::ENTRY, shown(false))?;
        entries.extend(self.lokt.scan(Scan::Frozen, Depth::HOLDER, shown(true))?);
        Ok(entries)
    }

    /// The names that something is known about: three listings, no record is read.
    pub fn known_names(self) -> Result<KnownNames, Error> {
        let names = |of| self.lokt.store().names(of, &Call::UNLIMITED);
        let awaited = names(Scan::Awaited)?;
        Ok(KnownNames { locked: names(Scan::Held)?, frozen: names(Scan::Frozen)?, awaited })
    }

    /// Is there a live hold on `name`? What can't be read is an error, never a no.
    pub fn exists(self, name: &LockName) -> Result<bool, Error> {
        match self.lokt.look(name, Depth::HOLDER)?.readable(name, Target::Lock)?.slot {
            Slot::Newer(version) => Err(self.lokt.newer(name, version)),
            Slot::BeingWritten => Ok(true),
            slot => Ok(slot.holder().is_some_and(Holder::lives)),
        }
    }

    /// What `lock` and `guard` would say to this owner now, with the evidence. Changes nothing.
    pub fn outlook(self, name: &LockName) -> Result<Outlook, Error> {
        self.outlook_inside(name, &InheritedHolds::default())
    }

    /// The same for somebody who runs under these holds.
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
    /// Is there something here that keeps others out?
    pub fn is_live(&self) -> bool {
        match &self.state {
            EntryState::Held(holder) if self.is_freeze => !holder.elapsed.is_expired(),
            EntryState::Held(holder) => holder.lives(),
            EntryState::Corrupt(_) => self.is_freeze,
            EntryState::BeingWritten | EntryState::Newer(_) | EntryState::Unreadable(_) => true,
        }
    }
}

/// Which parts of a hold still count, for messages.
pub fn living_parts(holder: &Holder) -> Vec<PartKind> {
    [PartKind::Process, PartKind::Owner].into_iter().filter(|kind| holder.part_lives(*kind)).collect()
}
