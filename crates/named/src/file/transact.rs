//! The only way to change anything: enter the mutex, inspect, judge, swap in, log, leave, make
//! durable, answer.
//!
//! *Only the record that was judged is replaced.* [`super::swap`] ensures that.
//!
//! *Durable before answered.* [`super::durable`] ensures that.

use std::sync::Arc;

use lokt_core::decide::Intent;
use lokt_core::name::LockName;

use super::attempt::{Answer, Attempt, Pending, Try};
use super::presence::FilePresence;
use super::seat::Seat;
use super::{FileStore, Kind, record_path};
use crate::store::{Answers, Call, Done, Judge, Request, Told, Unity};
use lokt_sys::error::{Error, ErrorKind};

/// Number of swaps that didn't match after which the new record is synced inside the mutex.
const PREPARE_TRIES: usize = 3;
/// Maximum number of tries before we report a program that ignores the mutex.
const CHANGE_TRIES: usize = 32;

/// Carries out requests in a root: they are judged and committed inside the mutex.
pub(crate) struct Transactions<'s> {
    pub(super) store: &'s FileStore,
}

impl Transactions<'_> {
    /// Carries out a request. See [`crate::store::Store::transact`].
    pub(super) fn carry_out(
        &self,
        request: &mut Request<'_>,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
    ) -> Result<Answers, Error> {
        match (request.unity, request.asks) {
            (Unity::Each, _) => Ok(self.each(request, judge, call)),
            (Unity::AllOrNone, [ask]) => {
                let done = match (Kind::of(ask.target), &ask.intent) {
                    (Kind::Freeze, Intent::Unfreeze { .. }) => self.end_freeze(request, judge, call)?,
                    (kind, _) => self.pursue(request, 0, kind, judge, call)?,
                };
                Ok(vec![(0, done)])
            }
            (Unity::AllOrNone, _) => self.all_at_once(request, judge, call),
        }
    }

    /// Carries out one ask, or puts the caller in the queue.
    pub(super) fn pursue(
        &self,
        request: &mut Request<'_>,
        number: usize,
        kind: Kind,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
    ) -> Result<Done, Error> {
        let seat = take_seat(request, number);
        let mut this = begin(request, number, kind, seat);
        let done = self.persist(&mut this, judge, &mut || self.store.enter_for(request, call));
        let Try { seat, prepared, .. } = this;
        if let Some(prepared) = prepared {
            let _ = self.store.disk.remove(&prepared.temp);
        }
        self.keep_seat(request, number, seat);
        done
    }

    fn persist(
        &self,
        this: &mut Try<'_>,
        judge: &mut Judge<'_>,
        enter: &mut dyn FnMut() -> Result<lokt_sys::mutex::Inside, Error>,
    ) -> Result<Done, Error> {
        for tries in 0..CHANGE_TRIES {
            let inside = enter()?;
            let temp = this.prepared.as_ref().map(|prepared| prepared.temp.clone());
            let attempted = self.attempt(&inside, this, judge, tries >= PREPARE_TRIES);
            drop(inside);
            // If it was used, it has been renamed away and there is nothing to remove.
            if let Some(temp) = temp {
                let _ = self.store.disk.remove(&temp);
            }
            match attempted? {
                Attempt::Done(pending) => return self.finish(this, *pending),
                Attempt::Waits(queued) => return Ok(Done::Queued(queued)),
                Attempt::Again(trail) => drop(self.store.sync_audit(trail)),
                Attempt::Failed(trail, failure) => {
                    let _ = self.store.sync_audit(trail);
                    return Err(failure);
                }
                Attempt::Prepare(unsynced) => {
                    if let Err(error) = unsynced.file.sync() {
                        let _ = self.store.disk.remove(&unsynced.temp);
                        return Err(Error::io("sync", &self.store.root.join(&unsynced.temp), error));
                    }
                    this.prepared = Some(*unsynced);
                }
            }
        }
        let path = self.store.root.join(this.kind.path(this.ask.name));
        Err(Error::new(
            ErrorKind::Busy,
            format!("{} keeps being changed by a program that doesn't know lokt's mutex", path.display()),
        ))
    }

    /// Carries out all asks in one hold of the mutex. If one is refused, its refusal is the last
    /// answer, and usually the only one: then nothing has changed. The caller must release what was
    /// granted before a refusal or a failure.
    fn all_at_once(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Result<Answers, Error> {
        let inside = self.store.enter_for(request, call)?;
        let (mut pending, mut trails, mut failure) = (Vec::new(), Vec::new(), None);
        // An ask that would be refused goes first, and alone, unless what blocked it has just
        // ended.
        let refused = self.refused(request, judge)?;
        for number in refused.into_iter().chain((0..request.asks.len()).filter(|number| Some(*number) != refused)) {
            let seat = take_seat(request, number);
            let mut this = begin(request, number, Kind::of(request.asks[number].target), seat);
            let mut denied = false;
            // Sync inside, so that no other process gets in between.
            match self.attempt(&inside, &mut this, judge, true) {
                Ok(Attempt::Done(done)) => {
                    denied = done.is_refused();
                    pending.push((number, *done));
                }
                Ok(Attempt::Failed(trail, error)) => {
                    trails.push(trail);
                    failure = Some(error);
                }
                Ok(_) => failure = Some(self.changing(this.ask.name)),
                Err(error) => failure = Some(error),
            }
            let Try { seat, .. } = this;
            self.keep_seat(request, number, seat);
            if denied || failure.is_some() {
                break;
            }
        }
        drop(inside);
        for trail in trails {
            drop(self.store.sync_audit(trail));
        }
        let mut answers = Vec::new();
        for (number, pending) in pending {
            match self.finish(&begin(request, number, Kind::Lock, None), pending) {
                Ok(done) => answers.push((number, done)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // In their order; a refusal comes after the grants that must be released because of it.
        let is_refused = |done: &Done| matches!(done, Done::Stayed(stayed) if stayed.why.is_some());
        answers.sort_by_key(|(number, done)| (is_refused(done), *number));
        answers.extend(failure.map(|error| (request.asks.len(), Done::Failed(error))));
        Ok(answers)
    }

    /// Returns the first ask that would be refused now.
    fn refused(&self, request: &Request<'_>, judge: &mut Judge<'_>) -> Result<Option<usize>, Error> {
        let now = self.store.machine.now();
        for (number, ask) in request.asks.iter().enumerate() {
            let ticket = FilePresence::of(request.presence.as_ref()).and_then(|mine| mine.ticket(ask.name));
            let view = self
                .store
                .records()
                .look_at(ask.name, ask.depth(), ticket, &now)?
                .view
                .readable(ask.name, ask.target)?;
            if judge(number, &view).denial().is_some() {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn changing(&self, name: &LockName) -> Error {
        let path = self.store.root.join(record_path(name));
        Error::new(ErrorKind::Busy, format!("{} changed at this moment", path.display()))
    }

    /// Does what must be done before a change is answered, and may be done outside the mutex.
    pub(super) fn finish(&self, this: &Try<'_>, mut pending: Pending) -> Result<Done, Error> {
        self.put_away(&mut pending);
        let durable = match &pending.answer {
            Answer::Commit(commit) => {
                self.store.records().make_durable(this.kind, commit, &pending.view.slot, pending.file.as_deref())
            }
            Answer::Stay(_) => Ok(()),
        };
        let warnings = self.store.sync_audit(std::mem::take(&mut pending.trail));
        match (durable, &pending.answer) {
            (Err(error), Answer::Commit(commit)) => {
                Err(self.store.records().undo(this.ask.name, this.me, commit, error))
            }
            (durable, _) => durable.map(|()| pending.answered(warnings)),
        }
    }

    /// Releases what is no longer needed.
    pub(super) fn put_away(&self, pending: &mut Pending) {
        // Processes that wait for this wake now: nobody has to wait for the rest of the work.
        pending.left.iter().for_each(Seat::let_go);
        if let Some(seat) = &pending.left {
            self.store.seats().clear_away(seat);
        }
        if let Some(temp) = pending.discard.take() {
            let _ = self.store.disk.remove(&temp);
        }
    }

    /// Keeps the seat of an ask for the next try, or for the hold that was granted.
    fn keep_seat(&self, request: &mut Request<'_>, number: usize, seat: Option<Seat>) {
        if let Some(seat) = seat {
            let presence = match FilePresence::of(request.presence.as_ref()) {
                Some(presence) => presence,
                None => FilePresence::of(Some(
                    request.presence.insert(Arc::new(FilePresence::new(Arc::clone(&self.store.disk)))),
                ))
                .expect("it has just been made"),
            };
            presence.put(request.asks[number].name.clone(), seat);
        } else if FilePresence::of(request.presence.as_ref()).is_some_and(FilePresence::is_empty) {
            request.presence = None;
        }
    }

    /// Gives the seats up: the wait has ended, or it failed. If a record names one, that is now the
    /// hold of a dead process.
    pub(super) fn give_up(&self, request: &mut Request<'_>) {
        for number in 0..request.asks.len() {
            let Some(seat) = take_seat(request, number) else { continue };
            // Go on without the mutex if it can't be entered: our own ticket concerns nobody else.
            let inside = self.store.enter(&Call::UNLIMITED).ok();
            let unnamed = self.store.seats().abandon(&seat, request.asks[number].name);
            drop(inside);
            seat.let_go();
            if unnamed {
                self.store.seats().clear_away(&seat);
            }
        }
        request.presence = None;
    }

    /// Leaves the queues without an answer, which is logged as a refusal.
    pub(super) fn leave_lines(&self, request: &mut Request<'_>, told: &mut Told<'_>) {
        // Go on without the mutex if it can't be entered: a waiter that must leave doesn't wait for
        // it twice.
        let inside = self.store.enter(&Call::UNLIMITED).ok();
        let trail = inside.as_ref().map(|inside| self.store.account(inside, &told(&self.store.machine.now())));
        let seats: Vec<Seat> = (0..request.asks.len()).filter_map(|number| take_seat(request, number)).collect();
        for seat in &seats {
            self.store.seats().stand_up(seat);
        }
        drop(inside);
        seats.iter().for_each(Seat::let_go);
        drop(trail.map(|trail| self.store.sync_audit(trail)));
        request.presence = None;
    }
}

/// Begins to pursue an ask.
pub(super) fn begin<'t>(request: &'t Request<'_>, number: usize, kind: Kind, seat: Option<Seat>) -> Try<'t> {
    let Request { me, asks, waits, .. } = request;
    Try { number, ask: &asks[number], me, waits: *waits, kind, seat, prepared: None }
}

fn take_seat(request: &Request<'_>, number: usize) -> Option<Seat> {
    FilePresence::of(request.presence.as_ref())?.take(request.asks[number].name)
}
