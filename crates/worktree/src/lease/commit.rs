//! Adding a link: the one way in which anything about a lease changes.
//!
//! A link is written and synced before it gets its number, which must be free. A process that adds
//! one follows exactly what it has read, or learns that another one was faster.

use super::chain::Chain;
use super::log::LeaseLog;
use std::io;
use std::time::Duration;

use lokt_core::hold::Fence;
use lokt_core::lease::audit::Event;
use lokt_core::lease::config::WorktreeConfig;
use lokt_core::lease::names::File;
use lokt_core::lease::record::{HolderId, RECORD_BYTES_MAX, Record};
use lokt_core::lease::slot::{Kind, Slot, Tag};
use lokt_core::lease::state::{Head, Published, Restore, State};
use lokt_core::time::Moment;
use serde_json::{Map, Value};

use super::Worktree;
use super::audit;
use super::chain::{Damaged, LOCKS, Links, Reading};
use super::fences::BLOCK;
use super::view::Due;
use lokt_sys::disk::{Stamp, Unlock};
use lokt_sys::error::{At as _, Error, ErrorKind};

/// Mode of a link: it is written once.
const SLOT_MODE: u32 = 0o444;
/// Maximum wait for the advisory mutex. After it a process proceeds without: the mutex only saves
/// work.
const COURTESY: Duration = Duration::from_millis(250);

/// Content of a new link.
pub(crate) struct NewLink {
    pub(crate) kind: Kind,
    /// The lease after it.
    pub(crate) record: Option<Record>,
    /// The event.
    pub(crate) deed: AuditEntry,
}

/// A link's change to the snapshot state.
pub(crate) enum SnapshotChange {
    None,
    /// A snapshot is published, and the worktree is at it.
    Publish(Published),
    /// A snapshot is to be restored, and the worktree is at it.
    Restore(Restore),
}

impl SnapshotChange {
    /// Returns the snapshot state after the change, and the snapshot that it published.
    fn after(self, mut state: State) -> (State, Option<Published>) {
        match self {
            Self::None => (state, None),
            Self::Publish(published) => {
                state.head = Head::Snapshot(published.id.clone());
                state.pending.push(published.id.clone());
                (state, Some(published))
            }
            Self::Restore(restore) => {
                state.head = Head::Snapshot(restore.snapshot_id.clone());
                state.restore = Some(restore);
                (state, None)
            }
        }
    }
}

/// The state after a link.
struct After {
    next: u64,
    ceiling: u64,
    state: State,
    snapshot: Option<Published>,
}

impl After {
    /// Continues the numbers above `below`; nothing else changes.
    fn jump(links: &Links, below: u64) -> Self {
        Self { next: below + 1, ceiling: below + BLOCK, state: links.state(), snapshot: None }
    }
}

/// A link that was added.
pub(crate) struct Added {
    pub(crate) slot: Slot,
    /// Its file.
    pub(crate) stamp: Stamp,
}

impl Added {
    /// Returns what the views should show.
    pub(crate) fn due(&self) -> Option<Due<'_>> {
        let record = self.slot.record.as_deref()?;
        Some(Due { tag: Tag { chain: self.slot.chain.clone(), number: self.slot.number }, record })
    }
}

/// An event, for the audit log.
pub(crate) struct AuditEntry {
    pub(crate) operation: &'static str,
    pub(crate) at: Moment,
    pub(crate) token: Option<u64>,
    pub(crate) session_id: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) details: Map<String, Value>,
}

impl AuditEntry {
    pub(crate) fn new(operation: &'static str, at: Moment) -> Self {
        Self { operation, at, token: None, session_id: None, reason: None, details: Map::new() }
    }

    /// Marks it as done to, or under, this lease.
    #[must_use]
    pub(crate) fn about(mut self, record: &Record) -> Self {
        self.token = record.token.map(Fence::get);
        self.session_id = Some(record.session_id.clone());
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// Adds links to the chain of a worktree.
pub(crate) struct Writer<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Writer<'_> {
    /// Acquires the advisory mutex, if it is free in time, so that writers work one after the
    /// other.
    pub(crate) fn gate(&self, lease_ms: u64) -> Option<Box<dyn Unlock>> {
        // Several waits must fit into a lease.
        let courtesy = COURTESY.min(Duration::from_millis(lease_ms / 8));
        self.worktree.repo.disk.lock_dir(&self.worktree.chain().dir(), courtesy).ok()
    }

    /// Adds a link after what was read. `None`: another process was faster, or the numbers had to
    /// skip; everything must be read again.
    pub(crate) fn add(&self, links: &Links, step: NewLink) -> Result<Option<Added>, Error> {
        self.add_change(links, step, SnapshotChange::None)
    }

    /// Like `add`, for a link that changes something about snapshots.
    pub(crate) fn add_change(
        &self,
        links: &Links,
        step: NewLink,
        turn: SnapshotChange,
    ) -> Result<Option<Added>, Error> {
        if let Some(damaged) = &links.damaged {
            self.supersede_damaged(links, damaged, AuditEntry::new("rebase", self.worktree.repo.machine.now()))?;
            return Ok(None);
        }
        if self.needs_skip(links)? {
            self.skip_to(links, links.elsewhere)?;
            return Ok(None);
        }
        let (next, ceiling) = (links.next() + 1, links.ceiling());
        let (state, snapshot) = turn.after(self.worktree.snapshot_state().settled(links)?);
        self.link(links, step, After { next, ceiling, state, snapshot })
    }

    /// Continues the numbers above `used`, and above every one that was ever allowed. The lease is
    /// unchanged.
    pub(crate) fn skip_to(&self, links: &Links, used: u64) -> Result<(), Error> {
        let below = self.worktree.fences().reserve(used.max(links.stranger).max(links.ceiling()).max(links.next()))?;
        let deed = AuditEntry::new("rebase", self.worktree.repo.machine.now());
        let step = NewLink { kind: Kind::Rebase, record: links.record().cloned(), deed: deed.with("next", below + 1) };
        self.link(links, step, After::jump(links, below))?;
        Ok(())
    }

    /// Supersedes an unreadable link; after that the lease is free. Returns false if another
    /// process was faster.
    pub(crate) fn supersede_damaged(&self, links: &Links, damaged: &Damaged, deed: AuditEntry) -> Result<bool, Error> {
        let below = self.worktree.fences().reserve(links.stranger.max(links.ceiling()).max(links.next()))?;
        let deed = deed.with("damaged", damaged.why.as_str()).with("damaged_slot", damaged.number);
        let step = NewLink { kind: Kind::Rebase, record: None, deed: deed.with("next", below + 1) };
        let mut after = After::jump(links, below);
        // It may have published a snapshot; a receipt would tell.
        after.state.head = Head::Unknown;
        Ok(self.link(links, step, after)?.is_some())
    }

    /// Reports whether the next number may only be used to skip ahead. Either it is the last one of
    /// its block; or the chain is new, but was created by a process that had been suspended while
    /// others reserved blocks above.
    fn needs_skip(&self, links: &Links) -> Result<bool, Error> {
        let is_last = links.next() >= links.ceiling();
        // A chain of an earlier life, put back from a copy: its numbers were used since.
        let is_old = links.elsewhere >= links.next();
        // Foreign links were copied into the chain: as the next one they couldn't be told apart.
        let is_blocked = links.stranger >= links.next();
        Ok(is_last
            || is_old
            || is_blocked
            || (links.last.is_none() && self.worktree.fences().ceiling()? != links.base.block))
    }

    fn link(&self, links: &Links, step: NewLink, after: After) -> Result<Option<Added>, Error> {
        let number = links.next();
        let path = self.worktree.chain().file(&File::Slot(number));
        let grants = u64::from(step.kind == Kind::Grant);
        let slot = Slot {
            chain: links.base.chain.clone(),
            number,
            kind: step.kind,
            record: step.record.map(Box::new),
            // If another program counted too far, the link stays readable.
            acquire_seq: (links.acquire_seq() + grants).min(Fence::LIMIT - 1),
            next: after.next,
            ceiling: after.ceiling,
            state: after.state,
            snapshot: after.snapshot,
            anchor: self.worktree.log().write(links),
            event: self
                .worktree
                .log()
                .event(format!("{}/{}/{number}", self.worktree.name, links.base.chain), step.deed),
        };
        let disk = &self.worktree.repo.disk;
        let bytes = slot.to_bytes();
        if bytes.len() > RECORD_BYTES_MAX {
            let message = format!("{} bytes are more than a file of a lease may have", bytes.len());
            return Err(Error::new(ErrorKind::NotARecord, message).hint("say what it is for, or why, in fewer words"));
        }
        let file = disk.unnamed(&bytes, SLOT_MODE).at("write", &self.worktree.repo.path, &path)?;
        file.sync().at("sync", &self.worktree.repo.path, &path)?;
        if let Err(error) = file.link(&path) {
            // The answer of a file server can get lost, and the repeated request fails because the
            // file exists already.
            let is_ours = match (file.stamp(), disk.stamp(&path)) {
                (Ok(ours), Ok(Some(there))) => (ours.dev, ours.ino) == (there.dev, there.ino),
                _ => false,
            };
            if !is_ours && error.kind() == io::ErrorKind::AlreadyExists {
                return Ok(None);
            }
            if !is_ours {
                return Err(cant_link(error, self.worktree, &path));
            }
        }
        // The file is left there: a link in a gap is no longer the last, and is pruned. And we may
        // be wrong, if we were that slow.
        if !self.still_follows(links)? && !self.has_counted(&slot)? {
            return Ok(None);
        }
        // A grant is synced together with its view.
        if slot.kind != Kind::Grant {
            self.worktree.chain().sync()?;
        }
        let stamp = file.stamp().at("look at", &self.worktree.repo.path, &path)?;
        Ok(Some(Added { slot, stamp }))
    }

    /// Reports whether the link that was read is still there, after another was added to it. If
    /// not, the chain continued without us and was pruned, and the number was free only because of
    /// that; or the chain was deleted.
    fn still_follows(&self, links: &Links) -> Result<bool, Error> {
        if !self.worktree.chain().has_id(&links.base.chain)? {
            return Ok(false);
        }
        let stamp = |path: &str| self.worktree.repo.disk.stamp(path).at("look at", &self.worktree.repo.path, path);
        Ok(match (&links.last, links.stamp) {
            (Some(last), Some(read)) => {
                let there = stamp(&self.worktree.chain().file(&File::Slot(last.number)))?;
                // Inode numbers are reused.
                there.is_some_and(|there| there == read)
            }
            // Nothing above a damaged link was removed.
            _ => links.damaged.is_some() || stamp(&self.worktree.chain().pruned_mark(&links.base.chain))?.is_none(),
        })
    }

    /// Reports whether this link took effect, even though it, and its predecessor, may have been
    /// pruned since. Pruning writes every link to the audit log first. Checked only if the log is
    /// the whole answer: a lease that was granted or renewed that long ago is lost, and a
    /// publication is visible anyway.
    fn has_counted(&self, slot: &Slot) -> Result<bool, Error> {
        let is_asked = matches!(slot.kind, Kind::Release | Kind::Restore | Kind::Rebase);
        let mark = self.worktree.chain().pruned_mark(&slot.chain);
        let is_pruned = || {
            Ok::<_, Error>(
                self.worktree.repo.disk.stamp(&mark).at("look at", &self.worktree.repo.path, &mark)?.is_some(),
            )
        };
        if !is_asked || !is_pruned()? {
            return Ok(false);
        }
        // A deleted link doesn't count: the chain must have continued after it.
        let went_on = match self.worktree.chain().read()? {
            Reading::Born(links) => {
                links.last.is_some_and(|last| last.chain == slot.chain && last.number > slot.number)
            }
            Reading::Unborn => false,
        };
        Ok(went_on && audit::has(&self.worktree.repo, &slot.anchor, &slot.event))
    }

    /// Rechecks a link before success is reported: the chain may have been deleted, and its number
    /// reused.
    pub(crate) fn still_stands(&self, added: &Added) -> Result<bool, Error> {
        let path = self.worktree.chain().file(&File::Slot(added.slot.number));
        self.worktree.repo.disk.refresh(LOCKS);
        let there = self.worktree.repo.disk.stamp(&path).at("look at", &self.worktree.repo.path, &path)?;
        if there == Some(added.stamp) && self.worktree.chain().has_id(&added.slot.chain)?
            || self.has_counted(&added.slot)?
        {
            return Ok(true);
        }
        // The views that were published for it are wrong by now.
        self.worktree.views().settle()?;
        Ok(false)
    }

    /// Rechecks that the worktree exists before success is reported.
    pub(crate) fn still_exists(&self) -> Result<WorktreeConfig, Error> {
        self.worktree.repo.config(&self.worktree.name)?.ok_or_else(|| {
            let message = format!("worktree \"{}\" was renamed or removed meanwhile", self.worktree.name);
            Error::new(ErrorKind::Missing, message).hint("`lokt worktree list` shows those that there are")
        })
    }

    /// Like `still_exists`, before a lease is granted. A rename or removal announces itself, then
    /// checks the lease: so one of the two processes sees the other.
    pub(crate) fn still_stays(&self) -> Result<(), Error> {
        let config = self.still_exists()?;
        // A process that completes an interrupted change knows where the worktree goes.
        if config.goes_with(&self.worktree.config) {
            return Ok(());
        }
        let what = config.renaming_to.map_or_else(|| "removed".to_owned(), |new| format!("renamed to \"{new}\""));
        let message = format!("worktree \"{}\" is being {what}", self.worktree.name);
        Err(Error::new(ErrorKind::Busy, message).hint("try again"))
    }
}

impl Chain<'_> {
    /// Makes links durable. A deleted one needn't be: it is checked again before success is
    /// reported.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.sync_if_there(&self.dir())
    }

    pub(crate) fn sync_if_there(&self, dir: &str) -> Result<(), Error> {
        match self.repo.disk.sync_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.at("sync", &self.repo.path, dir),
        }
    }

    /// Reports whether the chain still has this id.
    fn has_id(&self, chain: &str) -> Result<bool, Error> {
        Ok(self.read_base()?.is_some_and(|base| base.chain == chain))
    }

    /// Reports whether this is still the last link.
    pub(crate) fn is_last(&self, slot: &Slot) -> Result<bool, Error> {
        let path = self.file(&File::Slot(slot.next));
        Ok(self.repo.disk.stamp(&path).at("look at", &self.repo.path, &path)?.is_none())
    }
}

impl LeaseLog<'_> {
    /// Creates an event of this process.
    pub(crate) fn event(&self, event_id: String, deed: AuditEntry) -> Event {
        Event {
            event_id,
            timestamp: deed.at.wall,
            operation: deed.operation.to_owned(),
            actor: self.holder_id(),
            target: self.name.to_string(),
            token: deed.token,
            session_id: deed.session_id,
            reason: deed.reason,
            details: deed.details,
        }
    }

    /// Returns this process's identity as text, for a record.
    pub(crate) fn holder_id(&self) -> String {
        let me = &self.repo.me;
        HolderId { host: me.host.clone(), user: me.owner.clone(), pid: me.pid, start: me.pid_start }.text()
    }
}

fn cant_link(error: io::Error, worktree: &Worktree, path: &str) -> Error {
    let path = worktree.repo.path.join(path);
    if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
        && worktree.repo.disk.stamp(&worktree.chain().file(&File::Base)).is_ok_and(|base| base.is_none())
    {
        let message = format!("{}: this file system can't give a file a second name: {error}", path.display());
        return Error::new(ErrorKind::Unusable, message);
    }
    Error::io("add", &path, error)
}
