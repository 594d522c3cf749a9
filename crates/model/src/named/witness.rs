//! What must be reachable, lest the promises hold only because nothing happens.

use stateright::Property;

use super::record::Record;
use super::state::{Breaks, Op, Phase, Plan, Publish, State};
use super::truth::Claimant;
use super::{Entry, Named};

/// Every one of them is found in the exhaustive runs.
pub(super) fn all() -> [Property<Named>; 10] {
    [
        Property::sometimes("a guard that is gone is broken", |_, state: &State| breaks(state, Breaks::ProcessGone)),
        Property::sometimes("an expired hold is broken", |_, state: &State| breaks(state, Breaks::Expired)),
        Property::sometimes("a record that a power cut emptied is broken", |_, state: &State| {
            breaks(state, Breaks::Corrupt)
        }),
        Property::sometimes("a token is drawn though the next file was lost", |_, state: &State| {
            state.boot > 0 && state.disk.next.is_none() && plans(state, |_, plan| plan.draw.is_some())
        }),
        Property::sometimes("an owner part survives a power cut", |_, state: &State| {
            let is_old = |record: &Record| record.boot < state.boot;
            state.disk.entry().record().is_some_and(is_old) && live(state).any(|who| matches!(who, Claimant::Owner(_)))
        }),
        Property::sometimes("an owner part lives beside a process part", |_, state: &State| live(state).count() == 2),
        Property::sometimes("an expired hold is revived under a new token", |_, state: &State| {
            plans(state, |_, plan| match (plan.judged.record(), &plan.next) {
                (Some(old), Some(next)) => old.lock_id == next.lock_id && old.token != next.token && plan.is_birth(),
                _ => false,
            })
        }),
        Property::sometimes("a late renewal succeeds", |_, state: &State| {
            plans(state, |state, plan| {
                let process = plan.judged.record().and_then(|record| record.process);
                plan.op == Op::Renew && process.is_some_and(|part| part.end() <= state.now)
            })
        }),
        Property::sometimes("a prepared record is overtaken", |_, state: &State| {
            let overtaken =
                |phase: &Phase| matches!(phase, Phase::Prepared(plan) if plan.judged != *state.disk.entry());
            state.is_mutex_free() && state.clients.iter().any(overtaken)
        }),
        Property::sometimes("a record is deleted under a client that is about to replace it", |_, state: &State| {
            *state.disk.entry() == Entry::Nothing && plans(state, |_, plan| plan.publish == Publish::Replace)
        }),
    ]
}

fn plans(state: &State, test: fn(&State, &Plan) -> bool) -> bool {
    let in_mutex = |phase: &Phase| matches!(phase, Phase::Mutex(plan, _) if test(state, plan));
    state.clients.iter().any(in_mutex)
}

fn breaks(state: &State, why: Breaks) -> bool {
    state.clients.iter().any(|phase| matches!(phase, Phase::Mutex(plan, _) if plan.breaks == Some(why)))
}

fn live(state: &State) -> impl Iterator<Item = Claimant> {
    state.truth.live(state.now).map(|claim| claim.claimant)
}
