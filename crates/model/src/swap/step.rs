//! The shell around the product's plans: look, send, settle, renew.

use std::sync::Arc;

use lokt_core::engine::{Keyspace, Lasts, Made, NoSession, Pin, SessionId, Sight, Span, Term, Write};
use lokt_core::swap::keep::{self, Held, Kept, Known};
use lokt_core::swap::settle::{Settled, refused};
use lokt_core::swap::{Kind, Plan, Settling};

use super::bounds::{Step, TTL};
use super::flaw::Flaw;
use super::judge::{self, Judged};
use super::state::{HoldKey, Number, Phase, Ruling, Sent, State, lease, session, space, step};
use super::truth;
use super::witness::Witness;
use super::{Action, Swap};

/// Where `action` leads from `state`; `None` if it can't be done now or changes nothing.
pub(super) fn act(model: Swap, state: &State, action: Action) -> Option<State> {
    let mut next = Run { model, state: state.clone() };
    match action {
        Action::Go(client, _) => {
            next.keep_waiting(client);
            next.go(client, None);
        }
        Action::GoOld(client, _) => {
            let Term(term) = next.state.keys.term();
            next.keep_waiting_by(client, Term(term - 1));
            next.go(client, None);
        }
        Action::Deliver(client) => next.deliver(client),
        Action::Lose(client) => next.lose(client),
        Action::Delay(client) => next.delay(client),
        Action::Double(client) => {
            next.leave_copy(client);
            next.deliver(client);
        }
        Action::Echo(client) => {
            next.state.used.faults += 1;
            if let Some(sent) = next.sent(client) {
                let _ = next.apply(&sent);
            }
            next.deliver(client);
        }
        Action::Stray(number) => {
            let sent = next.state.strays.remove(number);
            // Its answer is read by nobody.
            let _ = next.apply(&sent);
        }
        Action::End(session) => {
            next.state.used.ends += u8::from(model.bounds.ticks == 0);
            next.state.close(session);
        }
        Action::Reopen(session) => {
            next.state.used.reopens += 1;
            next.open(session);
        }
        Action::Tick => next.state.now += 1,
        Action::Elect => next.elect(),
        Action::Renew(client) => next.renew(client),
        Action::Lie(client) => {
            next.state.used.lies += 1;
            let term = next.state.keys.term();
            next.answer(client, Some(term));
        }
        Action::Old(client) => {
            let Term(term) = next.state.keys.term();
            next.answer(client, Some(Term(term - 1)));
        }
        Action::Verify(client) => next.verify(client),
    }
    (next.state != *state).then_some(next.state)
}

struct Run {
    model: Swap,
    state: State,
}

impl Run {
    fn note(&mut self, witness: Witness) {
        if self.model.witnesses && self.model.bounds.witnesses.contains(&witness) {
            self.state.truth.seen.insert(witness);
        }
    }

    fn step(&self, client: Number) -> Step {
        let at = self.state.clients[client].at;
        step(&self.model.bounds, client, at).expect("it has a command")
    }

    fn open(&mut self, session: SessionId) {
        self.state.keys.open(session);
        self.state.closed.retain(|closed| *closed != session);
        if self.model.bounds.ticks > 0 {
            self.state.expiry.insert(session, self.state.now + TTL);
        }
    }

    fn elect(&mut self) {
        self.state.used.elections += 1;
        self.state.keys.elect();
        for expiry in self.state.expiry.values_mut() {
            *expiry = self.state.now + TTL;
        }
    }

    /// A waiter renews its session before it looks again, in a world with time. One that is gone is
    /// opened again.
    fn keep_waiting(&mut self, client: Number) {
        let one = &self.state.clients[client];
        if self.model.bounds.ticks == 0 || one.place.is_none() || !self.step(client).waits() {
            return;
        }
        let (session, term) = (session(client, one.at), self.state.keys.term());
        if self.state.keys.has_session(session) {
            self.state.expiry.insert(session, self.state.now + TTL);
            self.keep_waiting_by(client, term);
        } else {
            self.open(session);
            self.state.clients[client].known = Known::proven(self.state.now, term);
        }
    }

    /// The renewal of a waiter is answered by the server of this reign.
    fn keep_waiting_by(&mut self, client: Number, term: Term) {
        let now = self.state.now;
        let known = &mut self.state.clients[client].known;
        *known = known.renewed(now, term);
    }

    /// A client looks, or uses what an answer has shown, decides and sends.
    fn go(&mut self, client: Number, sight: Option<Sight>) {
        let (step, at) = (self.step(client), self.state.clients[client].at);
        if step == Step::Keep {
            self.state.clients[client].phase = Phase::Keeping(self.state.now);
            return;
        }
        if self.state.clients[client].place.is_none() {
            // The session is opened beside the first look.
            self.state.clients[client].known = Known::proven(self.state.now, self.state.keys.term());
            if step.guards() {
                self.open(session(client, at));
            }
            if step.leases() {
                self.open(lease(client, at));
            }
        }
        let sight = sight.unwrap_or_else(|| {
            let asked = &self.state.clients[client];
            judge::look(&self.model.bounds, client, asked, &self.state.keys)
        });
        self.state.clients[client].place.get_or_insert(sight.at);
        match judge::judge(self.model, client, &self.state.clients[client], &sight) {
            Judged::Change(plan, ruling) => self.send(client, plan, Some(ruling)),
            Judged::Plain(plan) => self.send(client, plan, None),
            Judged::Refused { .. } if step.waits() => {
                self.state.clients[client].phase = Phase::Queued;
            }
            Judged::Refused { .. } => {
                if step.guards() && is_frozen(&sight) {
                    self.note(Witness::FrozenOut);
                }
                if step == Step::Release {
                    // It is lost; what is left of it ends with its session.
                    self.let_go(client);
                }
                self.finish(client, false);
            }
        }
    }

    fn send(&mut self, client: Number, plan: Plan, ruling: Option<Ruling>) {
        let at = self.state.clients[client].at;
        let sent = Arc::new(Sent { client, at, plan, ruling });
        self.state.clients[client].phase = Phase::Sent(sent);
    }

    /// The request that a client waits for.
    fn sent(&self, client: Number) -> Option<Arc<Sent>> {
        match &self.state.clients[client].phase {
            Phase::Sent(sent) | Phase::Settling(_, sent) => Some(sent.clone()),
            _ => None,
        }
    }

    fn leave_copy(&mut self, client: Number) {
        self.state.used.faults += 1;
        let sent = self.sent(client);
        self.state.strays.extend(sent);
    }

    fn apply(&mut self, sent: &Sent) -> Result<Made, NoSession> {
        let before = self.state.keys.clone();
        let made = self.state.keys.apply(sent.change());
        if matches!(made, Ok(Made::Done { .. })) {
            truth::made(self.model, &mut self.state, &before, sent);
            self.witness(&before, sent);
        }
        if made.is_err() {
            self.note(Witness::NoSession);
        }
        made
    }

    fn deliver(&mut self, client: Number) {
        match self.state.clients[client].phase.clone() {
            Phase::Sent(sent) => match self.apply(&sent) {
                Ok(Made::Done { at, term }) => {
                    self.used(client, term);
                    self.done(client, &sent, at);
                }
                Ok(Made::Else(sight)) => match self.refused(&sent, sight) {
                    Some(Settled::Made(at)) => self.done(client, &sent, at),
                    Some(Settled::Void(sight)) => {
                        self.voided(&sent);
                        self.go(client, sight);
                    }
                    None => self.unknown(client, &sent),
                },
                Err(_) => self.session_gone(client, &sent),
            },
            Phase::Settling(sent, request) => {
                let made = self.apply(&request).expect("settling needs no session");
                let settling = Settling::new(&sent.plan).expect("it is being settled");
                self.settled(client, &sent, settling.answered(made));
            }
            _ => {}
        }
    }

    /// A change was made under the session of a client, in this reign.
    fn used(&mut self, client: Number, term: Term) {
        let known = &mut self.state.clients[client].known;
        *known = match self.model.flaw {
            Flaw::WaiterWithoutTerm => Known::proven(known.last_renewed(), term),
            _ => known.used(Some(term)),
        };
    }

    fn refused(&self, sent: &Sent, sight: Sight) -> Option<Settled> {
        let found = refused(&sent.plan, sight.clone());
        match (self.model.flaw, &found) {
            (Flaw::ElseTrusted, None) | (Flaw::EchoTrusted, Some(Settled::Made(_))) => Some(Settled::Void(Some(sight))),
            _ => found,
        }
    }

    fn session_gone(&mut self, client: Number, sent: &Arc<Sent>) {
        if self.step(client).waits() {
            // It opens its session again, and keeps its place. Without that it would try for ever.
            self.open(session(client, sent.at));
            self.state.clients[client].known = Known::proven(self.state.now, self.state.keys.term());
        }
        if sent.ruling.is_none() {
            self.state.clients[client].phase = Phase::Ready;
        } else if self.model.flaw == Flaw::GoneSessionTrusted {
            self.voided(sent);
            self.finish(client, false);
        } else {
            self.unknown(client, sent);
        }
    }

    fn lose(&mut self, client: Number) {
        self.state.used.faults += 1;
        let Some(sent) = self.sent(client) else { return };
        let _ = self.apply(&sent);
        self.no_answer(client);
    }

    fn delay(&mut self, client: Number) {
        self.leave_copy(client);
        self.no_answer(client);
    }

    /// A request that settles is sent again; any other is settled.
    fn no_answer(&mut self, client: Number) {
        if let Phase::Sent(sent) = self.state.clients[client].phase.clone() {
            self.unknown(client, &sent);
        }
    }

    /// It may have happened, or may still happen.
    fn unknown(&mut self, client: Number, sent: &Arc<Sent>) {
        let step = self.step(client);
        let Some(settling) = Settling::new(&sent.plan) else {
            if step.waits() {
                self.state.clients[client].phase = Phase::Ready;
            } else {
                self.finish(client, false);
            }
            return;
        };
        match self.model.flaw {
            Flaw::SettledByRevoking => {
                // What was made by now ends with its session, and counts as not made.
                let proof = sent.plan.proof.as_ref().and_then(|key| self.state.keys.item(key));
                self.state.close(session(client, sent.at));
                match proof {
                    Some(_) => self.finish(client, false),
                    None => self.settled(client, sent, Settled::Void(None)),
                }
            }
            Flaw::SettledByReading => {
                let proof = sent.plan.proof.as_ref().and_then(|key| self.state.keys.item(key));
                let found = proof.map_or(Settled::Void(None), |item| Settled::Made(item.born));
                self.settled(client, sent, found);
            }
            Flaw::BlindRetry => {
                self.state.clients[client].doubts.extend(sent.plan.proof.clone());
                self.state.clients[client].phase = Phase::Ready;
            }
            _ => {
                let change = settling.change().clone();
                let plan = Plan {
                    change,
                    kind: Kind::Ticket,
                    // A removal that is made again is the same change.
                    proof: None,
                    base: 0,
                    grants: vec![],
                };
                let request = Arc::new(Sent { client, at: sent.at, plan, ruling: None });
                self.state.clients[client].phase = Phase::Settling(sent.clone(), request);
            }
        }
    }

    fn settled(&mut self, client: Number, sent: &Arc<Sent>, settled: Settled) {
        let step = self.step(client);
        match settled {
            Settled::Made(at) => {
                self.note(Witness::Proven);
                self.done(client, sent, at);
            }
            Settled::Void(sight) => {
                self.note(Witness::Void);
                self.voided(sent);
                if !step.waits() && step != Step::Release {
                    return self.finish(client, false);
                }
                self.state.clients[client].phase = Phase::Ready;
                if sight.is_some() {
                    self.go(client, sight);
                }
            }
        }
    }

    /// The client goes on as if it never happened.
    fn voided(&mut self, sent: &Sent) {
        self.state.truth.void.extend(sent.plan.proof.clone());
    }

    /// The client knows that its change was made.
    fn done(&mut self, client: Number, sent: &Sent, at: lokt_core::engine::Rev) {
        self.state.truth.told.extend(sent.plan.proof.clone());
        let step = self.step(client);
        match step {
            _ if step.waits() && sent.ruling.is_none() => {
                self.state.clients[client].phase = Phase::Queued;
                return;
            }
            _ if step.guards() => {
                let grants = sent.plan.grants.iter();
                let hold = |granting: &lokt_core::swap::Granting| {
                    let token = sent.plan.token(granting, at).expect("a small number");
                    (granting.name.clone(), granting.lock_id.clone(), token.get())
                };
                self.state.clients[client].grip = Some(HoldKey {
                    session: session(client, sent.at),
                    born: at,
                    holds: grants.map(hold).collect(),
                    deadline: self.state.clients[client].known.lasts() + TTL,
                });
            }
            Step::Release => self.let_go(client),
            _ => {}
        }
        self.finish(client, true);
    }

    /// The session is closed, and nothing is held any more.
    fn let_go(&mut self, client: Number) {
        if let Some(grip) = self.state.clients[client].grip.take() {
            self.state.close(grip.session);
        }
    }

    /// The command ends.
    fn finish(&mut self, client: Number, granted: bool) {
        let at = self.state.clients[client].at;
        if !granted {
            self.state.close(session(client, at));
            self.state.close(lease(client, at));
        }
        let doubts = std::mem::take(&mut self.state.clients[client].doubts);
        self.state.truth.void.extend(doubts);
        let one = &mut self.state.clients[client];
        one.place = None;
        one.phase = Phase::Ready;
        one.at += 1;
        let needs = |at| step(&self.model.bounds, client, at).is_some_and(Step::needs_hold);
        while one.grip.is_none() && needs(one.at) {
            one.at += 1;
        }
    }

    fn renew(&mut self, client: Number) {
        let session = self.state.clients[client].grip.as_ref().map(|grip| grip.session);
        let session = session.expect("only a holder renews");
        let lives = self.state.keys.has_session(session);
        if lives {
            self.state.expiry.insert(session, self.state.now + TTL);
        }
        let term = self.state.keys.term();
        self.answer(client, lives.then_some(term));
    }

    fn answer(&mut self, client: Number, term: Option<Term>) {
        let Phase::Keeping(sent) = self.state.clients[client].phase else { return };
        let lasts = term.map(|term| Lasts { sent_ms: sent.into(), ttl_ms: TTL.into(), term });
        self.state.clients[client].phase = Phase::Answered(lasts);
        if self.model.flaw == Flaw::KeepWithoutRead {
            if let (Some(lasts), Some(grip)) = (lasts, &mut self.state.clients[client].grip) {
                grip.deadline = deadline(lasts.sent_ms + lasts.ttl_ms);
            }
            self.finish(client, true);
        }
    }

    fn verify(&mut self, client: Number) {
        let Phase::Answered(mut lasts) = self.state.clients[client].phase else { return };
        let grip = self.state.clients[client].grip.clone().expect("only a holder renews");
        let held = |(name, id, _): &(_, _, _)| Held { life: space().name(name).process(id), born: grip.born };
        let held: Vec<_> = grip.holds.iter().map(held).collect();
        let spans: Vec<_> = held.iter().map(|held| Span::One(held.life.clone())).collect();
        let sight = self.state.keys.look(&spans);
        if let (Flaw::DeadlineFromAnswer, Some(lasts)) = (self.model.flaw, &mut lasts) {
            lasts.sent_ms = self.state.now.into();
        }
        if let (Flaw::KeepWithoutTerm, Some(lasts)) = (self.model.flaw, &mut lasts) {
            lasts.term = sight.term;
        }
        match keep::kept(lasts, &sight, &held).first() {
            Some(Kept::Until(until)) => {
                self.note(Witness::Kept);
                let until = deadline(*until);
                if let Some(grip) = &mut self.state.clients[client].grip {
                    grip.deadline = until;
                }
            }
            Some(Kept::Unproven) => self.note(Witness::Unproven),
            Some(Kept::Lost) | None => {
                self.note(Witness::Lost);
                self.let_go(client);
            }
        }
        self.finish(client, true);
    }

    fn witness(&mut self, before: &Keyspace, sent: &Sent) {
        if !self.model.witnesses {
            return;
        }
        let step = step(&self.model.bounds, sent.client, sent.at).expect("it sent something");
        let change = sent.change();
        let is_grant = change.pins.iter().any(|pin| matches!(pin, Pin::Empty(_)));
        let drops = change.writes.iter().any(|write| matches!(write, Write::DropBelow(_)));
        let drops_ticket =
            change.writes.iter().any(|write| matches!(write, Write::Drop(key) if key.0.contains("/line/")));
        let is_addition = matches!(sent.plan.kind, Kind::Addition { .. });
        let locks = matches!(step, Step::Lock | Step::LockLeased);
        let rewrites =
            change.writes.iter().any(|write| matches!(write, Write::Put(key, ..) if key.0.ends_with("/who")));
        let names = judge::names();
        let freeze = space().name(&names[0]).freeze_who();
        let drawn = sent.plan.grants.iter().any(|granting| granting.token.is_none());
        for (happens, witness) in [
            (is_grant && drops, Witness::OverStale),
            (is_grant && locks && change.writes.len() > 3 && !drops, Witness::Revived),
            (is_addition && locks && !is_grant, Witness::Refreshed),
            (is_addition && step.guards() && !is_grant, Witness::Joined),
            (is_addition && step.guards() && !is_grant && drawn, Witness::Overtaken),
            (sent.plan.kind == Kind::Removal && rewrites, Witness::Left),
            (step == Step::Force, Witness::Forced),
            (is_grant && drops_ticket, Witness::Waited),
            (is_grant && sent.plan.grants.len() == 2, Witness::Together),
            (step == Step::PassOver, Witness::Passed),
            (is_grant && step.guards() && before.item(&freeze).is_some(), Witness::Thawed),
            (step == Step::Sweep, Witness::Swept),
        ] {
            if happens {
                self.note(witness);
            }
        }
    }
}

fn is_frozen(sight: &Sight) -> bool {
    sight.spans.iter().flatten().any(|item| item.key.0.ends_with("/freeze/who"))
}

fn deadline(ticks: u64) -> u8 {
    u8::try_from(ticks).expect("few ticks")
}
