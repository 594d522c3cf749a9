//! One entry into the mutex: inspects the state, has it judged, changes what was judged, and logs
//! it.

use lokt_core::audit::Event;
use lokt_core::decide::Token;
use lokt_core::denial::Denial;
use lokt_core::hold::Identity;
use lokt_core::line::to_offer;
use lokt_core::time::Moment;

use super::Kind;
use super::audit_write::AuditWrite;
use super::durable::Presync;
use super::line::{ahead_of, tickets};
use super::seat::{Place, Seat};
use super::slot::Seen;
use super::swap::{Prepared, Swap, Swapped};
use super::tokens::Drawn;
use super::transact::Transactions;
use crate::store::{Ask, Commit, Committed, Done, Judge, Queued, Ruling, Slot, Stayed, View};
use lokt_sys::disk::NewFile;
use lokt_sys::error::Error;
use lokt_sys::mutex::Inside;
use lokt_sys::warnings::Warning;

/// An ask, and the state that is kept from one entry to the next.
pub(super) struct Try<'t> {
    pub(super) number: usize,
    pub(super) ask: &'t Ask<'t>,
    pub(super) me: &'t Identity,
    pub(super) waits: bool,
    pub(super) kind: Kind,
    pub(super) seat: Option<Seat>,
    pub(super) prepared: Option<Prepared>,
}

impl Try<'_> {
    fn ticket(&self) -> Option<u64> {
        self.seat.as_ref().map(|seat| seat.number)
    }
}

/// Result of one entry into the mutex.
pub(super) enum Attempt {
    Done(Box<Pending>),
    Waits(Box<Queued>),
    /// Written, not yet synced: sync it and enter again.
    Prepare(Box<Prepared>),
    /// Another process was faster. The log already says what was broken before.
    Again(AuditWrite),
    /// The old record was broken, but the rest failed.
    Failed(AuditWrite, Error),
}

/// Work left to do outside the mutex for an answer.
pub(super) struct Pending {
    pub(super) answer: Answer,
    pub(super) view: View,
    pub(super) file: Option<Box<dyn NewFile>>,
    aside: Option<String>,
    /// A file to delete.
    pub(super) discard: Option<String>,
    pub(super) trail: AuditWrite,
    /// The seat that was given up with it.
    pub(super) left: Option<Seat>,
}

/// The part of a ruling that the answer needs.
pub(super) enum Answer {
    Commit(Box<Commit>),
    Stay(Option<Denial>),
}

impl Pending {
    /// Reports whether it was refused.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.answer, Answer::Stay(Some(_)))
    }

    /// Returns the answer, once everything is done.
    pub(super) fn answered(self, warnings: Vec<Warning>) -> Done {
        let Self { answer, view: View { slot, waiting, .. }, aside, .. } = self;
        let before = slot.into_holder();
        match answer {
            Answer::Commit(commit) => {
                let Commit { next: hold, cause, broken, .. } = *commit;
                Done::Committed(Box::new(Committed { hold, cause, broken, before, lasts: None, aside, warnings }))
            }
            Answer::Stay(why) => Done::Stayed(Box::new(Stayed { why, holder: before, waiting, warnings })),
        }
    }
}

/// The state that was found, and the ruling on it.
struct Looked {
    seen: Seen,
    drawn: Option<Drawn>,
    ruling: Ruling,
}

/// Files that a commit left on the disk.
#[derive(Default)]
struct Published {
    file: Option<Box<dyn NewFile>>,
    aside: Option<String>,
    discard: Option<String>,
}

impl Transactions<'_> {
    /// Inspects the state once inside the mutex, and does what follows from it there.
    pub(super) fn attempt(
        &self,
        inside: &Inside,
        this: &mut Try<'_>,
        judge: &mut Judge<'_>,
        sync_inside: bool,
    ) -> Result<Attempt, Error> {
        let Looked { seen, drawn, ruling } = self.look(inside, this, judge)?;
        match ruling {
            Ruling::Commit(commit) => self.commit(inside, this, seen, drawn.as_ref(), commit, sync_inside),
            Ruling::Queue(denial) => self.queue(inside, this, &seen, drawn.as_ref(), denial),
            Ruling::Stay { why, events } => {
                let published = Published::default();
                Ok(self.conclude(inside, this, seen, Answer::Stay(why), &events, published))
            }
        }
    }

    /// Gathers the facts and has them judged. Also removes dead tickets from the queue, and
    /// notifies the head of the queue if the lock is free.
    fn look(&self, inside: &Inside, this: &mut Try<'_>, judge: &mut Judge<'_>) -> Result<Looked, Error> {
        let (ask, name, takes) = (this.ask, this.ask.name, this.ask.takes());
        let now = self.store.machine.now();
        let mut seen = match this.kind {
            Kind::Lock => self.store.records().look_at(name, ask.depth(), this.ticket(), &now)?,
            kind => self.store.records().look_at_freeze(name, kind, &now),
        };
        if !ask.forces() {
            seen.view = seen.view.readable(name, ask.target)?;
        }
        if this.seat.as_ref().is_some_and(|seat| takes && !self.store.seats().stands(seat)) {
            // The pulse was deleted: nobody sees that we wait, so we queue again.
            this.seat.take().inspect(Seat::let_go);
            seen.view.ahead = ahead_of(None, &seen.view.queue, &now);
        }
        let before = seen.view.slot.hold();
        let drawn = if takes {
            Some(self.store.tokens().draw_token(inside, before)?)
        } else {
            self.outrun(inside, &seen.view.slot)
        };
        let mut ruling = judge(this.number, &seen.view);
        if let (Ruling::Commit(commit), Some(drawn)) = (&mut ruling, &drawn) {
            commit.fill_token(drawn.token());
        }
        if takes {
            let leaves = this.seat.is_some() && (!this.waits || ruling.denial().is_none());
            self.store.seats().clear_line(inside, name, seen.view.queue.len(), &seen.rest, leaves);
            if matches!(ruling.denial(), Some(Denial::Queued { .. }))
                && let Some(head) = to_offer(&tickets(&seen.view.queue), this.ticket(), now.monotonic_ms)
            {
                self.store.seats().offer(inside, name, &seen.view.queue, head, &now);
            }
        }
        Ok(Looked { seen, drawn, ruling })
    }

    /// Carries out a commit.
    fn commit(
        &self,
        inside: &Inside,
        this: &mut Try<'_>,
        seen: Seen,
        drawn: Option<&Drawn>,
        mut commit: Box<Commit>,
        sync_inside: bool,
    ) -> Result<Attempt, Error> {
        let (ask, name, now) = (this.ask, this.ask.name, seen.view.at);
        let (waited, mut counted) = (this.seat.is_some(), false);
        if let (true, Some(drawn)) = (ask.is_present() && commit.next.is_some(), drawn) {
            counted = self.seat_holder(inside, this, drawn, &now)?;
            commit.fill_pulse(this.seat.as_ref().map(Seat::reference));
        }
        // Skip the cleanup after a wait: others are already queued behind us.
        if ask.takes() && !waited {
            self.store.records().tidy(inside);
        }
        let prepared = match self.store.records().presync(inside, this.prepared.take(), &commit, &seen, sync_inside)? {
            Presync::NotNeeded => None,
            Presync::Ready(prepared) => {
                // The answer is what was written, down to the last digit of its times.
                commit.store_written(prepared.next.clone());
                Some(prepared)
            }
            Presync::First(unsynced) => return Ok(Attempt::Prepare(Box::new(unsynced))),
        };
        let mut events = Vec::new();
        if let Some(drawn) = drawn.filter(|drawn| drawn.is_rebased() || commit.token == Token::Draw) {
            match if counted { Ok(()) } else { self.store.tokens().use_token(inside, drawn) } {
                // A request that only ends a hold must not fail because of a counter.
                Err(error) if ask.takes() => return Err(error),
                Err(_) => {}
                Ok(()) => events.extend(drawn.event(name.as_str(), this.me, &now)),
            }
        }
        let (path, next) = (this.kind.path(name), commit.next.as_deref());
        let swap =
            Swap { path: &path, seen: &seen, next, cause: commit.cause, broken: commit.broken, prepared, sync_inside };
        let published = match self.store.records().swap(inside, swap)? {
            Swapped::Again => return Ok(Attempt::Again(AuditWrite::default())),
            Swapped::Done { file, aside, discard } => Published { file, aside, discard },
            Swapped::BrokeOnly { aside, failure } => {
                // The broken record is logged first; the rest didn't happen.
                events.extend(commit.removed.take().map(|event| moved(event, aside.as_ref())));
                let trail = self.store.account(inside, &events);
                return Ok(match failure {
                    None => Attempt::Again(trail),
                    Some(failure) => Attempt::Failed(trail, failure),
                });
            }
        };
        // Our own pulse is removed with our seat. A freeze has no pulse, even if a record that was
        // put there by hand names one.
        if this.kind == Kind::Lock && !ask.releases() {
            self.store.seats().forget_pulse(inside, seen.view.slot.hold(), next);
        }
        if drawn.is_some_and(Drawn::raises) {
            self.store.seats().tidy_held(inside, &now);
        }
        let mut told = std::mem::take(&mut commit.events).into_iter();
        events.extend(told.next().map(|event| moved(event, published.aside.as_ref())));
        events.extend(told);
        Ok(self.conclude(inside, this, seen, Answer::Commit(commit), &events, published))
    }

    /// Logs the ruling, and gives up a seat that isn't needed any more.
    fn conclude(
        &self,
        inside: &Inside,
        this: &mut Try<'_>,
        seen: Seen,
        answer: Answer,
        events: &[Event],
        published: Published,
    ) -> Attempt {
        let Published { file, aside, discard } = published;
        let trail = self.store.account(inside, events);
        // A guard that was granted keeps its seat; every other request ends here.
        let keeps = this.ask.is_present() && matches!(answer, Answer::Commit(_));
        let left = if keeps { None } else { this.seat.take() };
        if let Some(seat) = &left {
            self.store.seats().stand_up(seat);
        }
        Attempt::Done(Box::new(Pending { answer, view: seen.view, file, aside, discard, trail, left }))
    }

    /// Gives a hold that is about to be granted its pulse. Returns true if the drawn number was
    /// used for it.
    fn seat_holder(&self, inside: &Inside, this: &mut Try<'_>, drawn: &Drawn, now: &Moment) -> Result<bool, Error> {
        if let Some(seat) = &mut this.seat {
            self.store.seats().move_to(inside, seat, Place::Held)?;
            return Ok(false);
        }
        self.store.tokens().use_token(inside, drawn)?;
        this.seat = Some(self.seat_of(inside, this, drawn, Place::Held, now)?);
        Ok(true)
    }

    fn seat_of(
        &self,
        inside: &Inside,
        this: &Try<'_>,
        drawn: &Drawn,
        place: Place,
        now: &Moment,
    ) -> Result<Seat, Error> {
        self.store.seats().sit(inside, drawn.token().get(), place, this.ask.profile.pulse(this.ask.name, this.me, now))
    }

    /// Puts the caller in the queue, and finds out whom it waits for.
    fn queue(
        &self,
        inside: &Inside,
        this: &mut Try<'_>,
        seen: &Seen,
        drawn: Option<&Drawn>,
        why: Denial,
    ) -> Result<Attempt, Error> {
        let (name, now) = (this.ask.name, seen.view.at);
        let events: Vec<Event> = match (&mut this.seat, drawn) {
            (Some(seat), _) => {
                self.store.seats().move_to(inside, seat, Place::Line)?;
                self.store.seats().wake(name, seat)?;
                Vec::new()
            }
            (None, Some(drawn)) => {
                self.store.tokens().use_token(inside, drawn)?;
                this.seat = Some(self.seat_of(inside, this, drawn, Place::Line, &now)?);
                drawn.event(name.as_str(), this.me, &now).into_iter().collect()
            }
            (None, None) => unreachable!("whoever takes has drawn a number"),
        };
        let trail = self.store.account(inside, &events);
        drop(self.store.sync_audit(trail));
        let mine = this.ticket().expect("it has just been seated");
        Ok(Attempt::Waits(Box::new(super::waiting::queued(&seen.view, why, mine))))
    }

    /// Returns a new start for the counter, if the record that is about to end is ahead of it. In
    /// that case an old `state/` was restored, and only this record shows how far tokens had come.
    fn outrun(&self, inside: &Inside, slot: &Slot) -> Option<Drawn> {
        slot.hold()?.token?;
        self.store.tokens().draw_token(inside, slot.hold()).ok().filter(Drawn::is_rebased)
    }
}

/// Adds to an event where its record was moved aside.
fn moved(mut event: Event, aside: Option<&String>) -> Event {
    if let Some(aside) = aside {
        event.extra.insert("aside".into(), aside.clone().into());
    }
    event
}
