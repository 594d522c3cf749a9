//! Putting a record in the place of the one that was judged, and of nothing else.
//!
//! Among lokt's own processes the mutex sees to that. Programs that don't know it may still act between our look and our change. So a new
//! hold is published without replacing anything; what is removed is first renamed aside and compared; what is replaced is exchanged and
//! compared; and whatever turns out to be something else goes back. Everything here happens inside the mutex.

use std::io;

use lokt_core::decide::{Broken, Cause};
use lokt_core::hold::Hold;
use lokt_core::record::{self, RECORD_BYTES_MAX};
use lokt_core::time::Moment;

use super::durable::replaces_what_outlives;
use super::slot::{Stored, View};
use super::{ASIDE_DIR, Store, TEMP_DIR};
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::{NewFile, Stamp};

/// Left-over temp files that one command removes at most.
const TIDY_MAX: usize = 256;
/// Somebody who doesn't know the mutex can replace a record this often while theirs is put back; then it is kept aside.
const BACK_TRIES: usize = 8;

/// A record that waits in a temp file for its swap.
pub(super) struct Prepared {
    pub(super) temp: String,
    pub(super) file: Box<dyn NewFile>,
    pub(super) judged: Vec<u8>,
    pub(super) next: Hold,
    pub(super) cause: Cause,
    pub(super) written: Moment,
}

/// A commit that was decided, with everything it needs.
pub(super) struct Commit<'a> {
    pub(super) path: &'a str,
    pub(super) view: &'a View,
    pub(super) next: Option<&'a Hold>,
    pub(super) cause: Cause,
    pub(super) broken: Option<Broken>,
    pub(super) prepared: Option<Prepared>,
    pub(super) sync_inside: bool,
}

/// How a commit ended on disk.
pub(super) enum Swapped {
    Done {
        file: Option<Box<dyn NewFile>>,
        aside: Option<String>,
        /// A file that is nobody's any more: to be deleted when nobody has to wait for it.
        discard: Option<String>,
    },
    Again,
    /// What was there is broken, but ours didn't get in its place: somebody was faster, or it failed.
    BrokeOnly {
        aside: Option<String>,
        failure: Option<Error>,
    },
}

impl Store<'_> {
    /// Puts `next` where the judged record is. Only inside the mutex.
    pub(super) fn swap(&self, commit: Commit<'_>) -> Result<Swapped, Error> {
        let judged = match (&commit.view.found.content, &commit.view.found.stored) {
            (Some(content), _) => Some(content.stamp),
            // A publication finds out if this isn't true any more.
            (None, Stored::Free) => None,
            (None, _) => self.disk.stamp(commit.path).at("look at", self.root, commit.path)?,
        };
        let Some(next) = commit.next else {
            // What we don't understand is kept for people to look at, a newer program's record too.
            let unread = !matches!(commit.view.found.stored, Stored::Held(_));
            let keep = commit.cause == Cause::CorruptBreak
                || commit.cause == Cause::ForceUnfreeze && unread
                || matches!(commit.view.found.stored, Stored::Newer(_));
            return self.remove_judged(commit.path, judged, keep);
        };
        let (temp, file) = if let Some(prepared) = commit.prepared {
            (prepared.temp, prepared.file)
        } else {
            let temp = self.temp_path()?;
            let file = self.create_temp(&temp, next)?;
            if commit.sync_inside && replaces_what_outlives(commit.view, Some(next)) {
                file.sync().at("sync", self.root, &temp)?;
            }
            (temp, file)
        };
        let is_over = commit.view.found.holder().is_some_and(|holder| !holder.lives());
        let swapped = self.publish(&temp, commit.path, judged, commit.broken, is_over);
        if !matches!(swapped, Ok(Swapped::Done { .. })) {
            let _ = self.disk.remove(&temp);
        }
        Ok(match swapped? {
            Swapped::Done { aside, discard, .. } => Swapped::Done { file: Some(file), aside, discard },
            other => other,
        })
    }

    fn publish(
        &self,
        temp: &str,
        path: &str,
        judged: Option<Stamp>,
        broken: Option<Broken>,
        is_over: bool,
    ) -> Result<Swapped, Error> {
        let (mut aside, mut discard) = (None, None);
        match (broken, judged) {
            // One's own live record is never missing, not even for a moment. One that is over is anybody's.
            (None, Some(judged)) if !is_over => return self.replace_judged(temp, path, judged),
            (None, None) => {}
            (broken, judged) => match self.remove_judged(path, judged, broken == Some(Broken::Corrupt))? {
                Swapped::Done { aside: moved, discard: old, .. } => (aside, discard) = (moved, old),
                other => return Ok(other),
            },
        }
        let failure = match self.disk.rename_new(temp, path) {
            Ok(()) => return Ok(Swapped::Done { file: None, aside, discard }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => Some(Error::io("publish", &self.root.join(path), error)),
        };
        if let Some(old) = discard {
            let _ = self.disk.remove(&old);
        }
        match (judged, failure) {
            (Some(_), failure) => Ok(Swapped::BrokeOnly { aside, failure }),
            (None, None) => Ok(Swapped::Again),
            (None, Some(failure)) => Err(failure),
        }
    }

    /// Puts `temp` in the place of the judged record, and of nothing else: they are swapped, and swapped back if it was another one.
    fn replace_judged(&self, temp: &str, path: &str, judged: Stamp) -> Result<Swapped, Error> {
        let Some(ours) = self.disk.stamp(temp).at("look at", self.root, temp)? else { return Ok(Swapped::Again) };
        match self.disk.exchange(temp, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swapped::Again),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.disk.rename(temp, path).at("replace", self.root, path)?;
                return Ok(Swapped::Done { file: None, aside: None, discard: None });
            }
            Err(error) => return Err(Error::io("replace", &self.root.join(path), error)),
        }
        let replaced = self.disk.stamp(temp).at("look at", self.root, temp);
        // If it is gone, somebody deleted the temp directory at this very moment; ours is in its place all the same.
        if matches!(replaced, Ok(found) if found.is_none_or(|stamp| stamp == judged)) {
            return Ok(Swapped::Done { file: None, aside: None, discard: Some(temp.to_owned()) });
        }
        self.put_back(temp, path, ours, replaced.as_ref().ok().copied().flatten())?;
        replaced.map(|_| Swapped::Again)
    }

    /// Swaps `temp`, whose place `ours` has taken, back. What comes out must be what went in. If it isn't, whoever doesn't know the
    /// mutex has replaced that meanwhile: it is the newest, so it goes back too. Afterwards nothing in `temp` is worth keeping.
    fn put_back(&self, temp: &str, path: &str, ours: Stamp, theirs: Option<Stamp>) -> Result<(), Error> {
        let (mut standing, mut returning) = (Some(ours), theirs);
        for _ in 0..BACK_TRIES {
            if let Err(error) = self.disk.exchange(temp, path) {
                // They have taken it away; theirs goes back, or is kept for people to see.
                let back = self.disk.rename_new(temp, path);
                if back.is_err() {
                    self.keep(temp, path)?;
                }
                return match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(Error::io("put back", &self.root.join(path), error)),
                };
            }
            let came_out = match self.disk.stamp(temp).at("look at", self.root, temp) {
                Ok(Some(came_out)) => came_out,
                Ok(None) => return Ok(()),
                Err(error) => return self.keep(temp, path).and(Err(error)),
            };
            if standing.is_none_or(|expected| expected == came_out) {
                return Ok(());
            }
            (standing, returning) = (returning, Some(came_out));
        }
        self.keep(temp, path)
    }

    /// Moves a file that is somebody's, but has no place, where people can look at it.
    fn keep(&self, temp: &str, path: &str) -> Result<(), Error> {
        self.disk.rename(temp, &self.aside_path(path)?).at("keep", self.root, temp)
    }

    /// Takes a judged record away, and nothing else. False: it is another one by now.
    pub(crate) fn take_away(&self, path: &str, judged: Option<Stamp>) -> Result<bool, Error> {
        let taken = self.remove_judged(path, judged, false)?;
        if let Swapped::Done { discard: Some(temp), .. } = &taken {
            let _ = self.disk.remove(temp);
        }
        Ok(matches!(taken, Swapped::Done { .. }))
    }

    /// Takes the judged record away, and nothing else. `keep` moves it to a place where people can look at it.
    fn remove_judged(&self, path: &str, judged: Option<Stamp>, keep: bool) -> Result<Swapped, Error> {
        // What is kept goes straight to where it is kept: a failure half-way must not leave it among
        // the temp files, which the next command tidies away.
        let temp = if keep { self.aside_path(path)? } else { self.temp_path()? };
        match self.disk.rename(path, &temp) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swapped::Again),
            // There is no room for the temp directory. Ending a hold must work on a full disk too.
            Err(error) if !keep && is_full(&error) => return self.unlink_judged(path, judged),
            Err(error) => return Err(Error::io("remove", &self.root.join(path), error)),
        }
        let moved = match self.disk.stamp(&temp).at("look at", self.root, &temp) {
            Ok(moved) => moved,
            Err(error) => {
                // Nobody knows whose it is.
                let _ = self.disk.rename_new(&temp, path);
                return Err(error);
            }
        };
        // If it is gone, somebody deleted the directory at this very moment, and it with it.
        if moved.is_some() && moved != judged {
            // Somebody who doesn't know the mutex was faster. It goes back; if there is yet another one by now, it is kept for people to see.
            match self.disk.rename_new(&temp, path) {
                Ok(()) => {}
                Err(_) if keep => {}
                Err(_) => self.keep(&temp, path)?,
            }
            return Ok(Swapped::Again);
        }
        if keep {
            return Ok(Swapped::Done { file: None, aside: Some(temp), discard: None });
        }
        // It is no longer anybody's; if it isn't deleted, the next command tidies it away.
        Ok(Swapped::Done { file: None, aside: None, discard: Some(temp) })
    }

    /// Takes the judged record away where it stands. A program that doesn't know the mutex may act between the two steps.
    fn unlink_judged(&self, path: &str, judged: Option<Stamp>) -> Result<Swapped, Error> {
        if self.disk.stamp(path).at("look at", self.root, path)? != judged {
            return Ok(Swapped::Again);
        }
        self.disk.remove(path).at("remove", self.root, path)?;
        Ok(Swapped::Done { file: None, aside: None, discard: None })
    }

    /// `state/aside/<name>.json.<random>`
    fn aside_path(&self, path: &str) -> Result<String, Error> {
        let temp = self.temp_path()?;
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
        self.disk.create(temp, &bytes).at("write", self.root, temp)
    }

    /// Removes temp files that a killed process left. Inside the mutex only prepared ones are somebody's, and those are locked.
    pub(super) fn tidy(&self) {
        for entry in self.disk.list(TEMP_DIR).unwrap_or_default().into_iter().take(TIDY_MAX) {
            let _ = self.remove_left_over(&entry);
        }
    }

    /// Removes a temp file that is nobody's; only inside the mutex. False: it is somebody's, or gone.
    pub(crate) fn remove_left_over(&self, entry: &str) -> io::Result<bool> {
        let left_over = self.is_left_over(entry);
        if left_over {
            self.disk.remove(&format!("{TEMP_DIR}/{entry}"))?;
        }
        Ok(left_over)
    }

    /// Is this temp file nobody's? Certain only inside the mutex.
    pub(crate) fn is_left_over(&self, entry: &str) -> bool {
        matches!(self.disk.probe(&format!("{TEMP_DIR}/{entry}")), Ok(Some(probe)) if !probe.locked)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
