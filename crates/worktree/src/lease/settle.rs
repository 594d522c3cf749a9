//! Decisions of earlier links are carried out before the next link is added. So a killed process
//! leaves nothing half done for longer than that.

use jiff::Timestamp;
use lokt_core::lease::state::{Head, State};
use lokt_core::snapshot::descriptor::Descriptor;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::receipt::Receipt;

use super::Worktree;
use super::chain::{Links, Reading};
use super::commit::AuditEntry;
use crate::repo::{FILE_MODE, publish_new};
use crate::snapshot::catalog::{BYTES_MAX, Vouched};
use crate::snapshot::places::{SNAPSHOTS, descriptor_file, receipt_file};
use crate::snapshot::swap::Swapped;
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error, ErrorKind};

/// The state of a worktree's snapshots: its head, receipts and a decided restore.
pub(crate) struct SnapshotState<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl SnapshotState<'_> {
    /// Carries out what was decided, and returns the snapshot state for the next link.
    pub(crate) fn settled(&self, links: &Links) -> Result<State, Error> {
        let mut state = links.state();
        state.head = self.head_after(links).map_or(Head::None, Head::Snapshot);
        let number = links.last.as_ref().map_or(links.base.first, |last| last.number);
        if let Some(restore) = state.restore.take() {
            let deed = |what| {
                let deed = AuditEntry::new(what, self.worktree.repo.machine.now());
                deed.with("snapshot_id", restore.snapshot_id.as_str())
            };
            match self.worktree.tree_swap().finish(&restore, number)? {
                Swapped::Undone(why) => {
                    self.worktree.log().note(deed("restore_undone").with("why", why));
                    state.head = restore.was_head.clone();
                }
                Swapped::Done { left, .. } if !left.is_empty() => {
                    self.worktree.log().note(deed("restore_incomplete").with("left", left.join(", ")));
                }
                Swapped::Done { .. } => {}
            }
            // Best effort: the chain has it too.
            let _ = self.note_head(&state.head, number, None);
            self.worktree.tree_swap().forget_plan(&restore, number);
        }
        if !state.pending.is_empty()
            && let Ok(left) = self.write_receipts(links, &state, number)
        {
            state.pending = left;
        }
        Ok(state)
    }

    /// Carries out what was decided and isn't done, without adding a link.
    pub(crate) fn settle_now(&self) -> Result<(), Error> {
        match self.worktree.chain().read()? {
            Reading::Born(links) => self.settled(&links).map(drop),
            Reading::Unborn => Ok(()),
        }
    }

    /// Returns what a chain says about snapshots.
    pub(crate) fn vouched_by(&self, links: &Links) -> Vouched {
        let State { pending, restore, .. } = links.state();
        let was_head = restore.and_then(|restore| restore.was_head.id().cloned());
        Vouched { head: self.head_after(links), pending, was_head }
    }

    /// Returns the snapshot that the worktree is at, by its chain. If the configuration was written
    /// after the chain's last link, it decides: then it is another worktree, and the chain belongs
    /// to an earlier one of its name. A later snapshot of `jvs` takes precedence over both.
    fn head_after(&self, links: &Links) -> Option<SnapshotId> {
        let last = links.last.as_ref().map_or(0, |last| last.number);
        let state = links.state();
        let own = match state.head {
            Head::Unknown => self.noted_head(),
            _ if self.worktree.config.head_slot() > last => self.noted_head(),
            Head::None => None,
            Head::Snapshot(id) => Some(id),
        };
        // A restore goes back on purpose: only a snapshot that was taken after it takes precedence.
        let restored_at = links.last.as_ref().filter(|_| state.restore.is_some()).map(|last| last.event.timestamp);
        self.or_later_of_jvs(own, restored_at)
    }

    /// Returns the head, or the snapshot that `jvs` took after it: `jvs` knows of no chain, and
    /// notes its head in the configuration. `decided_at` is when the head was decided, if that
    /// wasn't when the head was taken.
    pub(crate) fn or_later_of_jvs(&self, own: Option<SnapshotId>, decided_at: Option<Timestamp>) -> Option<SnapshotId> {
        if !self.worktree.repo.jvs_format().is_read() {
            return own;
        }
        let config = self.worktree.repo.config(&self.worktree.name).ok().flatten();
        let noted = config.and_then(|config| config.head().and_then(SnapshotId::parse));
        let Some(noted) = noted.filter(|noted| own.as_ref() != Some(noted)) else { return own };
        let Some(taken_at) = self.worktree.repo.snapshots().taken_by_jvs(&noted) else { return own };
        let before = decided_at.or_else(|| self.worktree.repo.snapshots().described_at(own.as_ref()?));
        if before.is_none_or(|before| taken_at > before) { Some(noted) } else { own }
    }

    /// Writes the receipts that may be missing, and the head of the worktree, durably. Returns
    /// those that couldn't be written.
    fn write_receipts(&self, links: &Links, state: &State, number: u64) -> Result<Vec<SnapshotId>, Error> {
        let cant = |id: &&SnapshotId| self.write_receipt(id, &links.base.chain, number).is_err();
        let left = state.pending.iter().filter(cant).cloned().collect();
        self.sync_receipts()?;
        self.note_head(&state.head, number, state.pending.last())?;
        Ok(left)
    }

    /// Writes the receipt of a snapshot that a link of this chain published, unless it exists. It
    /// becomes durable with its directory.
    pub(crate) fn write_receipt(&self, id: &SnapshotId, chain: &str, number: u64) -> Result<(), Error> {
        let (path, described) = (receipt_file(id), descriptor_file(id));
        if self.worktree.repo.disk.stamp(&path).at("look at", &self.worktree.repo.path, &path)?.is_some() {
            return Ok(());
        }
        let entry =
            self.worktree.repo.disk.read(&described, BYTES_MAX).at("read", &self.worktree.repo.path, &described)?;
        let descriptor = match entry {
            Entry::File(content) => Descriptor::parse(&content.bytes).ok(),
            _ => None,
        };
        let Some(descriptor) = descriptor else {
            let message =
                format!("{} was published, and can't be read", self.worktree.repo.path.join(&described).display());
            return Err(Error::new(ErrorKind::Damaged, message));
        };
        let receipt = Receipt {
            snapshot_id: descriptor.id,
            worktree_id: descriptor.worktree,
            created_at: descriptor.created_at,
            completed_at: self.worktree.repo.machine.now().wall,
            engine: descriptor.engine,
            descriptor_checksum: descriptor.checksum,
            payload_root_hash: descriptor.root_hash,
            number,
            chain: chain.to_owned(),
            parent: descriptor.parent,
        };
        publish_new(&*self.worktree.repo.disk, &path, &receipt.to_bytes(), FILE_MODE).at(
            "write",
            &self.worktree.repo.path,
            &path,
        )?;
        Ok(())
    }

    pub(crate) fn sync_receipts(&self) -> Result<(), Error> {
        self.worktree.repo.disk.sync_dir(SNAPSHOTS).at("sync", &self.worktree.repo.path, SNAPSHOTS)
    }

    /// Returns the head as known outside of the chain: from the configuration, unless a later link
    /// published something, and its process could not note that any more.
    pub(crate) fn noted_head(&self) -> Option<SnapshotId> {
        let config = self.worktree.repo.config(&self.worktree.name).ok().flatten()?;
        let noted = config.head().and_then(SnapshotId::parse);
        let later = self
            .worktree
            .repo
            .snapshots()
            .receipts_of(&self.worktree.name)
            .ok()?
            .into_iter()
            .filter(|receipt| receipt.number > config.head_slot());
        later.max_by_key(|receipt| receipt.number).map(|receipt| receipt.snapshot_id).or(noted)
    }

    /// Notes the head of the worktree durably: that survives the chain. `number` is the link that
    /// says so. `latest` is the newest snapshot, if it was published now; `jvs` takes no snapshot
    /// of a worktree that is at another one.
    pub(crate) fn note_head(&self, head: &Head, number: u64, latest: Option<&SnapshotId>) -> Result<(), Error> {
        let inside = self.worktree.repo.inside()?;
        let Some(config) = self.worktree.repo.config(&self.worktree.name)? else { return Ok(()) };
        // A late process doesn't bring an older head back.
        if config.head_slot() >= number {
            return Ok(());
        }
        let mut config = config.with_head(head.id().map(SnapshotId::as_str), number);
        if let Some(latest) = latest.filter(|_| self.worktree.repo.jvs_format().is_read()) {
            config = config.with_latest(latest.as_str());
        }
        self.worktree.repo.changes().replace_config(&inside, &self.worktree.name, &config)
    }
}

impl Worktree {
    /// Returns the snapshot that the worktree is at.
    pub fn head(&self) -> Result<Option<SnapshotId>, Error> {
        Ok(match self.chain().read()? {
            Reading::Born(links) => self.snapshot_state().vouched_by(&links).head,
            Reading::Unborn => self.snapshot_state().or_later_of_jvs(self.snapshot_state().noted_head(), None),
        })
    }
}
