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

/// Adds a link to what was seen: under this lease, after this snapshot.
type Adding<'a> =
    dyn FnMut(&Worktree, &Scene, Option<&Record>, Option<&SnapshotId>) -> Result<Option<Added>, Error> + 'a;

/// A link that was added.
pub(crate) struct Decided {
    pub(crate) chain: String,
    pub(crate) number: u64,
}

impl Worktree {
    /// Publishes a snapshot after the one that the worktree is at. `describe` writes its description, durably, with that as its parent; it
    /// is asked again if another was published meanwhile.
    pub(crate) fn publish_snapshot(
        &self,
        token: Option<u64>,
        id: &SnapshotId,
        describe: &mut dyn FnMut(Option<&SnapshotId>) -> Result<(), Error>,
    ) -> Result<Result<Decided, LeaseRefusal>, Error> {
        self.decide_under(token, &mut |worktree, scene, record, head| {
            describe(head)?;
            let published = Published { id: id.clone(), parent: head.cloned() };
            let deed = worktree.deed("snapshot_create", record, token).with("snapshot_id", id.as_str());
            let deed = deed.with("parent_snapshot_id", head.map(SnapshotId::as_str));
            let step = Step { kind: Kind::Publish, record: record.cloned(), deed };
            worktree.add_turn(&scene.links, step, Turn::Publish(published))
        })
    }

    /// Decides that a complete tree takes the place of the worktree's. Whoever adds the next link sees to it, if we don't.
    pub(crate) fn decide_restore(
        &self,
        token: Option<u64>,
        id: &SnapshotId,
        tree: &str,
        ino: u64,
    ) -> Result<Result<(Decided, Restore), LeaseRefusal>, Error> {
        let mut restore = None;
        let decided = self.decide_under(token, &mut |worktree, scene, record, head| {
            let was_head = head.cloned().map_or(Head::None, Head::Snapshot);
            let decision = Restore { snapshot_id: id.clone(), tree: tree.to_owned(), dev: None, ino, was_head };
            restore = Some(decision.clone());
            let deed = worktree.deed("restore", record, token).with("snapshot_id", id.as_str());
            let deed = deed.with("was_head", head.map(SnapshotId::as_str));
            let step = Step { kind: Kind::Restore, record: record.cloned(), deed };
            worktree.add_turn(&scene.links, step, Turn::Restore(decision))
        })?;
        Ok(decided.map(|decided| (decided, restore.expect("it was decided just now"))))
    }

    /// Adds a link under a token that is that of the living lease at that moment; in a shared worktree under none.
    fn decide_under(&self, token: Option<u64>, add: &mut Adding<'_>) -> Result<Result<Decided, LeaseRefusal>, Error> {
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
            let Some(added) = add(self, &scene, record, was_head.as_ref())? else { continue };
            self.settle_after(&added)?;
            if self.still_stands(&added)? {
                self.still_exists()?;
                return Ok(Ok(Decided { chain: added.slot.chain.clone(), number: added.slot.number }));
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
