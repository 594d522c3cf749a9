//! Carries out rulings that change something, as one change.

use std::sync::Arc;

use lokt_core::decide::{HoldKey, Token};
use lokt_core::engine::{Rev, Term};
use lokt_core::hold::PulseRef;
use lokt_core::swap::{self, Plan, Refusal, Ruled};

use super::attempt::Outcome;
use super::audit::mark_drawn;
use super::session::Session;
use super::shown::kept;
use super::transact::{Judged, Lease, Tried, lease_ttl, refused};
use super::{Engine, Shared};
use crate::store::{Answers, Ask, Call, Commit, Committed, Done, Lasts, Presence, Request, Ruling, Stayed, View};
use lokt_sys::error::{Error, ErrorKind};

impl<E: Engine> Shared<E> {
    /// Makes one change of all rulings.
    pub(super) fn commit(
        self: &Arc<Self>,
        request: &mut Request<'_>,
        judged: Judged<'_>,
        rulings: Vec<Ruling>,
        lease: &mut Lease<'_, E>,
        call: &Call<'_>,
    ) -> Result<Tried, Error> {
        let asks = request.asks;
        let base = judged.sighted.meta.as_ref().map_or(0, |meta| meta.base);
        let mut commits: Vec<Option<Box<Commit>>> = Vec::new();
        for ruling in rulings {
            commits.push(match ruling {
                Ruling::Commit(mut commit) => {
                    if let (Token::Draw, Some(event)) = (commit.token, commit.events.last_mut()) {
                        mark_drawn(event, base);
                    }
                    Some(commit)
                }
                Ruling::Stay { .. } | Ruling::Queue(_) => None,
            });
        }
        let mut ruled = Vec::new();
        for ((ask, name), commit) in asks.iter().zip(&judged.names).zip(&commits) {
            let Some(commit) = commit else { continue };
            let Commit { next, token, cause, events, .. } = &**commit;
            ruled.push(Ruled {
                view: name,
                target: kept(ask.target),
                intent: &ask.intent,
                liveness: self.liveness(name, ask.target),
                next: next.as_deref(),
                token: *token,
                cause: *cause,
                events,
            });
        }
        if ruled.is_empty() {
            // The caller is already inside of all of them.
            self.end_wait(request);
            return Ok(Tried::Answered(answers(judged, commits, &Made::NOTHING)));
        }
        let op = swap::Op(request.op.0);
        let session = Session::<E>::of(request.presence.as_ref());
        if let Some(ttl) = lease_ttl(asks) {
            lease.open(ttl, call)?;
        }
        let sent = swap::Request { op, session: session.map(|session| session.id), lease: lease.id };
        let plan = match swap::plan(&self.space, judged.sighted, &sent, &ruled) {
            Ok(plan) => plan,
            Err(Refusal::Nothing) => return Ok(Tried::Again(None)),
            Err(refusal) => return Err(refused(&refusal)),
        };
        drop(ruled);
        let made = self.make(&plan, op, call).inspect_err(|error| {
            if error.kind() == ErrorKind::OutcomeUnknown {
                // A hold that existed before may have this lease now.
                lease.id = None;
            }
        });
        match made? {
            Outcome::Void(sight) => Ok(Tried::Again(sight)),
            Outcome::NoSession => {
                if let Some(session) = session {
                    let sent = self.now();
                    self.patiently(call, |call| session.open_again(sent, call))?;
                }
                Ok(Tried::Again(None))
            }
            Outcome::Made(at, term) => {
                lease.id = None;
                fill(&mut commits, asks, &plan, at);
                let lasts = lasts::<E>(request, &commits, term, call);
                if asks.iter().any(Ask::is_present) {
                    self.forget_wait(request);
                } else if asks.iter().any(Ask::takes) {
                    self.end_wait(request);
                }
                if !asks.iter().any(Ask::takes) {
                    // A sweep takes long, and the lease of a grant is already running.
                    self.keep_up(at, call);
                }
                let present = asks.iter().map(Ask::is_present).collect();
                Ok(Tried::Answered(answers(judged, commits, &Made { lasts, present })))
            }
        }
    }
}

/// Facts about a change that was made.
struct Made {
    lasts: Option<Lasts>,
    /// For each ask: whether it is a guard's.
    present: Vec<bool>,
}

impl Made {
    const NOTHING: Self = Self { lasts: None, present: Vec::new() };
}

/// Returns how long the guard's holds last that were granted under `term`.
fn lasts<E: Engine>(
    request: &Request<'_>,
    commits: &[Option<Box<Commit>>],
    term: Option<Term>,
    call: &Call<'_>,
) -> Option<Lasts> {
    let session = Session::<E>::of(request.presence.as_ref())?;
    if let Some(lasts) = term.and_then(|term| session.lasts_under(term)) {
        return Some(lasts);
    }
    // The server in charge isn't the one that renewed last: a renewal tells.
    let key = |(ask, commit): (&Ask<'_>, &Option<Box<Commit>>)| {
        let hold = commit.as_ref().filter(|_| ask.is_present())?.next.as_deref()?;
        let key = HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse };
        Some((ask.name.clone(), key))
    };
    let holds: Vec<_> = request.asks.iter().zip(commits).filter_map(key).collect();
    let kept = session.keep(&holds, call).ok().and_then(|kept| kept.lasts);
    Some(kept.unwrap_or_else(|| session.lasts_proven()))
}

/// Fills in what the revision of the change decides: drawn tokens, and the pulses of guards.
fn fill(commits: &mut [Option<Box<Commit>>], asks: &[Ask<'_>], plan: &Plan, at: Rev) {
    for (commit, ask) in commits.iter_mut().zip(asks) {
        let Some(commit) = commit else { continue };
        let granted = plan.grants.iter().find(|granting| granting.name == *ask.name);
        if let Some(token) = granted.and_then(|granting| plan.token(granting, at)) {
            commit.fill_token(token);
        }
        if let Some(next) = &mut commit.next {
            ask.name.as_str().clone_into(&mut next.name);
        }
        if ask.is_present() {
            commit.fill_pulse(Some(PulseRef { number: at.0, dev: 0, ino: 0 }));
        }
    }
}

fn answers(judged: Judged<'_>, commits: Vec<Option<Box<Commit>>>, made: &Made) -> Answers {
    let answer = |(number, (view, commit)): (usize, (View, Option<Box<Commit>>))| {
        let View { slot, waiting, .. } = view;
        let (before, warnings) = (slot.into_holder(), Vec::new());
        let done = match commit {
            None => Done::Stayed(Box::new(Stayed { why: None, holder: before, waiting, warnings })),
            Some(commit) => {
                let Commit { next: hold, cause, broken, .. } = *commit;
                let lasts = made.lasts.filter(|_| made.present.get(number) == Some(&true));
                Done::Committed(Box::new(Committed { hold, cause, broken, before, lasts, aside: None, warnings }))
            }
        };
        (number, done)
    };
    judged.views.into_iter().zip(commits).enumerate().map(answer).collect()
}
