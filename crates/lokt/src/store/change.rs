//! The one way anything changes: enter the mutex, read, decide, swap in, account for it, leave, make it durable, answer.
//!
//! *What is judged is what is replaced.* Among lokt's own processes the mutex sees to that. Programs that don't know it may still act
//! between our look and our change; so a new hold is published without replacing anything, and what is removed is first renamed aside,
//! compared with what was judged, and put back if it is something else.
//!
//! *Durable before answered.* Owner parts and tokens outlive the machine: record and directory are synced after the mutex and before
//! the answer. Process parts can't outlive their boot and are not synced. Where a record with a living owner part is replaced by
//! another one with it, the new one is synced *before* it is swapped in: a power cut in between would otherwise leave an empty file where
//! an acknowledged hold was. Syncing inside the mutex would make everybody wait for the disk, so it is written and locked inside, synced
//! outside, and used on the next entry if nothing has changed meanwhile.

use std::io;

use lokt_core::audit::{self, Event};
use lokt_core::decide::{Breaking, Broken, Cause, Decision, Intent, Policy, decide};
use lokt_core::hold::{Fence, Hold, LockId, PartKind};
use lokt_core::name::LockName;
use lokt_core::record::{self, RECORD_BYTES_MAX};
use lokt_core::time::Moment;

use super::slot::{Stored, View};
use super::tokens::Drawn;
use super::{ASIDE_DIR, LOCKS_DIR, Store, TEMP_DIR, record_path};
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::{NewFile, Stamp};

/// After this many swaps that didn't fit, the new record is synced inside the mutex.
const PREPARE_TRIES: usize = 3;
/// Somebody who doesn't know the mutex can get in between this often before we say so.
const CHANGE_TRIES: usize = 32;
/// A prepared record older than this is written anew: its lease began when it was written.
const PREPARED_MS_MAX: u64 = 1_000;
/// Left-over temp files that one command removes at most.
const TIDY_MAX: usize = 256;

/// What came of a change.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) decision: Decision,
    /// The hold that was there.
    pub(crate) before: Option<Hold>,
    /// How many wait for the name.
    pub(crate) waiters: usize,
    /// Where something that couldn't be understood was moved.
    pub(crate) aside: Option<String>,
    /// What the user should know although it worked.
    pub(crate) warnings: Vec<String>,
}

enum Attempt {
    Done(Box<Changed>),
    /// Written, not yet synced: sync it and come again.
    Prepare(Box<Prepared>),
    /// Somebody was faster.
    Again,
}

/// A record that waits in a temp file for its swap.
struct Prepared {
    temp: String,
    file: Box<dyn NewFile>,
    judged: Vec<u8>,
    next: Hold,
    cause: Cause,
    written: Moment,
}

/// A commit that was decided, with everything it needs.
struct Commit<'a> {
    path: &'a str,
    view: &'a View,
    next: Option<&'a Hold>,
    cause: Cause,
    broken: Option<Broken>,
    prepared: Option<Prepared>,
    sync_inside: bool,
}

/// How a commit ended on disk.
enum Swapped {
    Done {
        file: Option<Box<dyn NewFile>>,
        aside: Option<String>,
    },
    Again,
    /// What was there is broken, but ours didn't get in its place: somebody was faster, or it failed.
    BrokeOnly {
        aside: Option<String>,
        failure: Option<Error>,
    },
}

impl Store<'_> {
    /// Decides `intent` on `name` and carries the answer out.
    pub(crate) fn change(&self, name: &LockName, intent: &Intent) -> Result<Changed, Error> {
        let bits = self.machine.random().map_err(|source| Error::io("get random bits for", self.root, source))?;
        let fresh_id = LockId::from_bits(bits);
        let mut prepared: Option<Prepared> = None;
        for attempt in 0..CHANGE_TRIES {
            match self.attempt(name, intent, &fresh_id, prepared.take(), attempt >= PREPARE_TRIES)? {
                Attempt::Done(changed) => return Ok(*changed),
                Attempt::Again => {}
                Attempt::Prepare(unsynced) => {
                    if let Err(error) = unsynced.file.sync() {
                        let _ = self.disk.remove(&unsynced.temp);
                        return Err(Error::io("sync", &self.root.join(&unsynced.temp), error));
                    }
                    prepared = Some(*unsynced);
                }
            }
        }
        let path = self.root.join(record_path(name));
        Err(Error::new(
            ErrorKind::Busy,
            format!("{} keeps being changed by a program that doesn't know lokt's mutex", path.display()),
        ))
    }

    fn attempt(
        &self,
        name: &LockName,
        intent: &Intent,
        fresh_id: &LockId,
        prepared: Option<Prepared>,
        sync_inside: bool,
    ) -> Result<Attempt, Error> {
        let temp_to_drop = prepared.as_ref().map(|prepared| prepared.temp.clone());
        let result = self.attempt_inside(name, intent, fresh_id, prepared, sync_inside);
        // Used, it has been renamed away and there is nothing to remove.
        if let Some(temp) = temp_to_drop {
            let _ = self.disk.remove(&temp);
        }
        result
    }

    fn attempt_inside(
        &self,
        name: &LockName,
        intent: &Intent,
        fresh_id: &LockId,
        prepared: Option<Prepared>,
        sync_inside: bool,
    ) -> Result<Attempt, Error> {
        let path = record_path(name);
        let inside = self.enter()?;
        let now = self.machine.now();
        let mut view = self.view(name, &now, takes(intent))?;
        if !matches!(intent, Intent::Unlock(Breaking::Force, _)) {
            view = view.readable(name)?;
        }
        let drawn = if takes(intent) { Some(self.draw_token(view.found.hold())?) } else { None };
        // Only a new hold looks at it.
        let next_token = drawn.as_ref().map_or(FENCE_UNUSED, Drawn::token);
        let mut decision = decide(intent, view.facts(now, fresh_id, next_token), self.me, &Policy::NAMED);
        let mut aside = None;
        let mut file = None;
        let mut events = Vec::new();
        if let Decision::Commit { next, cause, broken } = &mut decision {
            if let Some(next) = next {
                name.as_str().clone_into(&mut next.name);
            }
            if takes(intent) {
                self.tidy();
            }
            let prepared = match self.presync(prepared, next.as_deref(), *cause, &view, &now, sync_inside)? {
                Presync::NotNeeded => None,
                Presync::Ready(prepared) => {
                    // What was written is what is answered, down to the last digit of its times.
                    *next = Some(Box::new(prepared.next.clone()));
                    Some(prepared)
                }
                Presync::First(unsynced) => return Ok(Attempt::Prepare(Box::new(unsynced))),
            };
            if let Some(drawn) = drawn.as_ref().filter(|drawn| draws(next.as_deref(), view.found.hold(), drawn)) {
                self.use_token(drawn)?;
                events.extend(drawn.event(name.as_str(), self, &now));
            }
            let next = next.as_deref();
            let commit =
                Commit { path: &path, view: &view, next, cause: *cause, broken: *broken, prepared, sync_inside };
            match self.swap(commit)? {
                Swapped::Again => return Ok(Attempt::Again),
                Swapped::Done { file: published, aside: moved } => (file, aside) = (published, moved),
                Swapped::BrokeOnly { aside, failure } => {
                    let told = self.told(&decision, &view, intent, name, &now, aside.as_ref());
                    // What was broken comes first; the rest didn't happen.
                    events.extend(told.into_iter().take(1));
                    let trail = self.account(&events);
                    drop(inside);
                    let _ = self.settle_trail(trail);
                    return failure.map_or(Ok(Attempt::Again), Err);
                }
            }
        }
        let before = view.found.hold().cloned();
        events.extend(self.told(&decision, &view, intent, name, &now, aside.as_ref()));
        let trail = self.account(&events);
        drop(inside);

        let durable = self.make_durable(&decision, &view, file.as_deref());
        if let Err(error) = durable {
            return Err(self.undo(name, &decision, error));
        }
        let warnings = self.settle_trail(trail);
        let waiters = view.waiters.len();
        Ok(Attempt::Done(Box::new(Changed { decision, before, waiters, aside, warnings })))
    }

    /// What the audit log says about a decision.
    fn told(
        &self,
        decision: &Decision,
        view: &View,
        intent: &Intent,
        name: &LockName,
        now: &Moment,
        aside: Option<&String>,
    ) -> Vec<Event> {
        let before = view.found.hold();
        let mut told = audit::events(decision, before, requested_ttl(intent), name.as_str(), self.me, now.wall);
        if let (Some(aside), Some(event)) = (aside, told.first_mut()) {
            event.extra.insert("aside".into(), aside.clone().into());
        }
        told
    }

    /// Must `next` be on the disk before it replaces what is there? Then it is prepared first.
    fn presync(
        &self,
        prepared: Option<Prepared>,
        next: Option<&Hold>,
        cause: Cause,
        view: &View,
        now: &Moment,
        sync_inside: bool,
    ) -> Result<Presync, Error> {
        let owner_lives_on = view.found.elapsed.owner.runs() && next.is_some_and(|next| next.has(PartKind::Owner));
        let (Some(next), Some(content), true) = (next, &view.found.content, owner_lives_on) else {
            return Ok(Presync::NotNeeded);
        };
        if let Some(prepared) = prepared
            && prepared.judged == content.bytes
            && prepared.cause == cause
            && (&prepared.next.lock_id, prepared.next.token) == (&next.lock_id, next.token)
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

    fn create_temp(&self, temp: &str, next: &Hold) -> Result<Box<dyn NewFile>, Error> {
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

    /// Puts `next` where the judged record is. Only inside the mutex.
    fn swap(&self, commit: Commit<'_>) -> Result<Swapped, Error> {
        let judged = match &commit.view.found.content {
            Some(content) => Some(content.stamp),
            None => self.disk.stamp(commit.path).at("look at", self.root, commit.path)?,
        };
        let Some(next) = commit.next else {
            // What we don't understand is kept for people to look at, a newer program's record too.
            let keep = commit.cause == Cause::CorruptBreak || matches!(commit.view.found.stored, Stored::Newer(_));
            return self.remove_judged(commit.path, judged, keep);
        };
        let (temp, file) = if let Some(prepared) = commit.prepared {
            (prepared.temp, prepared.file)
        } else {
            let temp = self.temp_path()?;
            let file = self.create_temp(&temp, next)?;
            if commit.sync_inside && commit.view.found.elapsed.owner.runs() {
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
            Swapped::Done { aside, .. } => Swapped::Done { file: Some(file), aside },
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
        let mut aside = None;
        match (broken, judged) {
            // One's own live record is never missing, not even for a moment. One that is over is anybody's.
            (None, Some(judged)) if !is_over => return self.replace_judged(temp, path, judged),
            (None, None) => {}
            (broken, judged) => match self.remove_judged(path, judged, broken == Some(Broken::Corrupt))? {
                Swapped::Done { aside: moved, .. } => aside = moved,
                other => return Ok(other),
            },
        }
        let failure = match self.disk.rename_new(temp, path) {
            Ok(()) => return Ok(Swapped::Done { file: None, aside }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => Some(Error::io("publish", &self.root.join(path), error)),
        };
        match (broken, failure) {
            (Some(_), failure) => Ok(Swapped::BrokeOnly { aside, failure }),
            (None, None) => Ok(Swapped::Again),
            (None, Some(failure)) => Err(failure),
        }
    }

    /// Puts `temp` in the place of the judged record, and of nothing else: they are swapped, and swapped back if it was another one.
    fn replace_judged(&self, temp: &str, path: &str, judged: Stamp) -> Result<Swapped, Error> {
        match self.disk.exchange(temp, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swapped::Again),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.disk.rename(temp, path).at("replace", self.root, path)?;
                return Ok(Swapped::Done { file: None, aside: None });
            }
            Err(error) => return Err(Error::io("replace", &self.root.join(path), error)),
        }
        let replaced = self.disk.stamp(temp).at("look at", self.root, temp);
        // If it is gone, somebody deleted the temp directory at this very moment; ours is in its place all the same.
        if matches!(replaced, Ok(found) if found.is_none_or(|stamp| stamp == judged)) {
            let _ = self.disk.remove(temp);
            return Ok(Swapped::Done { file: None, aside: None });
        }
        if let Err(error) = self.disk.exchange(temp, path) {
            // Whoever doesn't know the mutex has taken our record away meanwhile; theirs goes back, or is kept for people to see.
            let back = self.disk.rename_new(temp, path);
            if back.is_err() {
                self.disk.rename(temp, &self.aside_path(path)?).at("keep", self.root, temp)?;
            }
            if error.kind() != io::ErrorKind::NotFound {
                return Err(Error::io("put back", &self.root.join(path), error));
            }
        }
        replaced.map(|_| Swapped::Again)
    }

    /// Takes a judged record away, and nothing else. False: it is another one by now.
    pub(crate) fn take_away(&self, path: &str, judged: Option<Stamp>) -> Result<bool, Error> {
        Ok(matches!(self.remove_judged(path, judged, false)?, Swapped::Done { .. }))
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
                Err(_) => self.disk.rename(&temp, &self.aside_path(path)?).at("keep", self.root, &temp)?,
            }
            return Ok(Swapped::Again);
        }
        if keep {
            return Ok(Swapped::Done { file: None, aside: Some(temp) });
        }
        // It is no longer anybody's; if it can't be deleted now, the next command tidies it away.
        let _ = self.disk.remove(&temp);
        Ok(Swapped::Done { file: None, aside: None })
    }

    /// Takes the judged record away where it stands. A program that doesn't know the mutex may act between the two steps.
    fn unlink_judged(&self, path: &str, judged: Option<Stamp>) -> Result<Swapped, Error> {
        if self.disk.stamp(path).at("look at", self.root, path)? != judged {
            return Ok(Swapped::Again);
        }
        self.disk.remove(path).at("remove", self.root, path)?;
        Ok(Swapped::Done { file: None, aside: None })
    }

    /// `state/aside/<name>.json.<random>`
    fn aside_path(&self, path: &str) -> Result<String, Error> {
        let temp = self.temp_path()?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let unique = temp.rsplit('/').next().unwrap_or(&temp);
        Ok(format!("{ASIDE_DIR}/{name}.{}", &unique[..12.min(unique.len())]))
    }

    /// Syncs what must outlive the machine.
    fn make_durable(&self, decision: &Decision, view: &View, file: Option<&dyn NewFile>) -> Result<(), Error> {
        let Decision::Commit { next, .. } = decision else { return Ok(()) };
        let next_owner = next.as_ref().is_some_and(|next| next.has(PartKind::Owner));
        // What isn't ours, or can't be understood, may have been synced by whoever wrote it.
        let was_synced = match &view.found.stored {
            Stored::Free => false,
            Stored::Held(before) => before.is_foreign() || before.has(PartKind::Owner),
            _ => true,
        };
        if let (Some(file), true) = (file, next_owner) {
            file.sync().at("sync", self.root, LOCKS_DIR)?;
        }
        if next_owner || was_synced {
            self.disk.sync_dir(LOCKS_DIR).at("sync", self.root, LOCKS_DIR)?;
        }
        Ok(())
    }

    /// A new hold that can't be made durable is given back: nobody was told that it was granted.
    fn undo(&self, name: &LockName, decision: &Decision, error: Error) -> Error {
        let Decision::Commit { next: Some(next), cause: Cause::Acquire, .. } = decision else { return error };
        let path = record_path(name);
        let given_back = self.enter().and_then(|_inside| {
            let now = self.machine.now();
            let found = self.find(&path, name.as_str(), &now);
            match found.hold() {
                Some(hold) if hold.lock_id == next.lock_id && hold.token == next.token => {
                    if self.take_away(&path, found.content.as_ref().map(|content| content.stamp))? {
                        // The log says that it was acquired; a failure to say more is no reason to say something else.
                        let _ = self.account(&[audit::given_back(next, name.as_str(), self.me, now.wall)]);
                    }
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        match given_back {
            Ok(()) => error.hint("the lock was given back"),
            Err(_) => error.hint(format!(
                "the lock may have been taken: `lokt status {name}` tells, `lokt unlock {name}` gives it back"
            )),
        }
    }

    /// Removes temp files that a killed process left. Inside the mutex only prepared ones are somebody's, and those are locked.
    fn tidy(&self) {
        for entry in self.disk.list(TEMP_DIR).unwrap_or_default().into_iter().take(TIDY_MAX) {
            let path = format!("{TEMP_DIR}/{entry}");
            if matches!(self.disk.probe(&path), Ok(Some(probe)) if !probe.locked) {
                let _ = self.disk.remove(&path);
            }
        }
    }
}

enum Presync {
    NotNeeded,
    Ready(Prepared),
    First(Prepared),
}

/// Stands where no token is drawn.
const FENCE_UNUSED: Fence = match Fence::new(1) {
    Some(fence) => fence,
    None => unreachable!(),
};

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn takes(intent: &Intent) -> bool {
    matches!(intent, Intent::Lock(_) | Intent::Guard(..))
}

/// Does this commit use the token that was drawn?
fn draws(next: Option<&Hold>, before: Option<&Hold>, drawn: &Drawn) -> bool {
    next.is_some_and(|next| next.token == Some(drawn.token()) && before.and_then(|hold| hold.token) != next.token)
}

fn requested_ttl(intent: &Intent) -> Option<u64> {
    match intent {
        Intent::Lock(terms) | Intent::Guard(terms, _) => terms.ttl_sec,
        _ => None,
    }
}
