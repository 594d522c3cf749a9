//! What must be reachable, lest the promises hold only because nothing happens.

use stateright::Property;

use super::Queue;
use super::state::{Age, Command, Phase, Place, Process, State, Target};

/// Every one of them is found in [`Bounds::WORLD`](super::Bounds::WORLD).
pub(super) fn all() -> [Property<Queue>; 13] {
    [
        Property::sometimes("the lock is handed on in a line of three", |_, state: &State| {
            any(state, |process| process.phase == Phase::Granting) && sleepers(state).count() >= 2
        }),
        Property::sometimes("a waiter sleeps on one who has been granted the lock since", |_, state: &State| {
            sleepers(state).any(|target| {
                let holds = |process: &Process| matches!(process.phase, Phase::Holding(_));
                matches!(target, Target::Ticket(number) if state.with(number).is_some_and(holds))
            })
        }),
        Property::sometimes("a predecessor goes while the lock is held", |_, state: &State| {
            let holds = any(state, |process| matches!(process.phase, Phase::Holding(_)));
            holds && sleepers(state).any(|target| matches!(target, Target::Ticket(_)) && state.is_dropped(target))
        }),
        Property::sometimes("a pulse vanishes before it is opened", |_, state: &State| {
            any(state, |process| matches!(process.phase, Phase::Choosing(target) if state.is_dropped(target)))
        }),
        Property::sometimes("a waiter gives up while another sleeps on it", |_, state: &State| {
            any(state, |process| process.phase == Phase::Leaving && is_slept_on(state, process))
        }),
        Property::sometimes("a stopped waiter is passed over", |_, state: &State| {
            let holder = |process: &Process| matches!(process.phase, Phase::Holding(_));
            any(state, |process| process.waits() && process.stopped && process.ignores.is_some()) && any(state, holder)
        }),
        Property::sometimes("one who was passed over is awake again", |_, state: &State| {
            any(state, |process| process.is_ready() && process.ignores == Some(Age::Old))
        }),
        Property::sometimes("a waiter sleeps on the command of a dead guard", |_, state: &State| {
            any(state, |process| process.phase == Phase::Orphaned(Command::Keeps) && is_slept_on(state, process))
        }),
        Property::sometimes("a command holds the lock without a pulse", |_, state: &State| {
            sleepers(state).any(|target| target == Target::Nothing)
        }),
        Property::sometimes("a waiter sleeps on what was left behind, beside a free lock", |_, state: &State| {
            let left = |process: &Process| process.phase == Phase::Left(Place::Nowhere) && is_slept_on(state, process);
            state.is_free() && any(state, left)
        }),
        Property::sometimes(
            "a waiter sleeps on one who was stopped as he left, beside a free lock",
            |_, state: &State| {
                let leaves = |process: &Process| process.phase == Phase::Leaving && process.stopped;
                state.is_free() && any(state, |process| leaves(process) && is_slept_on(state, process))
            },
        ),
        Property::sometimes("a waiter sleeps on one who lost the lock, beside a free one", |_, state: &State| {
            state.is_free() && any(state, |process| process.phase == Phase::Lost && is_slept_on(state, process))
        }),
        Property::sometimes("at rest somebody gets the lock", |_, state: &State| {
            state.rounds.is_some() && any(state, |process| process.phase == Phase::Granting)
        }),
    ]
}

fn any(state: &State, test: impl Fn(&Process) -> bool) -> bool {
    state.processes.iter().any(test)
}

fn sleepers(state: &State) -> impl Iterator<Item = Target> {
    state.processes.iter().filter_map(|process| match process.phase {
        Phase::Asleep(target) => Some(target),
        _ => None,
    })
}

fn is_slept_on(state: &State, process: &Process) -> bool {
    sleepers(state).any(|target| target.number() == Some(process.number))
}
