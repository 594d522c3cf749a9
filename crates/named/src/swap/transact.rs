//! The only way to change anything: look, have it judged, plan, make, settle; again if another
//! caller was faster.

use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::Intent;
use lokt_core::engine::{SessionId, Sight, Span};
use lokt_core::name::LockName;
use lokt_core::swap::plan::NAMES_MAX;
use lokt_core::swap::view::{self as keys, Standing};
use lokt_core::swap::{NameView, Refusal, View as Sighted};

use super::attempt::Pace;
use super::session::Session;
use super::{CLOSE, Engine, SESSION_TTL, Shared};
use crate::store::{Answers, Ask, Call, Done, Judge, Op, Place, Presence, Request, Ruling, Stayed, Unity, View};
use lokt_sys::error::{Error, ErrorKind};

/// Result of one look.
pub(super) enum Tried {
    /// The request is answered.
    Answered(Answers),
    /// Another caller was faster; with what was read then, if anything.
    Again(Option<Sight>),
}

/// The session of owner parts and freezes with a TTL. It is never renewed; without a grant it is
/// closed.
pub(super) struct Lease<'s, E: Engine> {
    store: &'s Shared<E>,
    pub(super) id: Option<SessionId>,
}

impl<E: Engine> Lease<'_, E> {
    /// Opens the session for one try. That of an earlier try, which failed, has lost time by now.
    pub(super) fn open(&mut self, ttl: Duration, call: &Call<'_>) -> Result<(), Error> {
        self.close();
        let id = self.store.session_id()?;
        self.id = Some(id);
        self.store.patiently(call, |call| self.store.engine.open(id, ttl, call)).map(drop)
    }

    fn close(&mut self) {
        if let Some(id) = self.id.take() {
            // Best effort: it expires automatically.
            let _ = self.store.engine.close(id, &Call::within(CLOSE, &self.store.now()));
        }
    }
}

impl<E: Engine> Drop for Lease<'_, E> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The data on which a request was judged.
pub(super) struct Judged<'v> {
    pub(super) sighted: &'v Sighted,
    /// The names of the asks.
    pub(super) names: Vec<&'v NameView>,
    pub(super) views: Vec<View>,
}

impl<E: Engine> Shared<E> {
    /// Carries out a request. See [`crate::store::Store::transact`].
    pub(super) fn carry_out(
        self: &Arc<Self>,
        request: &mut Request<'_>,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
    ) -> Result<Answers, Error> {
        match request.unity {
            Unity::AllOrNone => self.together(request, judge, call),
            Unity::Each => Ok(self.each(request, judge, call)),
        }
    }

    /// Carries out every ask on its own, until one fails. One look serves several of them.
    fn each(self: &Arc<Self>, request: &Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Answers {
        let mut answers = Answers::new();
        for number in (0..request.asks.len()).step_by(NAMES_MAX) {
            if let Err(error) = self.some(request, number, judge, call, &mut answers) {
                answers.push((request.asks.len(), Done::Failed(error)));
                break;
            }
        }
        answers
    }

    /// Carries out a few asks, from this one on.
    fn some(
        self: &Arc<Self>,
        request: &Request<'_>,
        first: usize,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), Error> {
        let call = &self.limited(call);
        let asks = &request.asks[first..];
        let asks = &asks[..asks.len().min(NAMES_MAX)];
        let mut names: Vec<&LockName> = asks.iter().map(|ask| ask.name).collect();
        names.sort_unstable();
        names.dedup();
        let sight = self.see(&keys::spans(&self.space, names.iter().copied()), call)?;
        let sighted = self.read(names.iter().copied(), &sight)?;
        for (number, ask) in (first..).zip(asks) {
            // The events of one look are distinguished by their request.
            let op = Op(request.op.0.wrapping_add(u128::try_from(number).unwrap_or(0)));
            let mut one = Request::of(request.me, op, std::slice::from_ref(ask));
            let mut judge = |_: usize, view: &View| judge(number, view);
            let mut lease = Lease { store: self, id: None };
            let tried = if ask.is_present() {
                Tried::Again(None)
            } else {
                self.attempt(&mut one, &sighted, &mut judge, &mut lease, call)?
            };
            let answered = match tried {
                Tried::Answered(answered) => answered,
                Tried::Again(_) => self.together(&mut one, &mut judge, call)?,
            };
            answers.extend(answered.into_iter().map(|(_, done)| (number, done)));
        }
        Ok(())
    }

    /// Carries out all asks in one change, or none.
    fn together(
        self: &Arc<Self>,
        request: &mut Request<'_>,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
    ) -> Result<Answers, Error> {
        let call = &self.limited(call);
        let asks = request.asks;
        let mut names: Vec<&LockName> = asks.iter().map(|ask| ask.name).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > NAMES_MAX {
            return Err(refused(&Refusal::TooMany));
        }
        let spans = keys::spans(&self.space, names.iter().copied());
        let mut lease = Lease { store: self, id: None };
        let mut sight = Some(self.first_look(request, &spans, call)?);
        let mut pace = Pace::default();
        loop {
            let seen = match sight.take() {
                Some(sight) => sight,
                None => self.see(&spans, call)?,
            };
            let sighted = self.read(names.iter().copied(), &seen)?;
            request.place.get_or_insert(Place(sighted.at.0));
            match self.attempt(request, &sighted, judge, &mut lease, call)? {
                Tried::Answered(answers) => return Ok(answers),
                Tried::Again(newer) => sight = newer,
            }
            if !pace.rushed(self, call) {
                let name = asks.first().map_or("", |ask| ask.name.as_str());
                return Err(Error::new(ErrorKind::Busy, format!("{name} keeps being changed by others")));
            }
        }
    }

    /// Takes the first look of a try. A guard's session is opened beside it; that of a waiter is
    /// kept alive.
    fn first_look(
        self: &Arc<Self>,
        request: &mut Request<'_>,
        spans: &[Span],
        call: &Call<'_>,
    ) -> Result<Sight, Error> {
        let needs_session = request.asks.iter().any(Ask::is_present) && request.presence.is_none();
        if !needs_session {
            if let Some(session) = Session::<E>::of(request.presence.as_ref())
                && request.asks.iter().any(Ask::takes)
            {
                self.patiently(call, |call| session.keep_waiting(call))?;
            }
            return self.see(spans, call);
        }
        let (id, ttl, sent) = (self.session_id()?, session_ttl(request.asks), self.now());
        let (sight, granted) = self.engine.look_and_open(spans, id, ttl, call);
        let granted = match granted {
            Ok(granted) => granted,
            Err(_) => self.patiently(call, |call| self.engine.open(id, ttl, call))?,
        };
        let session: Arc<dyn Presence> = Arc::new(Session::new(self, id, ttl, sent, granted));
        request.presence = Some(session);
        sight.or_else(|_| self.see(spans, call))
    }

    /// Opens the session of a request that has none yet.
    pub(super) fn be_present(self: &Arc<Self>, request: &mut Request<'_>, call: &Call<'_>) -> Result<(), Error> {
        if request.presence.is_none() {
            let (id, ttl, sent) = (self.session_id()?, session_ttl(request.asks), self.now());
            let granted = self.patiently(call, |call| self.engine.open(id, ttl, call))?;
            let session: Arc<dyn Presence> = Arc::new(Session::new(self, id, ttl, sent, granted));
            request.presence = Some(session);
        }
        Ok(())
    }

    /// Reads a look. A space that doesn't exist is an error: a typing error must not create a
    /// second space.
    pub(super) fn read<'n>(
        &self,
        names: impl IntoIterator<Item = &'n LockName>,
        sight: &Sight,
    ) -> Result<Sighted, Error> {
        let sighted = Sighted::read(&self.space, names, sight);
        match sighted.standing() {
            Standing::Missing => Err(refused(&Refusal::Space(Standing::Missing))),
            _ => Ok(sighted),
        }
    }

    /// Has one look judged, and does what follows from it.
    fn attempt(
        self: &Arc<Self>,
        request: &mut Request<'_>,
        sighted: &Sighted,
        judge: &mut Judge<'_>,
        lease: &mut Lease<'_, E>,
        call: &Call<'_>,
    ) -> Result<Tried, Error> {
        let now = self.now();
        let mine = Session::<E>::of(request.presence.as_ref()).map(|session| session.id);
        let find = |ask: &Ask<'_>| sighted.names.iter().find(|name| name.name == *ask.name);
        let names: Vec<&NameView> = request.asks.iter().filter_map(find).collect();
        let show = |(ask, name): (&Ask<'_>, &&NameView)| self.shown(name, ask.target, mine, now);
        let views: Vec<View> = request.asks.iter().zip(&names).map(show).collect();
        let rulings: Vec<Ruling> = views.iter().enumerate().map(|(number, view)| judge(number, view)).collect();
        let judged = Judged { sighted, names, views };
        let is_refused = |ruling: &Ruling| matches!(ruling, Ruling::Stay { why: Some(_), .. });
        if let Some(number) = rulings.iter().position(is_refused) {
            return Ok(self.refuse(request, judged, rulings, number, call));
        }
        if rulings.iter().any(|ruling| matches!(ruling, Ruling::Queue(_))) {
            return self.queue(request, &judged, rulings, call);
        }
        self.commit(request, judged, rulings, lease, call)
    }

    /// Answers a refusal, which comes alone: nothing has changed.
    fn refuse(
        &self,
        request: &mut Request<'_>,
        judged: Judged<'_>,
        rulings: Vec<Ruling>,
        number: usize,
        call: &Call<'_>,
    ) -> Tried {
        let (why, events) = match rulings.into_iter().nth(number) {
            Some(Ruling::Stay { why, events }) => (why, events),
            _ => (None, Vec::new()),
        };
        self.end_wait(request);
        self.note_denial(request.asks[number].name, &events, call);
        let view = judged.views.into_iter().nth(number).expect("every ask has a view");
        let View { slot, waiting, .. } = view;
        let stayed = Stayed { why, holder: slot.into_holder(), waiting, warnings: Vec::new() };
        Tried::Answered(vec![(number, Done::Stayed(Box::new(stayed)))])
    }
}

/// Returns the TTL that an intent asks for, in seconds, if no process renews it.
fn unkept_sec(intent: &Intent) -> Option<u64> {
    let ttl_sec = match intent {
        Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Freeze(terms) => terms.ttl_sec,
        Intent::Guard(terms, holder) if !holder.has_pulse => terms.ttl_sec,
        Intent::Extend { ttl_sec, .. } => Some(*ttl_sec),
        _ => None,
    };
    ttl_sec.filter(|ttl_sec| *ttl_sec > 0)
}

/// Returns how long the session of owner parts lasts. A TTL is a minimum.
pub(super) fn lease_ttl(asks: &[Ask<'_>]) -> Option<Duration> {
    asks.iter().filter_map(|ask| unkept_sec(&ask.intent)).max().map(Duration::from_secs)
}

/// Returns how long the session of a request lasts.
fn session_ttl(asks: &[Ask<'_>]) -> Duration {
    let ttl_sec = |ask: &Ask<'_>| match &ask.intent {
        Intent::Guard(terms, holder) if holder.has_pulse => terms.ttl_sec,
        _ => None,
    };
    let longest = asks.iter().filter_map(ttl_sec).filter(|ttl_sec| *ttl_sec > 0).max();
    longest.map_or(SESSION_TTL, Duration::from_secs)
}

/// Returns the reason why no change could be planned.
pub(super) fn refused(refusal: &Refusal) -> Error {
    let unusable = |message: &str| Error::new(ErrorKind::Unusable, message);
    match refusal {
        Refusal::Space(Standing::Missing) => unusable("there is no such space of locks"),
        Refusal::Space(Standing::Closed(to)) => unusable(&format!("this space of locks was closed: {to}")),
        Refusal::Space(Standing::Newer(format)) => {
            Error::new(ErrorKind::Newer, format!("the space of locks has format {format}, which is too new"))
        }
        Refusal::TooMany => unusable(&format!("at most {NAMES_MAX} names can be changed together")),
        Refusal::NoSession => unusable("a hold that is bound to a process needs a TTL here"),
        Refusal::Renewal => unusable("a hold is renewed by its presence here"),
        Refusal::Nothing | Refusal::Space(Standing::Open) => unusable("there is nothing to change"),
    }
}
