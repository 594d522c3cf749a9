//! The one way anything changes: enter the mutex, read, decide, swap in, account for it, leave, make it durable, answer.
//!
//! *What is judged is what is replaced.* [`super::swap`] sees to that.
//!
//! *Durable before answered.* [`super::durable`] sees to that.

use std::time::Duration;

use lokt_core::audit::{self, Event};
use lokt_core::decide::{Cause, Decision, Intent, Policy, decide};
use lokt_core::denial::Denial;
use lokt_core::hold::{Fence, Hold, LockId};
use lokt_core::line::to_offer;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use super::ask::Ask;
use super::durable::{Presync, is_synced};
use super::seat::{Place, Seat};
use super::slot::{Depth, View};
use super::standing::{Standing, may_pass};
use super::swap::{Commit, Prepared, Swapped};
use super::tokens::Drawn;
use super::trail::Trail;
use super::{Kind, Store, record_path};
use crate::error::{Error, ErrorKind};
use crate::sys::disk::NewFile;

/// After this many swaps that didn't fit, the new record is synced inside the mutex.
const PREPARE_TRIES: usize = 3;
/// Somebody who doesn't know the mutex can get in between this often before we say so.
const CHANGE_TRIES: usize = 32;
/// Of many names, so many are changed in one hold of the mutex,
const BATCH_MAX: usize = 256;
/// and for so long: who wants one name doesn't wait for thousands of others.
const BATCH_MS: u64 = 50;

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

/// What a look came to.
struct Looked {
    now: Moment,
    view: View,
    drawn: Option<Drawn>,
    decision: Decision,
}

/// What a commit left on the disk, and what is to be told of it first.
#[derive(Default)]
struct Published {
    file: Option<Box<dyn NewFile>>,
    aside: Option<String>,
    discard: Option<String>,
    events: Vec<Event>,
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

impl Pending {
    /// The answer, when everything is done.
    fn answered(self, warnings: Vec<String>) -> Changed {
        let Self { decision, view, aside, waited, .. } = self;
        let waiters = view.line.waiters.len() + view.line.behind.len();
        Changed { decision, before: view.found.hold().cloned(), waiters, aside, waited, warnings }
    }
}

impl Store<'_> {
    /// Decides what is asked once and carries the answer out.
    pub(crate) fn change(&self, name: &LockName, intent: Intent) -> Result<Changed, Error> {
        self.change_asked(Ask::once(name, intent))
    }

    /// The same, of a lock or a freeze.
    pub(super) fn change_asked(&self, mut ask: Ask<'_>) -> Result<Changed, Error> {
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
                    return Ok(Outcome::Done(Box::new(self.finish(ask, *pending)?)));
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
        let path = self.root.join(ask.kind.path(ask.name));
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
            match self.finish(&asks[number], pending) {
                Ok(changed) => granted.push((number, changed)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // In their order; a refusal comes after what must be given back because of it.
        granted.sort_by_key(|(number, changed)| (matches!(changed.decision, Decision::Deny(_)), *number));
        Ok(Several { granted, failure })
    }

    /// Asks the same of many names, a few hundred in each hold of the mutex, each as [`Self::change`] would: judged and changed in one step,
    /// and told right after it. Only what is done outside is done for all of them at once: a directory is synced for a batch, not for
    /// each. `see` gets the answers. An error ends it; what was seen before is durable.
    pub(crate) fn change_each(
        &self,
        names: &[LockName],
        intent: &Intent,
        see: &mut dyn FnMut(&LockName, Changed),
    ) -> Result<(), Error> {
        let mut left = names;
        while !left.is_empty() {
            left = self.change_some(left, intent, see)?;
        }
        Ok(())
    }

    /// The first of the names, as many as one hold of the mutex lasts for. Gives the rest.
    fn change_some<'n>(
        &self,
        names: &'n [LockName],
        intent: &Intent,
        see: &mut dyn FnMut(&LockName, Changed),
    ) -> Result<&'n [LockName], Error> {
        let inside = self.enter()?;
        let began_ms = self.machine.now().monotonic_ms;
        let (mut batch, mut trails, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let (mut done, mut failure) = (0, None);
        for name in names.iter().take(BATCH_MAX) {
            done += 1;
            // Syncing inside, so that nobody gets in between; what only ends has nothing to sync.
            match self.attempt(&mut Ask::once(name, intent.clone()), true) {
                Ok(Attempt::Done(pending)) => batch.push((name, *pending)),
                Ok(Attempt::Again(trail)) => {
                    trails.push(trail);
                    again.push(name);
                }
                Ok(Attempt::Failed(trail, error)) => {
                    trails.push(trail);
                    failure = Some(error);
                }
                Ok(Attempt::Waits(_) | Attempt::Prepare(_)) => unreachable!("nobody waits, and nothing is prepared"),
                Err(error) => failure = Some(error),
            }
            if failure.is_some() || self.machine.now().monotonic_ms.saturating_sub(began_ms) >= BATCH_MS {
                break;
            }
        }
        drop(inside);
        self.finish_batch(batch, trails, see)?;
        for name in again {
            see(name, self.change(name, intent.clone())?);
        }
        failure.map_or(Ok(&names[done..]), Err)
    }

    /// [`Self::finish`] for the locks of a batch.
    fn finish_batch(
        &self,
        mut batch: Vec<(&LockName, Pending)>,
        mut trails: Vec<Trail>,
        see: &mut dyn FnMut(&LockName, Changed),
    ) -> Result<(), Error> {
        let (mut durable, mut syncs) = (Ok(()), false);
        for (_, pending) in &mut batch {
            self.put_away(pending);
            syncs |= is_synced(&pending.decision, &pending.view);
            durable = durable.and_then(|()| self.sync_record(Kind::Lock, &pending.decision, pending.file.as_deref()));
            trails.push(std::mem::take(&mut pending.trail));
        }
        if syncs {
            durable = durable.and_then(|()| self.sync_records(Kind::Lock));
        }
        let mut warnings: Vec<String> = Trail::joined(trails).flat_map(|trail| self.settle_trail(trail)).collect();
        durable?;
        for (name, pending) in batch {
            see(name, pending.answered(std::mem::take(&mut warnings)));
        }
        Ok(())
    }

    /// The first of `asks` that would be refused now.
    fn refused(&self, asks: &[Ask<'_>]) -> Result<Option<usize>, Error> {
        let now = self.machine.now();
        let id = LockId::default();
        for (number, ask) in asks.iter().enumerate() {
            let view = self.view(ask.name, &now, Depth::Line, ask.ticket())?.readable(ask.name, Kind::Lock)?;
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
        let looked = self.look(ask)?;
        match &looked.decision {
            Decision::Deny(denial) if ask.waits && may_pass(denial) => self.queue(ask, &looked, denial.clone()),
            Decision::Deny(_) | Decision::Inside => Ok(self.conclude(ask, looked, Published::default())),
            Decision::Commit { .. } => self.commit(ask, looked, sync_inside),
        }
    }

    /// Finds out everything and decides. Of the line, what is dead is removed and who is first is told if the lock is free.
    fn look(&self, ask: &mut Ask<'_>) -> Result<Looked, Error> {
        let name = ask.name;
        let takes = ask.takes();
        let now = self.machine.now();
        let mut view = match ask.kind {
            Kind::Lock => self.view(name, &now, ask.depth(), ask.ticket())?,
            kind => self.freeze_view(name, kind, &now),
        };
        if !ask.forces() {
            view = view.readable(name, ask.kind)?;
        }
        if ask.seat.as_ref().is_some_and(|seat| takes && !self.stands(seat)) {
            // Somebody deleted the pulse: nobody sees that we wait, so we queue again.
            ask.seat.take().inspect(Seat::let_go);
        }
        let drawn = if takes { Some(self.draw_token(view.found.hold())?) } else { self.outrun(&view) };
        // Only a new hold looks at it.
        let next_token = drawn.as_ref().map_or(FENCE_UNUSED, Drawn::token);
        let fresh_id = self.fresh_id(ask)?;
        let facts = view.facts(now, &fresh_id, next_token, ask.ticket());
        let decision = decide(&ask.intent_now(next_token), facts, self.me, &Policy::NAMED);
        if takes {
            let leaves = ask.seat.is_some() && (!ask.waits || !matches!(decision, Decision::Deny(_)));
            self.clear_line(name, &view.line, leaves);
            if matches!(decision, Decision::Deny(Denial::Queued { .. }))
                && let Some(head) = to_offer(&view.line.tickets(), ask.ticket(), now.monotonic_ms)
            {
                self.offer(name, &view.line, head, &now);
            }
        }
        Ok(Looked { now, view, drawn, decision })
    }

    /// Carries a commit out.
    fn commit(&self, ask: &mut Ask<'_>, mut looked: Looked, sync_inside: bool) -> Result<Attempt, Error> {
        let Looked { now, view, drawn, decision } = &mut looked;
        let Decision::Commit { next, cause, broken } = decision else { unreachable!("only commits are carried out") };
        let (name, now, takes) = (ask.name, *now, ask.takes());
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
        let prepared = match self.presync(ask.prepared.take(), next.as_deref(), *cause, view, &now, sync_inside)? {
            Presync::NotNeeded => None,
            Presync::Ready(prepared) => {
                // What was written is what is answered, down to the last digit of its times.
                *next = Some(Box::new(prepared.next.clone()));
                Some(prepared)
            }
            Presync::First(unsynced) => return Ok(Attempt::Prepare(Box::new(unsynced))),
        };
        let mut events = Vec::new();
        let draws = |drawn: &&Drawn| drawn.is_rebased() || draws(next.as_deref(), view.found.hold(), drawn);
        if let Some(drawn) = drawn.as_ref().filter(draws) {
            match if counted { Ok(()) } else { self.use_token(drawn) } {
                // What only ends must not fail for a counter.
                Err(error) if takes => return Err(error),
                Err(_) => {}
                Ok(()) => events.extend(drawn.event(name.as_str(), self, &now)),
            }
        }
        let (path, next) = (ask.kind.path(name), next.as_deref());
        let commit = Commit { path: &path, view, next, cause: *cause, broken: *broken, prepared, sync_inside };
        let (file, aside, discard) = match self.swap(commit)? {
            Swapped::Again => return Ok(Attempt::Again(Trail::default())),
            Swapped::Done { file, aside, discard } => (file, aside, discard),
            Swapped::BrokeOnly { aside, failure } => {
                // What was broken comes first; the rest didn't happen. One's own stale hold, which was to be revived, is gone.
                let gone = Decision::Commit { next: None, cause: Cause::Prune, broken: None };
                let decision = if broken.is_some() { &*decision } else { &gone };
                let told = self.told(decision, view.found.hold(), ask, &now, aside.as_ref());
                events.extend(told.into_iter().take(1));
                let trail = self.account(&events);
                return Ok(match failure {
                    None => Attempt::Again(trail),
                    Some(failure) => Attempt::Failed(trail, failure),
                });
            }
        };
        // Our own goes with our seat. A freeze has none, whatever a record that was put there by hand says.
        if ask.kind == Kind::Lock && !matches!(ask.intent, Intent::Release(_)) {
            self.forget_pulse(view.found.hold(), next);
        }
        if drawn.as_ref().is_some_and(Drawn::raises) {
            self.tidy_held(&now);
        }
        Ok(self.conclude(ask, looked, Published { file, aside, discard, events }))
    }

    /// Accounts for what was decided, and gives up a seat that isn't needed any more.
    fn conclude(&self, ask: &mut Ask<'_>, looked: Looked, published: Published) -> Attempt {
        let Looked { now, view, decision, .. } = looked;
        let Published { file, aside, discard, mut events } = published;
        events.extend(self.told(&decision, view.found.hold(), ask, &now, aside.as_ref()));
        let trail = self.account(&events);
        // A guard that was granted keeps its seat; for everybody else this was the end.
        let keeps = ask.beats && matches!(decision, Decision::Commit { .. });
        let left = if keeps { None } else { ask.seat.take() };
        if let Some(seat) = &left {
            self.stand_up(seat);
        }
        let waited = ask.waited.map(|waited| Duration::from_millis(waited.ms));
        Attempt::Done(Box::new(Pending { decision, view, file, aside, discard, trail, left, waited }))
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
    fn queue(&self, ask: &mut Ask<'_>, looked: &Looked, denial: Denial) -> Result<Attempt, Error> {
        let Looked { now, view, drawn, .. } = looked;
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
        let standing = Standing::of(ask.name, view, denial, mine, now);
        ask.queued.get_or_insert((now.monotonic_ms, standing.ahead as u64 + 1));
        Ok(Attempt::Waits(Box::new(standing)))
    }

    /// What must be done before a change is answered, and may be done outside the mutex.
    fn finish(&self, ask: &Ask<'_>, mut pending: Pending) -> Result<Changed, Error> {
        self.put_away(&mut pending);
        let durable = self.make_durable(ask.kind, &pending.decision, &pending.view, pending.file.as_deref());
        let warnings = self.settle_trail(std::mem::take(&mut pending.trail));
        if let Err(error) = durable {
            return Err(self.undo(ask.name, &pending.decision, error));
        }
        Ok(pending.answered(warnings))
    }

    /// Lets go of what is needed no more.
    fn put_away(&self, pending: &mut Pending) {
        // Whoever waits for this wakes now; what is left to do needs nobody to wait.
        pending.left.iter().for_each(Seat::let_go);
        if let Some(seat) = &pending.left {
            self.clear_away(seat);
        }
        if let Some(temp) = pending.discard.take() {
            let _ = self.disk.remove(&temp);
        }
    }

    /// Gives a seat up: the wait is over, or it failed. Should a record name it, that is now the hold of a dead process.
    pub(crate) fn give_up(&self, ask: &mut Ask<'_>) {
        if let Some(seat) = ask.seat.take() {
            // Without the mutex, if it can't be had: our own ticket is nobody else's business.
            let inside = self.enter().ok();
            let unnamed = self.abandon(&seat, ask.name);
            drop(inside);
            seat.let_go();
            if unnamed {
                self.clear_away(&seat);
            }
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
        let ttl_sec = ask.ttl_sec();
        let mut told = audit::events(decision, before, ttl_sec, ask.name.as_str(), self.me, now.wall);
        for event in told.iter_mut().filter(|event| ask.kind.is_freeze() && event.event == "auto-prune") {
            event.extra.insert("freeze".into(), true.into());
        }
        if let (Some(aside), Some(event)) = (aside, told.first_mut()) {
            event.extra.insert("aside".into(), aside.clone().into());
        }
        if let (Some(waited), Decision::Deny(_), Some(event)) = (ask.waited, decision, told.first_mut()) {
            event.extra.insert("waited_ms".into(), waited.ms.into());
            event.extra.insert("reason".into(), waited.why.into());
        }
        let mut account = ask.account(now);
        // Whoever ends a hold with `unlock` knows of it what the record says.
        if let (None, Decision::Commit { cause: Cause::Release(part), .. }, Some(hold)) =
            (account.held_ms, decision, before)
        {
            account.held_ms = audit::held_ms(hold, *part, now, self.me);
        }
        account.complete(&mut told);
        told
    }
}

/// Stands where no token is drawn.
const FENCE_UNUSED: Fence = match Fence::new(1) {
    Some(fence) => fence,
    None => unreachable!(),
};

/// Does this commit use the token that was drawn?
fn draws(next: Option<&Hold>, before: Option<&Hold>, drawn: &Drawn) -> bool {
    next.is_some_and(|next| next.token == Some(drawn.token()) && before.and_then(|hold| hold.token) != next.token)
}
