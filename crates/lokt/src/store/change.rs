//! The one way anything changes: enter the mutex, read, decide, swap in, account for it, leave, make it durable, answer.
//!
//! *What is judged is what is replaced.* [`super::swap`] sees to that.
//!
//! *Durable before answered.* Owner parts and tokens outlive the machine: record and directory are synced after the mutex and before
//! the answer. Process parts can't outlive their boot and are not synced. Where a record with a living owner part is replaced by
//! another one with it, the new one is synced *before* it is swapped in: a power cut in between would otherwise leave an empty file where
//! an acknowledged hold was. Syncing inside the mutex would make everybody wait for the disk, so it is written and locked inside, synced
//! outside, and used on the next entry if nothing has changed meanwhile.

use std::time::Duration;

use lokt_core::audit::{self, Event};
use lokt_core::decide::{Badge, Bearer, Breaking, Cause, Decision, Grip, Intent, Policy, Terms, decide};
use lokt_core::denial::Denial;
use lokt_core::hold::{Fence, Hold, Identity, LockId, PartKind, PulseRef};
use lokt_core::line::to_offer;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::record;
use lokt_core::time::Moment;

use super::seat::{Place, Profile, Seat};
use super::slot::{Depth, Stored, View};
use super::standing::{Standing, may_pass};
use super::swap::{Commit, Prepared, Swapped};
use super::tokens::Drawn;
use super::trail::Trail;
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
    /// How long it was waited for in vain.
    pub(crate) waited: Option<Duration>,
    /// What the user should know although it worked.
    pub(crate) warnings: Vec<String>,
}

/// Done, or in line?
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Box<Changed>),
    /// Refused for now: the caller has a seat in the line.
    Waits(Box<Standing>),
}

/// What came of asking for several names at once.
pub(crate) struct Several {
    /// Answers, each with the number of its ask.
    pub(crate) granted: Vec<(usize, Changed)>,
    /// What went wrong after them.
    pub(crate) failure: Option<Error>,
}

/// What is asked of one name, and what is kept from one attempt to the next.
pub(crate) struct Ask<'a> {
    pub(crate) name: &'a LockName,
    intent: Intent,
    /// The hold gets a pulse: it is a guard's.
    beats: bool,
    /// A refusal that time may change puts the caller in line.
    pub(crate) waits: bool,
    pub(crate) profile: Profile,
    pub(crate) seat: Option<Seat>,
    /// How the wait ended that this attempt ends.
    pub(crate) waited: Option<Waited>,
    fresh_id: Option<LockId>,
    prepared: Option<Prepared>,
}

/// A wait that ended without a grant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) ms: u64,
    pub(crate) why: &'static str,
}

impl<'a> Ask<'a> {
    /// Asks once, and takes no for an answer.
    pub(crate) fn once(name: &'a LockName, intent: Intent) -> Self {
        Self {
            name,
            intent,
            beats: false,
            waits: false,
            profile: Profile::default(),
            seat: None,
            waited: None,
            fresh_id: None,
            prepared: None,
        }
    }

    /// Asks for a hold that lives as long as a pulse.
    pub(crate) fn guard(name: &'a LockName, terms: Terms, me: &Identity, inside: Option<Badge>) -> Self {
        let process = ProcessRef { pid: me.pid, start: me.pid_start };
        let profile = Profile { reason: terms.reason.clone(), ..Profile::default() };
        let bearer = Bearer { process, pulse: None, inside };
        Self { beats: true, profile, ..Self::once(name, Intent::Guard(terms, bearer)) }
    }

    /// Gives a guard's hold back, and its seat up.
    pub(crate) fn release(name: &'a LockName, grip: Grip, seat: Option<Seat>) -> Self {
        Self { seat, ..Self::once(name, Intent::Release(grip)) }
    }

    pub(crate) fn intent(&self) -> &Intent {
        &self.intent
    }

    /// The intent, with the pulse that the hold would get: that of our seat, or one with the number that would be drawn.
    fn intent_now(&self, next: Fence) -> Intent {
        match &self.intent {
            Intent::Guard(terms, bearer) if self.beats => {
                let new = PulseRef { number: next.get(), dev: 0, ino: 0 };
                let pulse = Some(self.seat.as_ref().map_or(new, Seat::reference));
                Intent::Guard(terms.clone(), Bearer { pulse, ..bearer.clone() })
            }
            intent => intent.clone(),
        }
    }

    fn ticket(&self) -> Option<u64> {
        self.seat.as_ref().map(|seat| seat.number)
    }
}

/// What one entry into the mutex came to.
enum Attempt {
    Done(Box<Pending>),
    Waits(Box<Standing>),
    /// Written, not yet synced: sync it and come again.
    Prepare(Box<Prepared>),
    /// Somebody was faster. What was broken before is accounted for.
    Again(Trail),
    /// What was there is broken, but the rest failed.
    Failed(Trail, Error),
}

/// What is left to do for a change outside the mutex.
struct Pending {
    decision: Decision,
    view: View,
    file: Option<Box<dyn NewFile>>,
    aside: Option<String>,
    /// A file to delete.
    discard: Option<String>,
    trail: Trail,
    /// The seat that was given up with it.
    left: Option<Seat>,
    waited: Option<Duration>,
}

impl Store<'_> {
    /// Decides what is asked once and carries the answer out.
    pub(crate) fn change(&self, name: &LockName, intent: Intent) -> Result<Changed, Error> {
        let mut ask = Ask::once(name, intent);
        match self.pursue(&mut ask)? {
            Outcome::Done(changed) => Ok(*changed),
            Outcome::Waits(_) => unreachable!("only those who wait are put in line"),
        }
    }

    /// Decides what is asked and carries the answer out, or puts the caller in line.
    pub(crate) fn pursue(&self, ask: &mut Ask<'_>) -> Result<Outcome, Error> {
        for tries in 0..CHANGE_TRIES {
            let inside = self.enter()?;
            let temp = ask.prepared.as_ref().map(|prepared| prepared.temp.clone());
            let attempted = self.attempt(ask, tries >= PREPARE_TRIES);
            drop(inside);
            // Used, it has been renamed away and there is nothing to remove.
            if let Some(temp) = temp {
                let _ = self.disk.remove(&temp);
            }
            match attempted? {
                Attempt::Done(pending) => {
                    return Ok(Outcome::Done(Box::new(self.finish(ask.name, *pending)?)));
                }
                Attempt::Waits(standing) => return Ok(Outcome::Waits(standing)),
                Attempt::Again(trail) => drop(self.settle_trail(trail)),
                Attempt::Failed(trail, failure) => {
                    let _ = self.settle_trail(trail);
                    return Err(failure);
                }
                Attempt::Prepare(unsynced) => {
                    if let Err(error) = unsynced.file.sync() {
                        let _ = self.disk.remove(&unsynced.temp);
                        return Err(Error::io("sync", &self.root.join(&unsynced.temp), error));
                    }
                    ask.prepared = Some(*unsynced);
                }
            }
        }
        let path = self.root.join(record_path(ask.name));
        Err(Error::new(
            ErrorKind::Busy,
            format!("{} keeps being changed by a program that doesn't know lokt's mutex", path.display()),
        ))
    }

    /// Asks for all of them in one hold of the mutex. Gives the grants, each with its number. If one is refused, its refusal is the last
    /// answer, and mostly the only one: then nothing has changed. What was granted before it, or before a failure, the caller must
    /// give back.
    pub(crate) fn pursue_all(&self, asks: &mut [Ask<'_>]) -> Result<Several, Error> {
        let inside = self.enter()?;
        let (mut pending, mut trails, mut failure) = (Vec::new(), Vec::new(), None);
        // Who would be refused goes first, and alone; unless what stood in its way has just ended.
        let refused = self.refused(asks)?;
        for number in refused.into_iter().chain((0..asks.len()).filter(|number| Some(*number) != refused)) {
            let ask = &mut asks[number];
            let mut denied = false;
            // Syncing inside, so that nobody gets in between.
            match self.attempt(ask, true) {
                Ok(Attempt::Done(done)) => {
                    denied = matches!(done.decision, Decision::Deny(_));
                    pending.push((number, *done));
                }
                Ok(Attempt::Failed(trail, error)) => {
                    trails.push(trail);
                    failure = Some(error);
                }
                Ok(_) => failure = Some(self.changing(ask.name)),
                Err(error) => failure = Some(error),
            }
            if denied || failure.is_some() {
                break;
            }
        }
        drop(inside);
        for trail in trails {
            drop(self.settle_trail(trail));
        }
        let mut granted = Vec::new();
        for (number, pending) in pending {
            match self.finish(asks[number].name, pending) {
                Ok(changed) => granted.push((number, changed)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // In their order; a refusal comes after what must be given back because of it.
        granted.sort_by_key(|(number, changed)| (matches!(changed.decision, Decision::Deny(_)), *number));
        Ok(Several { granted, failure })
    }

    /// The first of `asks` that would be refused now.
    fn refused(&self, asks: &[Ask<'_>]) -> Result<Option<usize>, Error> {
        let now = self.machine.now();
        let id = LockId::default();
        for (number, ask) in asks.iter().enumerate() {
            let view = self.view(ask.name, &now, Depth::Line, ask.ticket())?.readable(ask.name)?;
            let facts = view.facts(now, &id, FENCE_UNUSED, ask.ticket());
            if matches!(decide(&ask.intent_now(FENCE_UNUSED), facts, self.me, &Policy::NAMED), Decision::Deny(_)) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn changing(&self, name: &LockName) -> Error {
        let path = self.root.join(record_path(name));
        Error::new(ErrorKind::Busy, format!("{} changed at this moment", path.display()))
    }

    /// One look inside the mutex, and what follows from it there.
    fn attempt(&self, ask: &mut Ask<'_>, sync_inside: bool) -> Result<Attempt, Error> {
        let name = ask.name;
        let path = record_path(name);
        let takes = takes(&ask.intent);
        let now = self.machine.now();
        let mut view = self.view(name, &now, depth(&ask.intent), ask.ticket())?;
        if !matches!(ask.intent, Intent::Unlock(Breaking::Force, _)) {
            view = view.readable(name)?;
        }
        if ask.seat.as_ref().is_some_and(|seat| takes && !self.stands(seat)) {
            // Somebody deleted the pulse: nobody sees that we wait, so we queue again.
            ask.seat.take().inspect(Seat::let_go);
        }
        let drawn = if takes { Some(self.draw_token(view.found.hold())?) } else { self.outrun(&view) };
        // Only a new hold looks at it.
        let next_token = drawn.as_ref().map_or(FENCE_UNUSED, Drawn::token);
        let fresh_id = self.fresh_id(ask)?;
        let intent = ask.intent_now(next_token);
        let mut decision =
            decide(&intent, view.facts(now, &fresh_id, next_token, ask.ticket()), self.me, &Policy::NAMED);
        if takes {
            let leaves = ask.seat.is_some() && (!ask.waits || !matches!(decision, Decision::Deny(_)));
            self.clear_line(name, &view.line, leaves);
            if matches!(decision, Decision::Deny(Denial::Queued { .. }))
                && let Some(head) = to_offer(&view.line.tickets(), ask.ticket(), now.monotonic_ms)
            {
                self.offer(name, &view.line, head, &now);
            }
        }
        let (mut aside, mut file, mut discard, mut events) = (None, None, None, Vec::new());
        match &mut decision {
            Decision::Deny(denial) if ask.waits && may_pass(denial) => {
                let denial = denial.clone();
                return self.queue(ask, &view, denial, drawn.as_ref(), &now);
            }
            Decision::Deny(_) | Decision::Inside => {}
            Decision::Commit { next, cause, broken } => {
                if let Some(next) = next {
                    name.as_str().clone_into(&mut next.name);
                }
                let (waited, mut counted) = (ask.seat.is_some(), false);
                if let (true, Some(next), Some(drawn)) = (ask.beats, next.as_mut(), &drawn) {
                    counted = self.seat_holder(ask, drawn, &now)?;
                    next.pulse = ask.seat.as_ref().map(Seat::reference);
                }
                // Whoever has waited is waited for by others.
                if takes && !waited {
                    self.tidy();
                }
                let prepared =
                    match self.presync(ask.prepared.take(), next.as_deref(), *cause, &view, &now, sync_inside)? {
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
                    match if counted { Ok(()) } else { self.use_token(drawn) } {
                        // What only ends must not fail for a counter.
                        Err(error) if takes => return Err(error),
                        Err(_) => {}
                        Ok(()) => events.extend(drawn.event(name.as_str(), self, &now)),
                    }
                }
                let next = next.as_deref();
                let commit =
                    Commit { path: &path, view: &view, next, cause: *cause, broken: *broken, prepared, sync_inside };
                match self.swap(commit)? {
                    Swapped::Again => return Ok(Attempt::Again(Trail::default())),
                    Swapped::Done { file: published, aside: moved, discard: old } => {
                        (file, aside, discard) = (published, moved, old);
                    }
                    Swapped::BrokeOnly { aside, failure } => {
                        // What was broken comes first; the rest didn't happen. One's own stale hold, which was to be revived, is gone.
                        let gone = Decision::Commit { next: None, cause: Cause::Prune, broken: None };
                        let decision = if broken.is_some() { &decision } else { &gone };
                        events.extend(
                            self.told(decision, view.found.hold(), ask, &now, aside.as_ref()).into_iter().take(1),
                        );
                        let trail = self.account(&events);
                        return Ok(match failure {
                            None => Attempt::Again(trail),
                            Some(failure) => Attempt::Failed(trail, failure),
                        });
                    }
                }
                // Our own goes with our seat.
                if !matches!(ask.intent, Intent::Release(_)) {
                    self.forget_pulse(view.found.hold(), next);
                }
                if drawn.as_ref().is_some_and(Drawn::raises) {
                    self.tidy_held(&now);
                }
            }
        }
        events.extend(self.told(&decision, view.found.hold(), ask, &now, aside.as_ref()));
        let trail = self.account(&events);
        // A guard that was granted keeps its seat; for everybody else this was the end.
        let keeps = ask.beats && matches!(decision, Decision::Commit { .. });
        let left = if keeps { None } else { ask.seat.take() };
        if let Some(seat) = &left {
            self.stand_up(seat);
        }
        let waited = ask.waited.map(|waited| Duration::from_millis(waited.ms));
        Ok(Attempt::Done(Box::new(Pending { decision, view, file, aside, discard, trail, left, waited })))
    }

    fn fresh_id(&self, ask: &mut Ask<'_>) -> Result<LockId, Error> {
        if let Some(id) = &ask.fresh_id {
            return Ok(id.clone());
        }
        let bits = self.machine.random().map_err(|source| Error::io("get random bits for", self.root, source))?;
        Ok(ask.fresh_id.insert(LockId::from_bits(bits)).clone())
    }

    /// Gives a hold that is about to be granted its pulse. True: the drawn number was used for it.
    fn seat_holder(&self, ask: &mut Ask<'_>, drawn: &Drawn, now: &Moment) -> Result<bool, Error> {
        if let Some(seat) = &mut ask.seat {
            self.move_to(seat, Place::Held)?;
            return Ok(false);
        }
        self.use_token(drawn)?;
        ask.seat = Some(self.sit(ask.name, drawn.token().get(), Place::Held, &ask.profile, now)?);
        Ok(true)
    }

    /// Puts the caller in line, and finds out whom it waits for.
    fn queue(
        &self,
        ask: &mut Ask<'_>,
        view: &View,
        denial: Denial,
        drawn: Option<&Drawn>,
        now: &Moment,
    ) -> Result<Attempt, Error> {
        let events: Vec<Event> = match (&mut ask.seat, drawn) {
            (Some(seat), _) => {
                self.move_to(seat, Place::Line)?;
                self.wake(ask.name, seat)?;
                Vec::new()
            }
            (None, Some(drawn)) => {
                self.use_token(drawn)?;
                ask.seat = Some(self.sit(ask.name, drawn.token().get(), Place::Line, &ask.profile, now)?);
                drawn.event(ask.name.as_str(), self, now).into_iter().collect()
            }
            (None, None) => unreachable!("whoever takes has drawn a number"),
        };
        let trail = self.account(&events);
        drop(self.settle_trail(trail));
        let mine = ask.ticket().expect("it has just been seated");
        Ok(Attempt::Waits(Box::new(Standing::of(ask.name, view, denial, mine, now))))
    }

    /// What must be done before a change is answered, and may be done outside the mutex.
    fn finish(&self, name: &LockName, pending: Pending) -> Result<Changed, Error> {
        let Pending { decision, view, file, aside, discard, trail, left, waited } = pending;
        // Whoever waits for this wakes now; what is left to do needs nobody to wait.
        left.iter().for_each(Seat::let_go);
        if let Some(seat) = &left {
            self.clear_away(seat);
        }
        if let Some(temp) = discard {
            let _ = self.disk.remove(&temp);
        }
        let durable = self.make_durable(&decision, &view, file.as_deref());
        let warnings = self.settle_trail(trail);
        if let Err(error) = durable {
            return Err(self.undo(name, &decision, error));
        }
        let before = view.found.hold().cloned();
        let waiters = view.line.waiters.len() + view.line.behind.len();
        Ok(Changed { decision, before, waiters, aside, waited, warnings })
    }

    /// Gives a seat up: the wait is over, or it failed. Should a record name it, that is now the hold of a dead process.
    pub(crate) fn give_up(&self, ask: &mut Ask<'_>) {
        if let Some(seat) = ask.seat.take() {
            // Without the mutex, if it can't be had: our own ticket is nobody else's business.
            let inside = self.enter().ok();
            self.abandon(&seat, ask.name);
            drop(inside);
            seat.let_go();
        }
    }

    /// Leaves the line without an answer, which is remembered as a refusal.
    pub(crate) fn leave_line(&self, ask: &mut Ask<'_>, denial: Denial) {
        // Without the mutex, if it can't be had: whoever is told to go doesn't wait for it twice.
        let inside = self.enter().ok();
        let trail = inside.as_ref().map(|_| {
            let now = self.machine.now();
            self.account(&self.told(&Decision::Deny(denial), None, ask, &now, None))
        });
        let seat = ask.seat.take();
        if let Some(seat) = &seat {
            self.stand_up(seat);
        }
        drop(inside);
        seat.iter().for_each(Seat::let_go);
        drop(trail.map(|trail| self.settle_trail(trail)));
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
        before: Option<&Hold>,
        ask: &Ask<'_>,
        now: &Moment,
        aside: Option<&String>,
    ) -> Vec<Event> {
        let ttl_sec = requested_ttl(&ask.intent);
        let mut told = audit::events(decision, before, ttl_sec, ask.name.as_str(), self.me, now.wall);
        if let (Some(aside), Some(event)) = (aside, told.first_mut()) {
            event.extra.insert("aside".into(), aside.clone().into());
        }
        if let (Some(waited), Decision::Deny(_), Some(event)) = (ask.waited, decision, told.first_mut()) {
            event.extra.insert("waited_ms".into(), waited.ms.into());
            event.extra.insert("reason".into(), waited.why.into());
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

fn depth(intent: &Intent) -> Depth {
    match intent {
        Intent::Lock(_) | Intent::Guard(..) => Depth::Line,
        Intent::Renew(_) | Intent::Release(_) => Depth::Grip,
        Intent::Unlock(..) | Intent::UnlockFor(_) | Intent::Prune => Depth::Holder,
    }
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
