//! The one way anything changes: enter the mutex, read, decide, swap in, account for it, leave, make it durable, answer.
//!
//! *What is judged is what is replaced.* [`super::swap`] sees to that.
//!
//! *Durable before answered.* Owner parts and tokens outlive the machine: record and directory are synced after the mutex and before
//! the answer. Process parts can't outlive their boot and are not synced. Where a record with a living owner part is replaced by
//! another one with it, the new one is synced *before* it is swapped in: a power cut in between would otherwise leave an empty file where
//! an acknowledged hold was. Syncing inside the mutex would make everybody wait for the disk, so it is written and locked inside, synced
//! outside, and used on the next entry if nothing has changed meanwhile.

use lokt_core::audit::{self, Event};
use lokt_core::decide::{Breaking, Cause, Decision, Intent, Policy, decide};
use lokt_core::hold::{Fence, Hold, LockId, PartKind};
use lokt_core::name::LockName;
use lokt_core::record;
use lokt_core::time::Moment;

use super::slot::{Stored, View};
use super::swap::{Commit, Prepared, Swapped};
use super::tokens::Drawn;
use super::{LOCKS_DIR, Store, record_path};
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::NewFile;

/// After this many swaps that didn't fit, the new record is synced inside the mutex.
const PREPARE_TRIES: usize = 3;
/// Somebody who doesn't know the mutex can get in between this often before we say so.
const CHANGE_TRIES: usize = 32;
/// A prepared record older than this is written anew: its lease began when it was written.
const PREPARED_MS_MAX: u64 = 1_000;
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

impl Store<'_> {
    /// Decides `intent` on `name` and carries the answer out.
    pub(crate) fn change(&self, name: &LockName, intent: &Intent) -> Result<Changed, Error> {
        let bits = self.machine.random().map_err(|source| Error::io("get random bits for", self.root, source))?;
        let fresh_id = LockId::from_bits(bits);
        let mut prepared: Option<Prepared> = None;
        for attempt in 0..CHANGE_TRIES {
            let temp = prepared.as_ref().map(|prepared| prepared.temp.clone());
            let attempted = self.attempt(name, intent, &fresh_id, prepared.take(), attempt >= PREPARE_TRIES);
            // Used, it has been renamed away and there is nothing to remove.
            if let Some(temp) = temp {
                let _ = self.disk.remove(&temp);
            }
            match attempted? {
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
        let path = record_path(name);
        let inside = self.enter()?;
        let now = self.machine.now();
        let mut view = self.view(name, &now, takes(intent))?;
        if !matches!(intent, Intent::Unlock(Breaking::Force, _)) {
            view = view.readable(name)?;
        }
        let drawn = if takes(intent) { Some(self.draw_token(view.found.hold())?) } else { self.outrun(&view) };
        // Only a new hold looks at it.
        let next_token = drawn.as_ref().map_or(FENCE_UNUSED, Drawn::token);
        let mut decision = decide(intent, view.facts(now, fresh_id, next_token, None), self.me, &Policy::NAMED);
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
            let draws = |drawn: &&Drawn| drawn.is_rebased() || draws(next.as_deref(), view.found.hold(), drawn);
            if let Some(drawn) = drawn.as_ref().filter(draws) {
                match self.use_token(drawn) {
                    // What only ends must not fail for a counter.
                    Err(error) if takes(intent) => return Err(error),
                    Err(_) => {}
                    Ok(()) => events.extend(drawn.event(name.as_str(), self, &now)),
                }
            }
            let next = next.as_deref();
            let commit =
                Commit { path: &path, view: &view, next, cause: *cause, broken: *broken, prepared, sync_inside };
            match self.swap(commit)? {
                Swapped::Again => return Ok(Attempt::Again),
                Swapped::Done { file: published, aside: moved } => (file, aside) = (published, moved),
                Swapped::BrokeOnly { aside, failure } => {
                    // What was broken comes first; the rest didn't happen. One's own stale hold, which was to be revived, is gone.
                    let gone = Decision::Commit { next: None, cause: Cause::Prune, broken: None };
                    let decision = if broken.is_some() { &decision } else { &gone };
                    events.extend(self.told(decision, &view, intent, name, &now, aside.as_ref()).into_iter().take(1));
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
        let warnings = self.settle_trail(trail);
        if let Err(error) = durable {
            return Err(self.undo(name, &decision, error));
        }
        let waiters = view.line.waiters.len();
        Ok(Attempt::Done(Box::new(Changed { decision, before, waiters, aside, warnings })))
    }

    /// A new beginning for the counter, if the record that is about to end is ahead of it: an old `state/` was put back, and nothing
    /// but this record would remember how far tokens had come.
    fn outrun(&self, view: &View) -> Option<Drawn> {
        view.found.hold()?.token?;
        self.draw_token(view.found.hold()).ok().filter(Drawn::is_rebased)
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
        let outlives = replaces_what_outlives(view, next);
        let (Some(next), Some(content), true) = (next, &view.found.content, outlives) else {
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

/// Is a live hold that outlives the machine (an owner part, or another program's record, which was synced) replaced by another that
/// does? A power cut must leave one of the two.
pub(super) fn replaces_what_outlives(view: &View, next: Option<&Hold>) -> bool {
    let foreign =
        || view.found.hold().is_some_and(Hold::is_foreign) && view.found.holder().is_some_and(|holder| holder.lives());
    next.is_some_and(|next| next.has(PartKind::Owner)) && (view.found.elapsed.owner.runs() || foreign())
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
