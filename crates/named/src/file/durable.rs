//! What must be on the disk before something is replaced or answered, and giving back what can't be put there.
//!
//! Owner parts and tokens outlive the machine: record and directory are synced after the mutex and before the answer. Process parts
//! can't outlive their boot and are not synced. Where a record with a living owner part is replaced by another one with it, the new one is
//! synced *before* it is swapped in: a power cut in between would otherwise leave an empty file where an acknowledged hold was. Syncing
//! inside the mutex would make everybody wait for the disk, so it is written and locked inside, synced outside, and used on the next entry
//! if nothing has changed meanwhile.

use lokt_core::audit;
use lokt_core::decide::Cause;
use lokt_core::denial::Holder;
use lokt_core::hold::{Hold, Identity, PartKind};
use lokt_core::name::LockName;
use lokt_core::record;

use super::slot::Records;
use super::slot::Seen;
use super::swap::Prepared;
use super::{Kind, record_path};
use crate::store::{Call, Commit, Slot};
use lokt_sys::disk::NewFile;
use lokt_sys::error::{At as _, Error};
use lokt_sys::mutex::Inside;

/// A prepared record older than this is written anew: its lease began when it was written.
const PREPARED_MS_MAX: u64 = 1_000;

/// Is there something to do before a record can be swapped in?
pub(super) enum Presync {
    NotNeeded,
    Ready(Prepared),
    First(Prepared),
}

impl Records<'_> {
    /// Must `next` be on the disk before it replaces what is there? Then it is prepared first.
    pub(super) fn presync(
        &self,
        _: &Inside,
        prepared: Option<Prepared>,
        commit: &Commit,
        seen: &Seen,
        sync_inside: bool,
    ) -> Result<Presync, Error> {
        let (next, cause, now) = (commit.next.as_deref(), commit.cause, &seen.view.at);
        let outlives = replaces_what_outlives(&seen.view.slot, next);
        let (Some(next), Some(content), true) = (next, &seen.content, outlives) else {
            return Ok(Presync::NotNeeded);
        };
        if let Some(prepared) = prepared
            && prepared.judged == content.bytes
            && prepared.cause == cause
            && (&prepared.next.lock_id, prepared.next.token, prepared.next.pulse)
                == (&next.lock_id, next.token, next.pulse)
            && now.boottime_ms.saturating_sub(prepared.written.boottime_ms) <= PREPARED_MS_MAX
        {
            return Ok(Presync::Ready(prepared));
        }
        if sync_inside {
            return Ok(Presync::NotNeeded);
        }
        let temp = self.store.temp_path()?;
        let file = self.create_temp(&temp, next)?;
        file.keep_locked().at("lock", &self.store.root, &temp)?;
        let judged = content.bytes.clone();
        Ok(Presync::First(Prepared { temp, file, judged, next: next.clone(), cause, written: *now }))
    }

    /// Syncs what must outlive the machine.
    pub(super) fn make_durable(
        &self,
        kind: Kind,
        commit: &Commit,
        before: &Slot,
        file: Option<&dyn NewFile>,
    ) -> Result<(), Error> {
        self.sync_record(kind, commit, file)?;
        if is_synced(commit, before) { self.sync_records(kind) } else { Ok(()) }
    }

    /// Syncs a new record, if it must outlive the machine.
    pub(super) fn sync_record(&self, kind: Kind, commit: &Commit, file: Option<&dyn NewFile>) -> Result<(), Error> {
        match file {
            Some(file) if outlives(commit) => file.sync().at("sync", &self.store.root, kind.dir()),
            _ => Ok(()),
        }
    }

    /// Syncs which records there are.
    pub(super) fn sync_records(&self, kind: Kind) -> Result<(), Error> {
        self.store.disk.sync_dir(kind.dir()).at("sync", &self.store.root, kind.dir())
    }

    /// A new hold that can't be made durable is given back: nobody was told that it was granted.
    pub(super) fn undo(&self, name: &LockName, me: &Identity, commit: &Commit, error: Error) -> Error {
        let Some(next) = &commit.next else { return error };
        match commit.cause {
            Cause::Acquire => {}
            // Taken back, it would let others in whom it has already kept out.
            Cause::Freeze => {
                return error.hint(format!(
                    "the freeze is in place, but a power cut may undo it; `lokt unfreeze {name}` takes it back"
                ));
            }
            _ => return error,
        }
        let path = record_path(name);
        let given_back = self.store.enter(&Call::UNLIMITED).and_then(|inside| {
            let now = self.store.machine.now();
            let found = self.find(&path, name.as_str(), &now);
            // Exactly what we wrote: refreshed or joined since, it was promised to somebody else of this owner.
            let ours = found.content.as_ref().filter(|content| content.bytes == record::encode(next));
            match (ours, found.hold()) {
                (Some(content), _) => {
                    if self.take_away(&inside, &path, Some(content.stamp))? {
                        // The log says that it was acquired; a failure to say more is no reason to say something else.
                        let _ = self.store.account(&inside, &[audit::given_back(next, name.as_str(), me, now.wall)]);
                    }
                    Ok(true)
                }
                (None, Some(hold)) => Ok(hold.lock_id != next.lock_id),
                (None, None) => match found.slot {
                    Slot::Unreadable(error) => Err(error),
                    _ => Ok(true),
                },
            }
        });
        match given_back {
            Ok(true) => error.hint("the lock was given back"),
            Ok(false) => error.hint("another process of this owner has refreshed the lock meanwhile: it is kept"),
            Err(_) => error.hint(format!(
                "the lock may have been taken: `lokt status {name}` tells, `lokt unlock {name}` gives it back"
            )),
        }
    }
}

/// Does a commit leave a hold that outlives the machine?
fn outlives(commit: &Commit) -> bool {
    commit.next.as_ref().is_some_and(|next| next.has(PartKind::Owner))
}

/// Is what a commit does to the names of records to outlive the machine?
pub(super) fn is_synced(commit: &Commit, before: &Slot) -> bool {
    // What isn't ours, or can't be understood, may have been synced by whoever wrote it.
    let was_synced = match before {
        Slot::Free => false,
        Slot::Held(before) => before.hold.is_foreign() || before.hold.has(PartKind::Owner),
        _ => true,
    };
    was_synced || outlives(commit)
}

/// Is a live hold that outlives the machine (an owner part, or another program's record, which was synced) replaced by another that
/// does? A power cut must leave one of the two.
pub(super) fn replaces_what_outlives(before: &Slot, next: Option<&Hold>) -> bool {
    let lasts = |holder: &Holder| holder.elapsed.owner.runs() || holder.hold.is_foreign() && holder.lives();
    next.is_some_and(|next| next.has(PartKind::Owner)) && before.holder().is_some_and(lasts)
}
