//! Puts a record in the place of the one that was judged, and of nothing else.
//!
//! Among lokt's own processes, the mutex ensures that. Programs that ignore it may still act
//! between our check and our change. So a new hold is published without replacing anything. A
//! record to remove is first renamed aside and compared; a record to replace is exchanged and
//! compared. If it turns out to be a different one, it goes back. Everything here happens inside
//! the mutex.

use std::io;

use lokt_core::decide::{Broken, Cause};
use lokt_core::hold::Hold;
use lokt_core::record::{self, RECORD_BYTES_MAX};
use lokt_core::time::Moment;

use super::durable::replaces_what_outlives;
use super::slot::Records;
use super::slot::Seen;
use super::{ASIDE_DIR, TEMP_DIR};
use crate::store::Slot;
use lokt_sys::disk::{NewFile, Stamp};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::exchange::{PutBack, PutBackError, Swapped as Exchanged, Taken, put_back, swap_if, take_if};
use lokt_sys::mutex::Inside;

/// Maximum number of left-over temp files that one command removes.
const TIDY_MAX: usize = 256;

/// A record that waits in a temp file for its swap.
pub(super) struct Prepared {
    pub(super) temp: String,
    pub(super) file: Box<dyn NewFile>,
    pub(super) judged: Vec<u8>,
    pub(super) next: Hold,
    pub(super) cause: Cause,
    pub(super) written: Moment,
}

/// A commit that was decided on, with everything it needs.
pub(super) struct Swap<'a> {
    pub(super) path: &'a str,
    pub(super) seen: &'a Seen,
    pub(super) next: Option<&'a Hold>,
    pub(super) cause: Cause,
    pub(super) broken: Option<Broken>,
    pub(super) prepared: Option<Prepared>,
    pub(super) sync_inside: bool,
}

/// Result of a commit on the disk.
pub(super) enum Swapped {
    Done {
        file: Option<Box<dyn NewFile>>,
        aside: Option<String>,
        /// A file that is no longer in use: delete it when no other process has to wait for that.
        discard: Option<String>,
    },
    Again,
    /// The old record is broken, but ours didn't get in its place: another process was faster, or
    /// it failed.
    BrokeOnly {
        aside: Option<String>,
        failure: Option<Error>,
    },
}

impl Records<'_> {
    /// Puts `next` where the judged record is.
    pub(super) fn swap(&self, inside: &Inside, commit: Swap<'_>) -> Result<Swapped, Error> {
        let slot = &commit.seen.view.slot;
        let judged = match (&commit.seen.content, slot) {
            (Some(content), _) => Some(content.stamp),
            // Publishing detects it if this is no longer true.
            (None, Slot::Free) => None,
            (None, _) => self.store.disk.stamp(commit.path).at("look at", &self.store.root, commit.path)?,
        };
        let Some(next) = commit.next else {
            // A record that we don't understand is kept for people to inspect, a newer program's
            // too.
            let unread = !matches!(slot, Slot::Held(_));
            let keep = commit.cause == Cause::CorruptBreak
                || commit.cause == Cause::ForceUnfreeze && unread
                || matches!(slot, Slot::Newer(_));
            return self.remove_judged(inside, commit.path, judged, keep);
        };
        let (temp, file) = if let Some(prepared) = commit.prepared {
            (prepared.temp, prepared.file)
        } else {
            let temp = self.store.temp_path()?;
            let file = self.create_temp(&temp, next)?;
            if commit.sync_inside && replaces_what_outlives(slot, Some(next)) {
                file.sync().at("sync", &self.store.root, &temp)?;
            }
            (temp, file)
        };
        let is_over = slot.holder().is_some_and(|holder| !holder.lives());
        let swapped = self.publish(inside, &temp, commit.path, judged, commit.broken, is_over);
        if !matches!(swapped, Ok(Swapped::Done { .. })) {
            let _ = self.store.disk.remove(&temp);
        }
        Ok(match swapped? {
            Swapped::Done { aside, discard, .. } => Swapped::Done { file: Some(file), aside, discard },
            other => other,
        })
    }

    fn publish(
        &self,
        inside: &Inside,
        temp: &str,
        path: &str,
        judged: Option<Stamp>,
        broken: Option<Broken>,
        is_over: bool,
    ) -> Result<Swapped, Error> {
        let (mut aside, mut discard) = (None, None);
        match (broken, judged) {
            // The caller's own live record is never missing, not even for a moment. Once it has
            // ended, any process may take the name.
            (None, Some(judged)) if !is_over => return self.replace_judged(inside, temp, path, judged),
            (None, None) => {}
            (broken, judged) => match self.remove_judged(inside, path, judged, broken == Some(Broken::Corrupt))? {
                Swapped::Done { aside: moved, discard: old, .. } => (aside, discard) = (moved, old),
                other => return Ok(other),
            },
        }
        let failure = match self.store.disk.rename_new(temp, path) {
            Ok(()) => return Ok(Swapped::Done { file: None, aside, discard }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => Some(Error::io("publish", &self.store.root.join(path), error)),
        };
        if let Some(old) = discard {
            let _ = self.store.disk.remove(&old);
        }
        match (judged, failure) {
            (Some(_), failure) => Ok(Swapped::BrokeOnly { aside, failure }),
            (None, None) => Ok(Swapped::Again),
            (None, Some(failure)) => Err(failure),
        }
    }

    /// Puts `temp` in the place of the judged record, and of nothing else: exchanges them, and
    /// exchanges them back if it was another record.
    fn replace_judged(&self, _: &Inside, temp: &str, path: &str, judged: Stamp) -> Result<Swapped, Error> {
        let Some(ours) = self.store.disk.stamp(temp).at("look at", &self.store.root, temp)? else {
            return Ok(Swapped::Again);
        };
        // If it is missing, it was deleted with the temp directory at this moment; ours is in its
        // place.
        let mut theirs = None;
        let is_judged = |temp: &str| {
            theirs = self.store.disk.stamp(temp).at("look at", &self.store.root, temp)?;
            Ok::<_, Error>(theirs.is_none_or(|stamp| stamp == judged))
        };
        let swapped = swap_if(&*self.store.disk, temp, path, is_judged).at("replace", &self.store.root, path)?;
        match swapped {
            Exchanged::Missing => Ok(Swapped::Again),
            Exchanged::Overwritten => Ok(Swapped::Done { file: None, aside: None, discard: None }),
            Exchanged::Swapped => Ok(Swapped::Done { file: None, aside: None, discard: Some(temp.to_owned()) }),
            Exchanged::Unexpected => self.put_back(temp, path, ours, theirs).map(|()| Swapped::Again),
            Exchanged::Unjudged(error) => self.put_back(temp, path, ours, theirs).and(Err(error)),
        }
    }

    /// Undoes a swap. Afterwards nothing at `temp` needs to be kept.
    fn put_back(&self, temp: &str, path: &str, ours: Stamp, theirs: Option<Stamp>) -> Result<(), Error> {
        let PutBack { is_homeless, failure } = put_back(&*self.store.disk, temp, path, Some(ours), theirs);
        if is_homeless {
            self.keep(temp, path)?;
        }
        match failure {
            None => Ok(()),
            Some(PutBackError::Exchange(error)) => Err(Error::io("put back", &self.store.root.join(path), error)),
            Some(PutBackError::Examine(error)) => Err(Error::io("look at", &self.store.root.join(temp), error)),
        }
    }

    /// Moves a record that belongs to a program, but has no place, to where people can inspect it.
    fn keep(&self, temp: &str, path: &str) -> Result<(), Error> {
        self.store.disk.rename(temp, &self.aside_path(path)?).at("keep", &self.store.root, temp)
    }

    /// Removes a judged record, and nothing else. Returns false if it is another one by now.
    pub(crate) fn take_away(&self, inside: &Inside, path: &str, judged: Option<Stamp>) -> Result<bool, Error> {
        let taken = self.remove_judged(inside, path, judged, false)?;
        if let Swapped::Done { discard: Some(temp), .. } = &taken {
            let _ = self.store.disk.remove(temp);
        }
        Ok(matches!(taken, Swapped::Done { .. }))
    }

    /// Removes the judged record, and nothing else. `keep` moves it to a place where people can
    /// inspect it.
    fn remove_judged(&self, _: &Inside, path: &str, judged: Option<Stamp>, keep: bool) -> Result<Swapped, Error> {
        // A record to keep goes straight to its final place: a failure half-way must not leave it
        // among the temp files, which the next command deletes.
        let temp = if keep { self.aside_path(path)? } else { self.store.temp_path()? };
        // If it is missing, it was deleted with its directory at this moment.
        let is_judged = |temp: &str| {
            let moved = self.store.disk.stamp(temp).at("look at", &self.store.root, temp)?;
            Ok::<_, Error>(moved.is_none() || moved == judged)
        };
        match take_if(&*self.store.disk, path, &temp, is_judged) {
            Ok(Taken::Taken) => {}
            // A program that ignores the mutex was faster.
            Ok(Taken::Missing | Taken::Restored) => return Ok(Swapped::Again),
            Ok(Taken::Displaced(_)) => {
                // There is yet another record: this one is kept for people to inspect.
                if !keep {
                    self.keep(&temp, path)?;
                }
                return Ok(Swapped::Again);
            }
            Ok(Taken::Unjudged(error)) => return Err(error),
            // There is no space for the temp directory. Ending a hold must work on a full disk too.
            Err(error) if !keep && is_full(&error) => return self.unlink_judged(path, judged),
            Err(error) => return Err(Error::io("remove", &self.store.root.join(path), error)),
        }
        if keep {
            return Ok(Swapped::Done { file: None, aside: Some(temp), discard: None });
        }
        // It is no longer in use; if it isn't deleted, the next command deletes it.
        Ok(Swapped::Done { file: None, aside: None, discard: Some(temp) })
    }

    /// Removes the judged record in place. A program that ignores the mutex may act between the two
    /// steps.
    fn unlink_judged(&self, path: &str, judged: Option<Stamp>) -> Result<Swapped, Error> {
        if self.store.disk.stamp(path).at("look at", &self.store.root, path)? != judged {
            return Ok(Swapped::Again);
        }
        self.store.disk.remove(path).at("remove", &self.store.root, path)?;
        Ok(Swapped::Done { file: None, aside: None, discard: None })
    }

    /// Returns `state/aside/<name>.json.<random>`.
    fn aside_path(&self, path: &str) -> Result<String, Error> {
        let temp = self.store.temp_path()?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let unique = temp.rsplit('/').next().unwrap_or(&temp);
        Ok(format!("{ASIDE_DIR}/{name}.{}", &unique[..12.min(unique.len())]))
    }

    pub(super) fn create_temp(&self, temp: &str, next: &Hold) -> Result<Box<dyn NewFile>, Error> {
        let bytes = record::encode(next);
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::NotARecord,
                format!("a record of {} bytes would be too long", bytes.len()),
            )
            .hint("shorten LOKT_OWNER, LOKT_AGENT_ID or --reason"));
        }
        self.store.disk.create(temp, &bytes).at("write", &self.store.root, temp)
    }

    /// Removes temp files that a killed process left. Inside the mutex only prepared ones are in
    /// use, and those are locked.
    pub(super) fn tidy(&self, inside: &Inside) {
        for entry in self.store.disk.list(TEMP_DIR).unwrap_or_default().into_iter().take(TIDY_MAX) {
            let _ = self.remove_left_over(inside, &entry);
        }
    }

    /// Removes a temp file that no process uses. Returns false if it is in use, or gone.
    pub(crate) fn remove_left_over(&self, _: &Inside, entry: &str) -> io::Result<bool> {
        let left_over = self.is_left_over(entry);
        if left_over {
            self.store.disk.remove(&format!("{TEMP_DIR}/{entry}"))?;
        }
        Ok(left_over)
    }

    /// Reports whether no process uses this temp file. Certain only inside the mutex.
    pub(crate) fn is_left_over(&self, entry: &str) -> bool {
        matches!(self.store.disk.probe(&format!("{TEMP_DIR}/{entry}")), Ok(Some(probe)) if !probe.locked)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
