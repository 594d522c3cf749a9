//! What was told to clients, and what can't be: kept beside the keys, and never read by a client.

use std::collections::{BTreeMap, BTreeSet};

use lokt_core::engine::{Key, Keyspace, Rev, Term};
use lokt_core::hold::Fence;
use lokt_core::liveness::Liveness;
use lokt_core::swap::keep::Known;
use lokt_core::swap::view::{self, View};

use super::Swap;
use super::flaw::Flaw;
use super::judge::{self, Judged};
use super::state::{Client, Phase, Sent, State, space};
use super::witness::Witness;

/// What is true.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Truth {
    /// The proofs of changes that clients were told of as made.
    pub told: BTreeSet<Key>,
    /// The proofs of changes that clients went on from as never made.
    pub void: BTreeSet<Key>,
    /// The greatest token of each name.
    pub tokens: BTreeMap<String, u64>,
    /// What must not happen, and did.
    pub offences: BTreeSet<Offence>,
    /// What should happen, and did.
    pub seen: BTreeSet<Witness>,
}

/// What must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offence {
    /// A change was made that would not be decided at its own revision.
    Untrue,
    /// A hold was granted past a ticket that came before.
    Overtook,
    /// Two members of a name live.
    Two,
    /// One change was made twice.
    Twice,
    /// A token doesn't grow, or isn't the one that its holder was told.
    Token,
}

/// Judges a change that was made: `before` is what the engine had then.
pub(super) fn made(model: Swap, state: &mut State, before: &Keyspace, sent: &Sent) {
    let mut found = BTreeSet::new();
    if sent.plan.proof.as_ref().is_some_and(|proof| before.item(proof).is_some()) {
        found.insert(Offence::Twice);
    }
    if let (Some(_), true) = (&sent.ruling, is_addition(sent)) {
        found.extend(untrue(model, before, sent));
    }
    let names = judge::names();
    let spans = view::spans(&space(), &names);
    let view = View::read(&space(), &names, &state.keys.look(&spans));
    for name in &view.names {
        let live = name.members.iter().filter(|member| member.lives(Liveness::Unknown));
        if live.count() > 1 {
            found.insert(Offence::Two);
        }
        let greatest = state.truth.tokens.get(name.name.as_str()).copied().unwrap_or(0);
        for member in &name.members {
            let stored = member.hold().and_then(|hold| hold.token).map(Fence::get);
            let Some(token) = judge::token(model, stored, member.since, name.cell_since) else {
                continue;
            };
            let born = member.process.map(|life| life.born);
            let grips = state.clients.iter().filter_map(|client| client.grip.as_ref());
            let mut told = grips.filter(|grip| born == Some(grip.born)).flat_map(|grip| &grip.holds);
            if told.any(|(_, id, was)| *id == member.id && *was != token) {
                found.insert(Offence::Token);
            }
            let drawn =
                sent.plan.grants.iter().any(|granting| granting.lock_id == member.id && granting.token.is_none());
            if drawn && token <= greatest {
                found.insert(Offence::Token);
            }
            state.truth.tokens.insert(name.name.as_str().into(), greatest.max(token));
        }
    }
    state.truth.offences.extend(found);
}

fn is_addition(sent: &Sent) -> bool {
    matches!(sent.plan.kind, lokt_core::swap::Kind::Addition { .. })
}

/// Would the same be decided at the revision at which it is made?
fn untrue(model: Swap, before: &Keyspace, sent: &Sent) -> Option<Offence> {
    let known = Known::proven(0, Term(0));
    let client =
        Client { at: sent.at, phase: Phase::Ready, place: Some(Rev::NEVER), known, grip: None, doubts: vec![] };
    let sight = judge::look(&model.bounds, sent.client, &client, before);
    let right = Swap { flaw: Flaw::None, ..model };
    match judge::judge(right, sent.client, &client, &sight) {
        Judged::Change(_, ruling) if Some(&ruling) == sent.ruling.as_ref() => None,
        Judged::Refused { queued: true } => Some(Offence::Overtook),
        Judged::Plain(_) if has_queue(&sight) => Some(Offence::Overtook),
        _ => Some(Offence::Untrue),
    }
}

fn has_queue(sight: &lokt_core::engine::Sight) -> bool {
    sight.spans.iter().flatten().any(|item| item.key.0.contains("/line/"))
}

impl Truth {
    /// Every change that was told as made was made, once; none was made that was told as void.
    pub(super) fn has_no_ghost(&self, keys: &Keyspace) -> bool {
        self.told.iter().all(|proof| keys.item(proof).is_some())
            && self.void.iter().all(|proof| keys.item(proof).is_none())
            && !self.offences.contains(&Offence::Twice)
    }
}

impl State {
    /// No holder's command runs after its life key is gone.
    pub(super) fn stops_before_free(&self) -> bool {
        let grips = self.clients.iter().filter_map(|client| client.grip.as_ref());
        let mut running = grips.filter(|grip| self.now < grip.deadline);
        running.all(|grip| {
            grip.holds.iter().all(|(name, id, _)| {
                let life = self.keys.item(&space().name(name).process(id));
                life.is_some_and(|item| item.born == grip.born)
            })
        })
    }

    /// Of two requests that wait for the same names, one is first everywhere.
    pub(super) fn has_one_order(&self) -> bool {
        let [x, y] = judge::names().map(|name| {
            let sight = self.keys.look(&[space().name(&name).line()]);
            let items = sight.spans.into_iter().flatten();
            items.filter_map(|item| item.session).collect::<Vec<_>>()
        });
        let both: Vec<_> = x.iter().filter(|session| y.contains(session)).collect();
        both.is_sorted_by_key(|session| y.iter().position(|other| other == *session))
    }
}
