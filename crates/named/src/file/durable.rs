//! Syncs what must be on the disk before a record is replaced or a request answered, and releases a
//! hold that can't be synced.
//!
//! Owner parts and tokens survive a power cut: record and directory are synced after leaving the
//! mutex and before the answer. Process parts can't outlive their boot and are not synced. If a
//! record with a living owner part is replaced by another one with an owner part, the new one is
//! synced *before* it is swapped in. Otherwise a power cut in between would leave an empty file
//! where an acknowledged hold was. Syncing inside the mutex would make every process wait for the
//! disk. So the record is written and locked inside, synced outside, and used on the next entry if
//! nothing has changed in between.

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

/// Maximum age of a prepared record in milliseconds. An older one is written again: its lease began
/// when it was written.
const PREPARED_MS_MAX: u64 = 1_000;

/// Work that is needed before a record can be swapped in.
pub(super) enum Presync {
    NotNeeded,
    Ready(Prepared),
    First(Prepared),
}

impl Records<'_> {
    /// Prepares `next`, if it must be on the disk before it replaces what is there.
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

    /// Syncs what must survive a power cut.
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

    /// Syncs a new record, if it must survive a power cut.
    pub(super) fn sync_record(&self, kind: Kind, commit: &Commit, file: Option<&dyn NewFile>) -> Result<(), Error> {
        match file {
            Some(file) if outlives(commit) => file.sync().at("sync", &self.store.root, kind.dir()),
            _ => Ok(()),
        }
    }

    /// Syncs the directory of the records.
    pub(super) fn sync_records(&self, kind: Kind) -> Result<(), Error> {
        self.store.disk.sync_dir(kind.dir()).at("sync", &self.store.root, kind.dir())
    }

    /// Releases a new hold that can't be made durable: no caller was told that it was granted.
    pub(super) fn undo(&self, name: &LockName, me: &Identity, commit: &Commit, error: Error) -> Error {
        let Some(next) = &commit.next else { return error };
        match commit.cause {
            Cause::Acquire => {}
            // Undoing a freeze would let in callers that it has already kept out.
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
            // Exactly what we wrote: refreshed or joined since, it was promised to another process
            // of this owner.
            let ours = found.content.as_ref().filter(|content| content.bytes == record::encode(next));
            match (ours, found.hold()) {
                (Some(content), _) => {
                    if self.take_away(&inside, &path, Some(content.stamp))? {
                        // Best effort: the log already records the acquisition.
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

/// Reports whether a commit leaves a hold that must survive a power cut.
fn outlives(commit: &Commit) -> bool {
    commit.next.as_ref().is_some_and(|next| next.has(PartKind::Owner))
}

/// Reports whether a commit changes the names of records in a way that must survive a power cut.
pub(super) fn is_synced(commit: &Commit, before: &Slot) -> bool {
    // A foreign or unreadable record may have been synced by its writer.
    let was_synced = match before {
        Slot::Free => false,
        Slot::Held(before) => before.hold.is_foreign() || before.hold.has(PartKind::Owner),
        _ => true,
    };
    was_synced || outlives(commit)
}

/// Reports whether a live hold that survives a power cut (an owner part, or another program's
/// record, which was synced) is replaced by another that does. A power cut must leave one of the
/// two.
pub(super) fn replaces_what_outlives(before: &Slot, next: Option<&Hold>) -> bool {
    let lasts = |holder: &Holder| holder.elapsed.owner.runs() || holder.hold.is_foreign() && holder.lives();
    next.is_some_and(|next| next.has(PartKind::Owner)) && before.holder().is_some_and(lasts)
}
