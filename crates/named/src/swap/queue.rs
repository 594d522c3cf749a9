//! Waiting: tickets in the queues of all names of a request, under one position, and waiters that
//! are passed over.
//!
//! A waiter sleeps on the ticket ahead of its own; the first one sleeps on what it waits for. Only
//! the first two read the whole name once a second. A waiter that leaves a free name alone loses
//! its ticket; it creates the ticket again, under its old position, when it checks again.

use std::sync::{Arc, Weak};

use lokt_core::denial::Denial;
use lokt_core::engine::{Key, Rev, SessionId, Span};
use lokt_core::hold::{Hold, Identity};
use lokt_core::line::OFFER_MS_MAX;
use lokt_core::name::LockName;
use lokt_core::swap::plan::{drop_tickets, queue};
use lokt_core::swap::record::Waiter;
use lokt_core::swap::view::{self as keys, Ticket};
use lokt_core::swap::{NameView, Op, View as Sighted};
use lokt_core::time::show_wall;

use super::attempt::Outcome;
use super::session::Session;
use super::transact::{Judged, Tried, refused};
use super::{Engine, Shared};
use crate::store::{Ask, Call, Done, Place, Presence, Queued, Request, Ruling, Slot, Subscription, Target, WakeOn};
use lokt_sys::error::Error;
use lokt_sys::threads::locked;
use lokt_sys::wakeup::Wakeup;

/// Member of a ticket that lists the names of a request for several.
const NAMES: &str = "names";
/// Waiters with fewer than this many ahead of them read the whole name.
const READERS: usize = 2;

/// A waiting request of this process: its position, and its presence.
pub(super) type Waiting = (u64, Weak<dyn Presence>);

/// A waiter for which all its names were found free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    ticket: Key,
    since: Rev,
    /// The versions of all names that it waits for.
    cells: Vec<Rev>,
    /// Time of the offer, by the monotonic clock of this machine.
    at_ms: u64,
}

impl<E: Engine> Shared<E> {
    /// Creates the tickets of a request, where it has none.
    pub(super) fn queue(
        self: &Arc<Self>,
        request: &mut Request<'_>,
        judged: &Judged<'_>,
        rulings: Vec<Ruling>,
        call: &Call<'_>,
    ) -> Result<Tried, Error> {
        self.be_present(request, call)?;
        let session = Session::<E>::of(request.presence.as_ref()).expect("it has just been opened");
        let place = request.place.map_or(judged.sighted.at, |place| Rev(place.0));
        for (name, ruling) in judged.names.iter().zip(&rulings) {
            if matches!(ruling.denial(), Some(Denial::Queued { .. }))
                && self.pass_over(judged.sighted, name, session.id, call)?
            {
                return Ok(Tried::Again(None));
            }
        }
        // The caller doesn't wait for what it is already inside of.
        let is_awaited = |name: &NameView| {
            judged
                .names
                .iter()
                .zip(&rulings)
                .any(|(other, ruling)| other.name == name.name && !matches!(ruling, Ruling::Stay { .. }))
        };
        let names: Vec<NameView> = judged.sighted.names.iter().filter(|name| is_awaited(name)).cloned().collect();
        let awaited = Sighted { names, ..judged.sighted.clone() };
        let waiter = self.waiter(request.me, request.asks);
        match queue(&self.space, &awaited, place, session.id, &waiter) {
            // It already waits in all of them.
            Err(lokt_core::swap::Refusal::Nothing) => {}
            Err(refusal) => return Err(refused(&refusal)),
            Ok(plan) => match self.make(&plan, Op(request.op.0), call)? {
                Outcome::Made(..) => {}
                Outcome::Void(sight) => return Ok(Tried::Again(sight)),
                Outcome::NoSession => {
                    let sent = self.now();
                    self.patiently(call, |call| session.open_again(sent, call))?;
                    return Ok(Tried::Again(None));
                }
            },
        }
        if let Some(presence) = &request.presence {
            let mut waiting = locked(&self.waiting);
            waiting.retain(|(_, other)| other.strong_count() > 0 && !is_of(other, presence));
            waiting.push((place.0, Arc::downgrade(presence)));
        }
        let mine = session.id;
        let mut answers = Vec::new();
        for (number, ruling) in rulings.into_iter().enumerate() {
            if let Ruling::Queue(why) = ruling {
                let queued = self.queued(judged, number, why, place, mine);
                answers.push((number, Done::Queued(Box::new(queued))));
            }
        }
        Ok(Tried::Answered(answers))
    }

    fn queued(&self, judged: &Judged<'_>, number: usize, why: Denial, place: Rev, mine: SessionId) -> Queued {
        let (name, at) = (judged.names[number], judged.views[number].at);
        let ticket = self.space.name(&name.name).ticket(place, mine);
        let before: Vec<&Ticket> = name.line.iter().filter(|other| other.key < ticket).collect();
        let wake_on = match (before.last(), &why) {
            (Some(predecessor), _) => WakeOn::Ahead(Place(predecessor.place.0)),
            (None, Denial::Frozen(_)) => WakeOn::Freeze,
            (None, _) => WakeOn::Holder,
        };
        Queued { why, at, place: Place(place.0), ahead: before.len(), wake_on, left: None }
    }

    fn waiter(&self, me: &Identity, asks: &[Ask<'_>]) -> Waiter {
        let profile = asks.first().map(|ask| ask.profile.clone()).unwrap_or_default();
        let mut waiter = Waiter {
            owner: me.owner.clone(),
            agent_id: me.agent_id.clone(),
            host: me.host.clone(),
            pid: me.pid,
            pid_start: me.pid_start,
            since: show_wall(self.now().wall),
            reason: profile.reason,
            holds: profile.holds,
            ..Waiter::default()
        };
        if asks.len() > 1 {
            let names: Vec<&str> = asks.iter().map(|ask| ask.name.as_str()).collect();
            waiter.extra.insert(NAMES.into(), names.into());
        }
        waiter
    }

    /// Removes the first ticket of a free name, if its waiter could have had all its names for too
    /// long by the clock of this machine. Returns true if it was removed.
    fn pass_over(&self, sighted: &Sighted, name: &NameView, mine: SessionId, call: &Call<'_>) -> Result<bool, Error> {
        let Some(head) = name.line.first().filter(|head| head.session != mine) else {
            locked(&self.offers).remove(&name.name);
            return Ok(false);
        };
        let Some(cells) = self.fits(name, head, call)? else {
            locked(&self.offers).remove(&name.name);
            return Ok(false);
        };
        let at_ms = self.now().monotonic_ms;
        let offer = Offer { ticket: head.key.clone(), since: head.since, cells, at_ms };
        let stood_ms = {
            let mut offers = locked(&self.offers);
            let is_same = |known: &&Offer| Offer { at_ms: known.at_ms, ..offer.clone() } == **known;
            let stood_ms = offers.get(&name.name).filter(is_same).map(|known| at_ms.saturating_sub(known.at_ms));
            if stood_ms.is_none() {
                offers.insert(name.name.clone(), offer);
            }
            stood_ms.unwrap_or(0)
        };
        if stood_ms <= OFFER_MS_MAX {
            return Ok(false);
        }
        let plan = drop_tickets(&self.space, sighted, [head]);
        locked(&self.offers).remove(&name.name);
        Ok(matches!(self.make(&plan, Op(0), call)?, Outcome::Made(..)))
    }

    /// Returns the versions of all names of this first waiter, if its request could be granted. A
    /// request for several names may wait for another one.
    fn fits(&self, name: &NameView, head: &Ticket, call: &Call<'_>) -> Result<Option<Vec<Rev>>, Error> {
        let names = head.waiter.as_ref().and_then(|waiter| waiter.extra.get(NAMES));
        let Some(names) = names.and_then(|names| names.as_array()) else { return Ok(Some(vec![name.cell_since])) };
        let names: Vec<LockName> = names.iter().filter_map(|name| LockName::new(name.as_str()?).ok()).collect();
        let sight = self.see(&keys::spans(&self.space, &names), call)?;
        let sighted = self.read(&names, &sight)?;
        let now = self.now();
        let cell = |name: &NameView| {
            let view = self.shown(name, Target::Lock, Some(head.session), now);
            let is_held = view.slot.holder().is_some_and(lokt_core::denial::Holder::lives);
            (!is_held && view.frozen.is_none() && view.ahead == 0).then_some(name.cell_since)
        };
        Ok(sighted.names.iter().map(cell).collect())
    }

    /// Reports whether a waiter should check again although nothing woke it. Also keeps its session
    /// alive.
    pub(super) fn stirs(&self, name: &LockName, queued: &Queued, call: &Call<'_>) -> bool {
        let is_here = |(place, presence): &Waiting| (*place == queued.place.0).then(|| presence.upgrade()).flatten();
        let waiting: Vec<_> = locked(&self.waiting).iter().filter_map(is_here).collect();
        for presence in &waiting {
            let session = Session::<E>::of(Some(presence));
            if session.is_some_and(|session| session.keep_waiting(call).unwrap_or(false)) {
                return true;
            }
        }
        let all = self.space.name(name);
        let place = all.ticket(Rev(queued.place.0), SessionId(0));
        let next = all.ticket(Rev(queued.place.0.saturating_add(1)), SessionId(0));
        if queued.ahead >= READERS {
            let first = all.ticket(Rev::NEVER, SessionId(0));
            let spans = [Span::Between(place.clone(), next), Span::Last(first, place)];
            return self.engine.look(&spans, call).is_ok_and(|sight| sight.spans.iter().any(Vec::is_empty));
        }
        let Ok(sight) = self.engine.look(&keys::spans(&self.space, [name]), call) else { return false };
        let sighted = Sighted::read(&self.space, [name], &sight);
        let Some(seen) = sighted.names.first() else { return true };
        let Some(mine) = seen.line.iter().find(|ticket| place <= ticket.key && ticket.key < next) else {
            return true;
        };
        let view = self.shown(seen, Target::Lock, Some(mine.session), self.now());
        let is_held = match &view.slot {
            Slot::Free | Slot::Corrupt(_) => false,
            Slot::Held(holder) => holder.lives(),
            Slot::BeingWritten | Slot::Newer(_) | Slot::Unreadable(_) => true,
        };
        if view.ahead < queued.ahead {
            return true;
        }
        match &queued.why {
            Denial::Held(holder) => {
                let is_other = |hold: &Hold| (&hold.lock_id, hold.token) != (&holder.hold.lock_id, holder.hold.token);
                !is_held || view.ahead == 0 && view.slot.hold().is_some_and(is_other)
            }
            Denial::Frozen(_) => view.frozen.is_none(),
            _ => !is_held && view.frozen.is_none(),
        }
    }

    /// Asks the engine to wake a waiter. Returns `None` if what it would wait for has already
    /// happened.
    pub(super) fn subscribe(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription> {
        let all = self.space.name(name);
        let span = match on {
            WakeOn::Ahead(Place(place)) => {
                let next = all.ticket(Rev(place.saturating_add(1)), SessionId(0));
                Span::Between(all.ticket(Rev(place), SessionId(0)), next)
            }
            WakeOn::Freeze => Span::Below(all.freeze()),
            _ => all.all(),
        };
        let call = self.limited(&Call::UNLIMITED);
        let spans = [span];
        let Ok(subscription) = self.engine.watch(&spans, Rev::NEVER, wakeup) else {
            return Some(Subscription::none());
        };
        // It may have happened before the watch began.
        let is_gone = matches!(on, WakeOn::Ahead(_))
            && self.engine.look(&spans, &call).is_ok_and(|sight| sight.spans.iter().all(Vec::is_empty));
        (!is_gone).then_some(subscription)
    }

    /// Ends the wait of a request whose presence continues with its holds.
    pub(super) fn forget_wait(&self, request: &Request<'_>) {
        if let Some(presence) = &request.presence {
            locked(&self.waiting).retain(|(_, other)| !is_of(other, presence));
        }
    }

    /// Ends the wait of a request that holds nothing with its presence: its tickets end with it.
    pub(super) fn end_wait(&self, request: &mut Request<'_>) {
        self.forget_wait(request);
        if request.asks.iter().any(Ask::takes) {
            request.presence = None;
        }
    }
}

fn is_of(known: &Weak<dyn Presence>, presence: &Arc<dyn Presence>) -> bool {
    std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(presence))
}
