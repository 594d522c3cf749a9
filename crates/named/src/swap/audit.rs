//! The audit log of a space: written with the change that it describes, read in the order of the
//! changes.
//!
//! The key of an event has the revision of the look by which its change was judged; the order is
//! that of the revisions at which the keys were created. A token that a change draws is known only
//! when the change is made: its event has the base, and readers add the revision.

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use lokt_core::audit::{Event, Line};
use lokt_core::engine::{Change, Item, Rev, Write};
use lokt_core::name::LockName;
use lokt_core::swap::Op as SwapOp;
use lokt_core::swap::keys::Place;

use super::{Engine, Shared, SwapStore};
use crate::store::{AuditLog, Call, Follow, Found, Op, Show, Store, Subscription};
use lokt_sys::error::Error;
use lokt_sys::threads::locked;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::Warning;

/// Member of an event with the base of its drawn token.
const BASE: &str = "token_base";
/// Member of an event with the token of its hold.
const TOKEN: &str = "fencing_token";
/// Minimum milliseconds between two refusals of a name that are kept.
const DENIAL_MS: u64 = 10_000;

/// Marks the event of a hold whose token is drawn by its change.
pub(super) fn mark_drawn(event: &mut Event, base: u64) {
    event.extra.remove(TOKEN);
    event.extra.insert(BASE.into(), base.into());
}

/// Returns the event of an item, with its token.
fn event(item: &Item) -> Option<Event> {
    let mut event = Event::parse(&item.value)?;
    if let Some(base) = event.extra.remove(BASE).and_then(|base| base.as_u64()) {
        event.extra.insert(TOKEN.into(), base.saturating_add(item.born.0).into());
    }
    Some(event)
}

impl<E: Engine> Shared<E> {
    /// Returns all events after a revision, oldest first, and the revision of the look.
    fn events(&self, after: Rev, call: &Call<'_>) -> Result<(Vec<Item>, Rev), Error> {
        let sight = self.all(&self.space.audits(), call)?;
        let mut items: Vec<(Rev, u32, Item)> = Vec::new();
        for item in sight.spans.into_iter().flatten().filter(|item| item.born > after) {
            if let Some(Place::Audit { i, .. }) = self.space.parse(&item.key) {
                items.push((item.born, i, item));
            }
        }
        items.sort_by_key(|(born, i, _)| (*born, *i));
        Ok((items.into_iter().map(|(_, _, item)| item).collect(), sight.at))
    }

    /// Logs something that changed no lock.
    pub(super) fn tell(&self, op: Op, events: &[Event], call: &Call<'_>) -> Vec<Warning> {
        let op = if op.0 == 0 { self.random().unwrap_or(1) } else { op.0 };
        let put =
            |(i, event): (u32, &Event)| Write::Put(self.space.audit(Rev::NEVER, SwapOp(op), i), event.encode(), None);
        let writes: Vec<Write> = (0..).zip(events).map(put).collect();
        if writes.is_empty() {
            return Vec::new();
        }
        let change = Change { writes, ..Change::default() };
        match self.engine.make(&change, call) {
            Ok(_) => Vec::new(),
            Err(trouble) => vec![Warning::Audit(format!("the audit log wasn't told: {}", trouble.error()))],
        }
    }

    /// Keeps the last refusal of a name. Best effort.
    pub(super) fn note_denial(&self, name: &LockName, events: &[Event], call: &Call<'_>) {
        let Some(event) = events.first() else { return };
        let now_ms = self.now().monotonic_ms;
        let is_due = {
            let mut denials = locked(&self.denials);
            let is_due = denials.get(name).is_none_or(|at_ms| now_ms.saturating_sub(*at_ms) >= DENIAL_MS);
            if is_due {
                denials.insert(name.clone(), now_ms);
            }
            is_due
        };
        if is_due {
            let key = self.space.denial(name, &event.owner);
            let change = Change { writes: vec![Write::Put(key, event.encode(), None)], ..Change::default() };
            let _ = self.engine.make(&change, call);
        }
    }
}

fn show_item(item: &Item, show: &mut Show<'_>) -> ControlFlow<()> {
    let line = event(item).map(|event| event.encode());
    match line.as_deref().and_then(Line::parse) {
        Some(line) => show(Found::Event(line)),
        None => show(Found::NoEvent),
    }
}

impl<E: Engine> AuditLog for SwapStore<E> {
    fn read(&self, show: &mut Show<'_>, call: &Call<'_>) -> Result<(), Error> {
        let shared = self.shared();
        for item in shared.events(Rev::NEVER, &shared.limited(call))?.0 {
            if show_item(&item, show).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn last(&self, name: Option<&LockName>, limit: usize, call: &Call<'_>) -> Vec<Event> {
        let shared = self.shared();
        let (items, _) = shared.events(Rev::NEVER, &shared.limited(call)).unwrap_or_default();
        let is_of = |event: &Event| name.is_none_or(|name| event.name == name.as_str());
        items.iter().rev().filter_map(event).filter(is_of).take(limit).collect()
    }

    fn follow(&self) -> Box<dyn Follow> {
        Box::new(SwapFollow { shared: Arc::clone(self.shared()), after: None, wakeup: None })
    }
}

/// Follows the audit log of a space.
struct SwapFollow<E> {
    shared: Arc<Shared<E>>,
    after: Option<Rev>,
    wakeup: Option<(Wakeup, Subscription)>,
}

impl<E: Engine> Follow for SwapFollow<E> {
    fn look(&mut self, _store: Option<&dyn Store>, show: &mut Show<'_>) -> Result<ControlFlow<()>, Error> {
        let shared = &self.shared;
        match &self.wakeup {
            Some((wakeup, _)) => drop(wakeup.heard()),
            None => {
                self.wakeup = Wakeup::new().ok().and_then(|wakeup| {
                    let watched = shared.engine.watch(&[shared.space.audits()], Rev::NEVER, &wakeup).ok()?;
                    Some((wakeup, watched))
                });
            }
        }
        let (items, at) = shared.events(self.after.unwrap_or(Rev::NEVER), &shared.limited(&Call::UNLIMITED))?;
        if self.after.replace(at).is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        for item in &items {
            if show_item(item, show).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wakeup.as_ref().map(|(wakeup, _)| wakeup.as_fd())
    }
}
