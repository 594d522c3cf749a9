//! An engine in memory, for tests and models: exact, and on request as unreliable as a network.
//!
//! Its sessions expire by the clock of its machine, or when a test says so. A request can be lost,
//! its answer can be lost, it can be applied later ([`MemEngine::deliver`]), or twice. A call whose
//! time is up, or that is stopped, sends nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::engine::{Change, Item, Key, Keyspace, Lasts, Made, NoSession, Rev, SessionId, Sight, Span, Term};

use super::engine::{Card, Engine, Trouble};
use crate::store::{Call, Subscription};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::Machine;
use lokt_sys::threads::{Mutex, MutexGuard, locked};
use lokt_sys::wakeup::{WakeHandle, Wakeup};

/// Maximum number of keys in one page.
const PAGE_KEYS: usize = 100;

/// Fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is never applied, and not answered.
    Lost,
    /// It is applied, and not answered.
    AnswerLost,
    /// It isn't answered, and is applied by [`MemEngine::deliver`].
    Late,
    /// It is applied and answered, and applied again by [`MemEngine::deliver`].
    Doubled,
    /// It is applied twice at once, and the answer is that of the second copy.
    Echoed,
}

/// The kind of request that a fault is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Changes.
    Make,
    /// Openings of sessions.
    Open,
    /// Ends of sessions.
    Close,
}

/// A request that changes something.
#[derive(Debug, Clone)]
enum Sent {
    Make(Change),
    Open(SessionId, u64),
    Close(SessionId),
}

impl Sent {
    fn of(&self) -> Of {
        match self {
            Self::Make(_) => Of::Make,
            Self::Open(..) => Of::Open,
            Self::Close(_) => Of::Close,
        }
    }
}

#[derive(Default)]
struct State {
    keys: Keyspace,
    /// TTL and end of each session, in milliseconds of the boot clock.
    sessions: BTreeMap<SessionId, (u64, u64)>,
    under_way: Vec<Sent>,
    /// Faults for the requests of a kind, each after this many that are spared.
    faults: Vec<(Of, usize, Fault)>,
    watchers: Vec<Watcher>,
    is_away: bool,
}

struct Watcher {
    spans: Vec<Span>,
    seen: Vec<(Key, Rev)>,
    wakeup: WakeHandle,
}

/// An engine in memory. Clones are the same engine.
#[derive(Clone)]
pub struct MemEngine {
    state: Arc<Mutex<State>>,
    machine: Arc<dyn Machine>,
}

impl MemEngine {
    /// Returns an empty engine whose sessions expire by the boot clock of `machine`.
    pub fn new(machine: Arc<dyn Machine>) -> Self {
        Self { state: Arc::default(), machine }
    }

    /// Returns the state of the engine, after ending expired sessions.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.state);
        let now_ms = self.machine.now().boottime_ms;
        let is_over = |(id, (_, end_ms)): (&SessionId, &(u64, u64))| (*end_ms <= now_ms).then_some(*id);
        let over: Vec<_> = state.sessions.iter().filter_map(is_over).collect();
        for id in over {
            state.end(id);
        }
        state.ring();
        state
    }

    /// Makes the next request of this kind go wrong, after `spared` others of its kind.
    pub fn fail(&self, of: Of, spared: usize, fault: Fault) {
        locked(&self.state).faults.push((of, spared, fault));
    }

    /// Applies every request that is under way, in the order in which they were sent. Returns how
    /// many of them changed something.
    pub fn deliver(&self) -> usize {
        let mut state = self.state();
        let now_ms = self.machine.now().boottime_ms;
        let under_way = std::mem::take(&mut state.under_way);
        let mut count = 0;
        for sent in under_way {
            let before = state.keys.at();
            let _ = state.apply(&sent, now_ms);
            count += usize::from(state.keys.at() != before);
        }
        state.ring();
        count
    }

    /// Ends a session that has not expired, as a server may.
    pub fn end_session(&self, id: SessionId) {
        let mut state = self.state();
        state.end(id);
        state.ring();
    }

    /// Returns the sessions that exist.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.state().sessions.keys().copied().collect()
    }

    /// Returns the TTL of a session in milliseconds, if it exists.
    pub fn ttl_ms(&self, id: SessionId) -> Option<u64> {
        self.state().sessions.get(&id).map(|(ttl_ms, _)| *ttl_ms)
    }

    /// Returns the term of the server in charge.
    pub fn term(&self) -> Term {
        self.state().keys.term()
    }

    /// Refuses to send anything, or works again.
    pub fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Makes another server take charge.
    pub fn elect(&self) {
        self.state().keys.elect();
    }

    /// Returns the current revision.
    pub fn revision(&self) -> Rev {
        self.state().keys.at()
    }

    /// Returns the item of one key.
    pub fn item(&self, key: &Key) -> Option<Item> {
        self.state().keys.item(key)
    }

    /// Sends a request, which may go wrong. Returns `None` if it isn't answered.
    fn send(&self, sent: &Sent, call: &Call<'_>) -> Result<Option<Result<Made, NoSession>>, Trouble> {
        let mut state = self.reached(call)?;
        let now_ms = self.machine.now().boottime_ms;
        let answer = match state.next_fault(sent.of()) {
            Some(Fault::Lost) => None,
            Some(Fault::Late) => {
                state.under_way.push(sent.clone());
                None
            }
            Some(Fault::AnswerLost) => {
                let _ = state.apply(sent, now_ms);
                None
            }
            Some(Fault::Doubled) => {
                state.under_way.push(sent.clone());
                Some(state.apply(sent, now_ms))
            }
            Some(Fault::Echoed) => {
                let _ = state.apply(sent, now_ms);
                Some(state.apply(sent, now_ms))
            }
            None => Some(state.apply(sent, now_ms)),
        };
        state.ring();
        Ok(answer)
    }

    /// Returns the state of the engine, if a request of this call is sent at all.
    fn reached(&self, call: &Call<'_>) -> Result<MutexGuard<'_, State>, Trouble> {
        let away = |message: &str| Err(Trouble::Away(Error::new(ErrorKind::Busy, message)));
        if call.left(&self.machine.now()).is_some_and(|left| left.is_zero()) {
            return away("the time of the call is over");
        }
        if call.is_stopped() {
            return away("the caller stopped the call");
        }
        let state = self.state();
        if state.is_away { away("the engine is away") } else { Ok(state) }
    }
}

fn unanswered() -> Trouble {
    Trouble::Unknown(Error::new(ErrorKind::OutcomeUnknown, "the engine didn't answer"))
}

impl State {
    fn next_fault(&mut self, of: Of) -> Option<Fault> {
        let place = self.faults.iter().position(|fault| fault.0 == of)?;
        if self.faults[place].1 > 0 {
            self.faults[place].1 -= 1;
            return None;
        }
        Some(self.faults.remove(place).2)
    }

    fn apply(&mut self, sent: &Sent, now_ms: u64) -> Result<Made, NoSession> {
        match sent {
            Sent::Make(change) => return self.keys.apply(change),
            Sent::Open(id, ttl_ms) => {
                // As on etcd, a late copy opens a session that has ended, and doesn't extend one
                // that exists.
                self.keys.open(*id);
                self.sessions.entry(*id).or_insert((*ttl_ms, now_ms.saturating_add(*ttl_ms)));
            }
            Sent::Close(id) => self.end(*id),
        }
        Ok(Made::Done { at: self.keys.at(), term: self.keys.term() })
    }

    fn end(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        self.keys.end(id);
    }

    /// Rings for every watcher that sees something different from before.
    fn ring(&mut self) {
        let Self { keys, watchers, .. } = self;
        for watcher in watchers {
            let seen = seen(keys, &watcher.spans);
            if seen != watcher.seen {
                watcher.seen = seen;
                watcher.wakeup.ring();
            }
        }
    }
}

fn seen(keys: &Keyspace, spans: &[Span]) -> Vec<(Key, Rev)> {
    keys.look(spans).spans.into_iter().flatten().map(|item| (item.key, item.since)).collect()
}

impl Engine for MemEngine {
    fn card(&self, call: &Call<'_>) -> Result<Card, Trouble> {
        drop(self.reached(call)?);
        Ok(Card::new("memory", env!("CARGO_PKG_VERSION"), Duration::ZERO))
    }

    fn look(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Trouble> {
        Ok(self.reached(call)?.keys.look(spans))
    }

    fn page(&self, span: &Span, after: Option<&Key>, at: Option<Rev>, call: &Call<'_>) -> Result<Sight, Trouble> {
        let mut sight = self.reached(call)?.keys.look(std::slice::from_ref(span));
        if at.is_some_and(|at| at != sight.at) {
            return Err(Trouble::Refused(Error::new(ErrorKind::Busy, "only the last revision is kept")));
        }
        for items in &mut sight.spans {
            items.retain(|item| after.is_none_or(|after| item.key > *after));
            items.truncate(PAGE_KEYS);
        }
        Ok(sight)
    }

    fn make(&self, change: &Change, call: &Call<'_>) -> Result<Made, Trouble> {
        let answer = self.send(&Sent::Make(change.clone()), call)?.ok_or_else(unanswered)?;
        answer.map_err(|NoSession(id)| {
            let message = format!("there is no session {:016x}", id.0);
            Trouble::Refused(Error::new(ErrorKind::Missing, message))
        })
    }

    fn open(&self, id: SessionId, ttl: Duration, call: &Call<'_>) -> Result<Lasts, Trouble> {
        let sent_ms = self.machine.now().boottime_ms;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.send(&Sent::Open(id, ttl_ms), call)?.ok_or_else(unanswered)?.ok();
        Ok(Lasts { sent_ms, ttl_ms, term: self.state().keys.term() })
    }

    fn renew(&self, id: SessionId, call: &Call<'_>) -> Result<Option<Lasts>, Trouble> {
        let sent_ms = self.machine.now().boottime_ms;
        let mut state = self.reached(call)?;
        let term = state.keys.term();
        let Some((ttl_ms, end_ms)) = state.sessions.get_mut(&id) else { return Ok(None) };
        *end_ms = sent_ms.saturating_add(*ttl_ms);
        Ok(Some(Lasts { sent_ms, ttl_ms: *ttl_ms, term }))
    }

    fn close(&self, id: SessionId, call: &Call<'_>) -> Result<(), Trouble> {
        self.send(&Sent::Close(id), call)?.ok_or_else(unanswered)?.ok();
        Ok(())
    }

    fn watch(&self, spans: &[Span], after: Rev, wakeup: &Wakeup) -> Result<Subscription, Trouble> {
        let mut state = self.reached(&Call::UNLIMITED)?;
        let seen = seen(&state.keys, spans);
        if seen.iter().any(|(_, since)| *since > after) && after != Rev::NEVER {
            wakeup.rope().ring();
        }
        state.watchers.retain(|watcher| watcher.wakeup.hangs());
        state.watchers.push(Watcher { spans: spans.to_vec(), seen, wakeup: wakeup.rope() });
        Ok(Subscription::ringing())
    }
}
