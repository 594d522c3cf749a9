//! For those who only look: what is stored, who waits, what a `lock` would be told. Nothing here takes the mutex or changes anything.

use std::path::Path;

use lokt_core::badges::Badges;
use lokt_core::decide::{Cause, Decision, Intent, Policy, Terms, decide};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, Hold, LockId, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;

use crate::error::{At as _, Error, ErrorKind};
use crate::locks::Lokt;
use crate::parallel;
use crate::store::ask::Ask;
use crate::store::freezes::{FREEZES_DIR, Frozen, freeze_path};
use crate::store::line::{LINE_DIR, Waiter};
use crate::store::slot::{Depth, Found, Stored, held_if_unreadable};
use crate::store::{Kind, LOCKS_DIR, record_path};
use crate::sys::keepers::{Keeper, keeper, keepers_of};

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

impl Lokt {
    /// Is the process that a record names running? `alive`, `dead`, or `unknown` on another host or in another pid namespace; `none` if
    /// no process is behind the hold: the pid in an owner's is that of a `lock` command that has exited.
    pub fn pid_status(&self, hold: &Hold) -> &'static str {
        if !hold.has(PartKind::Process) {
            return "none";
        }
        let elsewhere = hold.host != self.me().host
            || hold.boot_id.is_some() && hold.boot_id != self.me().boot_id
            || hold.pid_ns.is_some() && hold.pid_ns != self.me().pid_ns;
        if elsewhere {
            return "unknown";
        }
        match self.machine().process(hold.pid) {
            Some(stat) if !stat.has_ended() && stat.may_be(hold.pid_start) => "alive",
            _ => "dead",
        }
    }

    /// The processes that keep `hold`, as far as we may look: its guard, its command, and what that started, if they keep the pulse
    /// beating; and the command that the guard wrote down, if it runs.
    pub fn keepers(&self, hold: &Hold) -> Vec<Keeper> {
        let mut keepers = hold.pulse.map(|pulse| keepers_of((pulse.dev, pulse.ino))).unwrap_or_default();
        let here = hold.pid_ns.is_some() && hold.pid_ns == self.me().pid_ns;
        let runs = |command: &ProcessRef| {
            self.machine().process(command.pid).is_some_and(|stat| stat.may_be(command.start) && !stat.has_ended())
        };
        if let Some(command) = self.command(hold).filter(|command| here && runs(command))
            && keepers.iter().all(|keeper| keeper.pid != command.pid)
        {
            keepers.push(keeper(command.pid));
        }
        keepers
    }

    /// The command that the guard of `hold` runs, if its pulse says so.
    pub fn command(&self, hold: &Hold) -> Option<ProcessRef> {
        self.store().command(hold)
    }

    /// Who waits for `name`, first come first.
    pub fn queue(&self, name: &LockName) -> Result<Vec<Waiter>, Error> {
        Ok(self.store().line(name, None)?.waiters)
    }

    /// What is stored under `name`; `None` if nothing is.
    pub fn entry(&self, name: &LockName) -> Result<Option<Entry>, Error> {
        let store = self.store();
        let now = self.machine().now();
        let found = store.find(&record_path(name), name.as_str(), &now);
        // A line that can't be read concerns those who want the lock, not those who look.
        let waiters = store.line(name, None).map_or(0, |line| line.waiters.len());
        Ok(entry_of(name.to_string(), false, found, waiters))
    }

    /// Everything that is stored, as `show` shows it: all locks, then all freezes, each in name order. `show` is called for one at a
    /// time, because keeping ten thousand of them takes longer than reading them.
    pub fn map_entries<T: Send>(&self, show: impl Fn(Entry) -> T + Sync) -> Result<Vec<T>, Error> {
        let store = self.store();
        let now = self.machine().now();
        let lines = self.disk().list(LINE_DIR).unwrap_or_default();
        let lock = |name: &LockName| {
            let found = store.find(&record_path(name), name.as_str(), &now);
            let in_line = lines.binary_search_by(|line| line.as_str().cmp(name.as_str())).is_ok();
            let waiters = if in_line { store.line(name, None).map_or(0, |line| line.waiters.len()) } else { 0 };
            entry_of(name.to_string(), false, found, waiters).map(&show)
        };
        let freeze = |name: &LockName| {
            let mut found = store.find(&freeze_path(name), name.as_str(), &now);
            found.liveness = Liveness::Unknown;
            entry_of(name.to_string(), true, found, 0).map(&show)
        };
        let locks = parallel::map(&self.names(LOCKS_DIR)?, lock);
        let freezes = parallel::map(&self.names(FREEZES_DIR)?, freeze);
        // What vanished between the listing and the look is not there.
        Ok(locks.into_iter().chain(freezes).flatten().collect())
    }

    /// The names that something is known about: three listings, no record is read.
    pub fn known_names(&self) -> Result<KnownNames, Error> {
        let lines = self.disk().list(LINE_DIR).at("list", self.root(), LINE_DIR)?;
        let mut awaited: Vec<LockName> = lines.iter().filter_map(|line| LockName::new(line).ok()).collect();
        awaited.sort_unstable();
        Ok(KnownNames { locked: self.names(LOCKS_DIR)?, frozen: self.names(FREEZES_DIR)?, awaited })
    }

    /// Is there a live hold on `name`? What can't be read is an error, never a no.
    pub fn exists(&self, name: &LockName) -> Result<bool, Error> {
        let now = self.machine().now();
        let found = self.store().find(&record_path(name), name.as_str(), &now);
        let lives = found.holder().is_some_and(|holder| holder.lives());
        match found.stored {
            Stored::Unreadable(error) => Err(held_if_unreadable(error, name, Kind::Lock)),
            Stored::Newer(version) => Err(newer(self.root(), name, version)),
            Stored::BeingWritten => Ok(true),
            Stored::Held(_) | Stored::Free | Stored::Corrupt(_) => Ok(lives),
        }
    }

    /// What `lock` and `guard` would say to this owner now, with the evidence. Changes nothing.
    pub fn outlook(&self, name: &LockName) -> Result<Outlook, Error> {
        self.outlook_inside(name, &Badges::default())
    }

    /// The same for somebody who runs under these holds.
    pub fn outlook_inside(&self, name: &LockName, inside: &Badges) -> Result<Outlook, Error> {
        let now = self.machine().now();
        let view = self.store().view(name, &now, Depth::Line, None)?.readable(name, Kind::Lock)?;
        let id = LockId::default();
        let token = Fence::new(1).expect("one is a token");
        let would = |intent: &Intent| decide(intent, view.facts(now, &id, token, None), self.me(), &Policy::NAMED);
        let guard = Ask::guard(name, Terms::default(), self.me(), inside.of(name).cloned());
        let guard = match would(&guard.intent_now(token)) {
            Decision::Deny(denial) => GuardOutlook::Denied(denial),
            Decision::Commit { cause: Cause::Renew, .. } => GuardOutlook::Joins,
            Decision::Commit { .. } => GuardOutlook::Acquires,
            Decision::Inside => GuardOutlook::Inside,
        };
        let decision = would(&Intent::Lock(Terms::default()));
        let (denial, refreshes) = match decision {
            Decision::Deny(denial) => (Some(denial), false),
            Decision::Commit { cause, .. } => (None, cause == Cause::Renew),
            Decision::Inside => (None, true),
        };
        let frozen = view.frozen.map(Frozen::known);
        let entry = entry_of(name.to_string(), false, view.found, view.line.waiters.len());
        Ok(Outlook { denial, refreshes, guard, entry, frozen, line: view.line.waiters })
    }
}

pub(crate) fn newer(root: &Path, name: &LockName, version: i64) -> Error {
    let path = root.join(record_path(name));
    Error::new(
        ErrorKind::Newer,
        format!("{} has version {version}, newer than this lokt understands (1)", path.display()),
    )
    .hint("upgrade lokt")
}

fn entry_of(name: String, is_freeze: bool, found: Found, waiters: usize) -> Option<Entry> {
    let state = match found.stored {
        Stored::Free => return None,
        Stored::Held(hold) => {
            EntryState::Held(Box::new(Holder { hold: *hold, liveness: found.liveness, elapsed: found.elapsed }))
        }
        Stored::Corrupt(why) => EntryState::Corrupt(why),
        Stored::BeingWritten => EntryState::BeingWritten,
        Stored::Newer(version) => EntryState::Newer(version),
        Stored::Unreadable(error) => EntryState::Unreadable(error),
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
