//! What must be on the disk before something is replaced or answered, and giving back what can't be put there.
//!
//! Owner parts and tokens outlive the machine: record and directory are synced after the mutex and before the answer. Process parts
//! can't outlive their boot and are not synced. Where a record with a living owner part is replaced by another one with it, the new one is
//! synced *before* it is swapped in: a power cut in between would otherwise leave an empty file where an acknowledged hold was. Syncing
//! inside the mutex would make everybody wait for the disk, so it is written and locked inside, synced outside, and used on the next entry
//! if nothing has changed meanwhile.

use lokt_core::audit;
use lokt_core::decide::{Cause, Decision};
use lokt_core::hold::{Hold, PartKind};
use lokt_core::name::LockName;
use lokt_core::record;
use lokt_core::time::Moment;

use super::slot::{Stored, View};
use super::swap::Prepared;
use super::{Kind, Store, record_path};
use crate::error::{At as _, Error};
use crate::sys::disk::NewFile;

/// A prepared record older than this is written anew: its lease began when it was written.
const PREPARED_MS_MAX: u64 = 1_000;

/// Is there something to do before a record can be swapped in?
pub(super) enum Presync {
    NotNeeded,
    Ready(Prepared),
    First(Prepared),
}

impl Store<'_> {
    /// Must `next` be on the disk before it replaces what is there? Then it is prepared first.
    pub(super) fn presync(
        &self,
        prepared: Option<Prepared>,
        next: Option<&Hold>,
        cause: Cause,
        view: &View,
        now: &Moment,
        sync_inside: bool,
    ) -> Result<Presync, Error> {
        let outlives = replaces_what_outlives(view, next);
        let (Some(next), Some(content), true) = (next, &view.found.content, outlives) else {
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
        let temp = self.temp_path()?;
        let file = self.create_temp(&temp, next)?;
        file.keep_locked().at("lock", self.root, &temp)?;
        let judged = content.bytes.clone();
        Ok(Presync::First(Prepared { temp, file, judged, next: next.clone(), cause, written: *now }))
    }

    /// Syncs what must outlive the machine.
    pub(super) fn make_durable(
        &self,
        kind: Kind,
        decision: &Decision,
        view: &View,
        file: Option<&dyn NewFile>,
    ) -> Result<(), Error> {
        self.sync_record(kind, decision, file)?;
        if is_synced(decision, view) { self.sync_records(kind) } else { Ok(()) }
    }

    /// Syncs a new record, if it must outlive the machine.
    pub(super) fn sync_record(&self, kind: Kind, decision: &Decision, file: Option<&dyn NewFile>) -> Result<(), Error> {
        match file {
            Some(file) if outlives(decision) => file.sync().at("sync", self.root, kind.dir()),
            _ => Ok(()),
        }
    }

    /// Syncs which records there are.
    pub(super) fn sync_records(&self, kind: Kind) -> Result<(), Error> {
        self.disk.sync_dir(kind.dir()).at("sync", self.root, kind.dir())
    }

    /// A new hold that can't be made durable is given back: nobody was told that it was granted.
    pub(super) fn undo(&self, name: &LockName, decision: &Decision, error: Error) -> Error {
        let (next, cause) = match decision {
            Decision::Commit { next: Some(next), cause, .. } => (next, *cause),
            _ => return error,
        };
        match cause {
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
        let given_back = self.enter().and_then(|_inside| {
            let now = self.machine.now();
            let found = self.find(&path, name.as_str(), &now);
            // Exactly what we wrote: refreshed or joined since, it was promised to somebody else of this owner.
            let ours = found.content.as_ref().filter(|content| content.bytes == record::encode(next));
            match (ours, found.hold()) {
                (Some(content), _) => {
                    if self.take_away(&path, Some(content.stamp))? {
                        // The log says that it was acquired; a failure to say more is no reason to say something else.
                        let _ = self.account(&[audit::given_back(next, name.as_str(), self.me, now.wall)]);
                    }
                    Ok(true)
                }
                (None, Some(hold)) => Ok(hold.lock_id != next.lock_id),
                (None, None) => match found.stored {
                    Stored::Unreadable(error) => Err(error),
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
fn outlives(decision: &Decision) -> bool {
    matches!(decision, Decision::Commit { next: Some(next), .. } if next.has(PartKind::Owner))
}

/// Is what a commit does to the names of records to outlive the machine?
pub(super) fn is_synced(decision: &Decision, view: &View) -> bool {
    // What isn't ours, or can't be understood, may have been synced by whoever wrote it.
    let was_synced = match &view.found.stored {
        Stored::Free => false,
        Stored::Held(before) => before.is_foreign() || before.has(PartKind::Owner),
        _ => true,
    };
    matches!(decision, Decision::Commit { .. }) && (was_synced || outlives(decision))
}

/// Is a live hold that outlives the machine (an owner part, or another program's record, which was synced) replaced by another that
/// does? A power cut must leave one of the two.
pub(super) fn replaces_what_outlives(view: &View, next: Option<&Hold>) -> bool {
    let foreign =
        || view.found.hold().is_some_and(Hold::is_foreign) && view.found.holder().is_some_and(|holder| holder.lives());
    next.is_some_and(|next| next.has(PartKind::Owner)) && (view.found.elapsed.owner.runs() || foreign())
}
