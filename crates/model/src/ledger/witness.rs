//! What must be reachable, lest the promises hold only because nothing happens.

use stateright::Property;

use super::Appends;
use super::disk::{Inode, Lock, Owner};
use super::foreign::Stage;
use super::state::{Outcome, Phase, State, Swap};

/// Every one of them is found with two foreign writers and claims.
pub(super) fn all() -> [Property<Appends>; 13] {
    [
        Property::sometimes("a late event lands in a filler's place", |_, state: &State| {
            let pairs = state.disk.slots.windows(2);
            pairs.into_iter().any(|pair| match pair {
                [Some(late), Some(next)] => matches!(late.inode, Inode::Foreign(_)) && next.names_filler,
                _ => false,
            })
        }),
        Property::sometimes("a fresh lock is displaced", |_, state: &State| {
            state.writers.iter().any(|writer| matches!(writer.phase, Phase::Inspecting(_))) && displaces(state)
        }),
        Property::sometimes("one of ours dies with a fresh lock displaced", |_, state: &State| {
            dead(state).is_some() && displaces(state)
        }),
        Property::sometimes("one of ours dies and owes a filler", |_, state: &State| {
            dead(state).is_some_and(|lock| lock.took_over.is_some())
        }),
        Property::sometimes("one of ours dies with a lock that owes nothing", |_, state: &State| {
            dead(state).is_some_and(|lock| lock.took_over.is_none())
        }),
        Property::sometimes("one of ours goes on where another died that owed a filler", |_, state: &State| {
            let inherits = |phase: &Phase| {
                matches!(phase, Phase::Inspecting(Swap { judged: Owner::Ours(_), took_over: Some(_), .. }))
            };
            state.writers.iter().any(|writer| inherits(&writer.phase))
        }),
        Property::sometimes("a refused take-over closes", |_, state: &State| {
            state.writers.iter().any(|writer| matches!(writer.phase, Phase::Closing(..)))
        }),
        Property::sometimes("a late release meets a lock of ours", |_, state: &State| {
            let late = state
                .foreign
                .iter()
                .any(|foreign| matches!(foreign.stage, Stage::Renamed | Stage::Compared) && foreign.is_overtaken);
            late && state.writers.iter().any(|writer| matches!(writer.phase, Phase::Publishing(..)))
        }),
        Property::sometimes("a late writer finds its temporary file gone", |_, state: &State| {
            state.foreign.iter().any(|foreign| matches!(foreign.stage, Stage::Written(_)) && !foreign.has_temp)
        }),
        Property::sometimes("cached claims are void because of a filler", |_, state: &State| {
            state
                .disk
                .cache
                .as_ref()
                .is_some_and(|fold| state.disk.proves(fold, false) && !state.disk.proves(fold, true))
        }),
        Property::sometimes("the number to publish at is taken", |_, state: &State| {
            let taken = |phase: &Phase| matches!(phase, Phase::Publishing(head, _) if *head < state.disk.head());
            state.writers.iter().any(|writer| taken(&writer.phase))
        }),
        Property::sometimes("the number to fill is taken", |_, state: &State| {
            let taken = |phase: &Phase| matches!(phase, Phase::Filling(head) if *head < state.disk.head());
            state.writers.iter().any(|writer| taken(&writer.phase))
        }),
        Property::sometimes("a claim is refused", |_, state: &State| {
            let refused = |phase: &Phase| matches!(phase, Phase::Releasing(Outcome { wrote: None, .. }));
            state.writers.iter().any(|writer| refused(&writer.phase))
        }),
    ]
}

/// Was somebody else's lock displaced than the one that is taken over?
fn displaces(state: &State) -> bool {
    let Some(lock) = &state.disk.lock else { return false };
    let is_other =
        |displaced: &Lock| Some(displaced.owner) != lock.took_over && matches!(displaced.owner, Owner::Foreign(_));
    lock.displaced.as_deref().is_some_and(is_other)
}

/// The lock of one of ours that is gone.
fn dead(state: &State) -> Option<&Lock> {
    state.disk.lock.as_ref().filter(|lock| matches!(lock.owner, Owner::Ours(op) if state.writer(op).is_none()))
}
