//! An engine whose requests meet what a script says: another caller is faster, time passes, a server
//! lies.
//!
//! The script sees every request before it is sent, and may let other callers of the same engine act.
//! Requests that it causes itself are sent without being seen, unless it says so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lokt_core::engine::{Change, Key, Lasts, Made, Rev, SessionId, Sight, Span, Term};
use lokt_named::store::{Call, Subscription};
use lokt_named::swap::{Card, Engine, Fault, MemEngine, Of, Trouble};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::wakeup::Wakeup;

use crate::conformance::worlds::{Callers, engine};

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub enum Sends<'r> {
    /// A look.
    Look(&'r [Span]),
    /// A change.
    Make(&'r Change),
    /// The opening of a session.
    Open(SessionId),
    /// The renewal of a session.
    Renew(SessionId),
    /// The end of a session.
    Close(SessionId),
}

impl Sends<'_> {
    /// True if it is a change that writes a key with this end.
    pub fn writes(&self, end: &str) -> bool {
        use lokt_core::engine::Write;
        let Self::Make(change) = self else { return false };
        change.writes.iter().any(|write| match write {
            Write::Put(key, ..) | Write::Drop(key) | Write::DropBelow(key) => key.0.ends_with(end),
        })
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Answered,
    /// This goes wrong. A look or a renewal isn't answered, whichever it is.
    Goes(Fault),
    /// A renewal isn't made, and is answered as if it were by the server of this reign.
    Lied(Term),
}

type Script = Arc<dyn Fn(Sends<'_>, &Call<'_>) -> Fate + Send + Sync>;

/// An engine in memory with a script. Clones are the same engine.
#[derive(Clone)]
pub struct Scripted {
    /// The engine.
    pub engine: MemEngine,
    script: Arc<Mutex<Option<Script>>>,
}

/// Callers on one engine, as long as the test program runs, and that engine.
pub fn scripted() -> (&'static Callers, Scripted) {
    let used = Mutex::new(None);
    let world = engine(|engine| {
        let mut used = used.lock().expect("no panic");
        let first = || Scripted { engine, script: Arc::default() };
        used.get_or_insert_with(first).clone()
    });
    let engine = used.into_inner().expect("no panic").expect("stores were opened");
    (Box::leak(Box::new(world)), engine)
}

impl Scripted {
    /// Lets every request from now on meet this script.
    pub fn follow(&self, script: impl FnMut(Sends<'_>, &Call<'_>) -> Fate + Send + 'static) {
        let script = Mutex::new(script);
        self.follow_all(move |sends, call| match script.try_lock() {
            Ok(mut script) => script(sends, call),
            Err(_) => Fate::Answered,
        });
    }

    /// The same, also for the requests that the script causes.
    pub fn follow_all(&self, script: impl Fn(Sends<'_>, &Call<'_>) -> Fate + Send + Sync + 'static) {
        *self.script.lock().expect("no panic") = Some(Arc::new(script));
    }

    /// Lets `act` happen before the first request that `when` is true of, and this fate meet it.
    pub fn once(
        &self,
        when: impl Fn(&Sends<'_>) -> bool + Send + 'static,
        act: impl FnOnce() + Send + 'static,
        fate: Fate,
    ) {
        let mut act = Some(act);
        self.follow(move |sends, _| match act.take_if(|_| when(&sends)) {
            Some(act) => {
                act();
                fate
            }
            None => Fate::Answered,
        });
    }

    /// Lets every request be answered again.
    pub fn calm(&self) {
        *self.script.lock().expect("no panic") = None;
    }

    fn fate(&self, sends: Sends<'_>, call: &Call<'_>) -> Fate {
        let script = self.script.lock().expect("no panic").clone();
        script.map_or(Fate::Answered, |script| script(sends, call))
    }

    /// Lets a request that changes something meet its fate. A call that is over or stopped by then was
    /// in time: its request is under way.
    fn meets<T>(
        &self,
        sends: Sends<'_>,
        of: Of,
        call: &Call<'_>,
        send: impl FnOnce(&Call<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.engine.card(call)?;
        if let Fate::Goes(fault) = self.fate(sends, call) {
            self.engine.fail(of, 0, fault);
        }
        send(&Call::UNLIMITED)
    }
}

fn unanswered() -> Trouble {
    Trouble::Unknown(Error::new(ErrorKind::OutcomeUnknown, "the engine didn't answer"))
}

impl Engine for Scripted {
    fn card(&self, call: &Call<'_>) -> Result<Card, Trouble> {
        self.engine.card(call)
    }

    fn look(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Trouble> {
        match self.fate(Sends::Look(spans), call) {
            Fate::Goes(_) => Err(unanswered()),
            _ => self.engine.look(spans, call),
        }
    }

    fn page(&self, span: &Span, after: Option<&Key>, at: Option<Rev>, call: &Call<'_>) -> Result<Sight, Trouble> {
        match self.fate(Sends::Look(std::slice::from_ref(span)), call) {
            Fate::Goes(_) => Err(unanswered()),
            _ => self.engine.page(span, after, at, call),
        }
    }

    fn make(&self, change: &Change, call: &Call<'_>) -> Result<Made, Trouble> {
        self.meets(Sends::Make(change), Of::Make, call, |call| self.engine.make(change, call))
    }

    fn open(&self, id: SessionId, ttl: Duration, call: &Call<'_>) -> Result<Lasts, Trouble> {
        self.meets(Sends::Open(id), Of::Open, call, |call| self.engine.open(id, ttl, call))
    }

    fn renew(&self, id: SessionId, call: &Call<'_>) -> Result<Option<Lasts>, Trouble> {
        match self.fate(Sends::Renew(id), call) {
            Fate::Answered => self.engine.renew(id, call),
            Fate::Goes(_) => Err(unanswered()),
            Fate::Lied(term) => {
                // What a session lasts is known to the caller; the test asks for no longer one.
                let ttl_ms = self.engine.ttl_ms(id).unwrap_or(0);
                Ok(Some(Lasts { sent_ms: 0, ttl_ms, term }))
            }
        }
    }

    fn close(&self, id: SessionId, call: &Call<'_>) -> Result<(), Trouble> {
        self.meets(Sends::Close(id), Of::Close, call, |call| self.engine.close(id, call))
    }

    fn watch(&self, spans: &[Span], after: Rev, wakeup: &Wakeup) -> Result<Subscription, Trouble> {
        self.engine.watch(spans, after, wakeup)
    }
}
