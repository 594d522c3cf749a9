//! Adding a link: the one way in which anything about a lease changes.
//!
//! A link is written and synced before it gets its number, which it gets only if nothing has it. Whoever adds one after what it has read
//! was the last, or is told that somebody was faster.

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
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::{Stamp, Unlock};

/// Links are written once.
const SLOT_MODE: u32 = 0o444;
/// How long to wait for whoever is at work. After that it goes without: the mutex saves work, it decides nothing.
const COURTESY: Duration = Duration::from_millis(250);

/// What a link is to say.
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// The lease after it.
    pub(crate) record: Option<Record>,
    /// What happened.
    pub(crate) deed: Deed,
}

/// What a link changes about snapshots.
pub(crate) enum Turn {
    None,
    /// One is there, and the worktree is at it.
    Publish(Published),
    /// One is to come back, and the worktree is at it.
    Restore(Restore),
}

impl Turn {
    /// What is known of snapshots after it, and what it published.
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

/// What is so after a link.
struct After {
    next: u64,
    ceiling: u64,
    state: State,
    snapshot: Option<Published>,
}

impl After {
    /// The numbers go on above `below`, and nothing else changes.
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
    /// What the views should show.
    pub(crate) fn due(&self) -> Option<Due<'_>> {
        let record = self.slot.record.as_deref()?;
        Some(Due { tag: Tag { chain: self.slot.chain.clone(), number: self.slot.number }, record })
    }
}

/// What happened, for the audit log.
pub(crate) struct Deed {
    pub(crate) operation: &'static str,
    pub(crate) at: Moment,
    pub(crate) token: Option<u64>,
    pub(crate) session_id: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) details: Map<String, Value>,
}

impl Deed {
    pub(crate) fn new(operation: &'static str, at: Moment) -> Self {
        Self { operation, at, token: None, session_id: None, reason: None, details: Map::new() }
    }

    /// Done to, or under, this lease.
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

impl Worktree {
    /// One after the other, as far as that can be had.
    pub(crate) fn gate(&self, lease_ms: u64) -> Option<Box<dyn Unlock>> {
        // Several of them must fit into a lease.
        let courtesy = COURTESY.min(Duration::from_millis(lease_ms / 8));
        self.repo.disk.lock_dir(&self.chain_dir(), courtesy).ok()
    }

    /// Adds a link after what was read. `None`: somebody was faster, or the numbers had to go on elsewhere; everything is to be read again.
    pub(crate) fn add(&self, links: &Links, step: Step) -> Result<Option<Added>, Error> {
        self.add_turn(links, step, Turn::None)
    }

    /// The same, for what changes something about snapshots.
    pub(crate) fn add_turn(&self, links: &Links, step: Step, turn: Turn) -> Result<Option<Added>, Error> {
        if let Some(damaged) = &links.damaged {
            self.overtake(links, damaged, Deed::new("rebase", self.repo.machine.now()))?;
            return Ok(None);
        }
        if self.needs_jump(links)? {
            self.jump(links, links.elsewhere)?;
            return Ok(None);
        }
        let (next, ceiling) = (links.next() + 1, links.ceiling());
        let (state, snapshot) = turn.after(self.settled(links)?);
        self.link(links, step, After { next, ceiling, state, snapshot })
    }

    /// Lets the numbers go on above `used`, and above every one that was ever allowed. The lease stays as it is.
    pub(crate) fn jump(&self, links: &Links, used: u64) -> Result<(), Error> {
        let below = self.reserve(used.max(links.stranger).max(links.ceiling()).max(links.next()))?;
        let deed = Deed::new("rebase", self.repo.machine.now());
        let step = Step { kind: Kind::Rebase, record: links.record().cloned(), deed: deed.with("next", below + 1) };
        self.link(links, step, After::jump(links, below))?;
        Ok(())
    }

    /// Overtakes a link that can't be read: nobody holds the lease after that. False: somebody was faster.
    pub(crate) fn overtake(&self, links: &Links, damaged: &Damaged, deed: Deed) -> Result<bool, Error> {
        let below = self.reserve(links.stranger.max(links.ceiling()).max(links.next()))?;
        let deed = deed.with("damaged", damaged.why.as_str()).with("damaged_slot", damaged.number);
        let step = Step { kind: Kind::Rebase, record: None, deed: deed.with("next", below + 1) };
        let mut after = After::jump(links, below);
        // It may have published something; what has its receipt tells.
        after.state.head = Head::Unknown;
        Ok(self.link(links, step, after)?.is_some())
    }

    /// May the next number be used for nothing but a jump? It is the last one of its block; or the chain is newly born, but by somebody
    /// who had been stopped, while others got blocks above.
    fn needs_jump(&self, links: &Links) -> Result<bool, Error> {
        let is_last = links.next() >= links.ceiling();
        // A chain of an earlier life, put back from a copy: its numbers were used since.
        let is_old = links.elsewhere >= links.next();
        // Whoever copied links into the chain: once one of them were the next, nobody could tell what it is.
        let is_blocked = links.stranger >= links.next();
        Ok(is_last || is_old || is_blocked || (links.last.is_none() && self.ceiling()? != links.base.block))
    }

    fn link(&self, links: &Links, step: Step, after: After) -> Result<Option<Added>, Error> {
        let number = links.next();
        let path = self.chain_file(&File::Slot(number));
        let grants = u64::from(step.kind == Kind::Grant);
        let slot = Slot {
            chain: links.base.chain.clone(),
            number,
            kind: step.kind,
            record: step.record.map(Box::new),
            // One that was counted too far by somebody else still leaves a link that can be read.
            acquire_seq: (links.acquire_seq() + grants).min(Fence::LIMIT - 1),
            next: after.next,
            ceiling: after.ceiling,
            state: after.state,
            snapshot: after.snapshot,
            anchor: self.log_links(links),
            event: self.event(format!("{}/{}/{number}", self.name, links.base.chain), step.deed),
        };
        let disk = &self.repo.disk;
        let bytes = slot.to_bytes();
        if bytes.len() > RECORD_BYTES_MAX {
            let message = format!("{} bytes are more than a file of a lease may have", bytes.len());
            return Err(Error::new(ErrorKind::NotARecord, message).hint("say what it is for, or why, in fewer words"));
        }
        let file = disk.unnamed(&bytes, SLOT_MODE).at("write", &self.repo.path, &path)?;
        file.sync().at("sync", &self.repo.path, &path)?;
        if let Err(error) = file.link(&path) {
            // An answer of a file server can get lost, and the second one says that it is there already.
            let is_ours = match (file.stamp(), disk.stamp(&path)) {
                (Ok(ours), Ok(Some(there))) => (ours.dev, ours.ino) == (there.dev, there.ino),
                _ => false,
            };
            if !is_ours && error.kind() == io::ErrorKind::AlreadyExists {
                return Ok(None);
            }
            if !is_ours {
                return Err(cant_link(error, self, &path));
            }
        }
        // Left there: what is in a hole is no longer the last, and is pruned; and we may be wrong, if we were that slow.
        if !self.still_follows(links)? && !self.has_counted(&slot)? {
            return Ok(None);
        }
        // A grant's is synced together with its view.
        if slot.kind != Kind::Grant {
            self.sync_chain()?;
        }
        let stamp = file.stamp().at("look at", &self.repo.path, &path)?;
        Ok(Some(Added { slot, stamp }))
    }

    /// Makes links survive a power cut. What was deleted meanwhile needn't: whoever is told of a link looks whether it still stands.
    pub(crate) fn sync_chain(&self) -> Result<(), Error> {
        self.sync_if_there(&self.chain_dir())
    }

    pub(crate) fn sync_if_there(&self, dir: &str) -> Result<(), Error> {
        match self.repo.disk.sync_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.at("sync", &self.repo.path, dir),
        }
    }

    /// Is what was read still there, now that a link was added after it? Otherwise the chain went on without us, was pruned, and the number
    /// was free only for that; or it was deleted.
    fn still_follows(&self, links: &Links) -> Result<bool, Error> {
        if !self.is_chain(&links.base.chain)? {
            return Ok(false);
        }
        let stamp = |path: &str| self.repo.disk.stamp(path).at("look at", &self.repo.path, path);
        Ok(match (&links.last, links.stamp) {
            (Some(last), Some(read)) => {
                let there = stamp(&self.chain_file(&File::Slot(last.number)))?;
                // Numbers of inodes are given again.
                there.is_some_and(|there| there == read)
            }
            // Above what was damaged nothing was removed.
            _ => links.damaged.is_some() || stamp(&self.pruned_mark(&links.base.chain))?.is_none(),
        })
    }

    /// Did the link count, although it may be gone by now, and what it follows? Whoever removes links sees to it first that the audit log has
    /// every one. Asked only where that is the whole answer: whoever got or renewed a lease so long ago has lost it, and a publication
    /// tells by itself.
    fn has_counted(&self, slot: &Slot) -> Result<bool, Error> {
        let is_asked = matches!(slot.kind, Kind::Release | Kind::Restore | Kind::Rebase);
        let mark = self.pruned_mark(&slot.chain);
        let is_pruned = || Ok::<_, Error>(self.repo.disk.stamp(&mark).at("look at", &self.repo.path, &mark)?.is_some());
        if !is_asked || !is_pruned()? {
            return Ok(false);
        }
        // Whoever deletes links doesn't make them count: the chain went on after it.
        let went_on = match self.read_chain()? {
            Reading::Born(links) => {
                links.last.is_some_and(|last| last.chain == slot.chain && last.number > slot.number)
            }
            Reading::Unborn => false,
        };
        Ok(went_on && audit::has(&self.repo, &slot.anchor, &slot.event))
    }

    /// Is the chain still that one?
    fn is_chain(&self, chain: &str) -> Result<bool, Error> {
        Ok(self.read_base()?.is_some_and(|base| base.chain == chain))
    }

    /// Is the link still there, now that somebody is to be told? Whoever deletes a chain bit by bit makes room for others under its number.
    pub(crate) fn still_stands(&self, added: &Added) -> Result<bool, Error> {
        let path = self.chain_file(&File::Slot(added.slot.number));
        self.repo.disk.refresh(LOCKS);
        let there = self.repo.disk.stamp(&path).at("look at", &self.repo.path, &path)?;
        if there == Some(added.stamp) && self.is_chain(&added.slot.chain)? || self.has_counted(&added.slot)? {
            return Ok(true);
        }
        // What was put up for it isn't right any more.
        self.settle_view()?;
        Ok(false)
    }

    /// Has nobody added a link after this one?
    pub(crate) fn is_last(&self, slot: &Slot) -> Result<bool, Error> {
        let path = self.chain_file(&File::Slot(slot.next));
        Ok(self.repo.disk.stamp(&path).at("look at", &self.repo.path, &path)?.is_none())
    }

    /// Is there still a worktree of that name, now that somebody is to be told that it is theirs?
    pub(crate) fn still_exists(&self) -> Result<WorktreeConfig, Error> {
        self.repo.config(&self.name)?.ok_or_else(|| {
            let message = format!("worktree \"{}\" was renamed or removed meanwhile", self.name);
            Error::new(ErrorKind::Missing, message).hint("`lokt worktree list` shows those that there are")
        })
    }

    /// The same, now that the lease is to be theirs. Whoever renames or removes a worktree says so first, and then looks whether somebody
    /// has got the lease: one of the two sees the other.
    pub(crate) fn still_stays(&self) -> Result<(), Error> {
        let config = self.still_exists()?;
        // Who ends what somebody else has begun knows where it goes.
        if config.goes_with(&self.config) {
            return Ok(());
        }
        let what = config.renaming_to.map_or_else(|| "removed".to_owned(), |new| format!("renamed to \"{new}\""));
        let message = format!("worktree \"{}\" is being {what}", self.name);
        Err(Error::new(ErrorKind::Busy, message).hint("try again"))
    }

    /// An event of ours.
    pub(crate) fn event(&self, event_id: String, deed: Deed) -> Event {
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

    /// Who we are, in a record.
    pub(crate) fn holder_id(&self) -> String {
        let me = &self.repo.me;
        HolderId { host: me.host.clone(), user: me.owner.clone(), pid: me.pid, start: me.pid_start }.text()
    }

    pub(crate) fn random(&self) -> Result<u128, Error> {
        self.repo.machine.random().at("get random bits for", &self.repo.path, "")
    }
}

fn cant_link(error: io::Error, worktree: &Worktree, path: &str) -> Error {
    let path = worktree.repo.path.join(path);
    if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
        && worktree.repo.disk.stamp(&worktree.chain_file(&File::Base)).is_ok_and(|base| base.is_none())
    {
        let message = format!("{}: this file system can't give a file a second name: {error}", path.display());
        return Error::new(ErrorKind::Unusable, message);
    }
    Error::io("add", &path, error)
}
