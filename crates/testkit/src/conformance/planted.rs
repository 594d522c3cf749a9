//! Stores with a planted mistake, each of which the suite must notice.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use lokt_core::checkup::Check;
use lokt_core::decide::{HoldKey, Intent};
use lokt_core::engine::{Change, Key, Lasts, Made, Pin, Rev, SessionId, Sight, Span, Write};
use lokt_core::hold::{Fence, Hold};
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_named::judge::{Story, rule};
use lokt_named::store::{
    Answers, Ask, AuditLog, Call, Contract, Depth, Done, Judge, Presence, Queued, Request, Scan, See, Store,
    Subscription, Told, View, WakeOn,
};
use lokt_named::swap::{Card, Engine, MemEngine, Trouble};
use lokt_sys::error::Error;
use lokt_sys::wakeup::Wakeup;

use super::worlds::{Callers, engine, memory};
use super::{CASES, Case};

/// A mistake of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// An addition doesn't rewrite the version of its name.
    CellKept,
    /// A waiter's token is its place in the queue.
    TokenFromTicket,
    /// A release ends the hold that is there, whichever that is.
    ReleaseOfAny,
    /// A request that comes late is applied.
    LateApplied,
}

impl Mistake {
    /// A world whose stores make this mistake.
    pub fn world(self) -> Callers {
        match self {
            Self::CellKept | Self::LateApplied => engine(|engine| SpoiltEngine { engine, mistake: self }),
            Self::TokenFromTicket | Self::ReleaseOfAny => {
                memory().wrapped(|store| Box::new(SpoiltStore { store, mistake: self }))
            }
        }
    }

    /// The cases that fail in such a world.
    pub fn noticed_by(self) -> Vec<&'static str> {
        let fails = |case: Case| catch_unwind(AssertUnwindSafe(|| case(&self.world()))).is_err();
        CASES.iter().filter(|(_, case)| fails(*case)).map(|(name, _)| *name).collect()
    }
}

/// An engine that makes something else of changes than was sent.
struct SpoiltEngine {
    engine: MemEngine,
    mistake: Mistake,
}

fn is_cell(key: &Key) -> bool {
    key.0.ends_with("/cell")
}

impl SpoiltEngine {
    fn spoilt(&self, change: &Change) -> Change {
        let mut change = change.clone();
        // One write alone is that of a settling.
        if self.mistake == Mistake::CellKept && change.writes.len() > 1 {
            change.writes.retain(|write| !matches!(write, Write::Put(key, ..) if is_cell(key)));
        }
        if self.mistake == Mistake::LateApplied && change.writes.len() > 1 {
            change.pins.retain(|pin| !matches!(pin, Pin::Since(key, _) if is_cell(key)));
        }
        change
    }
}

impl Engine for SpoiltEngine {
    fn card(&self, call: &Call<'_>) -> Result<Card, Trouble> {
        self.engine.card(call)
    }

    fn look(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Trouble> {
        self.engine.look(spans, call)
    }

    fn page(&self, span: &Span, after: Option<&Key>, at: Option<Rev>, call: &Call<'_>) -> Result<Sight, Trouble> {
        self.engine.page(span, after, at, call)
    }

    fn make(&self, change: &Change, call: &Call<'_>) -> Result<Made, Trouble> {
        self.engine.make(&self.spoilt(change), call)
    }

    fn open(&self, id: SessionId, ttl: Duration, call: &Call<'_>) -> Result<Lasts, Trouble> {
        self.engine.open(id, ttl, call)
    }

    fn renew(&self, id: SessionId, call: &Call<'_>) -> Result<Option<Lasts>, Trouble> {
        self.engine.renew(id, call)
    }

    fn close(&self, id: SessionId, call: &Call<'_>) -> Result<(), Trouble> {
        self.engine.close(id, call)
    }

    fn watch(&self, spans: &[Span], after: Rev, wakeup: &Wakeup) -> Result<Subscription, Trouble> {
        self.engine.watch(spans, after, wakeup)
    }
}

/// A store that asks or answers something else.
struct SpoiltStore {
    store: Box<dyn Store>,
    mistake: Mistake,
}

impl SpoiltStore {
    /// Asks to release whatever hold is there.
    fn release_any(&self, request: &mut Request<'_>, call: &Call<'_>) -> Result<Answers, Error> {
        let key = |name: &LockName| -> Option<HoldKey> {
            let view = self.store.view(name, Depth::HOLDER, None, call).ok()?;
            let hold = view.slot.hold()?;
            Some(HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse })
        };
        let any = |ask: &Ask<'_>| {
            let intent = key(ask.name).map_or_else(|| ask.intent.clone(), Intent::Release);
            (ask.name.clone(), intent, ask.fresh_id.clone())
        };
        let asked: Vec<_> = request.asks.iter().map(any).collect();
        let asks: Vec<_> = asked.iter().map(|(name, intent, id)| Ask::lock(name, intent.clone(), id.clone())).collect();
        let (me, contract) = (request.me, self.store.contract());
        let spoilt = Request::of(me, request.op, &asks);
        let mut spoilt = Request { presence: request.presence.clone(), ..spoilt };
        let mut judge = |number: usize, view: &View| rule(&asks[number], false, &Story::default(), view, me, contract);
        self.store.transact(&mut spoilt, &mut judge, call)
    }
}

impl Store for SpoiltStore {
    fn contract(&self) -> &Contract {
        self.store.contract()
    }

    fn location(&self, name: Option<&LockName>) -> PathBuf {
        self.store.location(name)
    }

    fn view(&self, name: &LockName, depth: Depth, mine: Option<&dyn Presence>, call: &Call<'_>) -> Result<View, Error> {
        self.store.view(name, depth, mine, call)
    }

    fn names(&self, of: Scan, call: &Call<'_>) -> Result<Vec<LockName>, Error> {
        self.store.names(of, call)
    }

    fn scan(&self, of: Scan, depth: Depth, call: &Call<'_>, see: &See<'_>) -> Result<(), Error> {
        self.store.scan(of, depth, call, see)
    }

    fn transact(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Result<Answers, Error> {
        if self.mistake == Mistake::ReleaseOfAny && request.asks.iter().all(Ask::releases) {
            return self.release_any(request, call);
        }
        let (waits, place) = (request.waits, request.place);
        let mut answers = self.store.transact(request, judge, call)?;
        if let (Mistake::TokenFromTicket, true, Some(place)) = (self.mistake, waits, place) {
            for (_, done) in &mut answers {
                if let Done::Committed(committed) = done
                    && let Some(hold) = &mut committed.hold
                {
                    hold.token = Fence::new(place.0);
                }
            }
        }
        Ok(answers)
    }

    fn leave(&self, request: &mut Request<'_>, told: Option<&mut Told<'_>>, call: &Call<'_>) {
        self.store.leave(request, told, call);
    }

    fn under(
        &self,
        request: &Request<'_>,
        judge: &mut Judge<'_>,
        act: &mut dyn FnMut() -> Result<(), Error>,
        call: &Call<'_>,
    ) -> Result<Done, Error> {
        self.store.under(request, judge, act, call)
    }

    fn arm(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription> {
        self.store.arm(name, on, wakeup)
    }

    fn needs_recheck(&self, name: &LockName, queued: &Queued, call: &Call<'_>) -> bool {
        self.store.needs_recheck(name, queued, call)
    }

    fn command(&self, hold: &Hold) -> Option<ProcessRef> {
        self.store.command(hold)
    }

    fn audit(&self) -> &dyn AuditLog {
        self.store.audit()
    }

    fn checkup(&self, repair: bool, call: &Call<'_>, see: &mut dyn FnMut(Check)) -> Result<(), Error> {
        self.store.checkup(repair, call, see)
    }

    fn as_any(&self) -> &dyn Any {
        self.store.as_any()
    }
}
