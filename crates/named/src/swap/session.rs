//! The presence of a request: one session for its tickets and its process parts, whatever the
//! number of its names.
//!
//! A session lasts at least its TTL, counted from the clock *before* its renewal was sent: the
//! server counts from when it worked on it, which is later. A renewal counts for a hold only if a
//! look after it shows the life key that the hold was granted with, under the same server
//! ([`lokt_core::swap::keep`]).

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::HoldKey;
use lokt_core::denial::Holder;
use lokt_core::engine::{Lasts as Granted, Rev, SessionId, Span, Term};
use lokt_core::name::LockName;
use lokt_core::swap::keep::{self, Held, Known};
use lokt_core::time::Moment;

use super::{CLOSE, Engine, Shared, Trouble};
use crate::store::{Call, Depth, Kept, Lasts, Presence};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::threads::{Mutex, locked};

/// The session of a request. It is closed when it is dropped.
pub(super) struct Session<E: Engine> {
    store: Arc<Shared<E>>,
    pub(super) id: SessionId,
    ttl: Duration,
    known: Mutex<Known<Lasts>>,
}

impl<E: Engine> Session<E> {
    /// Returns a session that was opened by a request sent at `sent`.
    pub(super) fn new(store: &Arc<Shared<E>>, id: SessionId, ttl: Duration, sent: Moment, granted: Granted) -> Self {
        let known = Mutex::new(Known::proven(lasts(sent, granted), granted.term));
        Self { store: Arc::clone(store), id, ttl, known }
    }

    /// Returns the session of a request, which this store has created.
    pub(super) fn of(presence: Option<&Arc<dyn Presence>>) -> Option<&Self> {
        let presence: &dyn Any = &**presence?;
        presence.downcast_ref()
    }

    /// Returns how long a hold lasts that was granted under `term`. `None`: only a renewal can
    /// tell.
    pub(super) fn lasts_under(&self, term: Term) -> Option<Lasts> {
        let mut known = locked(&self.known);
        *known = known.used(Some(term));
        known.counts_under(term).then_some(known.lasts())
    }

    /// Returns how long it lasts by what is proven.
    pub(super) fn lasts_proven(&self) -> Lasts {
        locked(&self.known).lasts()
    }

    /// Renews the session of a waiter, if a third of its time has passed. If it is gone, opens it
    /// again: the waiter keeps its position. Returns true if it was gone.
    pub(super) fn keep_waiting(&self, call: &Call<'_>) -> Result<bool, Trouble> {
        let now = self.store.now();
        let renewed = locked(&self.known).last_renewed();
        let age_ms = now.boottime_ms.saturating_sub(renewed.sent.boottime_ms);
        if u128::from(age_ms) < renewed.ttl.as_millis() / 3 {
            return Ok(false);
        }
        match self.store.engine.renew(self.id, call)? {
            Some(granted) if granted.ttl_ms > 0 => {
                let mut known = locked(&self.known);
                *known = known.renewed(lasts(now, granted), granted.term);
                Ok(false)
            }
            _ => self.open_again(now, call).map(|()| true),
        }
    }

    /// Opens the session again, under its id. `sent`: the time before the first of these requests,
    /// which may have opened it.
    pub(super) fn open_again(&self, sent: Moment, call: &Call<'_>) -> Result<(), Trouble> {
        let granted = self.store.engine.open(self.id, self.ttl, call)?;
        *locked(&self.known) = Known::proven(lasts(sent, granted), granted.term);
        Ok(())
    }

    fn held(&self, name: &LockName, key: &HoldKey) -> Held {
        let life = self.store.space.name(name).process(&key.lock_id);
        Held { life, born: key.pulse.map_or(Rev::NEVER, |pulse| Rev(pulse.number)) }
    }

    /// Returns the current holder of a name that was lost.
    fn successor(&self, name: &LockName, call: &Call<'_>) -> Option<Box<Holder>> {
        let view = self.store.view(name, Depth::HOLDER, None, call).ok()?;
        view.slot.into_holder().filter(|holder| holder.lives())
    }
}

fn lasts(sent: Moment, granted: Granted) -> Lasts {
    Lasts { sent, ttl: Duration::from_millis(granted.ttl_ms) }
}

impl<E: Engine> Presence for Session<E> {
    fn keep(&self, holds: &[(LockName, HoldKey)], call: &Call<'_>) -> Result<Kept, Error> {
        let call = &self.store.limited(call);
        let sent = self.store.now();
        let granted = self.store.engine.renew(self.id, call).map_err(Trouble::into_error)?;
        let held: Vec<Held> = holds.iter().map(|(name, key)| self.held(name, key)).collect();
        let spans: Vec<Span> = held.iter().map(|held| Span::One(held.life.clone())).collect();
        let sight = self.store.engine.look(&spans, call).map_err(Trouble::into_error)?;
        let judged = keep::kept(granted, &sight, &held);
        let proven = granted.filter(|granted| granted.ttl_ms > 0 && granted.term == sight.term);
        if let Some(granted) = proven {
            *locked(&self.known) = Known::proven(lasts(sent, granted), granted.term);
        } else if !judged.contains(&keep::Kept::Lost) {
            // The old deadline stands.
            return Err(Error::new(ErrorKind::Busy, "the renewal of a session proves nothing: its server has changed"));
        }
        let each = judged.iter().zip(holds).map(|(kept, (name, _))| match kept {
            keep::Kept::Lost => Err(self.successor(name, call)),
            keep::Kept::Until(_) | keep::Kept::Unproven => Ok(()),
        });
        let each = each.collect();
        Ok(Kept { lasts: Some(self.lasts_proven()), each })
    }
}

impl<E: Engine> Drop for Session<E> {
    fn drop(&mut self) {
        let call = Call::within(CLOSE, &self.store.now());
        // Best effort: it expires automatically.
        let _ = self.store.engine.close(self.id, &call);
    }
}
