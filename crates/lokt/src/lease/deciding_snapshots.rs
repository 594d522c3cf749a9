//! The links that make a snapshot visible, or decide that one comes back.

use lokt_core::denial::Denial;
use lokt_core::lease::record::Record;
use lokt_core::lease::slot::Kind;
use lokt_core::lease::state::{Head, Published, Restore};
use lokt_core::snapshot::id::SnapshotId;

use super::Worktree;
use super::answers::LeaseRefusal;
use super::commit::{Added, Deed, Step, Turn};
use super::scene::{Asker, Scene};
use super::sight::Sight;
use super::take::TRIES;
use crate::error::Error;
use crate::snapshot::places::receipt_file;

/// Adds a link to what was seen: under this lease, after this snapshot.
type Add<'a> = dyn FnMut(&Worktree, &Scene, Option<&Record>, Option<&SnapshotId>) -> Result<Adding, Error> + 'a;

/// What came of adding it.
enum Adding {
    Done(Box<Added>),
    /// Everything is to be looked at again.
    Again,
    /// It was done before.
    Needless,
}

impl Adding {
    fn of(added: Option<Added>) -> Self {
        added.map_or(Self::Again, |added| Self::Done(Box::new(added)))
    }
}

/// A complete tree in `restores/` that is to take the place of a worktree's.
pub(crate) struct Staged {
    pub(crate) name: String,
    /// The inode of its directory, if all of it takes the place in one step; otherwise a plan is beside it.
    pub(crate) ino: Option<u64>,
}

/// A link that was added.
pub(crate) struct Decided {
    pub(crate) chain: String,
    pub(crate) number: u64,
}

impl Worktree {
    /// Publishes a snapshot after the one that the worktree is at. `describe` writes its description, durably, with that as its parent; it
    /// is asked again if another was published meanwhile. `None`: it was published before.
    pub(crate) fn publish_snapshot(
        &self,
        token: Option<u64>,
        id: &SnapshotId,
        describe: &mut dyn FnMut(Option<&SnapshotId>) -> Result<(), Error>,
    ) -> Result<Result<Option<Decided>, LeaseRefusal>, Error> {
        self.decide_under(token, &mut |worktree, scene, record, head| {
            // It was published before, by a link that others have removed since: doing it again would undo what they did.
            let has_receipt = || matches!(worktree.repo.disk.stamp(&receipt_file(id)), Ok(Some(_)));
            if head == Some(id) || scene.links.state().pending.contains(id) || has_receipt() {
                return Ok(Adding::Needless);
            }
            describe(head)?;
            let published = Published { id: id.clone(), parent: head.cloned() };
            let deed = worktree.deed("snapshot_create", record, token).with("snapshot_id", id.as_str());
            let deed = deed.with("parent_snapshot_id", head.map(SnapshotId::as_str));
            let step = Step { kind: Kind::Publish, record: record.cloned(), deed };
            worktree.add_turn(&scene.links, step, Turn::Publish(published)).map(Adding::of)
        })
    }

    /// Decides that a complete tree takes the place of the worktree's. Whoever adds the next link sees to it, if we don't.
    pub(crate) fn decide_restore(
        &self,
        token: Option<u64>,
        id: &SnapshotId,
        tree: &Staged,
    ) -> Result<Result<(Decided, Restore), LeaseRefusal>, Error> {
        let mut restore = None;
        let decided = self.decide_under(token, &mut |worktree, scene, record, head| {
            let was_head = head.cloned().map_or(Head::None, Head::Snapshot);
            let decision = Restore {
                snapshot_id: id.clone(),
                tree: tree.name.clone(),
                dev: None,
                ino: tree.ino.unwrap_or(0),
                was_head,
                in_parts: tree.ino.is_none(),
            };
            restore = Some(decision.clone());
            let deed = worktree.deed("restore", record, token).with("snapshot_id", id.as_str());
            let deed = deed.with("was_head", head.map(SnapshotId::as_str));
            let step = Step { kind: Kind::Restore, record: record.cloned(), deed };
            worktree.add_turn(&scene.links, step, Turn::Restore(decision)).map(Adding::of)
        })?;
        Ok(decided.map(|decided| decided.zip(restore).expect("it was decided just now")))
    }

    /// Adds a link under a token that is that of the living lease at that moment; in a shared worktree under none.
    fn decide_under(
        &self,
        token: Option<u64>,
        add: &mut Add<'_>,
    ) -> Result<Result<Option<Decided>, LeaseRefusal>, Error> {
        let _gate = self.gate(u64::MAX);
        for _ in 0..TRIES {
            let asker = token.map_or(Asker::Anybody, Asker::Token);
            let Some(scene) = self.look(asker, &mut Sight::default())? else {
                match token {
                    Some(token) => return Ok(Err(LeaseRefusal::stale(token))),
                    None => self.be_born()?,
                }
                continue;
            };
            let record = match token {
                None => scene.links.record(),
                Some(token) => match self.current(&scene, token)? {
                    Ok(record) => Some(record),
                    Err(denial) => return Ok(Err(scene.refusal(denial))),
                },
            };
            // What was decided before is done first: it may turn out that it can't be, and then the head is another one.
            let was_head = self.settled(&scene.links)?.head.id().cloned();
            let added = match add(self, &scene, record, was_head.as_ref())? {
                Adding::Done(added) => added,
                Adding::Again => continue,
                Adding::Needless => return Ok(Ok(None)),
            };
            self.settle_after(&added)?;
            if self.still_stands(&added)? {
                self.still_exists()?;
                return Ok(Ok(Some(Decided { chain: added.slot.chain, number: added.slot.number })));
            }
        }
        Err(self.too_busy())
    }

    fn deed(&self, operation: &'static str, record: Option<&Record>, token: Option<u64>) -> Deed {
        let deed = Deed::new(operation, self.repo.machine.now());
        // In a shared worktree nobody acts under the lease that somebody may have left there.
        match (record, token) {
            (Some(record), Some(_)) => deed.about(record),
            _ => deed,
        }
    }
}

impl LeaseRefusal {
    /// Nobody holds a lease with that token.
    pub(crate) fn stale(named: u64) -> Self {
        Self { denial: Denial::StaleToken { named, current: None }, ..Self::nobody() }
    }
}
