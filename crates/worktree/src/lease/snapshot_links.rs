//! The links that publish a snapshot, or decide to restore one.

use lokt_core::denial::Denial;
use lokt_core::lease::record::Record;
use lokt_core::lease::slot::Kind;
use lokt_core::lease::state::{Head, Published, Restore};
use lokt_core::snapshot::id::SnapshotId;

use super::Worktree;
use super::answers::LeaseRefusal;
use super::attempts::Turn;
use super::commit::{Added, AuditEntry, NewLink, SnapshotChange};
use super::scene::{Caller, LeaseSnapshot};
use super::sight::Sight;
use crate::snapshot::places::receipt_file;
use lokt_sys::error::Error;

/// Adds a link to the lease as it was read: under this record, after this snapshot.
type Add<'a> = dyn FnMut(&Worktree, &LeaseSnapshot, Option<&Record>, Option<&SnapshotId>) -> Result<Adding, Error> + 'a;

/// Result of adding a link.
enum Adding {
    Done(Box<Added>),
    /// Everything must be read again.
    Again,
    /// It was already done.
    Needless,
}

impl Adding {
    fn of(added: Option<Added>) -> Self {
        added.map_or(Self::Again, |added| Self::Done(Box::new(added)))
    }
}

/// A complete tree in `restores/` that is to replace a worktree's.
pub(crate) struct Staged {
    pub(crate) name: String,
    /// The inode of its directory, if all of it is swapped in one step; otherwise a plan is beside
    /// it.
    pub(crate) ino: Option<u64>,
}

/// A link that was added.
pub(crate) struct Decided {
    pub(crate) chain: String,
    pub(crate) number: u64,
}

/// Adds the links that are about snapshots.
pub(crate) struct SnapshotLinks<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl SnapshotLinks<'_> {
    /// Publishes a snapshot after the one that the worktree is at. `describe` writes its
    /// description, durably, with that snapshot as its parent. It is called again if another
    /// snapshot was published in the meantime. `None`: it was already published.
    pub(crate) fn publish(
        &self,
        token: Option<u64>,
        id: &SnapshotId,
        describe: &mut dyn FnMut(Option<&SnapshotId>) -> Result<(), Error>,
    ) -> Result<Result<Option<Decided>, LeaseRefusal>, Error> {
        self.decide_under(token, &mut |worktree, scene, record, head| {
            // It was already published, by a link that others have removed since. Publishing it
            // again would undo what they did.
            let has_receipt = || matches!(worktree.repo.disk.stamp(&receipt_file(id)), Ok(Some(_)));
            if head == Some(id) || scene.links.state().pending.contains(id) || has_receipt() {
                return Ok(Adding::Needless);
            }
            describe(head)?;
            let published = Published { id: id.clone(), parent: head.cloned() };
            let deed =
                worktree.snapshot_links().entry("snapshot_create", record, token).with("snapshot_id", id.as_str());
            let deed = deed.with("parent_snapshot_id", head.map(SnapshotId::as_str));
            let step = NewLink { kind: Kind::Publish, record: record.cloned(), deed };
            worktree.writer().add_change(&scene.links, step, SnapshotChange::Publish(published)).map(Adding::of)
        })
    }

    /// Decides that a complete tree replaces the worktree's. The next process that adds a link
    /// carries it out, if we don't.
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
            let deed = worktree.snapshot_links().entry("restore", record, token).with("snapshot_id", id.as_str());
            let deed = deed.with("was_head", head.map(SnapshotId::as_str));
            let step = NewLink { kind: Kind::Restore, record: record.cloned(), deed };
            worktree.writer().add_change(&scene.links, step, SnapshotChange::Restore(decision)).map(Adding::of)
        })?;
        Ok(decided.map(|decided| decided.zip(restore).expect("it was decided just now")))
    }

    /// Adds a link under a token that belongs to the live lease at that moment; in a shared
    /// worktree under none.
    fn decide_under(
        &self,
        token: Option<u64>,
        add: &mut Add<'_>,
    ) -> Result<Result<Option<Decided>, LeaseRefusal>, Error> {
        let worktree = self.worktree;
        let caller = token.map_or(Caller::Anybody, Caller::Token);
        let gate = worktree.writer().gate(u64::MAX);
        let sight = &mut Sight::default();
        let turn = Turn { caller, sight, gate, gate_after_conflict_ms: None };
        worktree.writer().decide(turn, |scene| {
            let (scene, record) = match (scene, token) {
                (None, Some(token)) => return Ok(Some(Err(LeaseRefusal::stale(token)))),
                (None, None) => return worktree.chain().ensure_created().map(|()| None),
                (Some(scene), None) => (scene, scene.links.record()),
                (Some(scene), Some(token)) => match worktree.observer().current(scene, token) {
                    Ok(record) => (scene, Some(record)),
                    Err(denial) => return Ok(Some(Err(scene.refusal(denial)))),
                },
            };
            // Earlier decisions are carried out first: if one can't be, the head changes.
            let was_head = worktree.snapshot_state().settled(&scene.links)?.head.id().cloned();
            let added = match add(worktree, scene, record, was_head.as_ref())? {
                Adding::Done(added) => added,
                Adding::Again => return Ok(None),
                Adding::Needless => return Ok(Some(Ok(None))),
            };
            worktree.views().settle_after(&added)?;
            if !worktree.writer().still_stands(&added)? {
                return Ok(None);
            }
            worktree.writer().still_exists()?;
            Ok(Some(Ok(Some(Decided { chain: added.slot.chain, number: added.slot.number }))))
        })
    }

    fn entry(&self, operation: &'static str, record: Option<&Record>, token: Option<u64>) -> AuditEntry {
        let deed = AuditEntry::new(operation, self.worktree.repo.machine.now());
        // In a shared worktree, a leftover lease doesn't count.
        match (record, token) {
            (Some(record), Some(_)) => deed.about(record),
            _ => deed,
        }
    }
}

impl LeaseRefusal {
    /// Refusal because no lease has that token.
    pub(crate) fn stale(named: u64) -> Self {
        Self { denial: Denial::StaleToken { named, current: None }, ..Self::nobody() }
    }
}
